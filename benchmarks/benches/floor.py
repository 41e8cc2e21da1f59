"""The floor itself: the least that any agent on python-telegram-bot and litellm spends."""

from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.floor import Run

NAME = "floor"
LONGEST_S = 180.0


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    floor = await run.floor()
    return [
        Figure("litellm imported, and nothing else", "s", floor.import_s),
        Figure("to the placeholder of a message that waits", "s", floor.placeholder_s),
        Figure("to its answer", "s", floor.answer_s),
        Figure("a turn: latency", "ms", floor.latency_ms),
        Figure("a turn: processor", "ms", floor.cpu_ms),
        Figure("each chat waits for its answer", "messages/s", floor.paced),
        Figure("each chat waits for its answer: processor", "ms a message", floor.paced_cpu_ms),
        Figure("all at once", "messages/s", floor.burst),
        Figure("after all that: resident", "MB", floor.resident),
        Figure("after all that: proportional", "MB", floor.proportional),
    ]
