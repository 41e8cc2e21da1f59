"""litellm in a process of its own, as the daemon sees it: its import, its memory and its faults stay out of here.

Begun when it is first needed or warmed up, ended when nobody has asked for long, begun anew when it has died or grown.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import structlog

from nanomem.errors import TryLater
from nanomem.messages import Reply, Request
from nanomem.models.frames import (
    Alive,
    Answered,
    Ask,
    Call,
    Cancel,
    Embed,
    Failed,
    Frames,
    Grown,
    Reach,
    Target,
    Vectored,
    Word,
    packed,
)
from nanomem.ports import Embedded

log = structlog.get_logger()

IDLE_S = 600.0
"""So long it is kept without a call: its 200 MB are worth more than the 3 s that the next call then waits."""
GROWN_BYTES = 500_000_000
"""More than it has after thousands of calls: something in it leaks."""
SILENT_S = 60.0
"""Without a sign of life, which comes once a second, while somebody waits: it hangs, and nobody else is answered."""
_ENDS_WITHIN_S = 5.0


@dataclass(slots=True)
class _Waiting:
    """Somebody who waits for an answer; `text` is what there is of it, which `heard` is given."""

    answer: asyncio.Future[Answered | Vectored]
    heard: Callable[[str], None] | None = None
    text: str = ""

    def take(self, word: Grown | Answered | Vectored | Failed) -> None:
        if isinstance(word, Grown):
            self.text += word.more
            if self.heard:
                self.heard(self.text)
        elif self.answer.done():
            return
        elif isinstance(word, Failed):
            self.answer.set_exception(word.error)
        else:
            self.answer.set_result(word)


class _Line(asyncio.Protocol):
    """The connection to one life of the process."""

    def __init__(self) -> None:
        self.waiting: dict[int, _Waiting] = {}
        self.is_lost = False
        self._frames = Frames[Word](Word)
        self._heard_at = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        for word in self._frames.take(data):
            if not isinstance(word, Alive) and (waiting := self.waiting.get(word.id)):
                waiting.take(word)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self.waiting:
            log.warning("litellm.ended", calls=len(self.waiting))
        for waiting in self.waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(TryLater("The process that asks the model has ended. It is begun anew."))

    def send(self, call: Call) -> None:
        if not self.is_lost:
            self._transport.write(packed(call))

    async def answer(self, waiting: _Waiting, silent_s: float) -> Answered | Vectored:
        """What is waited for; after a silence that is too long the line is cut."""
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while not (await asyncio.wait([waiting.answer], timeout=heard_at + silent_s - loop.time()))[0]:
            heard_at = max(heard_at, self._heard_at)
            if loop.time() - heard_at >= silent_s:
                self.close()
        return waiting.answer.result()

    def close(self) -> None:
        self._transport.abort()


class LitellmProcess:
    """At most one process at a time, shared by all who ask. For one event loop."""

    def __init__(self, idle_s: float = IDLE_S, grown_bytes: int = GROWN_BYTES, silent_s: float = SILENT_S) -> None:
        self._idle_s = idle_s
        self._silent_s = silent_s
        self._grown_bytes = grown_bytes
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: _Line | None = None
        self._connecting = asyncio.Lock()
        self._rest: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process else None

    def _begin(self) -> socket.socket:
        """Starts it; it loads litellm by itself. Our end of the line to it. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", "nanomem.models.litellm_worker", str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C at the terminal is for us alone
                )
            except OSError:
                ours.close()
                raise
        return ours

    async def ready(self) -> _Line:
        """Starts it where it is not there; from now on it is kept a while. Raises TryLater."""
        async with self._connecting:
            if self._line is not None and not self._line.is_lost:
                self._rests(self._line)
                return self._line
            self._end()
            try:
                ours = self._begin()
            except OSError as error:
                raise TryLater(f"The process that asks the model could not be started: {error}.") from None
            line = _Line()
            await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
            self._line = line
            self._rests(line)
            return line

    async def call(
        self, frame: Callable[[int], Ask | Embed], heard: Callable[[str], None] | None = None
    ) -> Answered | Vectored:
        """What became of the frame that is made with an id. Raises what the port of its model raises."""
        line, id = await self.ready(), next(self._numbers)
        waiting = line.waiting[id] = _Waiting(asyncio.get_running_loop().create_future(), heard)
        if self._rest:
            self._rest.cancel()
        try:
            line.send(frame(id))
            answer = await line.answer(waiting, self._silent_s)
        except asyncio.CancelledError:
            line.send(Cancel(id))
            raise
        finally:
            del line.waiting[id]
            self._rests(line)
        if answer.resident > self._grown_bytes and not line.waiting and line is self._line:
            self._end()
            with suppress(TryLater):  # whoever asks next is told
                await self.ready()
        return answer

    async def close(self) -> None:
        """Ends it for good."""
        process = self._process
        self._end()
        if process:
            await asyncio.to_thread(process.wait, _ENDS_WITHIN_S)

    def _rests(self, line: _Line) -> None:
        """It may end after a while, if nobody asks."""
        if not line.waiting and line is self._line:
            if self._rest:
                self._rest.cancel()
            self._rest = asyncio.get_running_loop().call_later(self._idle_s, self._end)

    def _end(self) -> None:
        """It holds nothing that is worth a farewell."""
        if self._rest:
            self._rest.cancel()
        if self._line:
            self._line.close()
        if self._process:
            self._process.kill()
            asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        self._process = self._line = self._rest = None


@dataclass(frozen=True, slots=True)
class _Apart:
    """A model of litellm by its name, asked through the process; see `Target`."""

    name: str
    providers: Mapping[str, Reach]
    process: LitellmProcess
    timeout_s: float = field(kw_only=True)

    async def warm_up(self) -> None:
        """Starts the process, which loads litellm (3 s, 180 MB); returns at once. The first call says if it failed."""
        with suppress(TryLater):
            await self.process.ready()

    @property
    def _target(self) -> Target:
        return Target(self.name, self.providers, self.timeout_s)


class ApartModel(_Apart):
    """A `ports.Model`."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """One call, tried once; see the port."""
        answer: Any = await self.process.call(lambda id: Ask(id, self._target, request), heard)
        return answer.reply  # type: ignore[no-any-return]


class ApartEmbedder(_Apart):
    """A `ports.Embedder`."""

    is_local = False

    async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
        """One call, tried once; see the port."""
        answer: Any = await self.process.call(lambda id: Embed(id, self._target, list(texts), question))
        return Embedded(answer.vectors, answer.usage)
