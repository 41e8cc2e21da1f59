"""The terminal over its real socket: what clients say is taken, and who is there sees the answers."""

import asyncio
import json
import os
import socket as sockets
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from nanomem.channels.terminal import LONGEST_LINE, TerminalChannel, next_line, reachable
from nanomem.chat import KEPT, NOT_TAKEN, REPLACED, Growing, ask, connect, control, converse_typing, plain
from nanomem.errors import CannotStore, NotHere, Refused, Stop, TellUser
from nanomem.messages import Attachment, End, Inbound, Outbound
from nanomem.ports import Channel, Update

NOON = datetime(2026, 4, 10, 12, tzinfo=UTC)
HOME = "terminal:local"


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOON

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the terminal waits for nothing")


class Seen:
    """Something a test can wait on until it is as expected."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not predicate():
                await self._changed.wait()


class Desk(Seen):
    """A taker that writes down what it is given, and can be full."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[Update] = []
        self.arrivals: list[str] = []
        self.refuses: Exception | None = None

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None = None) -> None:
        assert channel == "terminal"
        if self.refuses:
            raise self.refuses
        self.updates += updates
        self.changed()

    async def offset(self, channel: str) -> int | None:
        return None

    def arrived(self, address: str) -> None:
        self.arrivals.append(address)
        self.changed()

    @property
    def said(self) -> list[str]:
        return [message.text for message in self.messages]

    @property
    def messages(self) -> list[Inbound]:
        return [update.message for update in self.updates if update.message]

    async def hears(self, text: str) -> str:
        """The id of a message with that text, once it is there."""
        await self.until(lambda: text in self.said)
        return next(message.id for message in reversed(self.messages) if message.text == text)


class Daemon:
    """A terminal channel that serves, and the turns a test plays on it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.desk = Desk()
        self.channel = TerminalChannel(socket, Noon(), self.control)
        self.failure: Exception = OSError()

    async def control(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        if name == "fails":
            raise self.failure
        if name != "status":
            raise TellUser(f"There is no {name}.")
        return {"running": True, **args}

    async def answers(self, said: str, *grown: str, end: End = "answer", session: str = HOME) -> None:
        """A turn: the answer as it grows, the last of it whole."""
        placed = await self.channel.place(session)
        for text in grown[:-1]:
            await self.channel.show(session, placed, text, final=False)
        await self.channel.show(session, placed, grown[-1], final=True)
        await self.channel.done(Outbound("x", session, grown[-1], end, (placed,), (said,)))

    async def replies(self, said: str, text: str) -> None:
        """A command's reply."""
        await self.channel.say(HOME, text)
        await self.channel.done(Outbound("x", HOME, text, answers=(said,)))


@asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(socket)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(daemon.channel.run(daemon.desk))
        try:
            await listening(socket)
            yield daemon
        finally:
            running.cancel()


async def listening(socket: Path) -> None:
    async with asyncio.timeout(10):
        while True:
            with suppress(FileNotFoundError, ConnectionRefusedError):
                async with connect(socket):
                    return
            await asyncio.sleep(0)


class Wire:
    """A client that says whatever bytes it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, line: bytes | dict[str, Any]) -> None:
        self.writer.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(10):
            event: dict[str, Any] = json.loads(await self.reader.readline())
            return event

    async def attach(self, daemon: Daemon, session: str = HOME) -> None:
        before = len(daemon.desk.arrivals)
        self.send({"op": "attach", "session": session})
        await daemon.desk.until(lambda: len(daemon.desk.arrivals) > before)


@asynccontextmanager
async def client(daemon: Daemon) -> AsyncIterator[Wire]:
    with reachable(daemon.socket) as name:
        reader, writer = await asyncio.open_unix_connection(name)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "daemon.sock"


async def test_is_a_channel(socket: Path) -> None:
    """It fits the port, is called terminal, and nothing is ever wrong with it."""
    channel: Channel = Daemon(socket).channel
    assert (channel.name, channel.error) == ("terminal", None)


async def test_what_is_said_is_taken_before_it_is_confirmed(socket: Path) -> None:
    """A message goes to the taker whole, as the owner's, with its raw line; then its id is confirmed."""
    async with serving(socket) as daemon, client(daemon) as ann:
        line = {"op": "say", "session": "terminal:work", "id": "m1", "text": "Grüße\n\ud800!"}
        ann.send(line)
        assert await ann.hear() == {"event": "taken", "id": "m1"}
    [update] = daemon.desk.updates
    message = update.message
    assert message is not None
    assert (update.id, json.loads(update.raw)) == ("m1", line)
    assert (message.address, message.id, message.text) == ("terminal:work", "m1", "Grüße\n?!")
    assert (message.sent_at, message.from_owner, message.sender.id) == (NOON, True, "local")
    assert message.sender.name
    assert daemon.desk.arrivals == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"text": " \n"}, "nothing in"),
        ({"session": "telegram:42"}, "terminal:NAME"),
        ({"session": "terminal:a/b"}, "NAME"),
        ({"text": "/new@other_bot"}, "/new alone"),
        ({"text": " /Dream-Log@other_bot 3"}, "/Dream-Log alone"),
    ],
)
async def test_a_message_that_cannot_be_right_is_refused_by_its_id(
    socket: Path, wrong: dict[str, str], why: str
) -> None:
    """A blank text, another network's session, another bot's command is refused, and never reaches the taker."""
    async with serving(socket) as daemon, client(daemon) as ann:
        ann.send({"op": "say", "session": HOME, "id": "m1", "text": "hi"} | wrong)
        event = await ann.hear()
    assert (event["event"], event["id"], daemon.desk.updates) == ("refused", "m1", [])
    assert why in event["text"]


async def test_a_full_disk_refuses(socket: Path) -> None:
    """What could not be stored is refused with the reason, and the client may go on."""
    async with serving(socket) as daemon, client(daemon) as ann:
        daemon.desk.refuses = CannotStore("The disk is full.")
        ann.send({"op": "say", "session": HOME, "id": "m1", "text": "hi"})
        assert await ann.hear() == {"event": "refused", "id": "m1", "text": "The disk is full."}
        daemon.desk.refuses = None
        ann.send({"op": "say", "session": HOME, "id": "m1", "text": "hi"})
        assert await ann.hear() == {"event": "taken", "id": "m1"}


async def test_a_disk_that_cannot_be_trusted_ends_the_channel(socket: Path) -> None:
    """Stop from the taker comes out of `run` as it is, and the socket is gone."""
    daemon = Daemon(socket)
    daemon.desk.refuses = Stop("The disk lies.")
    running = asyncio.ensure_future(daemon.channel.run(daemon.desk))
    await listening(socket)
    async with client(daemon) as ann:
        ann.send({"op": "say", "session": HOME, "id": "m1", "text": "hi"})
        with pytest.raises(Stop, match="The disk lies"):
            await running
    assert not socket.exists()


async def test_two_clients_on_a_session_see_the_same(socket: Path) -> None:
    """Everyone attached sees the answer grow; who is on another session sees nothing of it."""
    async with serving(socket) as daemon, client(daemon) as ann, client(daemon) as bob, client(daemon) as eve:
        await ann.attach(daemon)
        await bob.attach(daemon)
        await eve.attach(daemon, "terminal:other")
        await daemon.answers("m1", "Par", "Paris.")
        for wire in (ann, bob):
            placed = (await wire.hear())["id"]
            shown = [await wire.hear() for _ in range(2)]
            assert [(show["id"], show["text"], show["final"]) for show in shown] == [
                (placed, "Par", False),
                (placed, "Paris.", True),
            ]
            done = {"event": "done", "answers": ["m1"], "end": "answer", "text": "Paris.", "session": HOME}
            assert await wire.hear() == done
        await daemon.channel.say("terminal:other", "only you")
        assert (await eve.hear())["text"] == "only you"


async def test_nobody_there(socket: Path) -> None:
    """Without a client the sender is told to keep it; being told that it is done needs nobody."""
    async with serving(socket) as daemon:
        with pytest.raises(NotHere):
            await daemon.channel.place(HOME)
        with pytest.raises(NotHere):
            await daemon.channel.show(HOME, "p1", "hi", final=True)
        with pytest.raises(NotHere):
            await daemon.channel.say(HOME, "hi")
        await daemon.channel.done(Outbound("x", HOME, "hi", "answer"))


async def test_an_answer_nobody_saw_comes_when_somebody_arrives(socket: Path) -> None:
    """Who left before the answer gets it on the next visit, under the id it was placed with."""
    async with serving(socket) as daemon:
        async with client(daemon) as ann:
            await ann.attach(daemon)
            placed = await daemon.channel.place(HOME)
            ann.writer.close()
            while await ann.reader.read():
                pass
            await gone(daemon)
        async with client(daemon) as ann:
            await ann.attach(daemon)
            await daemon.channel.show(HOME, placed, "Paris.", final=True)
            assert await ann.hear() == {
                "event": "show", "id": placed, "text": "Paris.", "final": True, "session": HOME,
            }  # fmt: skip


async def gone(daemon: Daemon) -> None:
    """Until the channel has noticed that nobody is there."""
    async with asyncio.timeout(10):
        with suppress(NotHere):
            while True:
                await daemon.channel.say(HOME, "still there?")
                await asyncio.sleep(0)


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"\xff\xfe",
        b"",
        b"[1, 2]",
        b"[" * 100_000,
        b'{"op": "dance"}',
        b'{"op": "attach"}',
        b'{"op": "attach", "session": 7}',
        b'{"op": "attach", "session": "terminal:"}',
        b'{"op": "say", "session": "terminal:local", "id": "m1"}',
        b'{"op": "control", "name": "status", "args": []}',
        b'{"op": "control", "name": "nonsense", "args": {}}',
        b'"' + b"x" * 2 * LONGEST_LINE + b'"',
    ],
    ids=lambda line: repr(line[:60]),
)
async def test_a_bad_line_is_answered_and_nothing_more(socket: Path, line: bytes) -> None:
    """Whatever a client sends, it gets an error event, and the connection goes on."""
    async with serving(socket) as daemon, client(daemon) as ann:
        ann.send(line)
        assert (await ann.hear())["event"] == "error"
        ann.send({"op": "control", "name": "status", "args": {"still": "here"}})
        while (event := await ann.hear())["event"] == "error":
            pass
        assert event == {"event": "control", "name": "status", "result": {"running": True, "still": "here"}}
        assert daemon.desk.updates == []


@pytest.mark.parametrize("failure", [PermissionError(13, "Permission denied"), ValueError("odd"), OverflowError("odd")])
async def test_a_control_that_fails_is_told_and_nothing_more(socket: Path, failure: Exception) -> None:
    """Who asked gets the reason; that client and all others go on."""
    async with serving(socket) as daemon, client(daemon) as ann, client(daemon) as bob:
        daemon.failure = failure
        ann.send({"op": "control", "name": "fails", "args": {}})
        assert await ann.hear() == {"event": "error", "text": f"fails failed: {failure}."}
        for one in (ann, bob):
            one.send({"op": "control", "name": "status", "args": {}})
            assert (await one.hear())["result"] == {"running": True}


async def test_a_client_that_does_not_read_is_dropped(socket: Path) -> None:
    """It never holds up the daemon; the others hear on, and at last nobody is there for it."""
    async with serving(socket) as daemon, client(daemon) as slow:
        await slow.attach(daemon)
        with pytest.raises(NotHere):
            for _ in range(30):
                await daemon.channel.say(HOME, "x" * LONGEST_LINE)
        async with client(daemon) as ann:
            await ann.attach(daemon)
            await daemon.channel.say(HOME, "hi")
            assert (await ann.hear())["text"] == "hi"


async def test_a_home_however_deep(tmp_path: Path) -> None:
    """A socket whose path is longer than an address may be is served and reached all the same."""
    socket = tmp_path.joinpath(*["deep" * 20] * 4) / "daemon.sock"
    socket.parent.mkdir(parents=True)
    assert len(os.fsencode(socket)) > 300
    async with serving(socket):
        assert await control(socket, "status", {}) == {"running": True}
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert not socket.exists()


async def test_a_socket_left_behind_is_replaced(socket: Path) -> None:
    """A killed daemon's socket is no hindrance; a file that is none is left alone, and said."""
    with sockets.socket(sockets.AF_UNIX) as killed:
        killed.bind(str(socket))
    with pytest.raises(ConnectionRefusedError):
        await control(socket, "status", {})
    async with serving(socket) as daemon:
        assert await control(socket, "status", {}) == {"running": True}
    socket.write_text("notes")
    with pytest.raises(Stop, match="Cannot listen"):
        await daemon.channel.run(daemon.desk)
    assert socket.read_text() == "notes"


async def test_parts_and_files(socket: Path) -> None:
    """Any length is one part, a blank is a word; files cannot be fetched."""
    channel = Daemon(socket).channel
    assert channel.parts("a" * 10_000) == ["a" * 10_000]
    assert channel.parts(" \n") == ["(empty answer)"]
    with pytest.raises(Refused):
        await channel.fetch(Attachment("image", "a.png", "image/png", 1, "x"), socket)


async def test_asking_once(socket: Path) -> None:
    """One-shot use waits for its own answer, past others', and does not call for old ones."""
    async with serving(socket) as daemon, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(ask(socket, HOME, "capital of France?"))
        said = await daemon.desk.hears("capital of France?")
        await daemon.answers("another's", "London.")
        await daemon.answers(said, "\x1b[31mParis\x1b[0m.", end="failed")
        assert await asked == ("Paris.", "failed")
        assert daemon.desk.arrivals == []


async def test_asking_once_for_a_command(socket: Path) -> None:
    """A command's reply is an answer without an end."""
    async with serving(socket) as daemon, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(ask(socket, HOME, "/new"))
        await daemon.replies(await daemon.desk.hears("/new"), "New session started.")
        assert await asked == ("New session started.", None)


async def test_asking_a_daemon_that_cannot(socket: Path) -> None:
    """The reason is passed on: nobody listens, the disk is full, there is no such control, too long."""
    with pytest.raises(FileNotFoundError):
        await ask(socket, HOME, "hi")
    async with serving(socket) as daemon:
        daemon.desk.refuses = CannotStore("The disk is full.")
        with pytest.raises(Stop, match="The disk is full"):
            await ask(socket, HOME, "hi")
        with pytest.raises(Stop, match="There is no nonsense"):
            await control(socket, "nonsense", {})
        with pytest.raises(Refused, match="1 MB"):
            await ask(socket, HOME, "x" * LONGEST_LINE)


async def test_a_daemon_that_goes_away_while_asked(socket: Path) -> None:
    """The person is told that the message is kept, for it was taken."""
    async with asyncio.TaskGroup() as tasks:
        async with serving(socket) as daemon:
            asked = tasks.create_task(outcome(ask(socket, HOME, "hi")))
            await daemon.desk.hears("hi")
            await daemon.channel.place(HOME)
        assert str(await asked) == KEPT


async def test_a_daemon_that_goes_away_before_it_took_the_message(socket: Path) -> None:
    """The person is told to say it again."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"event": "tak')
        writer.close()

    async with await asyncio.start_unix_server(hang_up, socket):
        assert str(await outcome(ask(socket, HOME, "hi"))) == NOT_TAKEN
        assert "before it had answered" in str(await outcome(control(socket, "status", {})))


async def outcome(call: Any) -> object:
    try:
        return await call
    except Stop as stop:
        return stop


def test_a_growing_text_is_printed_a_line_at_a_time() -> None:
    """Each line is printed once, when it is finished; the rest at the end, with a line break."""
    text = Growing()
    grown = [("One", False), ("One\nTw", False), ("One\nTwo\nThree", False), ("One\nTwo\nThree.", True)]
    assert [text.more(*step) for step in grown] == ["", "One\n", "Two\n", "Three.\n"]
    assert text.more("One\nTwo\nThree.", True) == ""


def test_a_text_that_is_replaced_is_printed_again() -> None:
    """What does not go on as it began comes whole, after a mark; one that became shorter has been seen."""
    text = Growing()
    assert text.more("One\nTwo\n", False) == "One\nTwo\n"
    assert text.more("One\n", False) == ""
    assert text.more("1\n2", False) == REPLACED + "1\n"
    assert text.more("1\n2", True) == "2\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[1;31mred\x1b[0m \x9b2Jclear", "red clear"),
        ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;never ended\nnext line", "\nnext line"),
        ("\x1bP1$r\x1b\\\x1bc\x1b(B\x00\x08\r\x7fok\x1b", "ok"),
    ],
)
def test_nothing_printed_moves_the_terminal(text: str, shown: str) -> None:
    """Escapes and control characters in an answer are not printed."""
    assert plain(text) == shown


PIPED = """
import asyncio, sys, pathlib
from nanomem.chat import converse
from nanomem.errors import NanomemError
try:
    asyncio.run(converse(pathlib.Path(sys.argv[1]), "terminal:local", [], None))
except NanomemError as error:
    sys.exit(error.text)
"""


async def piped(socket: Path, source: Any = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PIPED, str(socket), stdin=source, stdout=pipe, stderr=pipe
    )


async def test_a_script_talks(socket: Path) -> None:
    """Each line is a message, sent when the one before is answered; old answers come first; it ends by itself."""
    async with serving(socket) as daemon:
        script = await piped(socket)
        assert script.stdin is not None
        script.stdin.write("first\n\n  \n/new\nlast, ünfinished".encode())
        script.stdin.close()
        first = await daemon.desk.hears("first")
        assert daemon.desk.arrivals == [HOME]
        await daemon.answers("yesterday's", "Old answer.")
        assert daemon.desk.said == ["first"]
        await daemon.answers(first, "One.\nT", "One.\nTwo.")
        await daemon.replies(await daemon.desk.hears("/new"), "New session started.")
        await daemon.answers(await daemon.desk.hears("last, ünfinished"), "Bye.")
        async with asyncio.timeout(10):
            out, err = await script.communicate()
    assert out.decode().splitlines() == ["Old answer.", "One.", "Two.", "New session started.", "Bye."]
    assert (script.returncode, err) == (0, b"")
    assert daemon.desk.said == ["first", "/new", "last, ünfinished"]


async def test_a_file_as_a_script(socket: Path, tmp_path: Path) -> None:
    """A file on stdin works as a pipe does."""
    (tmp_path / "lines").write_text("hello\n")
    async with serving(socket) as daemon:
        with (tmp_path / "lines").open() as lines:
            script = await piped(socket, lines)
        await daemon.answers(await daemon.desk.hears("hello"), "Hi.")
        async with asyncio.timeout(10):
            assert await script.communicate() == (b"Hi.\n", b"")


async def test_a_script_whose_daemon_goes_away(socket: Path) -> None:
    """It ends at once and says so, even while it waits for its next line."""
    async with serving(socket) as daemon:
        script = await piped(socket)
        await daemon.desk.until(lambda: bool(daemon.desk.arrivals))
    assert script.stderr is not None
    async with asyncio.timeout(10):
        assert (await script.stderr.read()).decode() == KEPT + "\n"
        assert await script.wait() == 1
    assert script.stdin is not None
    script.stdin.close()


async def test_a_message_of_a_script_that_is_refused(socket: Path) -> None:
    """The reason goes to stderr, and the next line is sent."""
    async with serving(socket) as daemon:
        daemon.desk.refuses = CannotStore("The disk is full.")
        script = await piped(socket)
        async with asyncio.timeout(10):
            said = b"The disk is full.\n" * 2 + b"Of these messages 2 were refused.\n"
            assert await script.communicate(b"one\ntwo\n") == (b"", said)
    assert script.returncode == 1


class Screen(DummyOutput, Seen):
    """Keeps what is written on it; also from the thread that prints above the prompt."""

    def __init__(self) -> None:
        Seen.__init__(self)
        self.text = ""
        self._loop = asyncio.get_running_loop()

    def write(self, data: str) -> None:
        self.text += data
        self._loop.call_soon_threadsafe(self.changed)

    write_raw = write

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)


@asynccontextmanager
async def at_the_prompt(daemon: Daemon, history: Path | None = None) -> AsyncIterator[tuple[PipeInput, Screen]]:
    """Somebody in a conversation, who leaves with Ctrl-D at the end."""
    screen = Screen()
    with create_pipe_input() as keys, create_app_session(keys, screen):
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            commands = [("/new", "starts afresh"), ("/dream-log", "what was learnt")]
            tasks.create_task(converse_typing(daemon.socket, HOME, commands, history))
            await daemon.desk.until(lambda: bool(daemon.desk.arrivals))
            yield keys, screen
            keys.send_text("\x04")


async def test_typing(socket: Path, tmp_path: Path) -> None:
    """Enter sends, Alt-Enter breaks the line, the answer's lines appear once finished; what was said is kept."""
    history = tmp_path / "said"
    async with serving(socket) as daemon, at_the_prompt(daemon, history) as (keys, screen):
        keys.send_text("two\x1b\rlines\r")
        said = await daemon.desk.hears("two\nlines")
        placed = await daemon.channel.place(HOME)
        await daemon.channel.show(HOME, placed, "First\x07 line.\nSec", final=False)
        await screen.shows("First line.")
        assert "Sec" not in screen.text
        await daemon.channel.show(HOME, placed, "First line.\nSecond.", final=True)
        await daemon.channel.done(Outbound("x", HOME, "", "answer", (placed,), (said,)))
        await screen.shows("Second.")
        keys.send_text("\r   \rmore\r")
        await daemon.desk.hears("more")
    assert daemon.desk.said == ["two\nlines", "more"]
    assert "+two\n+lines\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


async def test_completing_a_command(socket: Path) -> None:
    """Tab completes a slash command."""
    async with serving(socket) as daemon, at_the_prompt(daemon) as (keys, screen):
        keys.send_text("/dr")
        await screen.shows("learnt")
        keys.send_text("\t\r")
        await daemon.desk.hears("/dream-log")


async def test_interrupting(socket: Path) -> None:
    """Ctrl-C drops the line and says how to leave; while a turn runs, whoever began it, it stops it."""
    async with serving(socket) as daemon, at_the_prompt(daemon) as (keys, screen):
        keys.send_text("never mind\x03")
        await screen.shows("(Ctrl-D leaves.)")
        keys.send_text("long work\r")
        said = await daemon.desk.hears("long work")
        keys.send_text("\x03")
        stop = await daemon.desk.hears("/stop")
        await daemon.answers(said, "So far", end="stopped")
        await daemon.replies(stop, "Stopped.")
        await screen.shows("Stopped.")
        await daemon.channel.place(HOME)
        await daemon.channel.say(HOME, "Another's turn began.")
        await screen.shows("Another's turn began.")
        keys.send_text("\x03")
        await daemon.desk.until(lambda: len(daemon.desk.said) == 3)
    assert daemon.desk.said == ["long work", "/stop", "/stop"]


async def test_a_paste_that_is_too_long(socket: Path) -> None:
    """It is not sent, the person is told, and the conversation goes on."""
    async with serving(socket) as daemon, at_the_prompt(daemon) as (keys, screen):
        paste = "\x01" * (LONGEST_LINE // 6)  # which are six bytes each on their way
        await asyncio.to_thread(keys.send_text, f"\x1b[200~{paste}\x1b[201~\r")
        await screen.shows("too long")
        keys.send_text("short\r")
        await daemon.desk.hears("short")
    assert daemon.desk.said == ["short"]


async def test_a_daemon_that_goes_away_while_typing(socket: Path) -> None:
    """The prompt ends, and what becomes of the messages is said."""
    with create_pipe_input() as keys, create_app_session(keys, Screen()):
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            async with serving(socket) as daemon:
                typing = tasks.create_task(outcome(converse_typing(socket, HOME, [], None)))
                await daemon.desk.until(lambda: bool(daemon.desk.arrivals))
                keys.send_text("half a line")
            assert str(await typing) == KEPT


async def test_a_session_with_a_wrong_name(socket: Path) -> None:
    """The conversation does not begin, and says what is wrong."""
    async with serving(socket) as daemon:
        script = create_pipe_input()
        with script as keys, create_app_session(keys, Screen()), pytest.raises(Stop, match="terminal:NAME"):
            await converse_typing(daemon.socket, "telegram:42", [], None)


async def test_the_end_of_a_stream() -> None:
    """A last line without a line break still counts as one."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"one\ntwo")
    reader.feed_eof()
    assert [await next_line(reader) for _ in range(3)] == [b"one\n", b"two", b""]
