"""The person's side of the terminal: one question, one control call, or a conversation.

Knows only the daemon's socket and what goes over it; nothing of homes, settings or models.
"""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from uuid import uuid4

from nanomem.channels.terminal import LONGEST_LINE, next_line, pack, reachable
from nanomem.errors import Refused, Stop

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

REPLACED = "[what was printed of this answer is replaced by:]\n"
KEPT = "The daemon went away. What it has taken is kept and will be answered; `nanomem chat` shows it then."
NOT_TAKEN = "The daemon went away before it had taken the message: say it again once it runs."

_LONGEST_EVENT = 64 * 2**20
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """The text without what a terminal would obey instead of show; line breaks and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


class Connection:
    """One client of the daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, **operation: Any) -> None:
        """Not promised: that it arrives; if the daemon is gone, `events` ends. Raises Refused: too long."""
        line = pack(operation)
        if len(line) > LONGEST_LINE:
            raise Refused("This message is too long: at most 1 MB can be sent.")
        try:
            self._writer.write(line)
            await self._writer.drain()
        except ConnectionError:
            pass

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What the daemon tells, until it goes away."""
        while (line := await next_line(self._reader)).endswith(b"\n"):
            yield json.loads(line)


@asynccontextmanager
async def connect(socket: Path) -> AsyncIterator[Connection]:
    """Raises FileNotFoundError or ConnectionRefusedError where no daemon listens."""
    with reachable(socket) as name:
        reader, writer = await asyncio.open_unix_connection(name, limit=_LONGEST_EVENT)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


async def ask(socket: Path, session: str, text: str) -> tuple[str, str | None]:
    """Says one thing and waits for what is answered: the plain text, and how the turn ended (None: a command's reply).

    Raises Stop (with what became of the message) or Refused, and as `connect` does.
    """
    said, gone = str(uuid4()), NOT_TAKEN
    async with connect(socket) as daemon:
        await daemon.send(op="say", session=session, id=said, text=text)
        async for event in daemon.events():
            match event:
                case {"event": "taken", "id": id} if id == said:
                    gone = KEPT
                case {"event": "refused" | "error", "text": str(why)}:
                    raise Stop(why)
                case {"event": "done", "answers": list(ids), "end": end, "text": str(answer)} if said in ids:
                    return plain(answer), end
    raise Stop(gone)


async def control(socket: Path, name: str, args: dict[str, Any]) -> dict[str, Any]:
    """One question to the daemon itself. Raises Stop, Refused, and as `connect` does."""
    async with connect(socket) as daemon:
        await daemon.send(op="control", name=name, args=args)
        async for event in daemon.events():
            match event:
                case {"event": "control", "result": dict(result)}:
                    return result
                case {"event": "error", "text": str(why)}:
                    raise Stop(why)
    raise Stop("The daemon went away before it had answered.")


async def converse(socket: Path, session: str, commands: Sequence[tuple[str, str]], history_file: Path | None) -> None:
    """A conversation on this terminal, or with a script that writes a message a line, until stdin ends.

    `commands` are names and what they do. Raises Stop when the daemon goes away, and as `connect` does.
    """
    if sys.stdin.isatty():
        await converse_typing(socket, session, commands, history_file)
    else:
        await converse_reading(socket, session, sys.stdin, sys.stdout)


async def converse_typing(
    socket: Path, session: str, commands: Sequence[tuple[str, str]], history_file: Path | None
) -> None:
    """At a prompt that stays below what is printed meanwhile."""
    from prompt_toolkit.patch_stdout import patch_stdout

    prompt = _prompt(commands, history_file)
    with patch_stdout():
        await _converse(socket, session, sys.stdout, lambda talk: _typed(talk, prompt))


async def converse_reading(socket: Path, session: str, source: TextIO, out: TextIO) -> None:
    """Each line is a message, sent when the one before it is answered. Raises Stop at the end if any was refused."""
    await _converse(socket, session, out, lambda talk: _read(talk, source))


@dataclass(slots=True)
class Growing:
    """A text that is told again and again, whole, while it grows: each line is printed once, when it is finished."""

    printed: str = ""
    final: bool = False

    def more(self, text: str, final: bool) -> str:
        """What is to be printed now; all of it again, after a mark, where the text does not go on as it began."""
        self.final = final
        marker = ""
        if not text.startswith(self.printed) and not self.printed.startswith(text):
            marker, self.printed = REPLACED, ""
        new = text[len(self.printed) : None if final else text.rfind("\n") + 1]
        self.printed += new
        return marker + (new + "\n" if new and not new.endswith("\n") else new)


class Conversation:
    """What is heard of a session, printed as it comes, and which of our messages still wait."""

    def __init__(self, daemon: Connection, session: str, out: TextIO) -> None:
        self._daemon = daemon
        self._session = session
        self._out = out
        self.refused = 0
        self._untaken: set[str] = set()
        self._unanswered: dict[str, asyncio.Event] = {}
        self._answers: dict[str, Growing] = {}

    async def say(self, text: str) -> asyncio.Event:
        """Sends it; the event is set when it is answered or was refused. Raises Refused: too long."""
        said = str(uuid4())
        self._untaken.add(said)
        answered = self._unanswered[said] = asyncio.Event()
        try:
            await self._daemon.send(op="say", session=self._session, id=said, text=text)
        except Refused:
            self._settle([said])
            raise
        return answered

    async def interrupt(self) -> None:
        """Stops the turn that runs; if none does, says how to leave."""
        if self._unanswered or not all(answer.final for answer in self._answers.values()):
            await self.say("/stop")
        else:
            self._print("(Ctrl-D leaves.)\n")

    async def listen(self) -> None:
        """Prints until cancelled. Raises Stop when the daemon goes away."""
        await self._daemon.send(op="attach", session=self._session)
        async for event in self._daemon.events():
            self._hear(event)
        raise Stop(NOT_TAKEN if self._untaken else KEPT)

    def _hear(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "placed", "id": str(placed)}:
                self._answers[placed] = Growing()
            case {"event": "show", "id": str(placed), "text": str(text), "final": bool(final)}:
                self._print(self._answers.setdefault(placed, Growing()).more(text, final))
            case {"event": "say", "text": str(text)}:
                self._print(text + "\n")
            case {"event": "done", "answers": list(ids)}:
                self._settle(ids)
            case {"event": "taken", "id": str(said)}:
                self._untaken.discard(said)
            case {"event": "refused", "id": str(said), "text": str(why)}:
                print(plain(why), file=sys.stderr, flush=True)
                self.refused += 1
                self._settle([said])
            case {"event": "error", "text": str(why)}:
                raise Stop(why)

    def _settle(self, ids: Sequence[str]) -> None:
        self._untaken.difference_update(ids)
        for said in ids:
            if answered := self._unanswered.pop(said, None):
                answered.set()

    def _print(self, lines: str) -> None:
        self._out.write(plain(lines))
        self._out.flush()


async def _converse(socket: Path, session: str, out: TextIO, speak: Callable[[Conversation], Awaitable[None]]) -> None:
    async with connect(socket) as daemon:
        talk = Conversation(daemon, session, out)
        try:
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(talk.listen())
                await speak(talk)
                listening.cancel()
        except ExceptionGroup as several:
            raise several.exceptions[0] from several


async def _typed(talk: Conversation, prompt: "PromptSession[str]") -> None:
    while True:
        try:
            text = await prompt.prompt_async("> ")
            if text.strip():
                await talk.say(text)
        except Refused as error:
            print(error.text, file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            await talk.interrupt()
        except EOFError:
            return


async def _read(talk: Conversation, source: TextIO) -> None:
    async with aclosing(_lines(source)) as lines:
        async for line in lines:
            if line.strip():
                answered = await talk.say(line.rstrip("\r\n"))
                await answered.wait()
    if talk.refused:
        raise Stop(f"Of these messages {talk.refused} {'were' if talk.refused > 1 else 'was'} refused.")


async def _lines(source: TextIO) -> AsyncGenerator[str, None]:
    """The lines of a pipe are awaited without a thread, which would keep a program that wants to end."""
    if not stat.S_ISFIFO(os.fstat(source.fileno()).st_mode):
        while text := await asyncio.to_thread(source.readline):
            yield text
        return
    reader = asyncio.StreamReader(LONGEST_LINE)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    try:
        while line := await next_line(reader):
            yield line.decode("utf-8", "replace")
    finally:
        pipe.close()


def _prompt(commands: Sequence[tuple[str, str]], history_file: Path | None) -> "PromptSession[str]":
    """Enter sends, Alt-Enter breaks the line, Tab completes commands."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    if history_file:
        history_file.touch(0o600)
    known = {"/" + name.removeprefix("/"): does for name, does in commands}
    return PromptSession(
        key_bindings=keys,
        history=FileHistory(str(history_file)) if history_file else None,
        completer=WordCompleter(list(known), meta_dict=known, ignore_case=True, sentence=True),
    )
