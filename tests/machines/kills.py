"""Death in the middle: this process is watched as it changes files below a folder, and the n-th change can be its last.

Python tells a hook of what it is about to do to a file, before it is done. So nothing of the code under test is
replaced, and whatever it does on its way out of a killed call (`finally`, clean-up) comes to nothing as well. Only
what is written into an open file is not told: `tear` cuts that, as a kill amid the writing does.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_PATHS = {
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "shutil.rmtree": 1,
}
"""How many paths each of these is told with."""


class Killed(BaseException):
    """The process is no more."""


class Disk:
    """What this process changes below `root`. Two at a time must not lie in each other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dead = False
        self._left = 0
        self._happens: Callable[[], None] = self._die
        self._opened: tuple[Path, int] | None = None
        self._busy = threading.local()
        _watched.append(self)

    def close(self) -> None:
        """No more is watched."""
        _watched.remove(self)

    def at(self, number: int, happens: Callable[[], None] | None = None) -> None:
        """Just before that change, counted from 1, this happens; without anything, death. 0: never."""
        self._left, self._happens = number, happens or self._die

    def restart(self) -> None:
        """Another process works on the same files, and nothing happens to it."""
        self.at(0)
        self.dead, self._opened = False, None

    def tear(self, share: float) -> bool:
        """Cuts the file that was opened last, if nothing was done since: of what was written to it a share stays."""
        if self._opened is None or not self._opened[0].is_file():
            return False
        path, before = self._opened
        with self._unwatched():
            os.truncate(path, before + int(share * (path.stat().st_size - before)))
        return True

    def _die(self) -> None:
        self.dead = True
        raise Killed

    def _heard(self, path: Path, is_opened: bool) -> None:
        if getattr(self._busy, "now", False) or not path.is_relative_to(self.root):
            return
        if self.dead:
            raise Killed
        if self._left:
            self._left -= 1
            if not self._left:
                with self._unwatched():
                    self._happens()
        self._opened = (path, path.stat().st_size if path.is_file() else 0) if is_opened else None

    def _unwatched(self) -> "_Unwatched":
        return _Unwatched(self._busy)


class _Unwatched:
    """What this thread does meanwhile is not the process's."""

    def __init__(self, busy: threading.local) -> None:
        self._busy = busy

    def __enter__(self) -> None:
        self._busy.now = True

    def __exit__(self, *_: object) -> None:
        self._busy.now = False


_watched: list[Disk] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event == "open":
        paths, is_change = arguments[:1], bool(arguments[2] & _CHANGES)
    elif event == "ctypes.dlsym":  # an exchange of two names goes past Python: told is that it is looked up
        paths, is_change = tuple(disk.root for disk in _watched), arguments[1] in ("renameat2", "renamex_np")
    else:
        paths, is_change = arguments[: _PATHS.get(event, 0)], event in _PATHS
    if not is_change:
        return
    for disk in [*_watched]:
        if found := next((path for path in paths if isinstance(path, str | bytes | os.PathLike)), None):
            disk._heard(Path(os.fsdecode(found)), event == "open")


sys.addaudithook(_hook)
