"""Putting the parts together, and running them: the only place that knows concrete classes.

Imported by nobody but the command line.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from nanomem import __version__
from nanomem import chat as client
from nanomem import status as reports
from nanomem.access import TelegramDoor
from nanomem.agent.answering import Answering
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
from nanomem.errors import Refused, Stop
from nanomem.home import Home, Lock, holder
from nanomem.models.offline import OfflineModel
from nanomem.models.tokens import O200kTokenizer
from nanomem.ports import Channel, Clock, Model, SessionLog, Tokenizer
from nanomem.records import Alias, Metadata
from nanomem.settings import Settings, zone
from nanomem.stores import counters, inbox, pairing
from nanomem.stores.database import Database
from nanomem.stores.memory_files import PlainMemory
from nanomem.stores.received import ReceivedFiles
from nanomem.stores.session_log import JsonlSessionLog, read_all
from nanomem.stores.templates import JinjaTemplates
from nanomem.tools.workbench import Workbench, load_tools

if TYPE_CHECKING:
    from nanomem.channels.telegram import TelegramChannel

log = structlog.get_logger()

T = TypeVar("T")

STOP_WITHIN_S = 30.0
LISTENS_WITHIN_S = 10.0
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
        """Loads in the background what the first message would wait for."""
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
        is_new = not (home.state / "bus.db").exists()
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
            lambda code: codes.redeem(code, clock.now()),
        )
        if is_new:
            await _restore_aliases(home, box)
        core = _core(home, settings, environ, clock, database, logs, door)
        outside: list[Channel] = []

        async def control(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            match name:
                case "pair":
                    return {"code": await codes.new_code(clock.now())}
                case "menu":
                    return {"commands": core.commands.menu}
                case "status":
                    states = {"telegram": reports.channel_state(telegram.enabled, outside[0] if outside else None)}
                    today = await core.asker.spent_today()
                    name = core.asker.model.name
                    counts = await box.counts()
                    return await asyncio.to_thread(reports.compose, home.path, name, os.getpid(), states, counts, today)
            raise Refused(f"This daemon knows no {name[:50]!r}; is it of another version?")

        async def moved(old: str, new: str) -> None:
            """A chat has a new id: first its session says so, then the bus."""
            await logs.append(door.space(old), old, [Alias(key=new, timestamp=clock.now())])
            await box.alias(old, new)

        if networks and telegram.enabled:
            channel = _telegram(settings, environ, door, clock, await box.aliases(), moved, core.commands.menu)
            stack.push_async_callback(channel.close)
            outside.append(channel)
        terminal = TerminalChannel(home.socket, clock, control)
        bus = Bus(box, core.commands.kind)
        deliveries = Deliveries([terminal, *outside], box, clock)
        answering = Answering(box, core.conversations, core.runner, deliveries, ReceivedFiles(), clock)
        loop = AgentLoop(bus, core.commands, answering, deliveries, clock, settings.agents.defaults.budget // 2)
        yield Daemon(bus, loop, terminal, tuple(outside), core.asker.model, core.tokenizer)


async def _restore_aliases(home: Home, box: inbox.SqliteInbox) -> None:
    """What the bus knew of chats that changed their id, read from the logs again."""
    roots = [home.workspace, *home.spaces.glob("*")]
    for path in (path for root in roots for path in (root / "sessions").glob("telegram*.jsonl")):
        records = await asyncio.to_thread(lambda log: list(read_all(log)), path)
        old = next((record.key for record in records if isinstance(record, Metadata)), "")
        for record in records:
            if old and isinstance(record, Alias):
                await box.alias(old, record.key)


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
    runner = Runner(asker, prompter, toolbox, rounds, templates.render("limit", rounds=rounds))
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


# --- what the commands do


def run(home: Home, settings: Settings, environ: Mapping[str, str], interactive: bool) -> int:
    """The daemon, until SIGTERM or SIGINT, or with `interactive` until the person at the terminal leaves."""
    if interactive and settings.channels.telegram.enabled:
        interactive = False
    with Lock(home):
        return asyncio.run(_run(home, settings, environ, interactive))


async def _run(home: Home, settings: Settings, environ: Mapping[str, str], interactive: bool) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with assembled(home, settings, environ, networks=True) as daemon:
        if interactive:
            menu = daemon.loop.commands.menu
            await daemon.serve(
                _first(_converse(home, menu, "terminal:local", settings.agents.defaults.model), stopping.wait())
            )
        else:
            await daemon.serve(stopping.wait())
    return 0


def chat(home: Home, settings: Settings, environ: Mapping[str, str], message: str | None, session: str) -> int:
    """Talks through the daemon of this home, or runs the loop itself for as long as that takes.

    With a message: prints the answer alone and returns 1 if the turn failed.
    """
    return asyncio.run(_chat(home, settings, environ, message, session))


async def _chat(home: Home, settings: Settings, environ: Mapping[str, str], message: str | None, session: str) -> int:
    failed: list[bool] = []

    async def talk() -> None:
        if message is None:
            menu = (await _control(home, "menu"))["commands"]
            return await _converse(home, menu, session, settings.agents.defaults.model)
        text, end = await _patiently(lambda: client.ask(home.socket, session, message))
        failed.append(end == "failed")
        print(text, file=sys.stderr if end == "failed" else sys.stdout)

    if holder(home) is not None:
        await talk()
    else:
        with Lock(home):
            async with assembled(home, settings, environ, networks=False) as daemon:
                await daemon.serve(talk())
    return int(any(failed))


def pair(home: Home, settings: Settings, environ: Mapping[str, str]) -> str:
    """A one-time code; see `stores/pairing.py`."""

    async def alone() -> str:
        with Lock(home):
            database = await Database.open(home.state / "bus.db", TABLES)
            try:
                return await pairing.Pairings(database).new_code(SystemClock().now())
            finally:
                await database.close()

    async def code() -> str:
        return str((await _control(home, "pair"))["code"]) if holder(home) is not None else await alone()

    return asyncio.run(code())


def status(home: Home, settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    """What the daemon says of itself, or what the files of a home without one tell."""
    return asyncio.run(_status(home, settings, environ))


async def _status(home: Home, settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    if holder(home) is not None:
        return await _control(home, "status")
    defaults = settings.agents.defaults
    states = {"telegram": reports.channel_state(settings.channels.telegram.enabled, None)}
    counts, spent = None, None
    if (home.state / "bus.db").exists():
        with Lock(home):
            database = await Database.open(home.state / "bus.db", TABLES)
            day = SystemClock().now().astimezone(zone(defaults.timezone, environ)).date().isoformat()
            try:
                counts = await inbox.SqliteInbox(database).counts()
                spent = await counters.SqliteMeter(database).spent(day)
            finally:
                await database.close()
    return reports.compose(home.path, defaults.model, None, states, counts, spent)


async def _converse(home: Home, menu: Sequence[tuple[str, str]], session: str, model: str) -> None:
    if sys.stdin.isatty():
        print(f"nanomem {__version__}, model {model}. /help lists all commands, Ctrl-D leaves.")
    await _patiently(lambda: client.converse(home.socket, session, menu, home.state / "terminal_history"))


async def _control(home: Home, name: str) -> dict[str, Any]:
    return await _patiently(lambda: client.control(home.socket, name, {}))


async def _patiently(connected: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Does it once the daemon listens, which it may only be about to do. Raises Stop."""
    for _ in range(int(LISTENS_WITHIN_S / 0.01)):
        try:
            return await connected()
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.sleep(0.01)
    raise Stop("The daemon of this home does not listen. Look into its log, or stop it and start it again.")


async def _first(*works: Coroutine[Any, Any, Any]) -> None:
    """Runs all until the first has ended."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
