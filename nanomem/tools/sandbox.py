"""Where a command runs: in a bubblewrap that holds the space and no secret, or plainly.

Knows how to start it, which processes belong to it and how to end them all; the running is `exec`'s.
"""

import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nanomem.errors import ShowModel
from nanomem.tools.contained import SHOWN_AS, TRUTH_FILES, TRUTH_FOLDERS

PROCESSES = 256
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_SIZE = str(256 * 1024 * 1024)
# No core files; files of 256 MB (128 where the unit is smaller); 4 GB of addresses, since some programs
# reserve far more than they use (what they use is watched in `exec`); private files; behind the daemon.
_LIMITED = 'ulimit -c 0; ulimit -f 262144; ulimit -v 4194304; ulimit -n 1024; umask 077; exec nice -n 10 "$@"'
# Inside the user namespace only the command's own processes count. It does not hold for root.
_FEW = f'ulimit -u {PROCESSES} 2>/dev/null || ulimit -p {PROCESSES} 2>/dev/null; "$0" -c "$1"; exit $?'
# Root owns the devices that bwrap takes from outside: without this, `chmod 0 /dev/null` inside holds for all.
_DEVICES_KEPT = ("unshare", "-m", "/bin/sh", "-c", 'mount -o bind,ro /dev /dev && exec "$@"', "sh")
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")


@dataclass(frozen=True)
class Bubblewrap:
    """One command in namespaces of its own: no network, no other process, no file but programs and the space.

    bwrap starts with an empty environment because what it was started with can be read inside. The shell is
    the first process of its namespace, so that the kernel ends all others with it before bwrap returns.
    """

    command: str
    root: Path
    program: str = "bwrap"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def argv(self) -> list[str]:
        """What to start."""
        start = ["/bin/sh", "-c", _LIMITED, "sh", *(_DEVICES_KEPT if os.geteuid() == 0 else ())]
        bwrap = [shutil.which(self.program) or self.program, *_world(), *self._space(), "--chdir", SHOWN_AS]
        return [*start, *bwrap, "--", _shell(), "-c", _FEW, _shell(), self.command]

    def prepare(self) -> None:
        """Makes what is covered exist: a name that is missing could be created inside. Raises ShowModel."""
        for name in TRUTH_FOLDERS + TRUTH_FILES:
            path = self.root / name
            with suppress(FileExistsError):
                if name in TRUTH_FOLDERS:
                    path.mkdir(mode=0o700, parents=True)
                else:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            if stat.S_ISLNK(path.lstat().st_mode):
                raise ShowModel(f"exec is off here: {name} is a symbolic link, which cannot be protected.")

    def processes(self, pid: int) -> Iterator[str]:
        """The /proc folders of what runs in it, `pid` being what was started; none where not known."""
        with suppress(OSError):
            for first in _children(pid):
                inside = f"/proc/{first}/root/proc"
                if os.stat(inside).st_dev != os.stat("/proc").st_dev:  # until it is set up, that is our own
                    yield from (f"{inside}/{name}" for name in os.listdir(inside) if name.isdigit())

    def kill(self, pid: int) -> None:
        """Ends all of it."""
        for each in (*_children(pid), pid):
            _kill(each)

    def _space(self) -> list[str]:
        hidden, *shown = (*TRUTH_FOLDERS, *TRUTH_FILES)
        return [
            *("--bind", str(self.root), SHOWN_AS),
            *("--size", "4096", "--tmpfs", f"{SHOWN_AS}/{hidden}", "--remount-ro", f"{SHOWN_AS}/{hidden}"),
            *(word for name in shown for word in ("--ro-bind", str(self.root / name), f"{SHOWN_AS}/{name}")),
            *("--remount-ro", "/"),
        ]


@dataclass(frozen=True)
class Plain:
    """One command as the daemon itself, for who has set `sandbox = "none"`: nothing is out of its reach.

    Its processes are known by a mark in their environment, which one that wants to can take off.
    """

    command: str
    root: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def argv(self) -> list[str]:
        """What to start."""
        return ["/bin/sh", "-c", f'cd "$0"; {_LIMITED}', str(self.root), _shell(), "-c", self.command]

    @property
    def environment(self) -> Mapping[str, str]:
        """All of it."""
        return {**_ENVIRONMENT, "HOME": str(self.root), "NANOMEM_EXEC": self.mark}

    def prepare(self) -> None:
        """Makes the space."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def processes(self, pid: int) -> Iterator[str]:
        """As above, as far as they are in its session; the newest first, where they multiply."""
        return (f"/proc/{number}" for number in _newest_first() if _session(number) == pid)

    def kill(self, pid: int) -> None:
        """Ends its group at one stroke, then what has left the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        for _ in range(100):  # what multiplies has to be overtaken
            left = [number for number in _newest_first() if self._is_marked(number)]
            for process in left:
                _kill(process)
            if not left:
                return

    def _is_marked(self, process: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            return False


Box = Bubblewrap | Plain


def probe(program: str = "bwrap") -> str | None:
    """None if commands can be run in a bubblewrap here, else why not. Takes some 50 ms, blocking."""
    if shutil.which(program) is None:
        return f"bubblewrap is not installed (no program {program} was found)"
    with tempfile.TemporaryDirectory() as folder:
        box = Bubblewrap("true", Path(folder), program)
        box.prepare()
        try:
            done = subprocess.run(box.argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not work here: {error}"
    said = done.stderr.decode("utf-8", "replace").strip()
    return f"bubblewrap does not work here: {said or done.returncode}" if done.returncode else None


def _world() -> list[str]:
    settings = {**_ENVIRONMENT, "HOME": "/tmp"}
    return [
        *("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        *("--hostname", "nanomem", "--clearenv"),
        *(word for name, value in settings.items() for word in ("--setenv", name, value)),
        *(word for path in _PROGRAMS + _ETC for word in ("--ro-bind-try", path, path)),
        # Root without any capability still owns what is in /proc/sys, hence read-only.
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
        *("--size", _SIZE, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--size", _SIZE, "--tmpfs", "/tmp"),
    ]


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _newest_first() -> list[int]:
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    return sorted(map(int, filter(str.isdigit, names)), reverse=True)


def _session(pid: int) -> int:
    """Field 6 of proc(5)'s stat. The environment would tell more, but reading it waits for whoever forks."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
