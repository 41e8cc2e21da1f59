"""A disk that is full, read-only or ill, and a process that may open no more files: store by store, as people talk."""

import asyncio
import random
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from proofs import tracer
from proofs.claim import Effort, Report, say
from proofs.record import SYNCS, WRITES
from proofs.trouble import REMEMBER, SMALL_DISK, Case, Play, Store, played, small

NAME = "faults"
CLAIM = (
    "whatever a disk refuses, people are told, nothing is acknowledged that is not there, it goes on by itself once the"
    " disk is well; after a sync that failed the process ends, and syncs nothing again"
)

AT_ONCE = 3
SAMPLE = 6
"""Of all calls of a store that may fail, so many do."""
NEVER = 10**9
"""No run has so many calls."""
HELLO = "The tide is high today"
STORES = (
    Store("bus", "state/bus.db*", (HELLO,), r"bus\.db"),
    Store("session log", "*/sessions/*.jsonl", (HELLO,), r"sessions/"),
    Store("history", "*/memory/history.jsonl", ("/new", HELLO), r"history\.jsonl"),
    Store("history for people", "*/memory/*HISTORY.md*", ("/new", HELLO), r"HISTORY\.md", last="/new"),
    Store("memory files", "*/memory/.MEMORY.md*", (REMEMBER, HELLO), r"MEMORY\.md"),
    Store("versions", "versions/*", (REMEMBER, HELLO), r"versions/"),
    Store("what Dream has read", "*/memory/*dream_cursor*", ("/dream", HELLO), r"dream_cursor", first="/new"),
    Store("search index", "state/recall/*", (HELLO, "/recall boat"), r"owner\.db", view=True),
    Store("what comes along", "state/incoming/*", ("<file>", HELLO), r"incoming/|files/"),
    Store("skills", "*/skills/*", ("/skills accept tides", HELLO), r"skills/"),
    Store("settings", "*config.toml*", ("<pairing>", HELLO), r"config\.toml"),
    Store("all", "*", (HELLO, REMEMBER), r"\w"),
)


def lasting(stores: Sequence[Store] = STORES) -> list[Case]:
    """The faults that last for a while."""
    ends = (False, True)
    cases = [Case(store, error, killed=ended) for store in stores for error in ("ENOSPC", "EROFS") for ended in ends]
    cases += [Case(store, "sync") for store in stores if not store.view]  # it is seldom synced, and hangs on none
    cases += [Case(store, "EMFILE") for store in stores if store.name in ("all", "versions", "settings")]
    return [*cases, *(Case(store, SMALL_DISK, killed=ended) for store in stores[-1:] for ended in ends)]


async def single(folder: Path, dice: random.Random) -> tuple[list[Case], list[str]]:
    """The faults that come once: at some of the writes and syncs of each store, from the start on; and what is wrong
    where none comes, as well as a store that nothing is written to.
    """
    cases: list[Case] = []
    violations: list[str] = []
    folder.mkdir()
    for store in STORES[:-1]:
        for error, calls in (("EIO", WRITES), ("sync", SYNCS)):
            play = await played(Case(store, error, at=NEVER), folder / f"{store.name} {error}", 0)
            count = sum(event.call in calls and fnmatchcase(event.path, store.under) for event in play.traced())
            cases += [Case(store, error, at) for at in sorted(dice.sample(range(1, count + 1), min(count, SAMPLE)))]
            violations += [f"{store.name}, without a fault: {found}" for found in play.found]
            if not count and not (store.view and error == "sync"):
                violations.append(f"{store.name}: there is no call that {error} could meet")
    return cases, violations


async def prove(folder: Path, effort: Effort) -> Report:
    """Every store with every fault; a quick one some of them."""
    if problem := tracer.why_not():
        return Report({}, skipped=problem)
    dice = random.Random(effort.seed)
    with small(folder / "disk") as may_mount:
        cases = [case for case in lasting() if may_mount or case.error != SMALL_DISK]
    lasting_s = 7.0
    room = asyncio.Semaphore(AT_ONCE)
    violations: list[str] = []
    if effort.quick:
        cases, lasting_s = dice.sample([case for case in cases if case.store.name != "all"], 3), 1.0
    else:
        once, violations = await single(folder / "counted", dice)
        cases += once

    async def one(number: int, case: Case) -> Play:
        async with room:
            say(f"{case} ...")
            play = await played(case, folder / str(number), lasting_s)
            for found in play.found:
                say(f"   {case}: {found}")
            return play

    plays = await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))
    met = [play for play in plays if play.was_met]
    tried = {error: sum(play.case.error == error for play in met) for error in dict.fromkeys(c.error for c in cases)}
    if late := len(plays) - len(met):  # runs differ a little
        tried["not met"] = late
    if 2 * late > sum(bool(case.at) for case in cases):
        violations.append(f"of {len(plays)} faults {late} were not met")
    figures = {name for play in plays for name in play.measured}
    measured = {f"{name}, most": max(p.measured[name] for p in plays if name in p.measured) for name in sorted(figures)}
    return Report(tried, [*violations, *(f"{play.case}: {found}" for play in plays for found in play.found)], measured)
