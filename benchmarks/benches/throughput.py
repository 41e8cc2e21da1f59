"""How many messages a second a daemon takes from many chats, keeps and answers, with a model that answers at once."""

from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.crowd import CHATS, MESSAGES, echoed_number, served
from benchmarks.daemons import running, with_model, with_telegram
from benchmarks.figures import Figure
from benchmarks.floor import Run, median
from nanomem.home import Home
from nanomem.records import UserMessage
from nanomem.stores.session_log import read_all
from tests.emulators import OpenAIServer, TelegramServer

NAME = "throughput"
LONGEST_S = 300.0


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    rounds = 1 if run.quick else 3
    floor = await run.floor()
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(echoed_number)
        settings = with_telegram(telegram, CHATS) | with_model(model) | {"log.level": "warning"}
        async with running(folder, settings) as daemon:
            await daemon.ready()
            crowd = await served(telegram, partial(daemon.uses, machine.cpu_s), rounds)
            resident = daemon.uses(machine.resident)
    said = CHATS * (1 + 2 * rounds * MESSAGES)
    of_floor = [rate / median(floor.paced) * 100 for rate in crowd.paced]
    return [
        Figure("each chat waits for its answer", "messages/s", crowd.paced, at_least=80, floor=median(floor.paced)),
        Figure("each chat waits for its answer: of the floor", "%", of_floor, at_least=60),
        Figure(
            "each chat waits for its answer: processor", "ms a message", crowd.cpu_ms, floor=median(floor.paced_cpu_ms)
        ),
        Figure("all at once", "messages/s", crowd.burst, floor=median(floor.burst)),
        Figure("after all that: resident", "MB", [resident], floor=median(floor.resident)),
        Figure(f"missing in the session logs, of {said:,}", "messages", [said - _kept(daemon.home)], at_most=0),
    ]


def _kept(home: Home) -> int:
    """The messages of people in all session logs."""
    logs = home.path.glob("**/sessions/*.jsonl")
    return sum(isinstance(record, UserMessage) for log in logs for record in read_all(log))
