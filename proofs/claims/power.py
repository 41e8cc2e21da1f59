"""The power goes at any moment of a scenario, and the disk keeps of what was not synced what it likes.

A scenario is played under the tracer, and `proofs/disk.py` says what a power cut could have left at each moment of it.
In each such state all must stand that was promised by then: it is laid down and looked at. For some moments it is also
given to another daemon, between networks that know what they knew then: that has to come to rest by itself, and then
all must be as it always is. In some plays a life is killed before, and the power goes while the next one acts on what
that one had no time to sync.

Nothing is promised of the search index, and of what tools write into a workspace.
"""

import asyncio
import os
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from proofs import tracer
from proofs.claim import Effort, Report, say
from proofs.disk import SHARED_MEMORY, Data, Disk, State
from proofs.invariants import is_of_a_tool
from proofs.promises import Promise, Witness, broken
from proofs.record import SYNCS, Event, events
from proofs.scenarios import BY_NAME, SCENARIOS
from proofs.stage import COMMANDS, PATIENCE_S, Past, Scenario, Visit, prepared
from tests.daemon.running import OWNER, REPLIES, TOKEN, World, a_world
from tests.emulators import OpenAIServer, TelegramServer

NAME = "power"
CLAIM = "what was acknowledged outlives a power cut, whichever of the writes that were not synced do"

QUICK = ("turn", "remember")
NOT_HERE = ("edit",)
"""There a person's editor writes beside the daemon, which the tracer does not see."""
LOOKED_AT, RECOVERED = 24, 6
"""States of one moment, at most, that are looked at, and that a daemon is started on."""
LEFT = "left behind: "
"""Of what is half made a cut may leave something; whoever makes it again takes it away."""
_PAUSE_S = 0.05

Deaths = tuple[int, ...]
"""Just before which event each life ends, the last one by the power cut; 0: when all is said and answered."""


def aside(path: str) -> bool:
    """Whether nothing is promised of it."""
    if path.startswith(("state/recall", "state/lock", "state/daemon.sock")):
        return True
    return is_of_a_tool(path) and not path.endswith(".draft")


async def prove(folder: Path, effort: Effort) -> Report:
    """All moments of all scenarios; daemons are started for as many as there is time for. `quick`: a sample of one."""
    if reason := tracer.why_not():
        return Report({}, skipped=reason)
    dice = Random(effort.seed)
    scenarios = [scenario for scenario in SCENARIOS if scenario.name not in NOT_HERE]
    if effort.quick:
        scenarios = [BY_NAME[dice.choice(QUICK)]]
    trials = [Trial(scenario, folder / scenario.name, dice) for scenario in scenarios]
    for trial in trials:
        await (trial.takes_a_sample() if effort.quick else trial.goes_on_for(effort.seconds))
        say(f"{trial.name}: {dict(trial.tried)}, {len(trial.violations)} violations")
    tried = sum((trial.tried for trial in trials), Counter[str]())
    return Report(tried, [violation for trial in trials for violation in trial.violations])


@dataclass(frozen=True)
class Play:
    """What was done to the disk, in the last life and in those before, and how everything was at the end."""

    start: State
    before: Sequence[Event]
    events: Sequence[Event]
    promises: Sequence[Promise]
    telegram: Mapping[str, Any]
    model: Mapping[str, Any]
    told: Mapping[int, Sequence[str]]
    facts: Sequence[str]
    earlier: Mapping[int, int]

    def disks(self) -> Iterator[tuple[int, Disk]]:
        """The disk after so many events of the last life, for all moments of it."""
        disk = Disk(self.start)
        for event in self.before:
            disk.see(event)
        yield 0, disk
        for number, event in enumerate(self.events, 1):
            disk.see(event)
            yield number, disk

    def disk(self) -> Disk:
        """The one at the end."""
        *_, (_, disk) = self.disks()
        return disk

    def syncs(self) -> list[int]:
        """The numbers of the last life's events that make something durable of which something is promised."""
        return [event.n for event in self.events if event.call in SYNCS and not aside(event.path)]


class Trial:
    """One scenario, cut off at one moment after the other."""

    def __init__(self, scenario: Scenario, folder: Path, dice: Random) -> None:
        self.tried: Counter[str] = Counter()
        self.violations: list[str] = []
        self._scenario = scenario
        self._folder = folder
        self._dice = dice
        self._known: set[tuple[str, int]] = set()

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self._scenario.name

    async def takes_a_sample(self) -> None:
        """Some states of some moments; one that is recovered from; one with a kill before."""
        past = await self._past()
        if whole := await self._whole(past):
            self._look_at(whole, (0,), 2, {*self._dice.sample(range(len(whole.events)), 30)})
            n = self._dice.choice(whole.syncs())
            await self._recover(past, (n,), 1)
            await self._kill_before(past, n, 1)

    async def goes_on_for(self, seconds: float) -> None:
        """All moments; then as many syncs as there is time for, each with daemons after it and with a kill before."""
        past = await self._past()
        if not (whole := await self._whole(past)):
            return
        self._look_at(whole, (0,), LOOKED_AT)
        until = time.monotonic() + seconds
        syncs = whole.syncs()
        self._count("syncs there are", len(syncs))
        for n in self._dice.sample(syncs, len(syncs)):
            if time.monotonic() > until:
                break
            self._count("syncs tried")
            await self._recover(past, (n + self._dice.randrange(3),), RECOVERED)
            await self._kill_before(past, n, LOOKED_AT // 4)

    async def once_more(self, deaths: Deaths) -> None:
        """All that can be wrong with one play."""
        past = await self._past()
        if deaths[-1]:
            await self._recover(past, deaths, RECOVERED)
        elif play := await self._played(past, deaths):
            self._look_at(play, deaths, LOOKED_AT)

    async def _past(self) -> Past:
        return await prepared(self._scenario, self._folder / "past")

    async def _played(self, past: Past, deaths: Deaths) -> Play | None:
        try:
            return await played(self._scenario, past, self._folder / _named(deaths), deaths)
        except (AssertionError, TimeoutError) as error:
            self._tell(deaths, str(error) or repr(error))
            return None

    async def _whole(self, past: Past) -> Play | None:
        play = await self._played(past, (0,))
        if play and not play.promises:
            self._tell((0,), "nothing was promised, so nothing can be broken")
        return play

    async def _kill_before(self, past: Past, n: int, most: int) -> None:
        """Looks at the life after one that was killed before event `n`."""
        if play := await self._played(past, (n, 0)):
            self._look_at(play, (n, 0), most)

    def _look_at(self, play: Play, deaths: Deaths, most: int, moments: Container[int] | None = None) -> None:
        """Whether the promises made by each moment stand, in so many states of each."""
        folder = self._folder / "looked-at"
        told: set[str] = set()
        for number, disk in play.disks():
            promises = [promise for promise in play.promises if promise.at <= number]
            if not promises or (moments is not None and number not in moments):
                continue
            self._count("moments looked at")
            for state in disk.states(most, self._dice, aside):
                if self._is_new(state, len(promises)):
                    self._count("states looked at")
                    lay_down(state, folder / "home")
                    world = World(folder / "home", TelegramServer(TOKEN), OpenAIServer())
                    world.earlier = Counter(play.earlier)
                    for found in broken(promises, world):
                        if found not in told:
                            told.add(found)
                            self._tell(deaths, f"power gone after event {number}: {found}")
                    shutil.rmtree(folder)

    async def _recover(self, past: Past, deaths: Deaths, most: int) -> None:
        """Starts a daemon on so many states of a moment."""
        if not (play := await self._played(past, deaths)):
            return
        for number, state in enumerate(play.disk().states(most, self._dice, aside)):
            folder = self._folder / f"{_named(deaths)}-{number}"
            self._count("states recovered from")
            for found in await recovered(self._scenario, past, play, state, folder):
                self._tell(deaths, f"on state {number}: {found}")
            shutil.rmtree(folder)

    def _is_new(self, state: State, promised: int) -> bool:
        key = state.digest(but=aside), promised
        known = key in self._known
        self._known.add(key)
        return not known

    def _count(self, what: str, times: int = 1) -> None:
        self.tried[f"{self.name}: {what}"] += times

    def _tell(self, deaths: Deaths, what: str) -> None:
        again = f"python -m proofs.again {NAME} {self.name} {_named(deaths)}"
        self.violations.append(f"{self.name}, {_named(deaths)}: {what} [{again}]")
        say(f"   {self.violations[-1]}")


def _named(deaths: Deaths) -> str:
    return ",".join(map(str, deaths))


async def again(folder: Path, name: str, deaths: str) -> list[str]:
    """A single play."""
    trial = Trial(BY_NAME[name], folder, Random(0))
    await trial.once_more(tuple(map(int, deaths.split(","))))
    return trial.violations


async def played(scenario: Scenario, past: Past, folder: Path, deaths: Deaths) -> Play:
    """Plays a scenario, in as many lives as there are deaths."""
    async with a_world(folder) as world:
        visit = _visit(world, past, past.told, past.facts)
        world.telegram.next_update_id = past.next_update_id
        if scenario.script:
            world.model.script(scenario.script())
        start = read(past.home) if past.home.exists() else State()
        lay_down(start, world.home)
        witness = Witness(world.telegram, [OWNER], past.next_update_id)
        lives: list[list[Event]] = []
        were_met = True
        acting: asyncio.Task[None] | None = None
        for number, death in enumerate(deaths):
            record = folder / f"record-{number}"
            record.touch()
            tracing = ("--home", str(world.home), "--record", str(record), "--kill-at", str(death), "--children")
            under = (sys.executable, "-m", "proofs.tracer", *tracing, "--")
            visit.life = await world.daemon(scenario.model, under, **scenario.settings)
            acting = acting or asyncio.create_task(_acts(scenario, visit))
            watching = asyncio.create_task(witness.watches(record))
            ending = asyncio.create_task(visit.life.exit_code(within_s=2 * PATIENCE_S))
            await asyncio.wait([acting, ending], return_when=asyncio.FIRST_COMPLETED)
            were_met = were_met and ending.done()
            await visit.life.kill()
            watching.cancel()
            [failed, _] = await asyncio.gather(watching, ending, return_exceptions=True)
            if isinstance(failed, Exception):
                raise failed
            with record.open() as lines:
                lives.append(list(events(lines)))
        if were_met:  # else something may just have been written, and not written down
            unseen(start, chain.from_iterable(lives), read(world.home))
        assert acting
        is_done = acting.done()
        acting.cancel()
        if is_done:
            await acting
        else:
            await asyncio.gather(acting, return_exceptions=True)
        return Play(
            start,
            [event for life in lives[:-1] for event in life],
            lives[-1],
            witness.promises({end["content"] for end in world.ends()}),
            world.telegram.snapshot(),
            world.model.snapshot(),
            {chat: [*texts] for chat, texts in visit.told.items()},
            [*visit.facts],
            past.earlier,
        )


def unseen(start: State, events: Iterable[Event], there: State) -> None:
    """Raises AssertionError where there is something else than what was recorded has made: the tracer was blind."""
    disk = Disk(start)
    for event in events:
        disk.see(event)
    seen = disk.seen()
    names = {*seen.files, *there.files, *seen.folders, *there.folders}
    wrong = [
        name
        for name in sorted(names)
        if not aside(name)
        and (seen.files.get(name), name in seen.folders) != (there.files.get(name), name in there.folders)
    ]
    assert not wrong, f"not recorded as it is: {wrong}"


async def recovered(scenario: Scenario, past: Past, play: Play, state: State, folder: Path) -> list[str]:
    """What does not hold once a daemon that finds that on its disk has come to rest."""
    torn = sum(isinstance(effect, Data) and effect.paths[0].endswith(".jsonl") for effect in play.disk().open)
    try:
        async with a_world(folder) as world:
            world.telegram.restore(dict(play.telegram))
            world.model.restore(dict(play.model))
            visit = _visit(world, past, play.told, play.facts)
            lay_down(state, world.home)
            visit.life = await world.daemon(scenario.model, **scenario.settings)
            await visit.life.ready()
            await _rests(visit)
            await visit.catches_up()
            await visit.life.stops()
            found = [line for line in visit.violations(torn) if not line.startswith(LEFT)]
            return found + broken(play.promises, world)
    except (AssertionError, TimeoutError) as error:
        return [str(error) or repr(error)]


def _visit(world: World, past: Past, told: Mapping[int, Sequence[str]], facts: Sequence[str]) -> Visit:
    world.replies = (*REPLIES, *COMMANDS)
    world.patience_s = PATIENCE_S
    world.earlier = Counter(past.earlier)
    return Visit(world, {chat: [*texts] for chat, texts in told.items()}, [*facts])


async def _acts(scenario: Scenario, visit: Visit) -> None:
    await scenario.act(visit)
    await _rests(visit)


async def _rests(visit: Visit) -> None:
    """Returns once nothing waits, neither at the network nor in the daemon."""
    world = visit.world
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if not world.telegram.unconfirmed and visit.is_settled() and not _in_flight(world.home):
                    return
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        about = {
            chat: (texts, world.said(f"telegram:{chat}"), world.answers(chat)) for chat, texts in visit.told.items()
        }
        raise AssertionError(f"not at rest: {about}, unconfirmed {world.telegram.unconfirmed}") from None


def _in_flight(home: Path) -> int:
    """How many messages are not answered, or answers not shown, as the daemon that runs has it."""
    with closing(sqlite3.connect(f"file:{home}/state/bus.db?mode=ro", uri=True)) as bus:
        asked = "SELECT (SELECT count(*) FROM inbound WHERE state <> 'done') + (SELECT count(*) FROM outbound)"
        count: int = bus.execute(asked).fetchone()[0]
        return count


def read(folder: Path) -> State:
    """What is in a folder."""
    files: dict[str, bytes] = {}
    folders: set[str] = set()
    links: dict[str, str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            links[name] = str(path.readlink())
        elif path.is_dir():
            folders.add(name)
        elif path.is_file() and not name.endswith(SHARED_MEMORY):
            files[name] = path.read_bytes()
    return State(files, frozenset(folders), links)


def lay_down(state: State, folder: Path) -> None:
    """Makes a folder with that in it."""
    folder.mkdir(0o700, parents=True)
    for name in sorted(state.folders):
        (folder / name).mkdir(0o700)
    for name, data in state.files.items():
        with open(folder / name, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(data)
    for name, to in state.links.items():
        (folder / name).symlink_to(to)
