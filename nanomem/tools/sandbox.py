"""Where a command runs: in a bubblewrap that holds the space and no secret, or plainly.

Knows how to start it, which processes belong to it and how to end them all; the running is `exec`'s.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nanomem.errors import ShowModel
from nanomem.tools.contained import HIDDEN, SHOWN_AS, TRUTH_FILES, TRUTH_FOLDERS

PROCESSES = 256
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_SIZE = str(256 * 1024 * 1024)
# No core files; files of 256 MB (128 where the unit is smaller); 4 GB of addresses, since some programs
# reserve far more than they use (what they use is watched in `exec`); private files; behind the daemon.
_LIMITED = 'ulimit -c 0; ulimit -f 262144; ulimit -v 4194304; ulimit -n 1024; umask 077; exec nice -n 10 "$@"'
# Inside the user namespace only the command's own processes count. It does not hold for root.
_FEW = f"ulimit -u {PROCESSES} 2>/dev/null"
# The shell stays, to reap what its children leave behind.
_STAYING = '"$0" -c "$1"; exit $?'
# Root owns the devices that bwrap takes from outside: without this, `chmod 0 /dev/null` inside holds for all.
_READ_ONLY_DEV = 'mount --rbind /dev /dev && mount -o remount,bind,ro /dev && exec "$@"'
_DEVICES_KEPT = ("unshare", "-m", "/bin/sh", "-c", _READ_ONLY_DEV, "sh")
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")


@dataclass(frozen=True)
class Box:
    """How to start one command, and the names of the space that are there only while it runs."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    covers: Sequence[Path] = ()

    def clear(self) -> None:
        """Takes away what bwrap made to have something to cover, unless somebody has filled it meanwhile."""
        for path in self.covers:
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                elif path.stat().st_size == 0:
                    path.unlink()


def bubblewrap(command: str, root: Path, program: str = "bwrap") -> Box:
    """Namespaces of its own: no network, no other process, no file but programs and the space. Raises ShowModel.

    bwrap starts with an empty environment because what it was started with can be read inside. The shell is
    the first process of its namespace, so that the kernel ends all others with it before bwrap returns.
    """
    shell = _shell()
    start = ["/bin/sh", "-c", _LIMITED, "sh", *(_DEVICES_KEPT if os.geteuid() == 0 else ())]
    bwrap = [shutil.which(program) or program, *_world(), "--bind", str(root), SHOWN_AS, *_truth(root)]
    inside = ["--remount-ro", "/", "--chdir", SHOWN_AS, "--", shell, "-c", f"{_FEW}; {_STAYING}", shell, command]
    missing = [root / name for name in TRUTH_FOLDERS + TRUTH_FILES if not (root / name).exists()]
    return Box([*start, *bwrap, *inside], {}, missing)


def plain(command: str, root: Path) -> Box:
    """As the daemon itself, for who has set `sandbox = "none"`: nothing is out of its reach.

    Where the system allows it the command gets a PID namespace, so that nothing of it survives; elsewhere what
    leaves its process group does.
    """
    shell, apart = _shell(), "unshare --pid --fork --kill-child --mount-proc"
    if os.geteuid() != 0:
        apart += " --map-current-user"
    start = f'if {apart} true 2>/dev/null; then set -- {apart} "$@"; fi; {_LIMITED}'
    environment = {**_ENVIRONMENT, "HOME": str(root)}
    return Box(["/bin/sh", "-c", start, "sh", shell, "-c", _STAYING, shell, command], environment)


def probe(program: str = "bwrap") -> str | None:
    """None if commands can be run in a bubblewrap here, else why not. Takes some 50 ms, blocking."""
    if shutil.which(program) is None:
        return f"bubblewrap is not installed (no program {program} was found)"
    with tempfile.TemporaryDirectory() as folder:
        argv = bubblewrap("true", Path(folder), program).argv
        try:
            done = subprocess.run(argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not work here: {error}"
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return f"bubblewrap does not work here: {said or done.returncode}" if done.returncode else None


def processes(pid: int) -> Iterator[str]:
    """The /proc folders of what runs below `pid`: all of its namespace, or of its session if it has none."""
    for first in _children(pid):
        inside = f"/proc/{first}/root/proc"
        with suppress(OSError):
            if os.stat(inside).st_dev != os.stat("/proc").st_dev:  # until it is set up, that is our own
                yield from (f"{inside}/{name}" for name in os.listdir(inside) if name.isdigit())
                return
    numbers = filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else [])
    for number in sorted(map(int, numbers), reverse=True):  # the newest first, where they multiply
        with suppress(ProcessLookupError):
            if os.getsid(number) == pid:
                yield f"/proc/{number}"


def kill(pid: int) -> None:
    """Ends all of it: the first process of a namespace takes the others with it, and a group ends at one stroke."""
    with suppress(ProcessLookupError, PermissionError):
        for child in _children(pid):
            os.kill(child, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


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


def _truth(root: Path) -> Iterator[str]:
    """Covers each name that must not be changed; one that is missing could otherwise be made inside."""
    for name in TRUTH_FOLDERS + TRUTH_FILES:
        path, inside = root / name, f"{SHOWN_AS}/{name}"
        if path.is_symlink():
            raise ShowModel(f"exec is off here: {name} is a symbolic link, which cannot be protected.")
        if name == HIDDEN or (name in TRUTH_FOLDERS and not path.exists()):
            yield from ("--size", "4096", "--tmpfs", inside, "--remount-ro", inside)
        else:
            yield from ("--ro-bind", str(path) if path.exists() else "/dev/null", inside)


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
