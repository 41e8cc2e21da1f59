"""Recall: how well it finds what was said, what its index costs, and a start with years of talk not yet taken in.

With `--data` only how well, on the questions of a file.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from benchmarks import retrieval, years
from benchmarks.daemons import LOOKS_S, running
from benchmarks.figures import Figure, columns, short
from benchmarks.floor import Run
from benchmarks.ticks import ticking
from nanomem import logs
from nanomem.recall.found import A_PAGE, Sought
from nanomem.spaces import OWNER, Space, Spaces
from nanomem.stores.recall_index import SqliteRecallIndex

NAME = "recall"
LONGEST_S = 300.0

MOST_MS = {10_000: 20, 100_000: 300}
"""What a question may take, with so many messages."""
LOGS = (70_000, 10_000, 10_000, 5_000, 5_000)
"""Messages in each session of the home that a daemon starts on."""


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    logs.configure("warning", "auto")
    (folder / "own").mkdir()
    found = await retrieval.measured(folder / "own", retrieval.read(years.OWN))
    figures = _of_the_own_set(found)
    if run.quick:
        return figures
    speech = years.Speech()
    for messages, most in MOST_MS.items():
        figures += await _at_scale(folder / str(messages), speech, messages, most)
    return figures + await _starting(folder, speech)


def _of_the_own_set(found: retrieval.Result) -> list[Figure]:
    summary = found.summary()
    return [
        *(Figure(f"own set: {name}", "%", [summary[name] * 100]) for name in retrieval.SCORES),
        *_costs("own set", summary["index_us_per_message"], summary["bytes_per_message"]),
        Figure("own set: question", "ms", [s * 1000 for s in found.asking_s], 20),
    ]


def _costs(what: str, microseconds: float, size: float, are_judged: bool = False) -> list[Figure]:
    return [
        Figure(f"{what}: taking in a message", "us", [microseconds], 100 if are_judged else None),
        Figure(f"{what}: index beyond the text, a message", "bytes", [size], 200 if are_judged else None),
    ]


async def _at_scale(folder: Path, speech: years.Speech, messages: int, most_ms: float) -> list[Figure]:
    talk = speech.talk(messages, years.before_now())
    space, index = Spaces(folder).named(OWNER), SqliteRecallIndex(folder / "recall", UTC)
    retrieval.write(space, talk)
    await index.logs(space)
    began = time.perf_counter()
    await retrieval.taken_in(index, space)
    microseconds = (time.perf_counter() - began) / messages * 1e6
    await index.close()
    text = sum(len(said.text.encode()) for session in talk.sessions for said in session)
    size = sum(path.stat().st_size for path in (folder / "recall").iterdir()) - text
    now = talk.sessions[-1][-1].at + timedelta(hours=6)
    questions = speech.questions()[:: 1 if messages <= 10_000 else 3]
    took = [await _asked_ms(index, space, Sought(asked, now, most=A_PAGE)) for asked in questions]
    unasked = [await _asked_ms(index, space, Sought(asked, now, most=A_PAGE, only_rare=True)) for asked in questions]
    await index.close()
    what = f"{messages:,} messages"
    return [
        *_costs(what, microseconds, size / messages, are_judged=True),
        Figure(f"{what}: question", "ms", took, p95_at_most=most_ms),
        Figure(f"{what}: what comes to mind unasked", "ms", unasked),
    ]


async def _asked_ms(index: SqliteRecallIndex, space: Space, sought: Sought) -> float:
    began = time.perf_counter()
    await index.find(space, sought)
    return (time.perf_counter() - began) * 1000


@dataclass(slots=True)
class Start:
    """Of a daemon, in seconds from its start, but for `lags`: what it takes to answer a question at its socket."""

    ready: float = 0.0
    answered: float = 0.0
    all_found: float = 0.0
    lags: list[float] = field(default_factory=list)


async def _starting(folder: Path, speech: years.Speech) -> list[Figure]:
    (folder / "new").mkdir()
    (folder / "old").mkdir()
    for name in ("new", "old"):
        await _started(folder / name)  # with a home that is not new, on a machine that is warm
    space = Spaces(folder / "old" / "home").named(OWNER)
    years.write_logs(space, speech.talk(sum(LOGS), years.before_now()), LOGS)
    new, old = await _started(folder / "new"), await _started(folder / "old")
    what = f"start with {sum(LOGS):,} messages to take in"
    lags = [s * 1000 for s in old.lags]
    return [
        Figure("start without: to ready", "s", [new.ready]),
        Figure(f"{what}: to ready", "s", [old.ready]),
        Figure("start without: to the first answer", "s", [new.answered]),
        Figure(f"{what}: to the first answer", "s", [old.answered]),
        Figure(f"{what}: until all is found", "s", [old.all_found]),
        Figure(f"{what}: held up meanwhile", "ms", lags, p95_at_most=20),
        Figure("start without: held up", "ms", [s * 1000 for s in new.lags]),
    ]


async def _started(folder: Path) -> Start:
    start = Start()
    async with running(folder, {"log.level": "warning"}) as daemon:
        start.ready = await daemon.ready()
        await daemon.ask("hello")
        start.answered = time.monotonic() - daemon.began
        async with ticking(daemon.home.socket) as start.lags:
            await daemon.all_found()
            start.all_found = time.monotonic() - daemon.began
            await asyncio.sleep(LOOKS_S)
    return start


async def of_a_file(folder: Path, path: Path) -> dict[str, Any]:
    """The figures of all questions of a file, and of each category. Raises ValueError, OSError: it is no such data."""
    logs.configure("warning", "auto")
    return (await retrieval.measured(folder, retrieval.read(path))).summary()


def shown(summary: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    rows: list[Sequence[str]] = [("category", *retrieval.SCORES, "questions")]
    for name, scores in [("all", summary), *summary["by_category"].items()]:
        rows.append((name, *(f"{scores[score]:.4f}" for score in retrieval.SCORES), str(scores["questions"])))
    names = {
        "messages": "messages",
        "index_us_per_message": "us to take in a message",
        "bytes_per_message": "bytes of index beyond the text, a message",
        "question_p95_ms": "ms for a question, p95",
    }
    return [*columns(rows, left={0}), "", *(f"{short(summary[name])} {text}" for name, text in names.items())]


def as_json(summary: Mapping[str, Any], header: Mapping[str, str]) -> str:
    """The same for programs: one object."""
    return json.dumps({**summary, "machine": header}, indent=1)
