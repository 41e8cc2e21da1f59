"""The tracer, on small programs: it sees all, in order, and can kill, tear and break where it is told to."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from proofs import tracer
from proofs.record import Event, Folder, events

REFUSED = tracer.why_not()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
CHECKOUT = Path(__file__).parent.parent.parent

MANY = """
import ctypes, mmap, os, sys, threading
with open("a", "w") as file:
    file.write("hello")
with open("a", "ab", buffering=0) as file:
    file.write(b" world")
    os.fsync(file.fileno())
os.mkdir("d")
os.rename("a", "d/b")
os.link("d/b", "c")
os.symlink("c", "l")
with open("l", "r+") as file:
    file.seek(20)
    file.write("far")
os.truncate("c", 22)
os.rename("d", "e")
d = os.open("e", os.O_RDONLY)
os.close(os.open("inside", os.O_CREAT | os.O_WRONLY, dir_fd=d))
os.rename("inside", "moved", src_dir_fd=d, dst_dir_fd=d)
os.unlink("c")
with open("e/b", "rb") as old, open("copy", "wb") as new:
    os.sendfile(new.fileno(), old.fileno(), 0, 10)
    os.copy_file_range(old.fileno(), new.fileno(), 5, 0)
    os.posix_fallocate(new.fileno(), 0, 64)
    os.ftruncate(new.fileno(), 70)
    os.writev(new.fileno(), [b"one", b"two"])
    os.pwritev(new.fileno(), [b"three", b"four"], 80)
    os.pwrite(new.fileno(), b"five", 100)
with open("gone", "w") as file:
    os.unlink("gone")
    file.write("nobody will read this")
os.mkdir("x"); os.rmdir("x")
try:
    os.mkdir("e")
except FileExistsError:
    pass
with open("shm", "w+b") as file:
    os.ftruncate(file.fileno(), 4096)
    mmap.mmap(file.fileno(), 4096).close()
"""
THREADS = """
import threading
def write(name):
    for number in range(40):
        with open(name, "a") as file:
            file.write(f"{name} {number}, ")
threads = [threading.Thread(target=write, args=(f"f{number % 3}",)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
THREE = """
import os
for text in ("one", "two", "three"):
    file = os.open("all", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, text.encode())
    os.close(file)
print("over")
"""
TRIES = """
for name in ("a", "b", "c", "d"):
    try:
        with open(name, "w") as file:
            os.write(file.fileno(), b"text")
    except OSError as error:
        print(name, error.errno, flush=True)
"""


def command(home: Path, code: str, *options: str) -> list[str]:
    traced = [sys.executable, "-m", "proofs.tracer", "--home", str(home), *options, "--"]
    return [*traced, sys.executable, "-c", f"import os; os.chdir({str(home)!r})\n{code}"]


def run(home: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    return subprocess.run(
        command(home, code, *options), cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60
    )


def recorded(path: Path) -> list[Event]:
    with path.open() as lines:
        return list(events(lines))


def rebuilt(found: Sequence[Event]) -> Folder:
    folder = Folder()
    for event in found:
        folder.take(event)
    return folder


def as_it_is(home: Path) -> Folder:
    paths = {str(path.relative_to(home)): path for path in home.rglob("*")}
    files = {name: path.read_bytes() for name, path in paths.items() if path.is_file() and not path.is_symlink()}
    links = {name: os.readlink(path) for name, path in paths.items() if path.is_symlink()}
    return Folder.of(files, (name for name, path in paths.items() if path.is_dir() and not path.is_symlink()), links)


@pytest.mark.parametrize("code", [MANY, THREADS], ids=["one thread", "threads"])
def test_the_record_rebuilds_the_folder(tmp_path: Path, code: str) -> None:
    """Whatever call and thread made it."""
    done = run(tmp_path / "home", code, "--record", str(tmp_path / "record"))
    assert (done.returncode, done.stderr) == (0, "")
    found = recorded(tmp_path / "record")
    assert [event.n for event in found] == list(range(1, len(found) + 1))
    assert rebuilt(found) == as_it_is(tmp_path / "home")


def test_syncs_and_mappings_are_seen(tmp_path: Path) -> None:
    """With how they ended, as is what failed."""
    run(tmp_path / "home", MANY, "--record", str(tmp_path / "record"))
    seen = {(event.call, event.path): event.result for event in recorded(tmp_path / "record")}
    assert seen["fsync", "a"] == 0
    assert ("mmap", "shm") in seen
    assert seen["mkdir", "e"] == -17
    assert not [path for _, path in seen if "gone" in path and "deleted" in path]


def test_each_moment_can_be_its_last(tmp_path: Path) -> None:
    """Killed just before an event it has done all before it, and that not."""
    contents = []
    for n in range(1, 6):
        home = tmp_path / f"{n}"
        done = run(home, THREE, "--kill-at", f"{n}", "--record", str(tmp_path / "record"))
        contents.append((home / "all").read_text() if (home / "all").exists() else None)
        found = recorded(tmp_path / "record")
        if n < 5:
            assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
            assert [event.result is None for event in found] == [False] * (n - 1) + [True]
        else:
            assert (done.returncode, done.stdout) == (0, "over\n")
        assert rebuilt(found) == as_it_is(home)
    assert contents == [None, "", "one", "onetwo", "onetwothree"]


def test_a_write_can_be_torn(tmp_path: Path) -> None:
    """Two bytes of it are there, and in the record."""
    done = run(tmp_path / "home", THREE, "--kill-at", "3", "--tear", "2", "--record", str(tmp_path / "record"))
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "home/all").read_text() == "onetw"
    assert rebuilt(recorded(tmp_path / "record")) == as_it_is(tmp_path / "home")


def test_a_kill_takes_all_threads_and_children_along(tmp_path: Path) -> None:
    """Nothing runs on once the tracer is gone."""
    home = tmp_path / "home"
    code = f"""
import subprocess, threading, time
subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; echo >> beat; done"])
threading.Thread(target=time.sleep, args=(60,)).start()
while not os.path.exists("beat"):
    time.sleep(0.01)
{THREE}"""
    assert run(home, code, "--kill-at", "2").returncode == -signal.SIGKILL
    beats = (home / "beat").read_bytes()
    time.sleep(0.1)
    assert (home / "beat").read_bytes() == beats


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS"])
def test_calls_can_be_made_to_fail(tmp_path: Path, error: str) -> None:
    """From the second matching one on, twice, and only these; what fails has no effect."""
    home = tmp_path / "home"
    which = ("--at", "2", "--times", "2", "--calls", "write", "--under", "[abd]", "--record", str(tmp_path / "record"))
    done = run(home, TRIES, "--fail", error, *which)
    number = 28 if error == "ENOSPC" else 30
    assert done.stdout == f"b {number}\nd {number}\n"
    assert {path.name: path.read_text() for path in home.iterdir()} == {"a": "text", "b": "", "c": "text", "d": ""}
    assert [event.path for event in recorded(tmp_path / "record") if event.result == -number] == ["b", "d"]


def test_files_run_out(tmp_path: Path) -> None:
    """Then nothing can be opened, be it a file to read or a socket."""
    code = """
import socket
for attempt in (lambda: open("/etc/passwd"), socket.socket, lambda: open("new", "w"), socket.socket):
    try:
        attempt().close()
    except OSError as error:
        print(error.errno)
"""
    done = run(tmp_path / "home", code, "--fail", "EMFILE", "--at", "1", "--times", "1", "--calls", "socket")
    assert done.stdout == "24\n"
    at_start = run(tmp_path / "nothing", code, "--fail", "EMFILE", "--at", "1", "--times", "0")
    assert at_start.returncode != 0
    assert not list((tmp_path / "nothing").iterdir())


def test_a_fault_begins_and_ends_when_told(tmp_path: Path) -> None:
    """SIGUSR2 breaks the disk, SIGUSR1 mends it, while the program lives."""
    home = tmp_path / "home"
    home.mkdir()
    code = """
import sys
for line in sys.stdin:
    try:
        os.mkdir(line.strip())
        print("made", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""
    with subprocess.Popen(
        command(home, code, "--fail", "EIO"), cwd=CHECKOUT, stdin=-1, stdout=-1, text=True, bufsize=1
    ) as process:
        assert process.stdin and process.stdout

        def make(name: str) -> str:
            assert process.stdin and process.stdout
            print(name, file=process.stdin)
            return process.stdout.readline().strip()

        heard = [make("a")]
        for number in (signal.SIGUSR2, signal.SIGUSR1):
            process.send_signal(number)
            until_heard(process.pid)
            heard += [make(f"{number}-1"), make(f"{number}-2")]
        process.stdin.close()
        assert process.wait(60) == 0
    assert heard == ["made", "5", "5", "made", "made"]


def until_heard(pid: int) -> None:
    """Until a process has no signal waiting and all its threads sleep again."""
    while True:
        states = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/status")]
        lines = [line.split() for state in states for line in state.splitlines()]
        waiting = [line[1] for line in lines if line and line[0] in ("SigPnd:", "ShdPnd:")]
        if all("State:\tS" in state for state in states) and not any(int(mask, 16) for mask in waiting):
            return
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    """And the program decides about its end."""
    code = f"""
import signal, sys
signal.signal({int(number)}, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""
    (tmp_path / "home").mkdir()
    with subprocess.Popen(command(tmp_path / "home", code), cwd=CHECKOUT, stdout=-1, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(60) == 7


def test_no_signal_waits_for_the_next_call(tmp_path: Path) -> None:
    """However close they come one after the other, and though the program does nothing else."""
    code = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"x"))
os.write(1, b"x")
while True:
    signal.pause()
"""
    (tmp_path / "home").mkdir()
    with subprocess.Popen(command(tmp_path / "home", code), cwd=CHECKOUT, stdout=-1, bufsize=0) as process:
        try:
            assert process.stdout and process.stdout.read(1) == b"x"
            for _ in range(2000):
                process.terminate()
                assert select.select([process.stdout], [], [], 20)[0], "it was not passed on"
                process.stdout.read(1)
        finally:
            process.kill()


@pytest.mark.parametrize(("code", "ended"), [("raise SystemExit(3)", 3), ("os.abort()", -6), ("os.kill(0, 9)", -9)])
def test_it_ends_as_the_program_ends(tmp_path: Path, code: str, ended: int) -> None:
    """Exit codes and signals alike."""
    quiet = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.setpgrp()\n"
    assert run(tmp_path / "home", quiet + code).returncode == ended


def test_a_program_dies_with_its_tracer(tmp_path: Path) -> None:
    """No stray is left."""
    home = tmp_path / "home"
    home.mkdir()
    code = "import time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(command(home, code), cwd=CHECKOUT, stdout=-1, text=True) as process:
        assert process.stdout
        stray = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        assert process.stdout.read() == ""  # nobody holds it any more
    assert select.select([stray], [], [], 20)[0], "it is still there"
    os.close(stray)


def test_children_count_when_asked_for(tmp_path: Path) -> None:
    """And work either way."""
    code = "import subprocess; subprocess.run(['sh', '-c', 'echo hi > child'], check=True)"
    for options, seen in (((), []), (("--children",), ["openat", "write"])):
        home = tmp_path / f"{len(options)}"
        done = run(home, code, "--record", str(tmp_path / "record"), *options)
        assert (done.returncode, (home / "child").read_text()) == (0, "hi\n")
        assert [event.call for event in recorded(tmp_path / "record")] == seen


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """Is said, with the exit code of a shell."""
    traced = [sys.executable, "-m", "proofs.tracer", "--home", str(tmp_path), "--", "no-such-program"]
    done = subprocess.run(traced, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("no-such-program was not started")) == (127, 1)
