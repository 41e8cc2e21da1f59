"""The process that litellm lives in: `python -m nanomem.models.litellm_worker FD`, a socket to the daemon.

Answers what it is asked, many at a time, and ends as soon as the daemon is gone. Remembers nothing but litellm itself.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from traceback import extract_tb
from typing import Any

from nanomem.errors import NanomemError
from nanomem.imports import without
from nanomem.models.embedding import LitellmEmbedder
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
    Target,
    Vectored,
    Word,
    packed,
)
from nanomem.models.litellm import Library, LitellmModel, Provider
from nanomem.secret import Secret

BEAT_S = 1.0
READ_BYTES = 2**18
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Worker:
    """Serves the calls of one daemon."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._library = Library()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._beating: asyncio.Task[None] | None = None

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until the other side is gone, and the process with it."""
        frames = Frames[Call](Call)
        async with asyncio.TaskGroup() as group:
            group.create_task(_load(self._library))
            while data := await reader.read(READ_BYTES):
                for call in frames.take(data):
                    self._take(call, group)
            os._exit(0)  # nobody is left to wait for what still runs

    def _take(self, call: Call, group: asyncio.TaskGroup) -> None:
        if isinstance(call, Cancel):
            if task := self._running.get(call.id):
                task.cancel()
            return
        task = self._running[call.id] = group.create_task(self._answer(call))
        task.add_done_callback(lambda _, id=call.id: self._running.pop(id))  # type: ignore[misc]
        if self._beating is None or self._beating.done():
            self._beating = group.create_task(self._beat())

    async def _answer(self, call: Ask | Embed) -> None:
        try:
            self._send(await (self._ask(call) if isinstance(call, Ask) else self._embed(call)))
        except NanomemError as error:
            self._send(Failed.of(call.id, error))
        except Exception as error:  # a bug, which ends a call and not the process; its message may hold what was said
            places = " < ".join(
                f"{at.name} ({at.filename}:{at.lineno})" for at in reversed(extract_tb(error.__traceback__))
            )
            self._send(Failed(call.id, "", f"{type(error).__name__} in {places}"))

    async def _beat(self) -> None:
        while self._running:
            await asyncio.sleep(BEAT_S)
            self._send(Alive())

    async def _ask(self, call: Ask) -> Word:
        sent = 0

        def heard(text: str) -> None:
            nonlocal sent
            self._send(Grown(call.id, text[sent:]))
            sent = len(text)

        target = call.target
        model = LitellmModel(target.model, _providers(target), timeout_s=target.timeout_s, library=self._library)
        return Answered(call.id, await model.ask(call.request, heard), _resident())

    async def _embed(self, call: Embed) -> Word:
        target = call.target
        reached = _providers(target)
        embedder = LitellmEmbedder(target.model, reached, timeout_s=target.timeout_s, library=self._library)
        found = await embedder.embed(call.texts, call.question)
        return Vectored(call.id, [tuple(vector) for vector in found.vectors], found.usage, _resident())

    def _send(self, word: Word) -> None:
        self._writer.write(packed(word))  # the daemon always reads


def _providers(target: Target) -> dict[str, Provider]:
    def provider(secret: Secret, base: str, extra: Any) -> Provider:
        return Provider(lambda: secret.reveal(os.environ), base, extra)

    return {
        name: provider(Secret(reach.api_key, f"providers.{name}.api_key"), reach.api_base, reach.extra)
        for name, reach in target.providers.items()
    }


async def _load(library: Library) -> None:
    """litellm, before anybody asks for it; the first call says if that fails."""
    gc.disable()  # a fifth of the import would be looking through what stays
    with without("pygments"), without("rich"):  # litellm takes them in only because they are there: 65 modules
        await asyncio.gather(asyncio.wrap_future(library.begin()), return_exceptions=True)
    gc.collect()
    gc.freeze()
    gc.enable()


def _resident() -> int:
    """Bytes of memory in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def _be_silent() -> None:
    """Libraries print, and warn of, what was said; here nobody would take the secrets out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


async def _main(fd: int) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=fd), limit=READ_BYTES)
    await Worker(writer).serve(reader)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the daemon, which says when it is over
        signal.signal(number, signal.SIG_IGN)
    _be_silent()
    try:
        asyncio.run(_main(int(sys.argv[1])))
    finally:
        os._exit(1)  # without waiting for an import that may still run
