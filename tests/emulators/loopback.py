"""An HTTP server on 127.0.0.1 that a test can switch off, and wait on without sleeping.

Knows nothing of Telegram or models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from aiohttp import web

T = TypeVar("T")


class LoopbackServer:
    """An async context manager around one listening socket on a free port.

    A handler ends when its client goes away. An exception in a handler is a bug of the
    emulator: it is kept and raised when the block ends, so that it cannot pass for a fault
    that the test asked for.
    """

    _of_connections: ClassVar[frozenset[str]] = frozenset({"_port", "_changed", "_listener", "_web", "_bugs"})
    """Attributes that are no memory of what happened."""

    def __init__(self) -> None:
        self._port = 0
        self._changed = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._web: web.Server | None = None
        self._bugs: list[Exception] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The same from start to end, also across `offline()` and `online()`."""
        return self._port

    async def __aenter__(self) -> Self:
        self._web = web.Server(self._serve, handler_cancellation=True, access_log=None)
        await self.online()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.offline()
        if self._web is not None:
            await self._web.shutdown(timeout=1)
        if self._bugs and error is None:
            raise ExceptionGroup("the emulator itself failed", self._bugs)

    async def offline(self) -> None:
        """Refuse new connections and cut the open ones, as when a network goes away."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._web is not None:
            for connection in list(self._web.connections):
                if connection.transport is not None:
                    connection.transport.abort()

    async def online(self) -> None:
        """Listen, again on the same port."""
        if self._listener is None and self._web is not None:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._web, "127.0.0.1", self._port)
            self._port = self._listener.sockets[0].getsockname()[1]

    def snapshot(self) -> dict[str, Any]:
        """A copy of all it knows, for another server of the kind; what waits on open connections is not in it."""
        known = {name: value for name, value in vars(self).items() if name not in self._of_connections}
        return deepcopy(known)

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Knows this from now on."""
        vars(self).update(deepcopy(snapshot))
        self._notify()

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 10) -> T:
        """The first true value of `predicate`, asked now and after each event at the server.

        The event may be seen here before the client has read its answer. Raises TimeoutError.
        """
        async with asyncio.timeout(timeout):
            while not (value := predicate()):
                await self._changed.wait()
        return value

    def _notify(self) -> None:
        # Those who wait hold the old event; who comes next waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self.handle(request)
        except ConnectionError:  # the client has gone, as it may
            return cut(request)
        except Exception as bug:
            self._bugs.append(bug)
            raise
        finally:
            self._notify()


async def never_answer() -> web.StreamResponse:
    """Keep the client waiting until it goes away or the server stops."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def cut(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection after what was written so far, with no proper end."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()
