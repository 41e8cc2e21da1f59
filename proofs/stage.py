"""A home, the two networks, somebody who acts, and a daemon that may die of it: a scenario, played once.

Knows nothing of what is told in any of them, and nothing of when the daemon dies.
"""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofs import invariants
from tests.daemon.running import OWNER, REPLIES, DaemonProcess, World, a_world
from tests.emulators import Answer, Fault

Json = dict[str, Any]
COMMANDS = ("Saved (", "Already known: ", "Consolidated messages ", "Learned (", "Restored version ", "Nothing to ")

PATIENCE_S = 300.0
"""A machine that proves one thing after another is slow at each."""


@dataclass
class Visit:
    """Somebody who talks to it over any number of its lives, and what must be true of that ever after.

    `told` is what they said, by chat; `facts` are what has to be known, once.
    """

    world: World
    told: dict[int, list[str]] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    life: DaemonProcess | None = None

    async def says(self, *texts: str, chat: int = OWNER) -> None:
        """And waits for the answers."""
        self.utters(*texts, chat=chat)
        await self.world.settled(chat, *self.told[chat])

    def utters(self, *texts: str, chat: int = OWNER) -> None:
        """And does not wait."""
        self.told.setdefault(chat, []).extend(texts)
        for text in texts:
            self.world.telegram.say(text, chat)

    async def asks(self, command: str, *replies: str) -> None:
        """And waits for a reply that begins with one of these."""
        self.world.telegram.say(command)
        await self.world.until(lambda: any(text.startswith(replies) for text in self.world.answers()), str, command)

    def writes(self, fact: str) -> None:
        """With an editor, into MEMORY.md."""
        self.facts.append(fact)
        path = self.world.root() / "memory" / "MEMORY.md"
        draft = self.world.home.parent / "draft.md"
        draft.write_text(f"{path.read_text().rstrip()}\n- {fact}\n")
        draft.chmod(0o600)
        draft.replace(path)

    def stops_it(self) -> None:
        """SIGTERM, wherever it is; somebody starts it again."""
        assert self.life
        self.life.terminate()

    def is_settled(self) -> bool:
        return all(self.world.is_settled(chat, texts) for chat, texts in self.told.items())

    async def catches_up(self) -> None:
        """A life that follows a death puts right what people read as soon as it has time for it; it is given some."""
        assert self.life
        await self.life.ready()
        await self.world.catches_up(self._keys())

    def violations(self, torn: int = 0) -> list[str]:
        """What does not hold though it should, now that nothing is under way; so many lines may be torn."""
        world, found = self.world, []
        for chat, texts in self.told.items():
            found += invariants.conversation(*world.talk(chat, texts))
        found += world.memory_violations(self._keys())
        texts = [(world.root() / name).read_text() for name in invariants.FILES]
        lines = [line for version in world.versions() for line in version.lines]
        found += invariants.facts(self.facts, texts, lines)
        found += invariants.in_flight(world.home)
        return found + invariants.files(world.home, torn)

    def _keys(self) -> list[str]:
        return [f"telegram:{chat}" for chat in self.told]


async def nothing(visit: Visit) -> None:
    """Does nothing."""


def no_more(visit: Visit) -> list[str]:
    """Nothing else has to hold."""
    return []


@dataclass(frozen=True)
class Scenario:
    """Something a person does: `act`, after what has happened `before`, in earlier lives. Then `also` has to hold, too.

    `model` answers as `script` makes it; a new one is made for each play. `prepare` changes the files in between.
    """

    name: str
    story: str
    act: Callable[[Visit], Awaitable[None]]
    before: Callable[[Visit], Awaitable[None]] = nothing
    prepare: Callable[[Path], None] | None = None
    model: str = "offline"
    script: Callable[[], Callable[[Json], Answer | Fault]] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    also: Callable[[Visit], list[str]] = no_more
    in_an_empty_home: bool = False


@dataclass(frozen=True)
class Past:
    """What a play starts from."""

    home: Path
    told: Mapping[int, Sequence[str]]
    facts: Sequence[str]
    next_update_id: int
    earlier: Mapping[int, int]


@dataclass(frozen=True)
class Played:
    """How the first life ended, and what does not hold."""

    code: int
    violations: Sequence[str]


async def prepared(scenario: Scenario, folder: Path) -> Past:
    """Plays what happened before."""
    async with a_world(folder) as world:
        visit = Visit(world)
        if not scenario.in_an_empty_home:
            visit.life = await _life(scenario, world)
            await scenario.before(visit)
            await visit.life.stops()
            if scenario.prepare:
                scenario.prepare(world.home)
        earlier = {chat: len(world.ends(f"telegram:{chat}")) for chat in visit.told}
        return Past(world.home, visit.told, visit.facts, world.telegram.next_update_id, earlier)


async def played(scenario: Scenario, past: Past, folder: Path, *tracing: str) -> Played:
    """Plays it, the first life under the tracer, all others not, until all is said and nothing under way; then looks.

    A life that ends is followed by another, whatever it died of.
    """
    code = 0
    try:
        async with a_world(folder) as world:
            if past.home.exists():
                shutil.copytree(past.home, world.home, symlinks=True)
            world.telegram.next_update_id = past.next_update_id
            world.earlier = Counter(past.earlier)
            told = {chat: [*texts] for chat, texts in past.told.items()}
            visit = Visit(world, told, [*past.facts])
            tracer = (sys.executable, "-m", "proofs.tracer", "--home", str(world.home), *tracing, "--")
            visit.life = first = await _life(scenario, world, tracer)
            acting = asyncio.create_task(_acts(scenario, visit))
            try:
                while not acting.done():
                    ending = asyncio.create_task(visit.life.exit_code(within_s=600))
                    await asyncio.wait([acting, ending], return_when=asyncio.FIRST_COMPLETED)
                    if ending.done():
                        ending.result()
                        visit.life = await _life(scenario, world)
                    else:
                        ending.cancel()
                        await asyncio.gather(ending, return_exceptions=True)
                await acting
            finally:
                acting.cancel()
            if visit.life is not first:
                await visit.catches_up()
            visit.life.terminate()
            ended = await visit.life.exit_code()
            code = await first.exit_code()
            if ended:
                visit.life = await _life(scenario, world)
                await world.until(visit.is_settled, str, "all answered")
                await visit.catches_up()
                await visit.life.stops()
            found = visit.violations() + scenario.also(visit)
    except (AssertionError, TimeoutError) as error:
        return Played(code, [str(error) or repr(error)])
    return Played(code, found)


async def _acts(scenario: Scenario, visit: Visit) -> None:
    await scenario.act(visit)
    await visit.world.until(visit.is_settled, str, "all answered")


async def _life(scenario: Scenario, world: World, under: Sequence[str] = ()) -> DaemonProcess:
    """Another one; the model and the replies to commands are always the same."""
    world.replies = (*REPLIES, *COMMANDS)
    world.patience_s = PATIENCE_S
    if not world.lives and scenario.script:
        world.model.script(scenario.script())
    return await world.daemon(scenario.model, under, **scenario.settings)
