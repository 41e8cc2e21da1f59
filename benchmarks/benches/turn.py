"""What nanomem adds to one turn: time, processor time and bytes, for sessions from new to very old.

A pointer is the record behind which all is consolidated; without one the prompt shows as many messages as it may.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from benchmarks import machine, past
from benchmarks.daemons import Daemon, running, with_model
from benchmarks.figures import Figure, quantile
from nanomem.home import Home
from tests.emulators import Answer, OpenAIServer
from tests.emulators.openai import Json, Scripted

NAME = "turn"

TOOL_ROUNDS = 3
UNCONSOLIDATED = 2
BLOCK = 10
QUIET = {"log.level": "warning"}
"""So that what is written is the files."""


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


class InstantModel(OpenAIServer):
    """Answers at once, after `TOOL_ROUNDS` rounds of tools where it is asked to; adds up what it needs itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own_s = 0.0
        self.script(_decide)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began = time.monotonic()
        try:
            return await super().handle(request)
        finally:
            self.own_s += time.monotonic() - began


def _decide(asked: Json) -> Scripted:
    roles = [message["role"] for message in asked["messages"]]
    newest = len(roles) - roles[::-1].index("user")
    wants_tools = re.search(r"\btools\b", str(asked["messages"][newest - 1]["content"]))
    if wants_tools and roles[newest:].count("tool") < TOOL_ROUNDS:
        return [("list_dir", {"path": "."})]
    return Answer("Done.")


async def measure(folder: Path, quick: bool) -> list[Figure]:
    """See the module."""
    ages = [(0, False), (500, False), (500, True)]
    ages += [] if quick else [(5_000, False), (5_000, True), (50_000, False), (50_000, True)]
    blocks = 1 if quick else 3
    plain = [Subject(*age) for age in ages]
    (folder / "offline").mkdir()
    async with running(_with_past(folder / "offline", plain), QUIET) as daemon:
        await daemon.ready()
        await _measure(plain, daemon, blocks, daemon.ask)
    figures = _figures("offline", plain)
    if quick:
        return figures
    (folder / "litellm").mkdir()
    subjects = [Subject(*age) for age in ages]
    subjects += [Subject(*age, tools=True) for age in ((0, False), (50_000, True))]
    async with (
        InstantModel() as model,
        running(_with_past(folder / "litellm", subjects), QUIET | with_model(model)) as daemon,
    ):
        await daemon.ready()

        async def ask(text: str, session: str) -> float:
            before = model.own_s
            return await daemon.ask(text, session) - (model.own_s - before)

        await _measure(subjects, daemon, blocks, ask)
    return [*figures, *_figures("litellm", subjects)]


def _with_past(folder: Path, subjects: list[Subject]) -> Path:
    for subject in subjects:
        past.write(Home(folder / "home"), subject.key, subject.messages, UNCONSOLIDATED if subject.pointer else None)
    return folder


async def _measure(
    subjects: list[Subject], daemon: Daemon, blocks: int, ask: Callable[[str, str], Awaitable[float]]
) -> None:
    for _ in range(3):
        await ask("hello", "terminal:warm-up")
    for subject in subjects:
        subject.first_s = await ask("hello", subject.key)
    for _ in range(blocks):  # by turns, so that a noisy minute hits all alike
        for subject in subjects:
            await _block(subject, daemon, ask)


async def _block(subject: Subject, daemon: Daemon, ask: Callable[[str, str], Awaitable[float]]) -> None:
    cpu, written = machine.cpu_s(daemon.pid), machine.written(daemon.pid)
    for _ in range(BLOCK):
        subject.seconds.append(await ask("Use your tools" if subject.tools else "hello", subject.key))
    await asyncio.sleep(0.05)  # for what is done after the answer
    subject.cpu_s.append((machine.cpu_s(daemon.pid) - cpu) / BLOCK)
    subject.written.append((machine.written(daemon.pid) - written) / BLOCK)


def _figures(model: str, subjects: list[Subject]) -> list[Figure]:
    figures = []
    for subject in subjects:
        what = f"{model}, {subject.name}"
        figures += [
            Figure(f"{what}: latency", "ms", [s * 1000 for s in subject.seconds]),
            Figure(f"{what}: first turn", "ms", [subject.first_s * 1000]),
            Figure(f"{what}: processor", "ms", [s * 1000 for s in subject.cpu_s]),
            Figure(f"{what}: written", "kB", [n / 1000 for n in subject.written]),
        ]
    new = next(subject for subject in subjects if not subject.messages and not subject.tools)
    for old in subjects:
        if old.pointer and not old.tools:
            cpu = quantile(old.cpu_s, 0.5) / quantile(new.cpu_s, 0.5)
            size = quantile(old.written, 0.5) / quantile(new.written, 0.5)
            figures.append(Figure(f"{model}, {old.name}: processor against a new session", "times", [cpu], 1.2))
            figures.append(Figure(f"{model}, {old.name}: written against a new session", "times", [size], 1.05))
    return figures
