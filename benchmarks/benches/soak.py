"""Months in minutes: thousands of turns of several chats, with consolidations and Dreams, and what grows meanwhile.

The model answers at once, and keeps so many facts and no more, so that what should stay as it is does.
"""

import asyncio
import itertools
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import linear_regression

from benchmarks import machine, remembered, talks
from benchmarks.daemons import Daemon, running, with_model, with_telegram
from benchmarks.figures import Figure, quantile
from benchmarks.floor import Run, median
from nanomem.facts import facts
from tests.emulators import Answer, OpenAIServer, TelegramServer
from tests.emulators.openai import Json, Scripted

NAME = "soak"
LONGEST_S = 7200.0

TURNS = 20_000
SAMPLE = 500
WARM = 2_000
"""Turns after which nothing should grow any more."""
NIGHT_S = 5.0
"""Nobody talks for so long after each sample: learning gives way to who does, and would come to months at once."""
TERMINALS, TELEGRAM_CHATS = 3, 3
FACTS = 12
"""As many the memory has, once there are so many."""
SETTINGS = {
    **talks.SETTINGS,
    "agents.dream.threshold_entries": "10",
    "agents.dream.daily_token_limit": "0",
    "log.level": "warning",
}
_FILE = re.compile(r"## Current [^\n]*\n(.*?)\n\n## (?:Conversation to Process|To Take In)\n", re.DOTALL)


@dataclass(slots=True)
class Samples:
    """What was found after so many turns each time."""

    turns: list[int] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    handles: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)
    tasks: list[float] = field(default_factory=list)
    wals: list[float] = field(default_factory=list)
    bus: list[float] = field(default_factory=list)
    p95_ms: list[float] = field(default_factory=list)

    async def take(self, turns: int, daemon: Daemon, latencies: list[float]) -> None:
        """One more."""
        state = daemon.home.path / "state"
        bus = state / "bus.db"
        self.turns.append(turns)
        self.resident.append(daemon.uses(machine.resident))
        self.alone.append(machine.resident(daemon.pid))
        self.handles.append(daemon.uses(machine.handles))
        self.threads.append(daemon.uses(machine.threads))
        self.tasks.append(await daemon.tasks())
        self.wals.append(sum(path.stat().st_size for path in state.rglob("*.db-wal")) / 1000)
        self.bus.append(bus.stat().st_size / 1000)
        self.p95_ms.append(quantile(latencies, 0.95) * 1000)


class Pupil:
    """Talks, and takes the place of an old fact with a new one whenever it learns."""

    def __init__(self) -> None:
        self._random = Random(11)
        self._facts = remembered.facts(self._random)
        self._talker = talks.Mind((10, 90), (40, 200))
        self._numbers = itertools.count(1)
        self.consolidations = 0
        self.dreams = 0

    def says(self) -> str:
        """What a person says next; no two say the same."""
        return f"Number {next(self._numbers)}: {self._talker.says()}"

    def answers(self, asked: Json) -> Scripted:
        """What it answers to a request: to a person, with the number of what was said."""
        match asked["tools"][0]["function"]["name"]:
            case "save_memory":
                self.consolidations += 1
                text, removed = self._rewritten(asked, [f"{next(self._facts)}"])
                entry = "They spoke of books and trains."
                return [("save_memory", {"history_entry": entry, "memory_update": text, "removed": removed})]
            case "extract_facts":
                self.dreams += 1
                return [("extract_facts", {"memory_updates": [f"{next(self._facts)}"], "outdated": []})]
            case "update_file":
                path = asked["tools"][0]["function"]["parameters"]["properties"]["path"]["enum"][0]
                new = str(asked["messages"][-1]["content"]).rpartition("## To Take In\n")[2].partition("\n\n")[0]
                text, removed = self._rewritten(asked, [line.removeprefix("- ") for line in new.strip().split("\n")])
                return [("update_file", {"path": path, "content": text, "removed": removed})]
        said = next(str(message["content"]) for message in reversed(asked["messages"]) if message["role"] == "user")
        number = re.findall(r"Number (\d+):", said)[0]  # what is recalled stands behind
        return Answer(chunks=[f"Answer {number}.", f" {self._talker.says()}"])  # each piece costs litellm 0.4 ms

    def _rewritten(self, asked: Json, new: list[str]) -> tuple[str, list[Json]]:
        """The memory that a request shows with new facts and without the oldest, and which those are."""
        shown = _FILE.search(str(asked["messages"][-1]["content"]))
        if shown is None:
            raise ValueError("the call shows no memory")
        lines = shown[1].split("\n")
        known = [line for line in lines if line.startswith("- ")]
        old = known[: max(0, len(known) + len(new) - FACTS)]
        kept = [line for line in lines if line not in old]
        removed = [{"fact": line.removeprefix("- "), "reason": "it is long ago"} for line in old]
        return "\n".join([*kept, *(f"- {fact}" for fact in new)]) + "\n", removed


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    turns = run.turns or (60 if run.quick else TURNS)
    samples, pupil, sample = Samples(), Pupil(), min(SAMPLE, turns // 6)
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(pupil.answers)
        settings = with_telegram(telegram, TELEGRAM_CHATS) | with_model(model) | SETTINGS
        async with running(folder, settings) as daemon:
            await daemon.ready()
            crowd = Crowd(daemon, telegram, pupil, few=run.quick)
            await crowd.talk(len(crowd.people))  # loads litellm
            for done in range(sample, turns + 1, sample):
                latencies = await crowd.talk(sample)
                await asyncio.sleep(0 if run.quick else NIGHT_S)
                await samples.take(done, daemon, latencies)
                for kept in (model.requests, model.raw_requests, model.headers, telegram.calls):
                    kept.clear()  # else this process grows
            memory = (daemon.home.path / "workspace" / "memory" / "MEMORY.md").read_text()
    return [
        *_figures(samples, turns),
        Figure("consolidations", "times", [pupil.consolidations]),
        Figure("Dreams' batches", "times", [pupil.dreams]),
        Figure("facts in the owner's memory", "facts", [len(facts(memory))]),
    ]


class Crowd:
    """People at terminals and at Telegram, each in a chat of their own, who wait for their answers."""

    def __init__(self, daemon: Daemon, telegram: TelegramServer, pupil: Pupil, few: bool) -> None:
        self._daemon = daemon
        self._telegram = telegram
        self._pupil = pupil
        terminals, chats = (1, 1) if few else (TERMINALS, TELEGRAM_CHATS)
        self.people = [f"terminal:soak{at}" for at in range(terminals)] + [str(at + 1) for at in range(chats)]

    async def talk(self, turns: int) -> list[float]:
        """So many turns of all together; the seconds that each took."""
        left, took = iter(range(turns)), list[float]()

        async def person(where: str) -> None:
            for _ in left:
                took.append(await self._turn(where))

        await asyncio.gather(*map(person, self.people))
        return took

    async def _turn(self, where: str) -> float:
        text = self._pupil.says()
        if where.startswith("terminal:"):
            return await self._daemon.ask(text, where)
        number, began = text.partition(":")[0].removeprefix("Number "), time.monotonic()
        self._telegram.say(text, chat=int(where))
        await self._telegram.wait_for(lambda: self._is_shown(f"Answer {number}."), timeout=120)
        return time.monotonic() - began

    def _is_shown(self, beginning: str) -> bool:
        """The newest calls are enough: this is asked after each."""
        return any(str(call.params.get("text", "")).startswith(beginning) for call in self._telegram.calls[-100:])


def _figures(samples: Samples, turns: int) -> list[Figure]:
    """What is compared was found when all was warm: caches are full, connections are open."""
    warm = next(at for at, done in enumerate(samples.turns) if done >= min(WARM, turns // 3))
    slope = linear_regression(samples.turns[warm:], samples.resident[warm:]).slope * 1000
    alone = linear_regression(samples.turns[warm:], samples.alone[warm:]).slope * 1000
    fifth = max(1, (len(samples.turns) - warm) // 5)
    found = [
        Figure("resident", "MB", samples.resident),
        Figure("resident, a thousand turns more", "MB", [slope], at_most=1),
        Figure("resident, a thousand turns more, the daemon alone", "MB", [alone]),
    ]
    for name, unit, values, most in (
        ("open files and sockets", "", samples.handles, 1.1),
        ("threads", "", samples.threads, 1.1),
        ("tasks of the daemon", "", samples.tasks, 1.1),
        ("all write-ahead logs", "kB", samples.wals, 1.1),
        ("bus.db", "kB", samples.bus, None),  # it grows until it has the ids that it remembers, 10,000
        ("a turn, p95 of each sample", "ms", samples.p95_ms, 1.2),  # the machine has moods
    ):
        ratio = median(values[-fifth:]) / max(median(values[warm : warm + fifth]), 1.0)
        found.append(Figure(name, unit, values))
        found.append(Figure(f"{name}: last fifth over first fifth", "times", [ratio], at_most=most))
    return found
