"""Kills the daemon just before each single write, sync, rename or removal of a scenario, and looks what is left."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs import tracer
from proofs.claim import Effort, Report, say
from proofs.record import Event, events
from proofs.scenarios import BY_NAME, SCENARIOS
from proofs.stage import Past, Played, Scenario, played, prepared

NAME = "kills"
CLAIM = "wherever it is killed, after the next start nothing is lost, torn, or done twice in silence"

QUICK = ("first-start", "remember")
QUICK_POINTS = 4
SIDE_BY_SIDE = 2
"""For each core: half of a play is waiting."""
OVER_BEFORE = 0.2
"""Of the kills of a scenario, at most so many may come too late: a run can be shorter than the one that was counted."""


async def prove(folder: Path, effort: Effort) -> Report:
    """Every moment of every scenario; `quick`, some moments of a few."""
    if reason := tracer.why_not():
        return Report({}, skipped=reason)
    tried: dict[str, int] = {}
    violations: list[str] = []
    for scenario in (BY_NAME[name] for name in QUICK) if effort.quick else SCENARIOS:
        past = await prepared(scenario, folder / scenario.name / "past")
        whole, seen = await run(scenario, past, folder / scenario.name / "whole")
        violations += [f"{scenario.name}, not killed at all: {problem}" for problem in whole.violations]
        points = sample(len(seen), effort) if effort.quick else range(1, len(seen) + 1)
        deaths = await killed_at(points, scenario, past, folder / scenario.name)
        found = [violation for death in deaths for violation in death.violations]
        tried |= {scenario.name: sum(death.was_met for death in deaths)}
        if late := len(points) - tried[scenario.name]:
            tried[f"{scenario.name}, over before"] = late
        if not tried[scenario.name] or late > OVER_BEFORE * len(points):
            found.append(f"{scenario.name}: of {len(points)} kills {late} were not met")
        violations += found
        say(f"{scenario.name}: {tried[scenario.name]} moments, {len(found)} violations")
    return Report(tried, violations)


@dataclass(frozen=True)
class Death:
    """One kill: whether it came to it, and what is wrong afterwards."""

    was_met: bool
    violations: Sequence[str]


def sample(count: int, effort: Effort) -> Sequence[int]:
    """Moments of a run, spread over all of it."""
    step = max(1, count // QUICK_POINTS)
    return range(1 + random.Random(effort.seed).randrange(step), count + 1, step)


async def killed_at(points: Sequence[int], scenario: Scenario, past: Past, folder: Path) -> list[Death]:
    """A kill at each of these, several tried at once."""
    free = asyncio.Semaphore(SIDE_BY_SIDE * (os.cpu_count() or 1))

    async def tried(n: int) -> Death:
        async with free:
            return await killed(n, scenario, past, folder / f"{n}")

    return await asyncio.gather(*map(tried, points))


async def killed(n: int, scenario: Scenario, past: Past, folder: Path) -> Death:
    """A kill just before event `n`; a run can be shorter than another, then it is not killed."""
    play, seen = await run(scenario, past, folder, "--kill-at", str(n))
    was_met = play.code == -signal.SIGKILL and bool(seen) and seen[-1].n == n
    where = f"{seen[-1].call} {seen[-1].path}" if was_met else "it was over before"
    shutil.rmtree(folder)
    again = f"python -m proofs.again {NAME} {scenario.name} {n}"
    found = [f"{scenario.name}, killed at {n} ({where}): {problem} [{again}]" for problem in play.violations]
    for problem in found:
        say(f"   {problem}")
    return Death(was_met, found)


async def run(scenario: Scenario, past: Past, folder: Path, *tracing: str) -> tuple[Played, list[Event]]:
    """One play, and what its first life has done to the home."""
    folder.mkdir(parents=True)
    play = await played(scenario, past, folder, *tracing, "--record", str(folder / "record"))
    with (folder / "record").open() as lines:
        return play, list(events(lines))


async def again(folder: Path, name: str, n: str) -> list[str]:
    """A single one."""
    scenario = BY_NAME[name]
    death = await killed(int(n), scenario, await prepared(scenario, folder / "past"), folder / n)
    return [*death.violations]
