"""A whole agent over fakes, and a chat to drive it with."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from nanomem.agent.answering import Answering
from nanomem.agent.asking import Asker, DailyLimits
from nanomem.agent.background import Background
from nanomem.agent.commands import Commands
from nanomem.agent.conversation import Conversations
from nanomem.agent.delivery import Deliveries
from nanomem.agent.loop import AgentLoop
from nanomem.agent.prompting import Known, Prompter, PromptLimits
from nanomem.agent.skill_commands import commands as skill_commands
from nanomem.agent.together import beside
from nanomem.agent.toolbox import Toolbox
from nanomem.agent.traffic import Traffic
from nanomem.agent.turn import Runner
from nanomem.budget import Calibration
from nanomem.bus import Bus
from nanomem.cron import next_after
from nanomem.memory.asked import Parts
from nanomem.memory.calling import Caller, CallLimits
from nanomem.memory.clearing import Clearing
from nanomem.memory.commands import commands as memory_commands
from nanomem.memory.consolidate import Consolidator, When
from nanomem.memory.decisions import Decisions
from nanomem.memory.distill import Distiller
from nanomem.memory.dream import Dreamer
from nanomem.memory.dream_commands import DreamCommands
from nanomem.memory.dreams import Dreams
from nanomem.memory.learning import Learner
from nanomem.memory.recalling import Recalling
from nanomem.memory.reminding import IndexReminder
from nanomem.memory.rights import Rights
from nanomem.memory.unread import Unread
from nanomem.memory.why import Why
from nanomem.ports import (
    Channel,
    Diary,
    Files,
    History,
    Inbox,
    Memory,
    RecallIndex,
    SessionLog,
    Skills,
    Templates,
    Tool,
    Versions,
)
from nanomem.records import Record
from nanomem.secrecy import secrets_in
from nanomem.spaces import Space, Spaces
from nanomem.testing import (
    FakeChannel,
    FakeClock,
    FakeDiary,
    FakeFiles,
    FakeHistory,
    FakeInbox,
    FakeMemory,
    FakeMeter,
    FakeModel,
    FakeRecallIndex,
    FakeSessionLog,
    FakeSkills,
    FakeTemplates,
    FakeTokenizer,
    FakeVersions,
    inbound,
    updates,
)

LIMITS = PromptLimits(10_000, 1_000, 0.1, 0.5, 500, 300, "absolute", UTC)


@dataclass
class Sleep:
    """The settings of Dreams. Without a schedule none is due; `spaces` are those that are read as scheduled."""

    schedule: str = ""
    threshold: int = 0
    quiet_s: float = 3600
    tokens: int = 0
    spaces: Sequence[str] = ("fake:42",)
    zone: tzinfo = UTC


@dataclass
class World:
    """What outlives the process, and what stands in for the world outside."""

    model: FakeModel = field(default_factory=FakeModel)
    channel: FakeChannel = field(default_factory=FakeChannel)
    inbox: Inbox = field(default_factory=FakeInbox)
    log: SessionLog = field(default_factory=FakeSessionLog)
    meter: FakeMeter = field(default_factory=FakeMeter)
    memory: Memory = field(default_factory=FakeMemory)
    versions: Versions = field(default_factory=FakeVersions)
    history: History = field(default_factory=FakeHistory)
    skills: Skills = field(default_factory=FakeSkills)
    clock: FakeClock = field(default_factory=FakeClock)
    files: Files = field(default_factory=FakeFiles)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    channels: Sequence[Channel] = ()
    limits: PromptLimits = LIMITS
    daily: DailyLimits = field(default_factory=DailyLimits)
    rounds: int = 5
    when: When = field(default_factory=When)
    templates: Templates = field(default_factory=FakeTemplates)
    diary: Diary = field(default_factory=FakeDiary)
    dream: Sleep = field(default_factory=Sleep)
    home: Path = Path("/nowhere")
    index: RecallIndex = field(default_factory=FakeRecallIndex)
    unasked: bool = False
    recalling: Recalling = field(init=False)

    def __post_init__(self) -> None:
        self.recalling = Recalling(self.index, self._known, self.clock, UTC)

    async def _known(self, space: Space) -> Mapping[str, str | None]:
        """What the index knows of the memory."""
        return (await self.memory.read(space)).by_name

    def records(self, address: str = "fake:42") -> list[Record]:
        """What a log in memory holds."""
        assert isinstance(self.log, FakeSessionLog)
        return self.log.records[":".join(address.split(":")[:2]), address]

    @property
    def parts(self) -> Parts:
        """What commands ask of the memory."""
        log: Any = self.log
        why = Why(self.memory, self.versions, self.history, lambda *wanted: log.messages(*wanted))
        return Parts(self.memory, self.versions, self.history, why, self.recalling.answer, UTC)

    async def log_has(self, text: str) -> None:
        """Returns once that was said in the log."""
        async with asyncio.timeout(10):
            while not any(getattr(record, "content", "") == text for record in self.records()):
                await self.clock.sleep(0)


@dataclass
class Chat:
    """One address of a running agent, as its person sees it."""

    world: World
    bus: Bus
    loop: AgentLoop
    task: asyncio.Task[None]
    background: Background
    address: str = "fake:42"
    number: int = 0

    async def says(self, *texts: str, name: str = "Ann") -> None:
        """Sends messages, all at once."""
        first = self.number + 1
        self.number += len(texts)
        sent = [inbound(text, n, self.address, name) for n, text in enumerate(texts, first)]
        await self.bus.take("fake", updates(sent), offset=self.number + 1)

    async def asks(self, *texts: str, address: str = "fake:42", owner: bool = True) -> list[str]:
        """What is answered to these, one after the other."""
        channels = {channel.name: channel for channel in (self.world.channel, *self.world.channels)}
        channel = channels[address.partition(":")[0]]
        assert isinstance(channel, FakeChannel)
        wanted = len(channel.finished)
        for text in texts:
            self.number, wanted = self.number + 1, wanted + 1
            message = replace(inbound(text, self.number, address), from_owner=owner)
            await self.bus.take(channel.name, updates([message]))
            await channel.until(partial(lambda channel, count: len(channel.finished) >= count, channel, wanted))
        return channel.screen(address)[-len(texts) :]

    @property
    def hears(self) -> list[str]:
        """What stands on the person's screen."""
        return self.world.channel.screen(self.address)

    async def until_answered(self, count: int = 1) -> None:
        """Waits until so many answers and replies were delivered in all."""
        await self.world.channel.until(lambda: len(self.world.channel.finished) >= count)

    async def settled(self) -> None:
        """Waits until nothing goes on any more, in the lane or in the background."""
        while self.bus.lane(self.address).active:
            await self.loop.clock.sleep(0)
        await self.background.idle()

    async def until_dead(self) -> None:
        """Waits until the agent has ended by itself."""
        await asyncio.wait([self.task])

    async def until_asked(self) -> None:
        """Waits until the model is thinking."""
        await self.world.model.asked.wait()
        self.world.model.asked.clear()


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Chat]:
    """An agent that runs while the block does; leaving it is a kill: nothing is parked or drained."""
    spaces = Spaces(world.home)
    toolbox = Toolbox(world.tools)
    tokenizer = FakeTokenizer()
    reminder = IndexReminder(world.recalling.search, tokenizer, world.clock, UTC) if world.unasked else None
    known = Known(world.memory, world.history, world.skills, reminder)
    prompter = Prompter(world.limits, known, world.templates, tokenizer, world.clock, toolbox.schemas)
    asker = Asker(world.model, world.meter, world.clock, UTC, world.daily)
    conversations = Conversations(spaces.of, world.log, tokenizer, world.clock)
    background = Background()
    traffic = Traffic(world.clock)
    dreams = make_dreams(world, spaces, conversations, background, traffic)
    dreaming = DreamCommands(dreams, world.parts, Rights(spaces.of))
    consolidator = make_consolidator(world, prompter, asker, background, dreams)
    more = (
        *Clearing(conversations, consolidator).commands,
        *memory_commands(world.parts, spaces.of),
        *dreaming.commands,
        *skill_commands(world.skills, spaces.of),
    )
    commands = Commands(conversations, prompter, asker, world.memory, more, dreaming.status)
    bus = Bus(world.inbox, commands.kind)
    deliveries = Deliveries([world.channel, *world.channels], world.inbox, world.clock)
    runner = Runner(asker, prompter, toolbox, world.clock, world.rounds, consolidator.relieve)
    answering = Answering(
        world.inbox, conversations, runner, deliveries, world.files, world.clock, consolidator.after_turn
    )
    loop = AgentLoop(bus, commands, answering, deliveries, world.clock, world.limits.budget // 2, traffic)
    await bus.restore(["fake"])
    leave = asyncio.Event()
    task = asyncio.create_task(beside(loop.run(), until(leave)))
    behind = asyncio.create_task(background.run())
    asleep = asyncio.create_task(dreams.run()) if world.dream.schedule or world.dream.threshold else None
    await asyncio.sleep(0)
    background.start("catching up", catch_up(world, conversations, consolidator))
    try:
        yield Chat(world, bus, loop, task, background)
    finally:
        leave.set()
        behind.cancel()
        if asleep:
            asleep.cancel()
        await task
        await asyncio.wait([behind, *filter(None, [asleep])])


async def catch_up(world: World, conversations: Conversations, consolidator: Consolidator) -> None:
    """As the daemon does at its start."""
    for _, key in list(getattr(world.log, "records", ())):
        await consolidator.finish(await conversations.open(key))


def make_dreams(
    world: World, spaces: Spaces, conversations: Conversations, background: Background, traffic: Traffic
) -> Dreams:
    """As the daemon makes them."""
    given, tokenizer, clock = world.dream, FakeTokenizer(), world.clock
    limits = CallLimits(world.limits.budget, world.limits.max_tokens, 0.1, UTC)
    asker = Asker(world.model, world.meter, clock, UTC, DailyLimits(purpose="dream"), advice="")
    learner = Learner(
        Caller(limits, asker, Calibration(), tokenizer), world.templates, tokenizer, clock, given.tokens, traffic.calm
    )
    quiet = timedelta(seconds=given.quiet_s)
    unread = Unread(world.history, world.log, conversations, tokenizer, clock, quiet, UTC)
    dreamer = Dreamer(world.memory, world.versions, unread, learner, world.diary, world.skills, secrets_in)
    due = partial(next_after, given.schedule, given.zone) if given.schedule else lambda moment: None
    known = [spaces.named(name) for name in given.spaces]
    return Dreams(dreamer, world.diary, clock, background, lambda: known, due, given.threshold)


def make_consolidator(
    world: World, prompter: Prompter, asker: Asker, background: Background, dreams: Dreams | None = None
) -> Consolidator:
    """As the daemon makes it."""
    limits = CallLimits(world.limits.budget, world.limits.max_tokens, 0.1, UTC)
    caller = Caller(limits, asker, prompter.calibration, FakeTokenizer())
    distiller = Distiller(caller, world.templates, FakeTokenizer(), world.clock)
    raw, written = world.limits.budget // 2, dreams.written if dreams else lambda space: None
    decisions = Decisions(distiller, world.memory, world.versions, world.history, world.clock, raw, secrets_in)
    return Consolidator(world.when, world.model.name, prompter, decisions, background, written)


async def until(event: asyncio.Event) -> None:
    await event.wait()
