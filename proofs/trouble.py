"""One play of a fault: people talk, a disk refuses something or no more files may be opened, that ends, they talk on.

What a person was shown while it lasted is compared with the disk then, and in the end everything is. Who ends is
started again, as systemd would.
"""

import asyncio
import errno
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from proofs import invariants
from proofs.record import SYNCS, WRITES, Event, events
from tests.daemon.running import OWNER, PLACEHOLDER, REPLIES, DaemonProcess, World, a_world

WITHIN_S = 5.0
"""Seconds after the end of a fault, in which it has been noticed; the answers themselves may take some more."""
SLACK_S = 25.0  # on a machine that does much else
MOST_OF_A_CORE, START_S = 0.2, 0.2
LINES_A_SECOND, SOME_LINES = 3, 15
STRANGER = 666
REMEMBER = "/remember The garden gate is green"
SMALL_DISK = "small disk"

TROUBLE = (
    *("I cannot write to my disk", "Not saved: ", "Not learnt: ", "Cannot write", "Cannot use", "Cannot read"),
    *("I cannot let you in now", "Could not archive"),
)
"""How a word about what is wrong begins."""
CHATS = [f"telegram:{OWNER}"]
FOUND = "[in memory] "
DONE = (
    *("Saved (", "Already known: ", "Learned (", "Nothing new", "Nothing was", "Skill ", "There is no draft"),
    *("Welcome", FOUND),
)
"""How a reply begins that says what was done; those with a number in them are looked up."""
WRITING = ",".join(sorted(WRITES | {"mkdir", "mkdirat", "symlink", "symlinkat", "link", "linkat", "fallocate"}))
SKILL = "---\nname: tides\ndescription: when to sail\n---\nLook at the moon.\n"


@dataclass(frozen=True)
class Store:
    """Some files, by a pattern of their paths; what has to be said that they are written to, after what is said
    `first`; how the log calls them; and what is said `last`, which makes them good. Of what is only a `view` nothing
    hangs on a sync."""

    name: str
    under: str
    said: tuple[str, ...]
    called: str
    view: bool = False
    first: str = ""
    last: str = ""


@dataclass(frozen=True)
class Case:
    """A fault at a store: `error` is that of writes, or "sync" for EIO at syncs. It comes `at` that call and once, or
    else begins while people talk; then it ends, or the process does (`killed`).

    Those that are `real` are no tracer's: a limit of open files, and "small disk", which is filled up.
    """

    store: Store
    error: str
    at: int = 0
    killed: bool = False

    def __str__(self) -> str:
        how = f"at number {self.at}" if self.at else "until it is killed" if self.killed else "for a while"
        return f"{self.error}, {self.store.name}, {how}"

    @property
    def tracing(self) -> list[str]:
        """The tracer's arguments."""
        if self.is_real:
            return []
        number = "EIO" if self.error == "sync" else self.error
        calls = {"sync": ",".join(SYNCS), "ENOSPC": WRITING, "EIO": ",".join(WRITES)}.get(self.error, "")
        times = 1 if self.at or self.error == "sync" else 0
        when = f"--fail {number} --at {self.at} --times {times}".split()
        return [*when, "--calls", calls, "--under", self.store.under]

    @property
    def is_real(self) -> bool:
        return self.error in ("EMFILE", SMALL_DISK)

    @property
    def words(self) -> tuple[str, ...]:
        """How the system, or SQLite, calls it."""
        number = getattr(errno, {"sync": "EIO", SMALL_DISK: "ENOSPC"}.get(self.error, self.error))
        return os.strerror(number), "disk I/O error", "is full", "readonly", "unable to open"


@dataclass
class Play:
    """One case in a world of its own."""

    case: Case
    world: World
    record: Path
    lasting_s: float
    told: list[str] = field(default_factory=list)
    files: int = 0
    found: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)
    code: str = ""

    async def run(self) -> None:
        """All of it."""
        world = self.world
        world.replies = (*REPLIES, *TROUBLE, *DONE)
        self.life = await self.begun(*self.case.tracing)
        supervised = asyncio.create_task(self.supervise())
        try:
            await self.talk()
            await self.until(self.all_is_well, "all is answered, exactly once")
            await self.ends_if_a_sync_failed()
        finally:
            supervised.cancel()
            await asyncio.gather(supervised, return_exceptions=True)
        self.life.terminate()
        if code := await self.life.exit_code():
            self.found.append(f"stopped, it ended with {code}")
        not_closed = list((world.home / "state").rglob("*-wal"))
        view_behind = self.case.at and self.case.store.last and world.memory_violations(CHATS)
        if not_closed or view_behind:  # the fault came at the very end: the next start makes it good
            self.life = await (await self.begun()).ready()
            await world.catches_up(CHATS)
            await self.life.stops()
        self.look()

    async def talk(self) -> None:
        """What people say, and what goes wrong meanwhile."""
        case, world = self.case, self.world
        draft = world.root() / "skills" / "drafts" / "tides" / "SKILL.md"
        await self.until(lambda: world.home.joinpath("state", "bus.db").exists() and self.life.events("daemon.ready"))
        self.says("Hello")
        self.says("/remember The boat is called Petrel")
        await self.until(lambda: self.all_is_well() and self.is_shown("Saved (", "Not saved: "), "a beginning")
        if not self.is_shown("Saved ("):
            self.says("/remember The boat is called Petrel")
            await self.until(lambda: self.is_shown("Saved ("), "a beginning")
        if case.store.name == "skills":
            for folder in (draft.parent.parent, draft.parent):
                folder.mkdir(0o700)
            draft.write_text(SKILL)
            draft.chmod(0o600)
        if case.store.first:
            answers = len(world.answers())
            self.says(case.store.first)
            await self.until(lambda: len(world.answers()) > answers, case.store.first)
        code = (await world.nanomem("pair"))[1].split("\n")[0] if "<pairing>" in case.store.said else ""
        shown = len(world.answers())
        if case.at:
            for text in case.store.said:
                self.says(text, code)
                await self.until(self.all_is_well, text)
        else:
            await self.while_it_lasts(code)
        told = [text for text in world.answers()[shown:] + world.answers(STRANGER) if text.startswith(TROUBLE)]
        await self.until(self.all_is_well, "all is answered")
        for text in case.store.said:
            if text.startswith("/") and any(word.startswith(("Not ", "Cannot", "Could not")) for word in told):
                self.says(text)
            elif text == "<pairing>" and "Welcome" not in "".join(world.answers(STRANGER)):
                self.says(text, code)
        await self.until(self.all_is_well, "all is answered")
        self.says("Goodbye")
        if case.store.last:
            await self.until(self.all_is_well, "all is answered")
            self.says(case.store.last)

    async def while_it_lasts(self, code: str) -> None:
        """Something is said, the fault is met, lasts, and ends."""
        case, world = self.case, self.world
        shown, lives = len(world.answers()), len(world.lives)
        with ExitStack() as fault:
            self.begin(fault)
            began = time.monotonic()
            for text in case.store.said:
                self.says(text, code)
            if case.is_real:
                await asyncio.sleep(0.5)
            elif not await self.within(15, lambda: self.struck()):
                self.found.append("the fault was never met")
                return
            if case.error == "sync" and not case.store.view:
                return await self.ends_if_a_sync_failed()
            if await self.within(1, lambda: len(world.lives) > lives):
                return  # whether it might, who starts it anew has seen
            lines, used, since = len(world.lines), self.processor_s(), time.monotonic()
            await asyncio.sleep(self.lasting_s)
            elapsed = time.monotonic() - since
            if len(world.lives) > lives:
                return
            self.measured["processor during a fault, % of a core"] = share = 100 * (self.processor_s() - used) / elapsed
            self.measured["log lines a second during a fault"] = rate = (len(world.lines) - lines) / elapsed
            if self.processor_s() - used > MOST_OF_A_CORE * elapsed + START_S:
                self.found.append(f"it took {share:.0f} % of a core while nothing could be done")
            if rate * elapsed > LINES_A_SECOND * elapsed + SOME_LINES:
                self.found.append(f"it logged {rate:.0f} lines a second")
            self.compare(world.answers()[shown:], time.monotonic() - began)
            self.is_in_the_log()
            if case.killed:
                await self.life.kill()
        ended = time.monotonic()
        if case.killed:
            return await self.until(self.all_is_well, "it goes on after a new start")
        await self.until(self.all_is_well, "it goes on", WITHIN_S + SLACK_S)
        self.measured["seconds from the end of a fault to the last answer"] = time.monotonic() - ended

    async def ends_if_a_sync_failed(self) -> None:
        """The process whose sync did, which is the first one."""
        if self.case.error != "sync" or self.case.store.view or not self.struck():
            return
        if not await self.within(SLACK_S, lambda: len(self.world.lives) > 1):
            self.found.append("a sync failed, and the process did not end")

    # --- what is done

    def says(self, text: str, code: str = "") -> None:
        """Somebody does."""
        telegram = self.world.telegram
        if text == "<pairing>":
            telegram.say(f"/start {code}", STRANGER, STRANGER)
        elif text == "<file>":
            self.files += 1
            telegram.say("", OWNER, document=b"a chart", caption="Here is a chart")
            self.told.append("Here is a chart")
        else:
            telegram.say(text)
            if not text.startswith("/"):
                self.told.append(text)

    def begin(self, fault: ExitStack) -> None:
        """Until `fault` is left."""
        if self.case.error == "EMFILE":
            pid = self.daemon_pid
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
            fault.callback(quietly, resource.prlimit, pid, resource.RLIMIT_NOFILE, before)
        elif self.case.error == SMALL_DISK:
            filler = self.world.home / "filler"
            fault.callback(filler.unlink)
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
        else:
            os.kill(self.life.pid, signal.SIGUSR2)
            fault.callback(quietly, os.kill, self.life.pid, signal.SIGUSR1)

    async def begun(self, *tracing: str) -> DaemonProcess:
        """A life, under the tracer if there is something to trace."""
        watching = [*("--home", str(self.world.home), "--record", str(self.record)), *tracing, "--"]
        under = (sys.executable, "-m", "proofs.tracer", *watching) if tracing else ()
        return await self.world.daemon(under=under)

    async def supervise(self) -> None:
        """As systemd does: one that has ended is started again."""
        while True:
            code = await self.life.exit_code(within_s=3600)
            last = next((line for line in reversed(self.life.lines) if line.strip()), "")
            if code == -signal.SIGKILL and self.case.killed:
                pass
            elif not (code == 1 and last.startswith("nanomem: Cannot ")):
                self.found.append(f"it ended with {code} and the words: {last.strip()}")
            elif self.life.events("daemon.ready") and self.case.error != "sync":
                self.found.append(f"it ended, though no sync had failed: {last.strip()}")
            self.life = await self.world.daemon()

    # --- what is looked at

    @property
    def daemon_pid(self) -> int:
        return int(self.life.events("daemon.ready")[-1]["pid"])

    def processor_s(self) -> float:
        """What the daemon has used so far."""
        fields = Path(f"/proc/{self.daemon_pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def traced(self) -> list[Event]:
        if not self.record.exists():
            return []
        with self.record.open() as lines:
            return [*events(lines)]

    def struck(self) -> bool:
        return any((event.result or 0) < 0 and -(event.result or 0) in FAULTS for event in self.traced())

    @property
    def was_met(self) -> bool:
        """Whether the fault was; of one that is real the log has to tell."""
        return self.case.is_real or self.struck()

    def compare(self, shown: Sequence[str], elapsed_s: float) -> None:
        """What people were shown is either really on disk, or a word about what is wrong; after some time there is one
        of them for whoever waits for something."""
        world = self.world
        answers = [end["content"] for end in world.ends()]
        for text in shown:
            if text.startswith((*TROUBLE, PLACEHOLDER)) or text in answers:
                continue
            if text.startswith("Saved (version "):
                is_true = f"+ {REMEMBER.partition(' ')[2]}" in chain(*(version.lines for version in world.versions()))
            elif text.startswith("New session started."):
                is_true = any(record.get("_type") == "reset" for record in world.records())
            elif text.startswith("Learned ("):
                is_true = any(version.subject.startswith("[Dream]") for version in world.versions())
            elif text.startswith(FOUND):
                is_true = REMEMBER.partition(" ")[2] in world.memory()
            elif text.startswith("Skill tides is installed"):
                is_true = (world.root() / "skills" / "tides" / "SKILL.md").exists()
            else:  # an answer that no log has, or what was not done
                is_true = text.startswith(REPLIES) and (text.startswith("Nothing") or not text.startswith(DONE))
            if not is_true:
                self.found.append(f"shown, but not on disk: {text}")
        heard = self.told[-1] in self.world.heard()
        is_told = any(text.startswith(TROUBLE) for text in (*shown, *world.answers(STRANGER)))
        may_connect = self.case.error != "EMFILE"
        if may_connect and elapsed_s > 7 and not is_told and not self.is_answered(heard):
            self.found.append(f"after {elapsed_s:.0f} s nobody was told that anything is wrong: {shown}")

    def is_answered(self, heard: bool) -> bool:
        """Whether all has been answered in spite of the fault."""
        return heard and self.world.is_settled(OWNER, self.told)

    def is_in_the_log(self) -> None:
        """What is wrong, and where, and nothing that reads like a bug."""
        about = re.compile(self.case.store.called)
        lines = [line for line in self.world.lines if any(word in line for word in self.case.words)]
        if not any(self.case.is_real or about.search(line) for line in lines):  # a real one may meet anything
            self.found.append(f"the log does not say what is wrong with {self.case.store.called}")

    def all_is_well(self) -> bool:
        """Whether nothing waits."""
        confirmed = not self.world.telegram.unconfirmed
        return confirmed and self.world.is_settled(OWNER, self.told) and self.nothing_is_in_flight()

    def is_shown(self, *beginnings: str) -> bool:
        return any(text.startswith(beginnings) for text in self.world.answers())

    def nothing_is_in_flight(self) -> bool:
        """As the bus itself has it."""
        waiting = "SELECT (SELECT count(*) FROM inbound WHERE state = 'waiting') + (SELECT count(*) FROM outbound)"
        try:
            with closing(sqlite3.connect(f"file:{self.world.home}/state/bus.db?mode=ro", uri=True)) as bus:
                return bool(bus.execute(waiting).fetchone() == (0,))
        except sqlite3.Error:
            return False

    async def until(self, predicate: Callable[[], object], what: str = "it is ready", within_s: float = 90) -> None:
        if not await self.within(within_s, predicate):
            raise AssertionError(f"not within {within_s:.0f} s: {what}; {self.world.answers()}")

    async def within(self, seconds: float, predicate: Callable[[], object]) -> bool:
        """Looks again and again: some of it is on disk only."""
        end = time.monotonic() + seconds
        while not predicate():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.05)
        return True

    def look(self) -> None:
        """In the end nothing is missing, doubled or left behind; and no sync was tried again."""
        world, case = self.world, self.case
        self.found += invariants.conversation(*world.talk(OWNER, self.told))
        self.found += world.memory_violations(CHATS)
        wanted = ["The boat is called Petrel", *(["The garden gate is green"] if REMEMBER in case.store.said else [])]
        known = world.facts()
        self.found += [f"known {known[fact]} times: {fact}" for fact in wanted if known[fact] != 1]
        self.found += invariants.in_flight(world.home) + invariants.files(world.home)
        charts = list((world.root() / "files").glob("*")) if self.files else []
        if [path.read_bytes() for path in charts] != [b"a chart"] * self.files:
            self.found.append(f"{self.files} files were sent, there are {[path.name for path in charts]}")
        if "<pairing>" in case.store.said and not any("Welcome" in text for text in world.answers(STRANGER)):
            self.found.append("who had a code was not let in")
        if case.store.name == "skills" and not (world.root() / "skills" / "tides" / "SKILL.md").exists():
            self.found.append("the skill is not there")
        if bugs := [line for line in world.lines if "Traceback" in line]:
            self.found.append(f"a traceback in the log: {bugs[0][:600]}")
        self.found += synced_again(self.traced()) if not case.store.view else []


FAULTS = {errno.ENOSPC, errno.EROFS, errno.EIO}


def synced_again(traced: Sequence[Event]) -> list[str]:
    """Files whose sync had failed, and which the same process synced again."""
    failed: set[str] = set()
    found = []
    for event in traced:
        if event.call not in SYNCS or event.path.startswith("state/recall/"):
            continue
        if event.path in failed:
            found.append(f"{event.path} was synced again after that had failed")
        if event.result is not None and event.result < 0:
            failed.add(event.path)
    return found


def quietly(act: Callable[..., Any], *about: Any) -> None:
    """It may be gone."""
    try:
        act(*about)
    except ProcessLookupError:
        pass


@contextmanager
def small(disk: Path) -> Iterator[bool]:
    """A disk of 8 MB meanwhile, and whether one may be mounted."""
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(disk)]
    mounted = not os.geteuid() and not subprocess.run(mount, capture_output=True, check=False).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


async def played(case: Case, folder: Path, lasting_s: float) -> Play:
    """With what was found."""
    folder.mkdir()
    play: Play | None = None
    with ExitStack() as disk:
        if case.error == SMALL_DISK:
            disk.enter_context(small(folder / "home"))
        try:
            async with a_world(folder) as world:
                play = Play(case, world, folder / "record", lasting_s)
                await play.run()
        except (AssertionError, TimeoutError) as error:
            assert play
            play.found.append((str(error) or repr(error))[:2000])
    return play
