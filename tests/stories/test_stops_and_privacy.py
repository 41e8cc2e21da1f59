"""Clean stops, trouble with the provider, a write cut short, and who may hear of what."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path

import pytest

from nanomem.agent.answering import Answering
from nanomem.agent.asking import Asker, DailyLimits
from nanomem.agent.background import Background
from nanomem.agent.commands import Commands
from nanomem.agent.conversation import Conversations
from nanomem.agent.delivery import Deliveries
from nanomem.agent.loop import AgentLoop
from nanomem.agent.prompting import Known, Prompter
from nanomem.agent.together import beside
from nanomem.agent.toolbox import Toolbox
from nanomem.agent.traffic import Traffic
from nanomem.agent.turn import Runner
from nanomem.bus import Bus
from nanomem.errors import TellUser, TryLater
from nanomem.home import Home
from nanomem.memory import commands as memory_commands
from nanomem.memory.clearing import Clearing
from nanomem.memory.consolidate import When
from nanomem.messages import Inbound, Reply, Request, Sender
from nanomem.ports import Origin
from nanomem.records import AssistantMessage, Record, ToolMessage, UserMessage
from nanomem.session import UNKNOWN_OUTCOME
from nanomem.settings import load
from nanomem.spaces import Space, Spaces
from nanomem.stores import inbox
from nanomem.stores.database import Database
from nanomem.stores.received import ReceivedFiles
from nanomem.stores.session_log import JsonlSessionLog
from nanomem.stores.templates import JinjaTemplates
from nanomem.testing import (
    FakeChannel,
    FakeClock,
    FakeInbox,
    FakeMeter,
    FakeModel,
    FakeSessionLog,
    FakeSkills,
    FakeTokenizer,
    FakeTool,
    calls,
    inbound,
    updates,
)
from nanomem.wiring import ground
from tests.stories.chat import LIMITS, World, make_consolidator, running, until


def held(*answers: str) -> FakeModel:
    """A model that thinks until its gate opens."""
    model = FakeModel(*answers)
    model.gate.clear()
    return model


async def test_a_clean_stop_parks_the_turn_and_the_next_start_goes_on() -> None:
    """However often: the attempt is given back, nothing is said twice, and the person sees one message."""
    world = World(held())
    assert isinstance(world.inbox, FakeInbox)
    for start in range(6):
        async with running(world) as chat:
            if start == 0:
                await chat.says("one", "two")
            await chat.until_asked()
        assert [(row.turn, row.attempts) for row in await world.inbox.waiting()] == [("fake:42#1", 0)] * 2
        assert world.channel.finished == []
    world.model.gate.set()
    world.model.answers = ["at last"]
    async with running(world) as chat:
        await chat.until_answered()
        assert chat.hears == ["at last"]
    assert [r.content for r in world.records() if isinstance(r, UserMessage)] == ["one", "two"]
    assert len([r for r in world.records() if isinstance(r, AssistantMessage)]) == 1
    assert dict(await world.inbox.counts()) == {"waiting": 0, "undelivered": 0, "set_aside": 0}


async def test_a_stop_in_the_middle_keeps_the_work_done() -> None:
    """The tool that ran is not run again; the next start goes on behind its result."""
    ran: list[str] = []

    def do() -> str:
        ran.append("do")
        return "done"

    thinking = asyncio.Event()

    def think(request: Request) -> str:
        world.model.gate.clear()
        thinking.set()
        return "never said"

    world = World(FakeModel(calls(("do", "{}")), think), tools={"do": FakeTool("do", do)})
    async with running(world) as chat:
        await chat.says("go")
        await thinking.wait()
    world.model.gate.set()
    world.model.answers = ["ready"]
    async with running(world) as chat:
        await chat.until_answered()
        assert chat.hears == ["ready"]
    assert ran == ["do"]
    assert [r.content for r in world.records() if isinstance(r, ToolMessage)] == ["done"]
    assert world.model.requests[-1].messages[-1].text == "done"


async def test_a_stop_while_a_tool_runs_is_told_to_the_model() -> None:
    """It is never run again in silence."""
    begun = asyncio.Event()

    class Slow(FakeTool):
        async def run(self, arguments: object, origin: Origin) -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

    world = World(FakeModel(calls(("slow", "{}")), "I see"), tools={"slow": Slow("slow", str)})
    async with running(world) as chat:
        await chat.says("go")
        await begun.wait()
    async with running(world) as chat:
        await chat.until_answered()
        assert chat.hears == ["I see"]
    assert world.model.requests[-1].messages[-1].text == UNKNOWN_OUTCOME


async def test_messages_that_wait_at_a_stop_are_answered_after_it() -> None:
    """50 of them: none is lost, none is answered twice."""
    world = World(held())
    async with running(world) as chat:
        await chat.says("first")
        await chat.until_asked()
        for number in range(50):
            await chat.says(f"message {number}")
    world.model.gate.set()
    async with running(world) as chat:
        await chat.until_answered(2)
    heard = [r.content for r in world.records() if isinstance(r, UserMessage)]
    assert heard == ["first", *(f"message {number}" for number in range(50))]
    covered = [id for sent in world.channel.finished for id in sent.answers]
    assert covered == [str(number) for number in range(1, 52)]


@pytest.mark.parametrize("trouble", [TellUser("The key is wrong."), *[TryLater("The provider is down.")]])
async def test_trouble_with_the_provider_keeps_the_message(trouble: Exception) -> None:
    """It is said at once, stays in the conversation, and is answered when the provider is well."""
    world = World(FakeModel(*[trouble] * 4))
    async with running(world) as chat:
        await chat.says("remember the milk")
        await chat.until_answered()
        assert str(trouble) in chat.hears[0]
        world.model.answers = ["milk, yes"]
        await chat.says("/retry")
        await chat.until_answered(2)
        assert chat.hears[-1] == "milk, yes"
        await chat.says("what was it?")
        await chat.until_answered(3)
    shown = str(world.model.requests[-1].messages)
    assert shown.count("remember the milk") == 1 and str(trouble) not in shown
    assert [r.end for r in world.records() if isinstance(r, AssistantMessage)] == ["failed", "answer", "answer"]


class Dying(FakeSessionLog):
    """A log whose process is killed while it writes: only so many of the records are on disk."""

    def __init__(self, whole: int) -> None:
        super().__init__()
        self.whole: int | None = whole

    async def append(self, space: Space, key: str, records: Sequence[Record]) -> None:
        if self.whole is None:
            return await super().append(space, key, records)
        await super().append(space, key, records[: self.whole])
        self.whole = None
        raise PowerCut


class PowerCut(BaseException):
    """The process is no more."""


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
async def test_a_batch_cut_short_in_the_log_is_completed(whole: int) -> None:
    """Each message is in it once, and in the question that the model is asked."""
    world = World(FakeModel("all three"), log=Dying(whole))
    with pytest.raises(PowerCut):
        async with running(world) as chat:
            await chat.says("one", "two", "three")
            await chat.until_dead()
    async with running(world) as chat:
        await chat.until_answered()
        assert chat.hears == ["all three"]
    heard = [(r.n, r.content) for r in world.records() if isinstance(r, UserMessage)]
    assert heard == [(1, "one"), (2, "two"), (3, "three")]
    assert all(word in world.model.requests[-1].messages[0].text for word in ("one", "two", "three"))


# --- who may hear of what, over the real stores

WORDS = {"fake:1": "albatross", "fake:2": "bumblebee", "fake:-100": "chameleon", "fake:-100:7": "dromedary"}
"""What is said where, and nowhere else."""
KEPT = (".jsonl", ".md")
NOTES = {"fake:1": "elderberry", "fake:2": "foxglove", "fake:-100": "gooseberry"}
"""What is known where."""


@dataclass
class House:
    """An agent over real files, and everybody who talks to it."""

    bus: Bus
    channel: FakeChannel
    number: int = 0

    async def says(self, address: str, text: str) -> None:
        self.number += 1
        person = address.split(":")[1].lstrip("-")
        message: Inbound = replace(
            inbound(text, self.number, address), sender=Sender(person, f"person{person}"), from_owner=person == "1"
        )
        await self.bus.take("fake", updates([message]))


@asynccontextmanager
async def house(home: Path, model: FakeModel, channel: FakeChannel) -> AsyncIterator[House]:
    spaces, clock, tokenizer, toolbox = Spaces(home, frozenset({"fake:1"})), FakeClock(), FakeTokenizer(), Toolbox({})
    database = await Database.open(home / "state" / "bus.db", [inbox.TABLES])
    box, parts = inbox.SqliteInbox(database), ground(Home(home), load(home / "config.toml", {}), {}).memory
    templates = JinjaTemplates(home / "workspace" / "prompts")
    known = Known(parts.memory, parts.history, FakeSkills())
    prompter = Prompter(LIMITS, known, templates, tokenizer, clock, toolbox.schemas)
    asker = Asker(model, FakeMeter(), clock, UTC, DailyLimits())
    conversations = Conversations(spaces.of, JsonlSessionLog(), tokenizer, clock, keep=2)
    background = Background()
    world = World(model, memory=parts.memory, versions=parts.versions, history=parts.history, templates=templates)
    world.when = When(memory_window=8)
    consolidator = make_consolidator(world, prompter, asker, background)
    more = (*Clearing(conversations, consolidator).commands, *memory_commands.commands(parts, spaces.of))
    commands = Commands(conversations, prompter, asker, parts.memory, more)
    bus = Bus(box, commands.kind)
    deliveries = Deliveries([channel], box, clock)
    runner = Runner(asker, prompter, toolbox, clock, 5, consolidator.relieve)
    files = ReceivedFiles(home / "state" / "incoming")
    answering = Answering(box, conversations, runner, deliveries, files, clock, consolidator.after_turn)
    loop = AgentLoop(bus, commands, answering, deliveries, clock, 1000, Traffic(clock))
    await bus.restore(["fake"])
    leave = asyncio.Event()
    task = asyncio.create_task(beside(loop.run(), until(leave)))
    behind = asyncio.create_task(background.run())
    try:
        yield House(bus, channel)
        await background.idle()
    finally:
        leave.set()
        background.close()
        await task
        await behind
        await database.close()


async def test_what_is_said_in_one_place_reaches_no_other(tmp_path: Path) -> None:
    """Two people, a group and a topic in it talk at once, over two lives: no prompt holds another's words."""
    spaces = Spaces(tmp_path, frozenset({"fake:1"}))
    for address, note in NOTES.items():
        root = spaces.of(address).root
        (root / "memory").mkdir(parents=True)
        (root / "memory" / "MEMORY.md").write_text(f"- {note}\n")
        (root / "USER.md").write_text(f"Name: {note}\n")
    model, channel, said_before = FakeModel(*[gossip] * 1_000), FakeChannel(), 0
    for life in (1, 2):
        async with house(tmp_path, model, channel) as agent:
            agent.number = said_before
            for number in range(4):
                for address, word in WORDS.items():
                    await agent.says(address, f"{word} {life}.{number}")
                await agent.says("fake:2", "/status")
                if number == 2 and life == 2:
                    await agent.says("fake:1", "/new")
            await channel.until(lambda: covered(channel) >= {str(n) for n in range(1, agent.number + 1)})
        said_before = agent.number
    assert len(model.requests) >= 2 * len(WORDS)
    for request in model.requests:
        text = f"{request.system} {request.messages}"
        said = {":".join(address.split(":")[:2]) for address, word in WORDS.items() if word in text}
        known = {address for address, note in NOTES.items() if note in text}
        assert len(said) == 1
        assert known == said, "a topic knows what its group knows"
        assert request.forced or ("one person" in request.system) == (not said.pop().startswith("fake:-"))
    for address, word in WORDS.items():
        assert word in str(channel.screen(address))
        root = spaces.of(address).root
        others = [said for other, said in WORDS.items() if spaces.of(other).root != root]
        assert not any(other in str(channel.screen(address)) for other in others)
        assert word in (root / "memory" / "MEMORY.md").read_text()
        holding = [path for path in tmp_path.rglob("*.*") if path.suffix in KEPT and word in path.read_text()]
        assert holding and all(path.is_relative_to(root) for path in holding)


def gossip(request: Request) -> Reply:
    """A model that keeps all it hears as facts."""
    if request.forced is None:
        return Reply(f"echo: {request.messages[-1].text}")
    said = request.messages[-1].text
    memory = said.partition("## Current Long-term Memory\n")[2].partition("\n\n## Conversation to Process")[0]
    heard = " ".join(word for word in WORDS.values() if word in said)
    update = f"{memory}\n- Said {heard} when {len(said)} were counted"
    return calls(("save_memory", json.dumps({"history_entry": f"Of {heard}.", "memory_update": update})))


def covered(channel: FakeChannel) -> set[str]:
    return {id for sent in channel.finished for id in sent.answers}
