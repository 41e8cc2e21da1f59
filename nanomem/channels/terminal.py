"""The terminal as a chat network: a server on a Unix socket, one JSON object a line each way.

A client attaches to a session, or says something in it, and from then on gets that session's
events. Knows nothing of models, memory or turns; what a control does is its caller's matter.
"""

import asyncio
import json
import os
import pwd
import re
import socket as sockets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from nanomem.errors import CannotStore, NanomemError, NotHere, Refused, Stop
from nanomem.messages import Attachment, Inbound, Outbound, Sender
from nanomem.ports import Clock, Taker, Update

LONGEST_LINE = 2**20
"""Bytes a client may send in one line."""

_MOST_UNREAD = 8 * 2**20
_LONGEST_ADDRESS = 103  # bytes a socket's address holds: 103 on macOS, 107 on Linux
_SESSION = re.compile(r"terminal:[\w.@+-]{1,100}")
_TO_ANOTHER = re.compile(r"(/[\w-]+)@(?!nanomem\b)(\w+)(?!\S)", re.ASCII | re.IGNORECASE)

Control = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

log = structlog.get_logger()


class TerminalChannel:
    """The `Channel` of everyone who can open the socket: that is the owner alone.

    Not promised: that a person has read what a client was sent. A client that lets 8 MB wait is
    dropped, so that none ever holds up the daemon.
    """

    name = "terminal"
    error: str | None = None

    def __init__(self, socket: Path, clock: Clock, control: Control) -> None:
        self._socket = socket
        self._clock = clock
        self._control = control
        self._sender = Sender("local", _user())
        self._there: defaultdict[str, set[asyncio.StreamWriter]] = defaultdict(set)

    async def run(self, taker: Taker) -> None:
        """Serves until cancelled; clients may connect after its first step. Raises Stop.

        Replaces a socket that is there already: only for who holds the home's lock, until this has ended.
        """
        listener = _bind(self._socket)
        try:
            async with asyncio.TaskGroup() as clients:

                def welcome(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
                    if not server.is_serving():  # it came in while we were about to end
                        client.close()
                        return
                    task = clients.create_task(self._serve(reader, client, taker))
                    task.add_done_callback(lambda _: client.close())

                server = await asyncio.start_unix_server(
                    welcome, sock=listener, limit=LONGEST_LINE, start_serving=False
                )
                try:
                    await server.start_serving()
                    await asyncio.Event().wait()
                finally:
                    server.close()
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        finally:
            self._socket.unlink(missing_ok=True)

    def parts(self, text: str) -> list[str]:
        """A terminal takes any length in one piece."""
        return [text if text.strip() else "(empty answer)"]

    async def place(self, address: str) -> str:
        """A new id, which the clients there are told. Raises NotHere."""
        placed = uuid4().hex
        self._announce(address, {"event": "placed", "id": placed})
        return placed

    async def show(self, address: str, placed: str, part: str, final: bool) -> None:
        """Tells the whole part as it is now; any id will do. Raises NotHere."""
        self._announce(address, {"event": "show", "id": placed, "text": part, "final": final})

    async def say(self, address: str, text: str) -> None:
        """Tells a text that stands for itself. Raises NotHere."""
        self._announce(address, {"event": "say", "text": text})

    async def done(self, sent: Outbound) -> None:
        """Lets a client know which of its messages are answered; no matter if none is there."""
        with suppress(NotHere):
            told = {"answers": sent.answers, "end": sent.end, "text": sent.text or ""}
            self._announce(sent.address, {"event": "done", **told})

    async def fetch(self, attachment: Attachment, to: Path) -> None:
        """Raises Refused: nothing comes along with a line of text."""
        raise Refused("The terminal takes no files.")

    def _announce(self, address: str, event: dict[str, Any]) -> None:
        told = [_tell(client, event | {"session": address}) for client in self._there[address]]
        if not any(told):
            raise NotHere("No terminal is open on this session.")

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, taker: Taker) -> None:
        try:
            while True:
                try:
                    if not (line := await next_line(reader)):
                        return
                    await self._obey(line, client, taker)
                except Stop:
                    raise
                except NanomemError as error:
                    _tell(client, {"event": "error", "text": error.text})
        finally:
            for clients in self._there.values():
                clients.discard(client)

    async def _obey(self, line: bytes, client: asyncio.StreamWriter, taker: Taker) -> None:
        match _unpack(line):
            case {"op": "attach", "session": str(session)}:
                self._subscribe(client, session)
                taker.arrived(session)
            case {"op": "say", "session": str(session), "id": str(said), "text": str(text)}:
                try:
                    self._subscribe(client, session)
                    await taker.take(self.name, [self._update(line, session, said, text)])
                    _tell(client, {"event": "taken", "id": said})
                except (CannotStore, Refused) as error:
                    _tell(client, {"event": "refused", "id": said, "text": error.text})
            case {"op": "control", "name": str(name), "args": dict(args)}:
                try:
                    result = await self._control(name, args)
                    _tell(client, {"event": "control", "name": name, "result": result})
                except (OSError, ValueError, ArithmeticError) as error:  # of no concern to the others
                    log.error("terminal.control_failed", name=name[:50], error=repr(error))
                    raise Refused(f"{name[:50]} failed: {error}.") from error
            case _:
                raise Refused("Not understood: no operation of this daemon.")

    def _subscribe(self, client: asyncio.StreamWriter, session: str) -> None:
        if not _SESSION.fullmatch(session):
            raise Refused("A session here is called terminal:NAME, of letters, digits and . _ @ + - only.")
        self._there[session].add(client)

    def _update(self, line: bytes, session: str, said: str, text: str) -> Update:
        if not text.strip():
            raise Refused("There is nothing in this message.")
        if not (said.isprintable() and 0 < len(said) <= 100):
            raise Refused("The id of a message is 1 to 100 printable characters.")
        if command := _TO_ANOTHER.match(text.strip()):
            raise Refused(f"{command[0]} is for {command[2]}, which is not here. For nanomem it is {command[1]} alone.")
        text = text.encode("utf-8", "replace").decode()  # an escaped half of a surrogate pair is no text
        sent_at = self._clock.now()
        return Update(said, line.decode(), Inbound(session, said, text, self._sender, sent_at, from_owner=True))


@contextmanager
def reachable(socket: Path) -> Iterator[str]:
    """A name of the socket that fits into an address, however deep its folder is. Raises OSError."""
    if len(os.fsencode(socket)) <= _LONGEST_ADDRESS:
        yield str(socket)
        return
    folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)


async def next_line(reader: asyncio.StreamReader) -> bytes:
    """The next line, b"" when the other side is gone. Raises Refused: longer than the reader's limit."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
    except ValueError as error:
        raise Refused("This line is too long: a message may have 1 MB.") from error


def pack(value: dict[str, Any]) -> bytes:
    """A value as one line. What cannot be encoded becomes a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _unpack(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise Refused("Not understood: no line of JSON.") from error


def _tell(client: asyncio.StreamWriter, event: dict[str, Any]) -> bool:
    """The transport's own buffer is the queue; True if the event is in it."""
    if client.is_closing():
        return False
    if client.transport.get_write_buffer_size() > _MOST_UNREAD:
        log.warning("terminal.client_dropped", unread=client.transport.get_write_buffer_size())
        client.transport.abort()
        return False
    client.write(pack(event))
    return True


def _bind(socket: Path) -> sockets.socket:
    listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        if socket.is_socket():
            socket.unlink()
        with reachable(socket) as name:
            listener.bind(name)
        socket.chmod(0o600)  # nobody can have connected: it does not listen yet
    except OSError as error:
        listener.close()
        raise Stop(f"Cannot listen on {socket}: {error.strerror or error}.") from error
    return listener


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "owner"
