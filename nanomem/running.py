"""The commands that need a daemon, or stand in for one: run, chat, pair, status, memory.

Where a daemon runs on the home they go through its socket; where none does they take the home's lock.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import unquote

from nanomem import __version__
from nanomem import chat as client
from nanomem import status as reports
from nanomem.daemon import TABLES, assembled
from nanomem.errors import Misuse, Stop
from nanomem.home import Home, Lock, holder
from nanomem.memory import asked
from nanomem.memory.dreams import SHOWN
from nanomem.settings import Settings, zone
from nanomem.spaces import Space
from nanomem.stores import counters, diary, inbox, pairing
from nanomem.stores.database import Database
from nanomem.wiring import SystemClock, ground, next_due

T = TypeVar("T")

LISTENS_WITHIN_S = 10.0
_M_ARENA_MAX = -8  # see mallopt(3)


def run(home: Home, settings: Settings, environ: Mapping[str, str], interactive: bool) -> int:
    """The daemon, until SIGTERM or SIGINT, or with `interactive` until the person at the terminal leaves."""
    if interactive and settings.channels.telegram.enabled:
        interactive = False
    with Lock(home):
        _share_one_arena()
        return asyncio.run(_run(home, settings, environ, interactive))


def _share_one_arena() -> None:
    """glibc keeps memory for each thread, 8 MB in all, for allocating at the same time, which Python never does."""
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def _run(home: Home, settings: Settings, environ: Mapping[str, str], interactive: bool) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with assembled(home, settings, environ, networks=True) as daemon:
        gc.freeze()
        gc.enable()
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
    counts, spent, dreams = None, None, None
    if (home.state / "bus.db").exists():
        now, here = SystemClock().now(), zone(defaults.timezone, environ)
        with Lock(home):
            database = await Database.open(home.state / "bus.db", TABLES)
            try:
                counts = await inbox.SqliteInbox(database).counts()
                spent = await counters.SqliteMeter(database).spent(now.astimezone(here).date().isoformat())
                kept = diary.SqliteDiary(database)
                due = next_due(settings, here)(now)
                dreams = reports.dreaming(await kept.runs(None, SHOWN), await kept.passed_over(), due)
            finally:
                await database.close()
    return reports.compose(home.path, defaults.model, None, states, counts, spent, dreams)


def memory(
    home: Home, settings: Settings, environ: Mapping[str, str], space: str, what: str, argument: str = ""
) -> str:
    """What `memory/asked.py` answers. Raises Misuse: there is no such space."""
    spaces = {found.name: found for found in home.known_spaces()}
    if space not in spaces:
        space = unquote(space)  # as the folder is called
    if space not in spaces:
        raise Misuse(f"There is no space {space!r}. There are: {', '.join(spaces)}.")
    return asyncio.run(_memory(home, settings, environ, spaces[space], what, argument))


async def _memory(
    home: Home, settings: Settings, environ: Mapping[str, str], space: Space, what: str, argument: str
) -> str:
    if holder(home) is not None:
        arguments = {"space": space.name, "what": what, "argument": argument}
        return str((await _control(home, "memory", arguments))["text"])
    with Lock(home):
        base = ground(home, settings, environ)
        try:
            if what == "search":
                await base.recalling.catch_up(space)  # nobody else waits for it
            return await asked.answer(base.memory, what, space, argument)
        finally:
            await base.close()


async def _converse(home: Home, menu: Sequence[tuple[str, str]], session: str, model: str) -> None:
    if sys.stdin.isatty():
        print(f"nanomem {__version__}, model {model}. /help lists all commands, Ctrl-D leaves.")
    await _patiently(lambda: client.converse(home.socket, session, menu, home.state / "terminal_history"))


async def _control(home: Home, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return await _patiently(lambda: client.control(home.socket, name, arguments or {}))


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
