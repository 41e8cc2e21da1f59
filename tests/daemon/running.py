"""The real daemon as a process, between a Telegram and a model provider on loopback, and what its files then tell.

Knows nothing of the inside: only settings, the home's files and formats, the log on stderr, and the networks.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from proofs import invariants
from tests.emulators import OpenAIServer, TelegramServer
from tests.emulators.openai import rough_count
from tests.guard import sitecustomize as guard

CHECKOUT = Path(__file__).parent.parent.parent
TOKEN = "7654321:AAcanary-token_0123456789abcdefghijk"
KEY = "sk-canary-0123456789abcdefghij"
OWNER = 42
OTHERS = (7, 8, 9, *range(100, 120))
PLACEHOLDER = "…"
REPLIES = ("Welcome", "New session started.", "Stopped.", "Nothing ", "/new: ", "Model: ", "Unknown command ")
GIVEN_UP_S = 90.0

Json = dict[str, Any]


class DaemonProcess:
    """One life of `nanomem run`, `under` another program perhaps.

    `log` holds its events, `lines` all it wrote to stderr.
    """

    def __init__(self, environ: Mapping[str, str], lines: list[str], under: Sequence[str] = ()) -> None:
        self.log: list[Json] = []
        self.lines = lines
        self._environ = environ
        self._under = under
        self._heard = asyncio.Event()

    async def start(self) -> Self:
        """Returns as soon as the process is there."""
        self._process = await asyncio.create_subprocess_exec(
            *(*self._under, sys.executable, "-m", "nanomem", "run"),
            env=dict(self._environ),
            cwd=CHECKOUT,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def ready(self) -> Self:
        """Returns once it serves."""
        await self.until("daemon.ready")
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def events(self, name: str) -> list[Json]:
        return [event for event in self.log if event.get("event") == name]

    async def until(self, name: str, count: int = 1, within_s: float = GIVEN_UP_S) -> Json:
        """The `count`-th event of that name."""
        async with asyncio.timeout(within_s):
            while len(found := self.events(name)) < count:
                if self._listening.done():
                    raise AssertionError("the daemon has ended:\n" + "".join(self.lines[-20:]))
                await self._heard.wait()
        return found[count - 1]

    async def dies_after(self, seconds: float) -> None:
        """Lets it live for so long, then kill -9. Raises AssertionError where it ends before, which it never should."""
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            pass
        await self.kill()
        if (code := await self.exit_code()) != -signal.SIGKILL:
            raise AssertionError(f"nobody had killed it, and it ended with {code}:\n" + "".join(self.lines[-20:]))

    @contextmanager
    def halted(self) -> Iterator[None]:
        """It stands still meanwhile, wherever it is, and goes on from there."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """kill -9; what it had written to its log is still read."""
        if self._process.returncode is None:
            self._process.kill()
        await self.exit_code()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    async def exit_code(self, within_s: float = GIVEN_UP_S) -> int:
        """Waits for its end."""
        async with asyncio.timeout(within_s):
            await asyncio.shield(self._listening)
            return await self._process.wait()

    async def stops(self) -> None:
        """A clean stop."""
        self.terminate()
        assert await self.exit_code() == 0, "".join(self.lines[-20:])

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        async for raw in self._process.stderr:
            line = raw.decode("utf-8", "replace")
            self.lines.append(line)
            try:
                self.log.append(json.loads(line))
            except ValueError:
                pass
            self._tell()
        self._tell()

    def _tell(self) -> None:
        self._heard.set()
        self._heard = asyncio.Event()


@dataclass(frozen=True)
class MadeVersion:
    """One commit of a space's memory, as git tells it: its subject, its lines, its trailers."""

    subject: str
    lines: list[str]
    trailers: dict[str, str]


@dataclass
class World:
    """What outlives a daemon: its home, the two networks, and all that its lives wrote to their logs.

    `replies` are the beginnings of what is said outside of the conversation. `earlier` is how many answers of a chat
    were shown before there was this Telegram, `patience_s` how long to wait for anything.
    """

    home: Path
    telegram: TelegramServer
    model: OpenAIServer
    lines: list[str] = field(default_factory=list)
    lives: list[DaemonProcess] = field(default_factory=list)
    replies: tuple[str, ...] = REPLIES
    earlier: Counter[int] = field(default_factory=Counter)
    patience_s: float = GIVEN_UP_S

    def environ(self, **settings: str) -> dict[str, str]:
        """A whole environment; `agents__defaults__model="..."` is a setting, names in capitals are variables."""
        person = self.home.parent / "person"
        person.mkdir(parents=True, exist_ok=True)
        given = {
            "agents__defaults__model": "offline",
            "providers__openai__api_base": self.model.base_url,
            "providers__openai__api_key": KEY,
            "channels__telegram__enabled": "true",
            "channels__telegram__token": TOKEN,
            "channels__telegram__base_url": self.telegram.base_url,
            "channels__telegram__base_file_url": self.telegram.base_file_url,
            "channels__telegram__allow_from": ",".join(map(str, (OWNER, *OTHERS))),
            "channels__telegram__owner": str(OWNER),
        } | settings
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "HOME": str(person),
            "LANG": "C.UTF-8",
            "NANOMEM_HOME": str(self.home),
            "PYTHONPATH": str(Path(guard.__file__).parent),
        } | {name if name.isupper() else f"NANOMEM__{name.upper()}": value for name, value in given.items() if value}

    async def daemon(self, model: str = "offline", under: Sequence[str] = (), **settings: str) -> DaemonProcess:
        """A new life, begun but perhaps not ready; an empty setting is left out."""
        environ = self.environ(agents__defaults__model=model, **settings)
        self.lives.append(DaemonProcess(environ, self.lines, under))
        return await self.lives[-1].start()

    async def nanomem(self, *arguments: str, **settings: str) -> tuple[int, str, str]:
        """Another command on the same home: its exit code, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nanomem", *arguments),
            env=self.environ(**settings),
            cwd=CHECKOUT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        self.lines.append(err.decode())
        return process.returncode or 0, out.decode(), err.decode()

    async def messages_in_flight(self) -> Json:
        """What `status --json` says of messages."""
        code, out, err = await self.nanomem("status", "--json")
        assert code == 0, err
        counts: Json = json.loads(out)["messages"]
        return counts

    # What the networks saw.

    @property
    def api_calls(self) -> int:
        """Of both networks, without the polling."""
        return sum(call.method != "getUpdates" for call in self.telegram.calls) + len(self.model.requests)

    async def shows(self, text: str, chat: int = OWNER, count: int = 1, topic: int | None = None) -> None:
        """Waits until so many messages with that text stand in the chat."""
        await self.until(lambda: sum(text in shown for shown in self.answers(chat, topic)) >= count, self.answers, chat)

    async def settled(self, chat: int, *texts: str, key: str = "", topic: int | None = None) -> None:
        """Waits until all of that is answered, in the log and on the screen."""
        await self.until(lambda: self.is_settled(chat, texts, key, topic), self.answers, chat)

    async def until(self, predicate: Callable[[], object], explain: Callable[..., object] = str, *about: Any) -> None:
        """Waits for something at Telegram's end."""
        try:
            await self.telegram.wait_for(predicate, self.patience_s)
        except TimeoutError:
            raise AssertionError(f"still not: {explain(*about)}\n{''.join(self.lines[-20:])}") from None

    async def until_called(self, times: int, or_else: Callable[[], object]) -> None:
        """Waits for so many more calls at either network, or until `or_else`."""
        goal = self.api_calls + times
        reached = [
            asyncio.create_task(server.wait_for(lambda: self.api_calls >= goal or or_else(), self.patience_s))
            for server in (self.telegram, self.model)
        ]
        try:
            await asyncio.wait(reached, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in reached:
                task.cancel()
            await asyncio.gather(*reached, return_exceptions=True)

    def answers(self, chat: int = OWNER, topic: int | None = None) -> list[str]:
        """What stands in a chat, without placeholders."""
        return [text for text in self.telegram.visible(chat, topic) if text != PLACEHOLDER]

    # What the files tell.

    def log_of(self, key: str) -> Path | None:
        """The session file of an address, in whatever space."""
        name = f"sessions/{quote(key, safe='')}.jsonl"  # no `**`: elsewhere folders come and go
        return next((path for space in ("workspace", "spaces/*") for path in self.home.glob(f"{space}/{name}")), None)

    def records(self, key: str = f"telegram:{OWNER}") -> list[Json]:
        """All records of a session."""
        path = self.log_of(key)
        return invariants.records(path) if path else []

    def said(self, key: str = f"telegram:{OWNER}") -> list[Json]:
        """The messages among them."""
        return [record for record in self.records(key) if "role" in record]

    def heard(self, key: str = f"telegram:{OWNER}") -> list[str]:
        """What people said, as the log has it."""
        return [record["content"] for record in self.said(key) if record["role"] == "user"]

    def ends(self, key: str = f"telegram:{OWNER}") -> list[Json]:
        """The last record of each turn that has one."""
        return [record for record in self.said(key) if "end" in record]

    def is_settled(self, chat: int, texts: Sequence[str], key: str = "", topic: int | None = None) -> bool:
        """Whether all of that is answered, in the log and on the screen."""
        key = key or f"telegram:{chat}"
        said = self.said(key)
        ended = {record["turn"] for record in said if "end" in record}
        heard = Counter(record["content"] for record in said if record["role"] == "user" and record["turn"] in ended)
        ends = [end["content"] for end in self.ends(key)[self.earlier[chat] :]]
        return not Counter(texts) - heard and invariants.fits(self._shown(chat, topic), ends)

    def _shown(self, chat: int, topic: int | None = None) -> list[str]:
        """The answers, without replies to commands."""
        return [text for text in self.answers(chat, topic) if not text.startswith(self.replies)]

    def check(self, chat: int, texts: Sequence[str]) -> None:
        """The promise: each message in the log once and in order, in a turn with one end, each end shown once."""
        found = invariants.conversation(*self.talk(chat, texts))
        assert found == [], f"chat {chat}: {found}"

    def talk(self, chat: int, texts: Sequence[str]) -> tuple[list[Json], Sequence[str], list[str], int]:
        """A chat's messages in the log, what was told, the answers on its screen, and how many there were earlier."""
        return self.said(f"telegram:{chat}"), texts, self._shown(chat), self.earlier[chat]

    # What the memory's files tell.

    def root(self, space: str = "owner") -> Path:
        """The folder of a space, named as its first chat is."""
        return self.home / "workspace" if space == "owner" else self.home / "spaces" / quote(space, safe="")

    def repository(self, space: str = "owner") -> Path:
        """Where its versions are."""
        return self.home / "versions" / f"{quote(space, safe='')}.git"

    def memory(self, space: str = "owner") -> str:
        """MEMORY.md."""
        return (self.root(space) / "memory" / "MEMORY.md").read_text()

    def facts(self, space: str = "owner") -> Counter[str]:
        """The list items of MEMORY.md, and how often each stands there."""
        return Counter(re.findall(r"(?m)^- (.+)$", self.memory(space)))

    def entries(self, space: str = "owner") -> list[Json]:
        """The lines of history.jsonl."""
        path = self.root(space) / "memory" / "history.jsonl"
        return invariants.records(path) if path.exists() else []

    def git(self, *arguments: str, space: str = "owner") -> str:
        """What git says about the versions of a space."""
        command = ["git", "-C", str(self.repository(space)), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def versions(self, space: str = "owner") -> list[MadeVersion]:
        """All of them, number 1 first."""
        found: list[MadeVersion] = []
        for body in self.git("log", "--reverse", "--format=%B%x00", "main", space=space).split("\0")[:-1]:
            subject, *rest = [line for line in body.strip().split("\n") if line.strip()]
            lines = [line for line in rest if re.match(r"[+~>=-] ", line)]
            found.append(MadeVersion(subject, lines, dict(line.split(": ", 1) for line in rest[len(lines) :])))
        return found

    def ranges(self, key: str) -> list[tuple[int, int]]:
        """What was consolidated of a session, decision by decision; each is carried out, once."""
        records = self.records(key)
        decided = {record["id"]: record for record in records if record.get("_type") == "consolidating"}
        done = [record["id"] for record in records if record.get("_type") == "consolidated"]
        assert done == list(decided), key
        return [(decided[id]["from"], decided[id]["through"]) for id in done]

    async def check_memory(self, keys: Sequence[str], space: str = "owner") -> None:
        """The promise: each message of these sessions, which are all of the space, is in one entry or still in the
        conversation; each decision is one version at most; what people can read fits the truth; the files stand.
        """
        assert self.memory_violations(keys, space) == [], space
        assert await self.nanomem("memory", "rebuild", "--space", space) == (0, "HISTORY.md fits history.jsonl.\n", "")

    async def catches_up(self, keys: Sequence[str], space: str = "owner") -> None:
        """Waits for what a daemon puts right once it has started, such as HISTORY.md; gives up without a word."""
        for _ in range(round(self.patience_s * 5)):
            if not self.memory_violations(keys, space):
                return
            await asyncio.sleep(0.2)

    def memory_violations(self, keys: Sequence[str], space: str = "owner") -> list[str]:
        """What of it does not hold."""
        entries, root = self.entries(space), self.root(space)
        return [
            *invariants.summarised({key: self.records(key) for key in keys}, entries),
            *invariants.history(root / "memory", entries),
            *invariants.versions(self.repository(space), root),
        ]

    def leaks(self) -> list[str]:
        """Where the token or the key can be read but should not; where something left this machine."""
        secrets = (TOKEN, TOKEN.partition(":")[2], KEY)
        places = {f"log line: {line}": line for line in self.lines}
        places |= {str(path): path.read_bytes().decode("latin-1") for path in self.home.rglob("*") if path.is_file()}
        places |= {f"request {n}": body.decode() for n, body in enumerate(self.model.raw_requests)}
        places |= {f"call {n} {call.method}": repr(call.params) for n, call in enumerate(self.telegram.calls)}
        found = [place for place, text in places.items() if any(secret in text for secret in secrets)]
        return found + [line for line in self.lines if "tests/guard:" in line]


class Person:
    """Somebody at Telegram who asks, and reads what comes next."""

    def __init__(self, world: World, chat: int = OWNER, user: int | None = None) -> None:
        self.world = world
        self.chat = chat
        self.user = user or chat

    async def asks(self, text: str) -> str:
        """The next message in the chat, once it is no placeholder."""
        before = len(self.world.answers(self.chat))
        self.world.telegram.say(text, self.chat, self.user)
        await self.world.until(lambda: len(self.world.answers(self.chat)) > before, str, text)
        return self.world.answers(self.chat)[before]


@asynccontextmanager
async def a_world(folder: Path, count: Callable[[str], int] = rough_count) -> AsyncIterator[World]:
    """Both networks; in the end every daemon is gone, and no secret is where it does not belong.

    `count` is how the model counts the tokens of a text.
    """
    async with TelegramServer(TOKEN) as telegram, OpenAIServer(api_key=KEY, count=count) as model:
        world = World(folder / "home", telegram, model)
        try:
            yield world
        finally:
            for life in world.lives:
                await life.kill()
        for found in (world.leaks(), model.violations, [line for line in world.lines if "lane.bug" in line]):
            assert not found, found
