"""Putting the parts together, and serving until told to stop: the only place that knows concrete classes."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from nanomem import status as reports
from nanomem.access import TelegramDoor
from nanomem.agent.answering import Answering, close_orphan
from nanomem.agent.asking import Asker, DailyLimits
from nanomem.agent.commands import Commands
from nanomem.agent.conversation import Conversations
from nanomem.agent.delivery import Deliveries
from nanomem.agent.loop import AgentLoop
from nanomem.agent.prompting import Prompter, PromptLimits
from nanomem.agent.together import unwrapped
from nanomem.agent.toolbox import Toolbox
from nanomem.agent.turn import Runner
from nanomem.bus import Bus
from nanomem.channels.terminal import TerminalChannel
from nanomem.errors import Refused
from nanomem.home import Home
from nanomem.models.offline import OfflineModel
from nanomem.models.tokens import O200kTokenizer
from nanomem.ports import Channel, Clock, Model, SessionLog, Tokenizer
from nanomem.records import Alias, Metadata
from nanomem.settings import Settings, zone
from nanomem.stores import counters, inbox, pairing
from nanomem.stores.database import Database
from nanomem.stores.memory_files import PlainMemory
from nanomem.stores.received import ReceivedFiles
from nanomem.stores.session_log import JsonlSessionLog, path_of, read_all
from nanomem.stores.templates import JinjaTemplates
from nanomem.tools.workbench import Workbench, load_tools

if TYPE_CHECKING:
    from nanomem.channels.telegram import TelegramChannel

log = structlog.get_logger()

STOP_WITHIN_S = 30.0
WARM_UP_AFTER_S = 0.3
TABLES = (inbox.TABLES, counters.TABLES, pairing.TABLES)


class SystemClock:
    """`ports.Clock` on the machine's clocks."""

    def now(self) -> datetime:
        """See the port."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See the port."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See the port."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Daemon:
    """The parts that run: channels bring in, the loop answers."""

    bus: Bus
    loop: AgentLoop
    terminal: Channel
    networks: tuple[Channel, ...]
    model: Model
    tokenizer: Tokenizer

    async def serve(self, until: Awaitable[Any]) -> None:
        """Runs until `until` ends, then takes no more, and finishes or parks what runs. Raises Stop."""
        channels = [self.terminal, *self.networks]
        await self.bus.restore([channel.name for channel in channels])
        with unwrapped():
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self.terminal.run(self.bus))
                taking = [group.create_task(channel.run(self.bus)) for channel in self.networks]
                answering = group.create_task(self.loop.run())
                warming = group.create_task(self._warm_up())
                log.info("daemon.ready", pid=os.getpid(), channels=[channel.name for channel in channels])
                await until
                log.info("daemon.stopping")
                for task in (*taking, warming):
                    task.cancel()
                self.bus.close()
                await asyncio.wait([answering], timeout=STOP_WITHIN_S)
                answering.cancel()
                serving.cancel()

    async def _warm_up(self) -> None:
        """Loads in the background what the first message would wait for, once the start itself is over."""
        await self.loop.clock.sleep(WARM_UP_AFTER_S)
        await self.model.warm_up()
        await self.tokenizer.count("")


@asynccontextmanager
async def assembled(
    home: Home, settings: Settings, environ: Mapping[str, str], networks: bool
) -> AsyncIterator[Daemon]:
    """A daemon on a home whose lock is held. Without `networks`, only the terminal is served."""
    clock = SystemClock()
    telegram = settings.channels.telegram
    async with AsyncExitStack() as stack:
        database = await Database.open(home.state / "bus.db", TABLES)
        stack.push_async_callback(database.close)
        box = inbox.SqliteInbox(database)
        codes = pairing.Pairings(database)
        logs = JsonlSessionLog()
        door = TelegramDoor(
            home.path,
            telegram.allow_from,
            telegram.owners,
            settings.memory.spaces,
            lambda code: codes.is_valid(code, clock.now()),
            codes.spend,
        )
        core = _core(home, settings, environ, clock, database, logs, door)
        outside: list[Channel] = []

        async def moved(old: str, new: str) -> None:
            """A chat has a new id: first its session says so, then the bus. Raises Refused: it has no session."""
            if not await asyncio.to_thread(path_of(door.space(old), old).exists):
                raise Refused(f"There is no session {old}.")
            await logs.append(door.space(old), old, [Alias(key=new, timestamp=clock.now())])
            await box.alias(old, new)

        if await database.is_new():
            await _recover(home, door, box, core.conversations)
            await database.is_complete()
        if networks and telegram.enabled:
            channel = _telegram(settings, environ, door, clock, await box.aliases(), moved, core.commands.menu)
            stack.push_async_callback(channel.close)
            outside.append(channel)
        control = _Control(home, core, box, codes, clock, telegram.enabled, outside)
        terminal = TerminalChannel(home.socket, clock, control.ask)
        bus = Bus(box, core.commands.kind)
        deliveries = Deliveries([terminal, *outside], box, clock)
        files = ReceivedFiles(home.state / "incoming")
        answering = Answering(box, core.conversations, core.runner, deliveries, files, clock)
        loop = AgentLoop(bus, core.commands, answering, deliveries, clock, settings.agents.defaults.budget // 2)
        yield Daemon(bus, loop, terminal, tuple(outside), core.asker.model, core.tokenizer)


@dataclass(frozen=True, slots=True)
class _Control:
    """What clients may ask of the daemon itself."""

    home: Home
    core: "_Core"
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
            case "status":
                telegram = next(iter(self.outside), None)
                states = {"telegram": reports.channel_state(self.telegram_enabled, telegram)}
                model, today = self.core.asker.model.name, await self.core.asker.spent_today()
                counts = await self.box.counts()
                return await asyncio.to_thread(
                    reports.compose, self.home.path, model, os.getpid(), states, counts, today
                )
        raise Refused(f"This daemon knows no {name[:50]!r}; is it of another version?")


async def _recover(home: Home, door: TelegramDoor, box: inbox.SqliteInbox, conversations: Conversations) -> None:
    """What a bus that was lost knew and the logs still tell: chats that changed their id, turns cut short."""
    for path in list(home.logs()):
        records = await asyncio.to_thread(lambda log: list(read_all(log)), path)
        key = next((record.key for record in records if isinstance(record, Metadata)), "")
        if path != path_of(door.space(key), key):
            continue
        for record in records:
            if isinstance(record, Alias):
                await box.alias(key, record.key)
        conversation = await conversations.open(key)
        await conversation.refresh()
        await close_orphan(conversation)


@dataclass(frozen=True, slots=True)
class _Core:
    """What answers, whoever asks."""

    asker: Asker
    conversations: Conversations
    commands: Commands
    runner: Runner
    tokenizer: O200kTokenizer


def _core(
    home: Home,
    settings: Settings,
    environ: Mapping[str, str],
    clock: Clock,
    database: Database,
    logs: SessionLog,
    door: TelegramDoor,
) -> _Core:
    defaults = settings.agents.defaults
    timezone = zone(defaults.timezone, environ)
    tokenizer = O200kTokenizer()
    memory = PlainMemory()
    templates = JinjaTemplates(home.workspace / "prompts")
    tools = settings.tools
    toolbox = Toolbox(
        load_tools(Workbench(timezone, tools.web_fetch, tools.exec.enabled, tools.exec.sandbox, tools.exec.timeout_s))
    )
    limits = PromptLimits(
        budget=defaults.budget,
        max_tokens=defaults.max_completion_tokens,
        temperature=defaults.temperature,
        target_ratio=settings.agents.consolidation.target_ratio,
        max_messages=defaults.max_messages,
        cache_ttl_s=defaults.cache_ttl_s,
        timestamps=defaults.timestamps,
        zone=timezone,
    )
    prompter = Prompter(limits, memory, templates, tokenizer, clock, toolbox.schemas)
    daily = DailyLimits(defaults.daily_token_limit, defaults.daily_cost_limit_usd)
    asker = Asker(_model(settings, environ), counters.SqliteMeter(database), clock, timezone, daily)
    conversations = Conversations(door.space, logs, tokenizer, clock)
    rounds = defaults.max_tool_iterations
    runner = Runner(asker, prompter, toolbox, clock, rounds, templates.render("limit", rounds=rounds))
    return _Core(asker, conversations, Commands(conversations, prompter, asker, memory), runner, tokenizer)


def _model(settings: Settings, environ: Mapping[str, str]) -> Model:
    name = settings.agents.defaults.model
    if name == "offline":
        return OfflineModel()
    from nanomem.models.litellm import LitellmModel, Provider

    providers = {
        known: Provider(partial(given.api_key.reveal, environ), given.api_base, given.extra(environ))
        for known, given in settings.providers.items()
    }
    return LitellmModel(name, providers, timeout_s=settings.agents.defaults.request_timeout_s)


def _telegram(
    settings: Settings,
    environ: Mapping[str, str],
    door: TelegramDoor,
    clock: Clock,
    aliases: Mapping[str, str],
    moved: Callable[[str, str], Awaitable[None]],
    menu: Sequence[tuple[str, str]],
) -> "TelegramChannel":
    from nanomem.channels.telegram import TelegramChannel

    given = settings.channels.telegram
    return TelegramChannel(
        given.token.reveal(environ),
        door,
        clock,
        base_url=given.base_url,
        base_file_url=given.base_file_url,
        proxy=given.proxy,
        group_policy=given.group_policy,
        commands=menu,
        aliases=aliases,
        on_migration=moved,
    )
