"""A whole agent over fakes, and a chat to drive it with."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from nanomem.agent.answering import Answering
from nanomem.agent.asking import Asker, DailyLimits
from nanomem.agent.commands import Commands
from nanomem.agent.conversation import Conversations
from nanomem.agent.delivery import Deliveries
from nanomem.agent.loop import AgentLoop
from nanomem.agent.prompting import Prompter, PromptLimits
from nanomem.agent.together import beside
from nanomem.agent.toolbox import Toolbox
from nanomem.agent.turn import Runner
from nanomem.bus import Bus
from nanomem.ports import Channel, Files, Inbox, SessionLog, Tool
from nanomem.records import Record
from nanomem.spaces import Spaces
from nanomem.testing import (
    FakeChannel,
    FakeClock,
    FakeFiles,
    FakeInbox,
    FakeMemory,
    FakeMeter,
    FakeModel,
    FakeSessionLog,
    FakeTemplates,
    FakeTokenizer,
    inbound,
    updates,
)

LIMITS = PromptLimits(10_000, 1_000, 0.1, 0.5, 500, 300, "absolute", UTC)


@dataclass
class World:
    """What outlives the process, and what stands in for the world outside."""

    model: FakeModel = field(default_factory=FakeModel)
    channel: FakeChannel = field(default_factory=FakeChannel)
    inbox: Inbox = field(default_factory=FakeInbox)
    log: SessionLog = field(default_factory=FakeSessionLog)
    meter: FakeMeter = field(default_factory=FakeMeter)
    memory: FakeMemory = field(default_factory=FakeMemory)
    clock: FakeClock = field(default_factory=FakeClock)
    files: Files = field(default_factory=FakeFiles)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    channels: Sequence[Channel] = ()
    limits: PromptLimits = LIMITS
    daily: DailyLimits = field(default_factory=DailyLimits)
    rounds: int = 5

    def records(self, address: str = "fake:42") -> list[Record]:
        """What a log in memory holds."""
        assert isinstance(self.log, FakeSessionLog)
        return self.log.records["fake:42" if address == "fake:42" else address, address]

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
    address: str = "fake:42"
    number: int = 0

    async def says(self, *texts: str, name: str = "Ann") -> None:
        """Sends messages, all at once."""
        first = self.number + 1
        self.number += len(texts)
        sent = [inbound(text, n, self.address, name) for n, text in enumerate(texts, first)]
        await self.bus.take("fake", updates(sent), offset=self.number + 1)

    @property
    def hears(self) -> list[str]:
        """What stands on the person's screen."""
        return self.world.channel.screen(self.address)

    async def until_answered(self, count: int = 1) -> None:
        """Waits until so many answers and replies were delivered in all."""
        await self.world.channel.until(lambda: len(self.world.channel.finished) >= count)

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
    spaces = Spaces(Path("/nowhere"))
    toolbox = Toolbox(world.tools)
    tokenizer = FakeTokenizer()
    prompter = Prompter(world.limits, world.memory, FakeTemplates(), tokenizer, world.clock, toolbox.schemas)
    asker = Asker(world.model, world.meter, world.clock, UTC, world.daily)
    conversations = Conversations(spaces.of, world.log, tokenizer, world.clock)
    commands = Commands(conversations, prompter, asker, world.memory)
    bus = Bus(world.inbox, commands.kind)
    deliveries = Deliveries([world.channel, *world.channels], world.inbox, world.clock)
    runner = Runner(asker, prompter, toolbox, world.clock, world.rounds, "no more tools")
    answering = Answering(world.inbox, conversations, runner, deliveries, world.files, world.clock)
    loop = AgentLoop(bus, commands, answering, deliveries, world.clock, world.limits.budget // 2)
    await bus.restore(["fake"])
    leave = asyncio.Event()
    task = asyncio.create_task(beside(loop.run(), until(leave)))
    try:
        yield Chat(world, bus, loop, task)
    finally:
        leave.set()
        await task


async def until(event: asyncio.Event) -> None:
    await event.wait()
