"""A TCP proxy on loopback that does to a connection what networks do: late, slow, cut, silent, gone, or twice.

It knows just enough of HTTP/1.1 to tell where a message ends, so that it can cut in the middle of the answer to
something that the server has done. Knows nothing of Telegram, models or dice. It drops packets the way Linux lets it.
"""

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

HERE = "127.0.0.1"

_PIECE = 1 << 16
_MIDDLEBOX_S = 0.3
_ATTACH_FILTER, _DETACH_FILTER = 26, 27  # of setsockopt(2), see socket(7); the module `socket` has no names for them
_NO_PACKET, _WHOLE = (6, 0, 0, 0), (6, 0, 0, 1 << 16)
_FLAGS, _SYN_OR_RST = (0x30, 0, 0, 13), 0x02 | 0x04


def _filter(*steps: tuple[int, int, int, int]) -> tuple[int, Any]:
    """A program of the classic BPF, as `struct sock_fprog` wants it: how many steps, and where they are."""
    return len(steps), ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))


_DROP_ALL = _filter(_NO_PACKET)
_DROP_TALK = _filter(_FLAGS, (0x45, 0, 1, _SYN_OR_RST), _WHOLE, _NO_PACKET)
"""All but what opens or resets a connection: the client may get the same port again, for a new one."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that has come whole: `name` is the last word of its address, as in `sendMessage`."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Late:
    """The request goes on late; the answer comes back late, and in pieces with a pause after each if `piece` is set."""

    before_s: float = 0.0
    after_s: float = 0.0
    piece: int = 0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends after so many bytes of the `request`, or of the `answer` to what the server has done.

    `hard` is with a reset, else it is closed as after the last word. Of a request the last byte never arrives.
    """

    way: Literal["request", "answer"]
    after: int = 0
    hard: bool = True


@dataclass(frozen=True, slots=True)
class Gone:
    """The other side is gone without a word: no byte comes any more, and none is acknowledged.

    With `done` the server has done what was asked.
    """

    done: bool = False


@dataclass(frozen=True, slots=True)
class Twice:
    """The server is asked a second time, as by a middlebox that lost the first answer or did not wait for it."""


@dataclass(frozen=True, slots=True)
class Instead:
    """A middlebox answers in the place of the server, which with `done` has done what was asked."""

    status: int
    body: str = ""
    kind: str = "text/html"
    done: bool = False


Fault = Late | Cut | Gone | Twice | Instead
Script = Callable[[Exchange], Fault | None]


@dataclass(eq=False, slots=True)
class _Line:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    task: asyncio.Task[None] | None = None
    waits: bool = False

    @property
    def socket(self) -> Any:
        return self.writer.get_extra_info("socket")

    def end(self, hard: bool) -> None:
        """Closed, or reset."""
        if hard:
            with suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        else:
            self.writer.close()

    def break_off(self) -> None:
        """Reset, whatever goes on there."""
        self.end(hard=True)
        if self.task:
            self.task.cancel()


class Proxy:
    """Stands before the server on a port; use as `async with Proxy(port) as proxy`.

    `script` is asked about each request. `exchanges` are those that have come, with what was done to them, and
    `answered` those that were asked once and whose answer went back whole.
    """

    def __init__(self, server_port: int) -> None:
        self.script: Script = _nothing
        self.exchanges: list[tuple[Exchange, Fault | None]] = []
        self.answered: list[Exchange] = []
        self.connections = 0
        self.port = 0
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self._gone: list[_Line] = []
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()
        self._answers.set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        for line in self._gone:
            line.end(hard=True)

    @property
    def broken(self) -> int:
        """How many requests met a fault of the `script`."""
        return sum(fault is not None for _, fault in self.exchanges)

    # The whole way, until it is mended.

    async def refuse(self) -> None:
        """Nobody listens any more, and all connections are reset."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for line in self._lines:
            line.break_off()
        await asyncio.gather(*(line.task for line in self._lines if line.task), return_exceptions=True)

    def swallow(self) -> None:
        """A black hole: no packet gets through, in any connection or to open one; all go on once it is mended."""
        self._flows.clear()
        assert self._listener is not None
        for one in (self._listener.sockets[0], *(line.socket for line in self._lines)):
            _deafen(one, _DROP_ALL)

    def hush(self) -> None:
        """Connections are accepted and nothing is ever answered; mended, those that wait for an answer are reset."""
        self._answers.clear()

    def strand(self) -> None:
        """All connections there are: the other side is gone without a word. New ones are well."""
        for line in list(self._lines):
            self._lose(line)

    async def mend(self) -> None:
        """All is well again, but for what is gone."""
        self.script = _nothing
        await self._listen()
        assert self._listener is not None
        if not self._flows.is_set():
            for one in (self._listener.sockets[0], *(line.socket for line in self._lines)):
                with suppress(OSError):  # one that came meanwhile has no filter
                    one.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            self._flows.set()
        if not self._answers.is_set():
            for line in self._lines:
                if line.waits:
                    line.break_off()
            self._answers.set()

    # A connection.

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, HERE, self.port, limit=1 << 24)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        line = _Line(reader, writer)
        self._lines.add(line)
        requests: asyncio.Queue[bytes] = asyncio.Queue()
        line.task = asyncio.create_task(self._work(line, requests))
        try:
            while request := b"".join([piece async for piece in message(reader)]):
                requests.put_nowait(request)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:  # the client has gone, and with it whoever waits for the server
            line.task.cancel()
            await asyncio.gather(line.task, return_exceptions=True)
            self._lines.discard(line)
            if line not in self._gone:
                writer.close()

    async def _work(self, line: _Line, requests: asyncio.Queue[bytes]) -> None:
        try:
            while True:
                line.waits = False
                request = await requests.get()
                line.waits = True
                exchange = Exchange(_name(request), len(request))
                fault = self.script(exchange)
                self.exchanges.append((exchange, fault))
                await self._answers.wait()
                await self._flows.wait()
                await self._exchange(line, request, fault)
                if fault is None or isinstance(fault, Late):
                    self.answered.append(exchange)
        except (OSError, asyncio.IncompleteReadError):  # the server has cut it, so it is cut here
            line.end(hard=True)

    async def _exchange(self, line: _Line, request: bytes, fault: Fault | None) -> None:
        match fault:
            case Cut("request", after, hard):
                with suppress(OSError):
                    async with _Call(self._server_port, request[: min(after, len(request) - 1)]):
                        pass
                line.end(hard)
            case Gone(done):
                self._lose(line)
                if done:
                    await self._done(request)
            case Instead(status, body, kind, done):
                if done:
                    await self._done(request)
                head = f"HTTP/1.1 {status} No\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n\r\n"
                line.writer.write(head.encode() + body.encode())
            case Twice():
                await self._done(request)
                await self._relay(line, request)
            case Late(before_s):
                await asyncio.sleep(before_s)
                await self._relay(line, request, fault)
            case _:
                await self._relay(line, request, fault)

    async def _relay(self, line: _Line, request: bytes, fault: Late | Cut | None = None) -> None:
        """Passes the answer on as it comes, as far as it shall come."""
        left = fault.after if isinstance(fault, Cut) else None
        async with _Call(self._server_port, request) as answer:
            if isinstance(fault, Late):
                await asyncio.sleep(fault.after_s)
            async for piece in message(answer):
                await self._answers.wait()
                await self._flows.wait()
                if left is not None:
                    piece, left = piece[:left], max(0, left - len(piece))
                await _write(line.writer, piece, fault)
                if left == 0:
                    break
        if isinstance(fault, Cut):
            line.end(fault.hard)

    async def _done(self, request: bytes) -> None:
        """The server does it, and what it says is dropped; one that takes long is not waited for."""
        with suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_MIDDLEBOX_S), _Call(self._server_port, request) as answer:
                async for _ in message(answer):
                    pass

    def _lose(self, line: _Line) -> None:
        """Nothing is heard or said there any more. The server is left waiting for as long as it does."""
        _deafen(line.socket, _DROP_TALK)
        self._gone.append(line)
        self._lines.discard(line)
        if line.task and line.task is not asyncio.current_task():
            line.task.cancel()


class _Call:
    """A connection to the server for one request, or for as much of it as is given."""

    def __init__(self, port: int, request: bytes) -> None:
        self._port = port
        self._request = request

    async def __aenter__(self) -> asyncio.StreamReader:
        reader, self._writer = await asyncio.open_connection(HERE, self._port, limit=1 << 24)
        self._writer.write(self._request)
        await self._writer.drain()
        return reader

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()


async def message(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """One HTTP/1.1 message, raw, piece by piece as it comes; none where the connection ended before it.

    A message that tells no length and is not chunked has no body. Raises IncompleteReadError where it is cut off.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return
    yield head
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            yield line + await reader.readexactly(size + 2)
    left = int(fields.get(b"content-length", b"0"))
    while left:
        piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


async def _write(writer: asyncio.StreamWriter, data: bytes, fault: Fault | None) -> None:
    step = fault.piece if isinstance(fault, Late) and fault.piece else len(data) or 1
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])
        await writer.drain()
        if isinstance(fault, Late) and fault.piece:
            await asyncio.sleep(fault.pause_s)


def _name(request: bytes) -> str:
    path = request.split(b" ", 2)[1].partition(b"?")[0]
    return path.rstrip(b"/").rpartition(b"/")[2].decode()


def _deafen(one: Any, program: tuple[int, Any]) -> None:
    """From now on the kernel drops what comes for this socket before TCP sees it: nothing is acknowledged."""
    steps, code = program
    with suppress(OSError):  # closed already
        one.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HL", steps, ctypes.addressof(code)))


def _nothing(_: Exchange) -> None:
    return None
