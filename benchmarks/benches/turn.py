"""What nanomem adds to one turn: time, processor time and bytes, for sessions from new to very old.

A pointer is the record behind which all is consolidated; without one the prompt shows as many messages as it may.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import machine, past
from benchmarks.daemons import Daemon, running, with_model, with_telegram
from benchmarks.figures import Figure
from benchmarks.floor import Floor, Run, median, said
from benchmarks.instant import TOOL_ROUNDS, InstantModel
from nanomem.home import Home
from tests.emulators import TelegramServer

NAME = "turn"
LONGEST_S = 400.0

JUDGED = 5_000
"""Messages of the session that the targets are for."""
UNCONSOLIDATED = 2
BLOCK = 10
QUIET = {"log.level": "warning", "agents.defaults.memory_window": "0", "agents.dream.enabled": "false"}
"""So that what is written is the files, and no old session is made short or learnt from meanwhile: `prompt`, `memory`
and `soak` have that."""


@dataclass(slots=True)
class Subject:
    """One session, and what its turns have cost."""

    messages: int
    pointer: bool
    tools: bool = False
    first_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"terminal:{self.messages}{'-pointer' * self.pointer}{'-tools' * self.tools}"

    @property
    def name(self) -> str:
        age = f"{self.messages:,} messages{', pointer' if self.pointer else ''}" if self.messages else "new session"
        return age + (f", {TOOL_ROUNDS} tool rounds" if self.tools else "")


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module. A quick run has no floor: it would have to load litellm."""
    ages = [(0, False), (500, False), (500, True)]
    ages += [] if run.quick else [(JUDGED, False), (JUDGED, True), (50_000, False), (50_000, True)]
    blocks = 1 if run.quick else 3
    floor = None if run.quick else await run.floor()
    plain = [Subject(*age) for age in ages]
    (folder / "offline").mkdir()
    async with running(_with_past(folder / "offline", plain), QUIET) as daemon:
        await daemon.ready()
        await _measure(plain, daemon, blocks, daemon.ask)
    figures = _figures("offline", plain, floor)
    if not floor:
        return figures
    (folder / "litellm").mkdir()
    subjects = [Subject(*age) for age in ages]
    subjects += [Subject(*age, tools=True) for age in ((0, False), (JUDGED, True), (50_000, True))]
    async with (
        InstantModel() as model,
        running(_with_past(folder / "litellm", subjects), QUIET | with_model(model)) as daemon,
    ):
        await daemon.ready()

        async def ask(text: str, session: str) -> float:
            before = model.own_s
            return await daemon.ask(text, session) - (model.own_s - before)

        await _measure(subjects, daemon, blocks, ask)
    figures += _figures("litellm", subjects, floor, are_judged=True)
    (folder / "telegram").mkdir()
    return figures + _figures("Telegram, litellm", [await _at_telegram(folder / "telegram", blocks)], floor)


async def _at_telegram(folder: Path, blocks: int) -> Subject:
    """A new session at Telegram: what the floor does, too, by the same ways."""
    subject = Subject(0, pointer=False)
    async with (
        TelegramServer() as telegram,
        InstantModel() as model,
        running(folder, QUIET | with_model(model) | with_telegram(telegram, 2)) as daemon,
    ):
        await daemon.ready()
        for _ in range(3):
            await said(telegram, model, chat=1)
        subject.first_s = await said(telegram, model, chat=2)
        for _ in range(blocks):
            await _block(subject, daemon, lambda _text, _session: said(telegram, model, chat=2))
    return subject


def _with_past(folder: Path, subjects: list[Subject]) -> Path:
    for subject in subjects:
        past.write(Home(folder / "home"), subject.key, subject.messages, UNCONSOLIDATED if subject.pointer else None)
    return folder


async def _measure(
    subjects: list[Subject], daemon: Daemon, blocks: int, ask: Callable[[str, str], Awaitable[float]]
) -> None:
    for _ in range(3):
        await ask("hello", "terminal:warm-up")
    await daemon.all_found()  # else old sessions are still read into the index meanwhile
    for subject in subjects:
        subject.first_s = await ask("hello", subject.key)
    for _ in range(blocks):  # by turns, so that a noisy minute hits all alike
        for subject in subjects:
            await _block(subject, daemon, ask)


async def _block(subject: Subject, daemon: Daemon, ask: Callable[[str, str], Awaitable[float]]) -> None:
    cpu, written = daemon.uses(machine.cpu_s), daemon.uses(machine.written)
    for _ in range(BLOCK):
        subject.seconds.append(await ask("Use your tools" if subject.tools else "hello", subject.key))
    await asyncio.sleep(0.05)  # for what is done after the answer
    subject.cpu_s.append((daemon.uses(machine.cpu_s) - cpu) / BLOCK)
    subject.written.append((daemon.uses(machine.written) - written) / BLOCK)


def _figures(model: str, subjects: list[Subject], floor: Floor | None, are_judged: bool = False) -> list[Figure]:
    figures = []
    latency, cpu = (median(floor.latency_ms), median(floor.cpu_ms)) if floor else (None, None)
    for subject in subjects:
        what = f"{model}, {subject.name}"
        old = are_judged and subject.messages == JUDGED
        took, used = (15, 20) if old and not subject.tools else (None, None)
        figures += [
            Figure(
                f"{what}: latency",
                "ms",
                [s * 1000 for s in subject.seconds],
                took,
                p95_at_most=40 if took else None,
                floor=latency,
            ),
            Figure(f"{what}: first turn", "ms", [subject.first_s * 1000], floor=latency),
            Figure(f"{what}: processor", "ms", [s * 1000 for s in subject.cpu_s], used, floor=cpu),
            Figure(
                f"{what}: written", "kB", [n / 1000 for n in subject.written], 40 if old and subject.tools else None
            ),
        ]
    for old_one in subjects:
        if old_one.pointer:
            figures += _against_a_new_one(model, old_one, subjects)
    return figures


def _against_a_new_one(model: str, old: Subject, subjects: list[Subject]) -> list[Figure]:
    new = next(subject for subject in subjects if not subject.messages and subject.tools == old.tools)
    cpu, size = median(old.cpu_s) / median(new.cpu_s), median(old.written) / median(new.written)
    what, most = f"{model}, {old.name}", 1.1 if old.tools else 1.05
    return [
        Figure(f"{what}: processor against a new session", "times", [cpu], 1.2),
        Figure(f"{what}: written against a new session", "times", [size], most),
    ]
