"""`python -m proofs.tracer --home HOME [...] -- COMMAND ...`: runs a program and sees all that it writes below HOME.

Every write, sync, rename, removal and creation there, in whatever thread, is an event; events have numbers, from 1, in
one order, and one ends before the next begins. It can be recorded (`proofs/record.py` reads that), the process can be
killed just before one, and calls can be made to fail.

What child processes write counts with `--children` only. They are killed when the program ends. An open that neither
creates nor empties a file is no event; of a shared mapping only the mapping is seen. The tracer ends as the program
ends, also when that is by a signal; it passes on SIGTERM and SIGINT. SIGUSR2 begins the fault, SIGUSR1 ends it.
Exit code 125: processes can't be watched here; 127: the program could not be started.
"""

import argparse
import errno
import math
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int32, c_int64
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TextIO

from proofs import kernel
from proofs.record import OPENS, SYMLINKS, WRITES, Event

CANNOT = 125
DELETED = " (deleted)"
_TMPFILE, _REPLACES = 0o20000000, os.O_CREAT | os.O_TRUNC
_WRITABLE, _SHARED, _ANONYMOUS = 2, 1, 0x20
_MAKES = _REPLACES | _TMPFILE

WATCHED: Mapping[str, Sequence[kernel.Test]] = {name: () for name in kernel.CALLS["x86_64"]} | {
    "open": [(1, _MAKES, True)],
    "openat": [(2, _MAKES, True)],
    "mmap": [(2, _WRITABLE, True), (3, _SHARED, True), (3, _ANONYMOUS, False)],
}
HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
DESCRIPTORS = ("open", "openat", "openat2", "creat", "socket", "accept", "accept4")
"""What fails when a process has too many files open."""


@dataclass
class Fault:
    """From the `at`-th matching call on, `times` calls fail with `number`; 0 times: until it is ended.

    Without `at` it waits to be begun.
    """

    number: int
    at: int = 0
    times: int = 0
    calls: Sequence[str] = ()
    under: str = ""
    _matched: int = 0
    _left: float = 0

    @property
    def of_descriptors(self) -> bool:
        """Whether it is about all that opens anything, wherever it is."""
        return self.number in (errno.EMFILE, errno.ENFILE)

    def strikes(self, call: str, path: str) -> bool:
        """Whether this call fails."""
        calls = self.calls or (DESCRIPTORS if self.of_descriptors else ())
        if (calls and call not in calls) or (self.under and not fnmatchcase(path, self.under)):
            return False
        self._matched += 1
        if self._matched == self.at:
            self.begin()
        self._left -= (strikes := self._left > 0)
        return strikes

    def begin(self) -> None:
        self._left = self.times or math.inf

    def end(self) -> None:
        self._left = 0


@dataclass(frozen=True)
class Wishes:
    """What to do with a run. `tear` is how much of a write gets through before it is killed."""

    home: str
    record: TextIO | None = None
    kill_at: int = 0
    tear: int | None = None
    fault: Fault | None = None
    children: bool = False


class Tracer:
    """Watches one run of a program."""

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._count = 0
        self._inside: tuple[int, Event] | None = None  # one call at a time is on its way
        self._waiting: deque[int] = deque()  # threads that stand before one
        self._threads: dict[int, int] = {}  # and their processes
        self._dying = False

    def run(self, command: Sequence[str]) -> int:
        """Its exit code, below 0 for a signal. Raises OSError where processes can't be watched."""
        fault = self._wishes.fault
        wider: Mapping[str, Sequence[kernel.Test]] = dict.fromkeys(DESCRIPTORS, ())
        socketless = {name: tests for name, tests in WATCHED.items() if name not in DESCRIPTORS or name in OPENS}
        self._program = kernel.start(command, {**WATCHED, **wider} if fault and fault.of_descriptors else socketless)
        signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)
        threading.Thread(target=self._heeds, daemon=True).start()
        code = 0
        while True:
            try:
                what = kernel.next_stop()
            except ChildProcessError:
                return code
            if isinstance(what, kernel.Stop):
                self._threads.setdefault(what.thread, 0)
                self._quietly(self._stopped, what)
            else:
                thread, ended = what
                self._threads.pop(thread, None)
                if self._inside and self._inside[0] == thread:
                    self._inside = None
                if thread == self._program:
                    code = ended
                    self._kill()
            while self._waiting and not self._inside:
                self._quietly(self._enters, self._waiting.popleft())

    def _heeds(self) -> None:
        """What others want, in a thread of its own: a handler would run only after the next stop, and wait for ever
        where the signal came just before waiting for one, and the program is idle."""
        fault = self._wishes.fault
        does: dict[int, Callable[[], None]] = {signal.SIGUSR2: fault.begin, signal.SIGUSR1: fault.end} if fault else {}
        while True:
            if (number := signal.sigwait(HEEDED)) in does:
                does[number]()
            else:
                self._quietly(os.kill, self._program, number)

    def _stopped(self, stop: kernel.Stop) -> None:
        if self._dying:
            os.kill(stop.thread, signal.SIGKILL)
        elif stop.leaves_a_call:
            self._leaves(stop.thread)
        elif stop.why == kernel.AT_CALL:
            self._waiting.append(stop.thread)
        elif stop.why == kernel.GROUP and stop.signal != signal.SIGTRAP:
            kernel.stay(stop.thread)
        else:
            kernel.go_on(stop.thread, 0 if stop.why else stop.signal)

    def _enters(self, thread: int) -> None:
        """It is about to make a call that may be an event."""
        process = self._threads[thread] = self._threads.get(thread) or kernel.process_of(thread)
        if process != self._program and not self._wishes.children:
            return kernel.go_on(thread)
        name, arguments = kernel.call_of(thread)
        event = Sight(thread, self._wishes.home).event(name, arguments)
        fault = self._wishes.fault
        if fault and (event or fault.of_descriptors) and fault.strikes(name, event.path if event else ""):
            kernel.refuse(thread, fault.number)
            if event:
                self._write_down(replace(self._numbered(event), result=-fault.number))
            return kernel.go_on(thread)
        if event is None or (event.call in OPENS and not self._changes(event)):
            return kernel.go_on(thread)
        event = self._numbered(event)
        if event.n == self._wishes.kill_at:
            if self._wishes.tear is not None and event.call in WRITES:
                event = self._torn(event, self._wishes.tear)
            self._write_down(event)
            return self._kill()
        self._inside = thread, event
        kernel.go_through(thread)

    def _leaves(self, thread: int) -> None:
        """It has made that call."""
        assert self._inside and self._inside[0] == thread
        result = kernel.result_of(thread)
        event = replace(self._inside[1], result=result)
        self._inside = None
        if event.call in WRITES and result >= 0:
            copied = event.call in ("sendfile", "copy_file_range")
            event = replace(event, data=self._read(event, result) if copied else event.data[:result])
        elif event.call in OPENS and result >= 0:
            event = replace(event, path=Sight(thread, self._wishes.home).relative(f"/proc/{thread}/fd/{result}"))
        self._write_down(event)
        kernel.go_on(thread)

    def _changes(self, event: Event) -> bool:
        """Whether this way of opening has an effect."""
        return bool(event.flags & (os.O_TRUNC | _TMPFILE)) or not self._place(event).exists()

    def _numbered(self, event: Event) -> Event:
        self._count += 1
        return replace(event, n=self._count)

    def _torn(self, event: Event, size: int) -> Event:
        """Writes the beginning in its stead."""
        torn = event.data[:size]
        with open(self._place(event), "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), torn, event.offset)
        return replace(event, data=torn, result=len(torn))

    def _read(self, event: Event, size: int) -> bytes:
        with open(self._place(event), "rb") as file:
            return os.pread(file.fileno(), size, event.offset)

    def _place(self, event: Event) -> Path:
        return Path(self._wishes.home, event.path)

    def _write_down(self, event: Event) -> None:
        if self._wishes.record:
            self._wishes.record.write(event.line)
            self._wishes.record.flush()

    def _kill(self) -> None:
        """All of it; what it has left behind, too."""
        self._dying = True
        self._waiting.clear()
        for thread in self._threads:
            self._quietly(os.kill, thread, signal.SIGKILL)

    @staticmethod
    def _quietly(act: Callable[..., None], *about: object) -> None:
        """It may be gone meanwhile."""
        try:
            act(*about)
        except (ProcessLookupError, FileNotFoundError):
            pass


@dataclass(frozen=True)
class Sight:
    """What a thread that stands before a call is about to do, if it is below `home`."""

    thread: int
    home: str

    def event(self, name: str, given: Sequence[int]) -> Event | None:
        """Without a number and a result. Raises OSError if the thread is gone."""
        found = self._parsed(name, given)
        if found is None or not (self._is_below(found.path) or (name not in SYMLINKS and self._is_below(found.to))):
            return None
        to = found.to if name in SYMLINKS else self._short(found.to)
        return replace(found, path=self._short(found.path), to=to)

    def relative(self, link: str) -> str:
        """What a link in /proc points to."""
        return self._short(os.readlink(link))

    def _parsed(self, name: str, given: Sequence[int]) -> Event | None:
        def on(fd: int, **how: Any) -> Event:
            return Event(0, name, self._fd(fd), None, **how)

        def at(folder: int, address: int, **how: Any) -> Event:
            return Event(0, name, self._named(folder, address), None, **how)

        a, b, c, d, e, _ = given
        here = kernel.AT_FDCWD
        match name:
            case "write" | "pwrite64":
                found = on(a)
                if not self._is_below(found.path):
                    return None
                offset = d if name == "pwrite64" else self._position(a)
                return replace(found, data=kernel.memory(self.thread, b, c), offset=offset)
            case "writev" | "pwritev" | "pwritev2":
                found = on(a)
                if not self._is_below(found.path):
                    return None
                offset = self._position(a) if name == "writev" or c_int64(d).value == -1 else d
                return replace(found, data=kernel.gathered(self.thread, b, c), offset=offset)
            case "sendfile":
                return on(a, offset=self._position(a))
            case "copy_file_range":
                return on(c, offset=self._number(d) if d else self._position(c))
            case "fsync" | "fdatasync" | "syncfs":
                return on(a)
            case "ftruncate":
                return on(a, size=b)
            case "fallocate":
                return on(a, size=c + d, flags=b)
            case "mmap":
                return on(e)
            case "truncate":
                return at(here, a, size=b)
            case "open":
                return at(here, a, flags=b)
            case "creat":
                return at(here, a, flags=os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            case "openat":
                return at(a, b, flags=c)
            case "openat2":
                return at(a, b, flags=self._number(c))
            case "mkdir" | "rmdir" | "unlink":
                return at(here, a)
            case "mkdirat" | "unlinkat":
                return at(a, b)
            case "rename" | "link":
                return at(here, a, to=self._named(here, b))
            case "renameat" | "linkat":
                return at(a, b, to=self._named(c, d))
            case "renameat2":
                return at(a, b, to=self._named(c, d), flags=e)
            case "symlink":
                return at(here, b, to=kernel.text(self.thread, a))
            case "symlinkat":
                return at(b, c, to=kernel.text(self.thread, a))
        return None

    def _fd(self, fd: int) -> str:
        try:
            return os.readlink(f"/proc/{self.thread}/fd/{c_int32(fd).value}")
        except FileNotFoundError:
            return ""  # the call will fail

    def _named(self, folder: int, address: int) -> str:
        name = kernel.text(self.thread, address)
        number = c_int32(folder).value
        base = f"/proc/{self.thread}/" + ("cwd" if number == kernel.AT_FDCWD else f"fd/{number}")
        if name.startswith("/proc/self/"):
            name = name.replace("self", str(self.thread), 1)
        above, _, last = os.path.join(base, name).rstrip("/").rpartition("/")
        if last in (".", ".."):
            return os.path.realpath(f"{above}/{last}")
        return os.path.join(os.path.realpath(above), last)

    def _position(self, fd: int) -> int:
        """Where the next write goes."""
        with open(f"/proc/{self.thread}/fdinfo/{fd}", encoding="ascii") as file:
            told = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
        if int(told["flags"], 8) & os.O_APPEND:
            return os.stat(f"/proc/{self.thread}/fd/{fd}").st_size
        return int(told["pos"])

    def _number(self, address: int) -> int:
        found: int = struct.unpack("q", kernel.memory(self.thread, address, 8))[0]
        return found

    def _is_below(self, path: str) -> bool:
        return path == self.home or (path.startswith(self.home + "/") and not path.endswith(DELETED))

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.home) if self._is_below(path) else path


def why_not() -> str:
    """Why no process can be watched here; empty if it can. Tries."""
    command = [sys.executable, "-m", "proofs.tracer", "--home", "/", "--", "true"]
    tried = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False)
    return (tried.stderr.strip() or f"exit code {tried.returncode}") if tried.returncode else ""


def main(arguments: Sequence[str]) -> int:
    """Runs a program; gives how it ended."""
    parser = argparse.ArgumentParser(prog="python -m proofs.tracer", description="Sees all that a program writes.")
    parser.add_argument("--home", required=True, help="the folder that matters")
    parser.add_argument("--record", type=Path, metavar="FILE", help="a line of JSON for each event")
    parser.add_argument("--kill-at", type=int, default=0, metavar="N", help="kill -9 just before event N")
    parser.add_argument("--tear", type=int, metavar="BYTES", help="if that is a write, so much of it is written")
    parser.add_argument("--fail", metavar="ERRNO", help="calls fail, with EIO, ENOSPC, EROFS, EMFILE ...")
    parser.add_argument(
        "--at", type=int, default=0, metavar="N", help="from the N-th matching call on, else on SIGUSR2"
    )
    parser.add_argument("--times", type=int, default=0, metavar="K", help="so often, else until SIGUSR1")
    parser.add_argument("--calls", default="", metavar="A,B", help="which ones; all if not said")
    parser.add_argument("--under", default="", metavar="GLOB", help="only on these paths, relative to HOME")
    parser.add_argument("--children", action="store_true", help="what child processes do counts, too")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args(arguments)
    fault = None
    if asked.fail:
        if not isinstance(number := getattr(errno, asked.fail, None), int):
            parser.error(f"there is no error called {asked.fail}")
        fault = Fault(number, asked.at, asked.times, tuple(filter(None, asked.calls.split(","))), asked.under)
    if problem := kernel.missing():
        print(problem, file=sys.stderr)
        return CANNOT
    record = asked.record.open("w", encoding="utf-8") if asked.record else None
    home = os.path.realpath(asked.home)
    try:
        return Tracer(Wishes(home, record, asked.kill_at, asked.tear, fault, asked.children)).run(asked.command)
    except OSError as error:
        print(f"processes can't be watched here: {error}", file=sys.stderr)
        return CANNOT


def end_as(code: int) -> None:
    """Ends this process with that code; below 0, by that signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    end_as(main(sys.argv[1:]))
