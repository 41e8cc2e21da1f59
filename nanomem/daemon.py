"""The daemon: its parts put together, and serving until it is told to stop."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import structlog

from nanomem import status as reports
from nanomem.access import TelegramDoor
from nanomem.agent.answering import Answering, close_orphan
from nanomem.agent.conversation import Conversations
from nanomem.agent.delivery import Deliveries
from nanomem.agent.loop import AgentLoop
from nanomem.agent.together import unwrapped
from nanomem.bus import Bus
from nanomem.channels.terminal import TerminalChannel
from nanomem.errors import CannotStore, Refused
from nanomem.home import Home
from nanomem.memory import asked
from nanomem.memory.pushing import Pusher
from nanomem.ports import Channel, Clock, Model
from nanomem.records import Alias
from nanomem.settings import Settings
from nanomem.spaces import Spaces
from nanomem.stores import counters, diary, inbox, pairing
from nanomem.stores.database import Database
from nanomem.stores.received import ReceivedFiles
from nanomem.stores.session_log import key_of, path_of, read_all
from nanomem.wiring import Core, Ground, core, ground, telegram

log = structlog.get_logger()

STOP_WITHIN_S = 27.0
"""Seconds that what runs has to end; with all else that is to be closed it stays below the 30 that are promised."""
WARM_UP_AFTER_S = 0.3
STAY_WARM_EVERY_S = 60.0
TABLES = (inbox.TABLES, counters.TABLES, pairing.TABLES, diary.TABLES)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The parts that run: channels bring in, the loop answers, the background sees to what was left undone."""

    bus: Bus
    loop: AgentLoop
    terminal: Channel
    networks: tuple[Channel, ...]
    core: Core
    pusher: Pusher
    recalling: Callable[[], Coroutine[Any, Any, None]]
    catch_up: Callable[[], Coroutine[Any, Any, None]]

    async def serve(self, until: Awaitable[Any]) -> None:
        """Runs until `until` ends, then takes no more, and finishes or parks what runs. Raises Stop."""
        channels = [self.terminal, *self.networks]
        await self.bus.restore([channel.name for channel in channels])
        with unwrapped():
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self.terminal.run(self.bus))
                taking = [group.create_task(channel.run(self.bus)) for channel in self.networks]
                behind = group.create_task(self.core.background.run())
                answering = group.create_task(self.loop.run())
                warming = group.create_task(self._warm_up())
                staying = group.create_task(stay_warm(self.networks, self.core.asker.model, self.loop.clock))
                pushing = group.create_task(self.pusher.run())
                dreaming = group.create_task(self.core.dreams.run())
                recalling = group.create_task(self.recalling())
                log.info("daemon.ready", pid=os.getpid(), channels=[channel.name for channel in channels])
                await until
                log.info("daemon.stopping")
                for task in (*taking, warming, staying, pushing, dreaming, recalling):
                    task.cancel()
                self.bus.close()
                self.core.background.close()
                self.core.dreams.stop()
                await asyncio.wait([answering, behind], timeout=STOP_WITHIN_S)
                for task in (answering, behind, serving):
                    task.cancel()

    async def _warm_up(self) -> None:
        """Loads in the background what the first message would wait for, once the start itself is over."""
        await self.core.asker.model.warm_up()
        await self.loop.clock.sleep(WARM_UP_AFTER_S)
        with _whatever_is_wrong("warming up"):
            await self.core.runner.prompter.warm_up()
        self.core.background.start("catching up", self.catch_up())


async def stay_warm(networks: Sequence[Channel], model: Model, clock: Clock) -> NoReturn:
    """While a network is away, what people write waits out there and comes all at once: the model is kept ready."""
    while True:
        await clock.sleep(STAY_WARM_EVERY_S)
        if any(channel.error for channel in networks):
            await model.warm_up()


@asynccontextmanager
async def assembled(
    home: Home, settings: Settings, environ: Mapping[str, str], networks: bool
) -> AsyncIterator[Daemon]:
    """A daemon on a home whose lock is held. Without `networks`, only the terminal is served."""
    given = settings.channels.telegram
    async with AsyncExitStack() as stack:
        database = await Database.open(home.state / "bus.db", TABLES)
        stack.push_async_callback(database.close)
        meter = counters.SqliteMeter(database)
        base = ground(home, settings, environ, meter)
        clock = base.clock
        stack.push_async_callback(base.close)
        box = inbox.SqliteInbox(database)
        codes = pairing.Pairings(database)
        door = TelegramDoor(
            home.path,
            given.allow_from,
            given.owners,
            settings.memory.spaces,
            lambda code: codes.is_valid(code, clock.now()),
            codes.spend,
        )
        parts = core(base, door.space, meter, diary.SqliteDiary(database))
        outside: list[Channel] = []
        if await database.is_new():
            await _recover(home, door, box, parts.conversations)
            await database.is_complete()
        if networks and given.enabled:
            channel = telegram(base, door, await box.aliases(), partial(_moved, base, door, box), parts.commands.menu)
            stack.push_async_callback(channel.close)
            outside.append(channel)
        control = _Control(home, parts, box, codes, clock, given.enabled, outside)
        terminal = TerminalChannel(home.socket, clock, control.ask)
        bus = Bus(box, parts.commands.kind)
        deliveries = Deliveries([terminal, *outside], box, clock)
        files = ReceivedFiles(home.state / "incoming")
        after_turn = parts.consolidator.after_turn
        answering = Answering(box, parts.conversations, parts.runner, deliveries, files, clock, after_turn)
        room = settings.agents.defaults.budget // 2
        loop = AgentLoop(bus, parts.commands, answering, deliveries, clock, room, parts.traffic)
        recalling = partial(_recalling, base)
        yield Daemon(
            bus, loop, terminal, tuple(outside), parts, base.pusher, recalling, partial(_catch_up, base, door, parts)
        )


@dataclass(frozen=True, slots=True)
class _Control:
    """What clients may ask of the daemon itself."""

    home: Home
    core: Core
    box: inbox.SqliteInbox
    codes: pairing.Pairings
    clock: Clock
    telegram_enabled: bool
    outside: Sequence[Channel]

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question by its name. Raises Refused."""
        match name:
            case "pair":
                return {"code": await self.codes.new_code(self.clock.now())}
            case "menu":
                return {"commands": self.core.commands.menu}
            case "tasks":
                return {"tasks": len(asyncio.all_tasks())}
            case "memory":
                return await asked.answer_client(self.core.memory, Spaces(self.home.path).named, arguments)
            case "status":
                telegram = next(iter(self.outside), None)
                states = {"telegram": reports.channel_state(self.telegram_enabled, telegram)}
                model, today = self.core.asker.model.name, await self.core.asker.spent_today()
                counts, dreams = await self.box.counts(), reports.dreaming(*await self.core.dreams.report())
                return await asyncio.to_thread(
                    reports.compose, self.home.path, model, os.getpid(), states, counts, today, dreams
                )
        raise Refused(f"This daemon knows no {name[:50]!r}; is it of another version?")


async def _recalling(base: Ground) -> None:
    """Takes in what was said, once the start itself is over."""
    await base.clock.sleep(WARM_UP_AFTER_S)
    await base.recalling.run(base.home.known_spaces())


async def _moved(base: Ground, door: TelegramDoor, box: inbox.SqliteInbox, old: str, new: str) -> None:
    """A chat has a new id: first its session says so, then the bus. Raises Refused: it has no session."""
    if not await asyncio.to_thread(path_of(door.space(old), old).exists):
        raise Refused(f"There is no session {old}.")
    await base.logs.append(door.space(old), old, [Alias(key=new, timestamp=base.clock.now())])
    await box.alias(old, new)


async def _recover(home: Home, door: TelegramDoor, box: inbox.SqliteInbox, conversations: Conversations) -> None:
    """What a bus that was lost knew and the logs still tell: chats that changed their id, turns cut short."""
    for path in list(home.logs()):
        if (key := await asyncio.to_thread(_key, path, door)) is None:
            continue
        for record in await asyncio.to_thread(lambda log: list(read_all(log)), path):
            if isinstance(record, Alias):
                await box.alias(key, record.key)
        conversation = await conversations.open(key)
        await conversation.refresh()
        await close_orphan(conversation)


async def _catch_up(base: Ground, door: TelegramDoor, parts: Core) -> None:
    """What was left undone: edits not taken in, versions not pushed, views out of date, marks of a Dream not made,
    decisions not carried out."""
    for space in base.home.known_spaces():
        base.pusher.changed(space)
        await base.memory.memory.read(space)
        with _whatever_is_wrong(space.name):
            await base.memory.history.repair(space)
            await parts.dreams.catch_up(space)
    for path in list(base.home.logs()):
        with _whatever_is_wrong(path.name):
            key = await asyncio.to_thread(_key, path, door)
            if key is not None and (await base.logs.load(door.space(key), key)).pending:
                await parts.consolidator.finish(await parts.conversations.open(key))


def _key(path: Path, door: TelegramDoor) -> str | None:
    """The session of a log; None where the file is not in its place."""
    key = key_of(path)
    return key if path == path_of(door.space(key), key) else None


@contextmanager
def _whatever_is_wrong(where: str) -> Iterator[None]:
    """What cannot be used there keeps nothing else from being caught up with."""
    try:
        yield
    except (CannotStore, Refused, OSError) as error:
        log.warning("daemon.not_caught_up", where=where, reason=str(error))
