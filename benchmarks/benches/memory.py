"""What the memory costs: merging facts, making and tracing versions, keeping history, and the prompt of a long talk.

All but the talk runs in this process.
"""

import os
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC
from itertools import islice
from pathlib import Path
from random import Random

from benchmarks import machine, remembered, talks, wire
from benchmarks.figures import Figure
from benchmarks.floor import Run
from nanomem import logs
from nanomem.facts import MemoryFiles
from nanomem.home import Home
from nanomem.ledger import merge
from nanomem.memory.asked import Parts
from nanomem.remembering import remembered as wish
from nanomem.settings import Settings
from nanomem.spaces import OWNER, Space, Spaces
from nanomem.stores.history import JsonlHistory
from nanomem.wiring import ground

NAME = "memory"
LONGEST_S = 180.0

TENTH = 10


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    logs.configure("warning", "auto")
    figures = [
        figure for count in ((30, 300) if run.quick else (30, 300, 3000)) for figure in _merging(count, run.quick)
    ]
    figures += await _versions(folder, 20 if run.quick else 1000, 3 if run.quick else 20)
    figures += await _history(folder / "history", 100 if run.quick else 100_000, 3 if run.quick else 50)
    return figures + await _talking(folder / "talk", 3 if run.quick else 200)


@dataclass(slots=True)
class Costs:
    """What something took each time it was done, by all threads of this process."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)

    async def of(self, work: Awaitable[object]) -> None:
        """Does it once more."""
        began, cpu, written = time.monotonic(), time.process_time(), machine.written(os.getpid())
        await work
        self.seconds.append(time.monotonic() - began)
        self.cpu_s.append(time.process_time() - cpu)
        self.written.append(machine.written(os.getpid()) - written)

    def figures(self, name: str, at_most: float | None = None) -> list[Figure]:
        """Time with its target, processor time, and what was written if anything was."""
        found = [
            Figure(name, "ms", [s * 1000 for s in self.seconds], at_most),
            Figure(f"{name}: processor", "ms", [s * 1000 for s in self.cpu_s]),
        ]
        if min(self.written):
            found.append(Figure(f"{name}: written", "kB", [n / 1000 for n in self.written]))
        return found


def _merging(count: int, quick: bool) -> list[Figure]:
    random = Random(count)
    known = list(islice(remembered.facts(random), count + 1))
    new, base = known.pop(), _files(known)
    small = [known[0].reworded, *known[2:], new]
    whole = [fact if at % TENTH else fact.reworded for at, fact in enumerate(known) if at % TENTH != 1]
    random.shuffle(whole)
    name = f"merge of {count:,} facts"
    runs = 1 if quick else 9
    return [
        Figure(f"{name}, three changed: processor", "ms", _merged(base, _files(small), runs), 50),
        Figure(f"{name}, all rewritten: processor", "ms", _merged(base, _files(whole), runs)),
    ]


def _files(known: list[remembered.Fact]) -> MemoryFiles:
    return MemoryFiles("Be kind.\n", "- Name: Ann\n", remembered.as_file(known))


def _merged(base: MemoryFiles, proposal: MemoryFiles, runs: int) -> list[float]:
    """The milliseconds each time; the first one only warms up."""
    took = []
    for _ in range(runs + 1):
        began = time.process_time()
        merge(base, proposal, base)
        took.append((time.process_time() - began) * 1000)
    return took[1:]


async def _versions(folder: Path, count: int, runs: int) -> list[Figure]:
    old, new = Home(folder / "old"), Home(folder / "new")
    space = await remembered.write(old, count)
    cold, deep, broad = Costs(), Costs(), Costs()
    for _ in range(min(runs, 7)):
        await cold.of(_parts(old).why.explain(space, remembered.FIRST))
    parts = _parts(old)
    for costs, words in ((deep, remembered.FIRST), (broad, "since")):
        for run in range(runs + 1):
            await (costs.of if run else _unmeasured)(parts.why.explain(space, words))
    figures = cold.figures(f"why at {count:,} versions, the first time", 100)
    figures += deep.figures(f"why at {count:,} versions", 100)
    figures += broad.figures(f"why of ten facts at {count:,} versions", 100)
    few = await remembered.with_one_version(new, await parts.memory.read(space))
    for at, where, its in ((1, few, _parts(new)), (count, space, parts)):
        name = f"a fact more at {at:,} version{'s' if at > 1 else ''}"
        figures += (await _changed(where, its, runs)).figures(name)
    return figures


async def _changed(space: Space, parts: Parts, runs: int) -> Costs:
    costs = Costs()
    for run in range(runs + 1):
        change = wish(f"The parcel of day {run} went to Odense", {"Id": f"parcel-{run}"})
        await (costs.of if run else _unmeasured)(parts.memory.change(space, change))
    return costs


async def _unmeasured(work: Awaitable[object]) -> None:
    await work


def _parts(home: Home) -> Parts:
    return ground(home, Settings(), {}).memory


async def _history(folder: Path, count: int, runs: int) -> list[Figure]:
    space, history = Spaces(folder).named(OWNER), JsonlHistory(UTC)
    await history.append(space, [remembered.entry(number) for number in range(1, count + 1)])
    appended, found, random = Costs(), Costs(), Random(3)
    for run in range(runs + 1):
        await (appended.of if run else _unmeasured)(history.append(space, [remembered.entry(count + run)]))
    for _ in range(runs):
        await found.of(history.entry(space, random.randint(1, count)))
    name = f"of {count:,} entries of history"
    return [*appended.figures(f"one more {name}"), *found.figures(f"one {name}, found")]


async def _talking(folder: Path, turns: int) -> list[Figure]:
    talk = await talks.talk(folder, turns, talks.Mind(), talks.SETTINGS)
    prompts = [wire.as_cached(request) for request in talk.turns]
    share = sum(wire.shared(prompts)) / sum(map(len, prompts[1:])) * 100
    name = f"talk of {turns} turns"
    found = [
        Figure(f"{name}: the same as in the request before", "% of bytes", [share], at_least=90),
        Figure(f"{name}: prompt of a turn", "tokens", await talks.tokens(talk.turns)),
        Figure(f"{name}: consolidations", "times", [len(talk.consolidations)]),
        Figure(f"{name}: prompt begun anew", "times", [talk.prefixes]),
        Figure(f"{name}: greatest estimate, of the budget", "%", [max(talk.estimates) / talks.BUDGET * 100], 100),
    ]
    if talk.consolidations:
        asked, answered = zip(*talk.consolidations, strict=True)
        found.append(Figure(f"{name}: prompt of a consolidation", "tokens", await talks.tokens(asked)))
        found.append(Figure(f"{name}: its answer", "tokens", await talks.tokens_of_texts(answered)))
    return found
