"""The memory files of a space, as a person may have left them: any encoding, any size, or not at all."""

import asyncio
import errno
import fcntl
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import structlog

from nanomem.errors import Refused
from nanomem.facts import NAMES
from nanomem.ports import LARGEST_FILE
from nanomem.spaces import Space
from nanomem.stores import durable

log = structlog.get_logger()

_PATIENCE_S = 2.0
_PAUSE_S = 0.01
_JUST_NOW_NS = 2_000_000_000

State = tuple[int, int, int, int, int]


def names_of(space: Space) -> Sequence[str]:
    """The memory files that are a space's own: the manner is the owner's for all."""
    return NAMES if space.is_owners else [name for name in NAMES if name != "SOUL.md"]


class PlainWorkingFiles:
    """`ports.WorkingFiles` on plain files; a link to a file is followed, and its file is what is replaced.

    A text is the file's bytes as UTF-8, and what is none comes as lone surrogates: it goes back byte for byte.
    What is replaced is kept in `memory/.NAME.new`, out of the tools' reach, and hence has to be on one disk with it.
    For one writer in a space at a time. `now` is the wall clock in nanoseconds.
    """

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._known: dict[Path, tuple[State, str]] = {}
        self._returned: dict[Path, State] = {}

    async def read(self, space: Space) -> Mapping[str, str | None]:
        """See the port. A file that is as it was is not read again; one that somebody is just writing is waited for."""
        return await asyncio.to_thread(lambda: {name: self._text(space.root / name) for name in names_of(space)})

    async def place(self, space: Space, name: str, text: str) -> str | None:
        """See the port. Once begun it is finished. Raises CannotStore, too, while what was replaced before is not
        `compared`, and Refused where what was replaced now is nothing to read: it is kept.
        """
        return await durable.finished(self._place, space, name, text)

    async def left(self, space: Space) -> Mapping[str, str]:
        """See the port. After a crash this may also be a text that did not come to be in place. Raises Refused."""
        return await durable.finished(self._left, space)

    async def compared(self, space: Space, name: str) -> None:
        """See the port. What somebody has changed since it was returned stays, to be returned by `left`. Raises
        CannotStore, Stop.

        Not promised: what is written by somebody who had opened the file before it was replaced, and took more than
        two seconds (or, where the system cannot tell whether a file is open, any time) to write and close it.
        """
        await durable.finished(self._compared, _kept(space, name))

    def _text(self, path: Path) -> str | None:
        try:
            state = state_of(os.stat(path))
            if path not in self._known or self._known[path][0] != state:
                state, text = _settled(path)
                if self._now() - state[-1] < _JUST_NOW_NS:  # a change at the same tick of the clock would not show
                    return text
                self._known[path] = state, text
            return self._known[path][1]
        except FileNotFoundError:
            if path.is_symlink():
                raise _refused(path, "it is a link that leads nowhere") from None
            return None
        except OSError as error:
            raise _refused(path, f"it cannot be read: {error.strerror}") from error

    def _place(self, space: Space, name: str, text: str) -> str | None:
        named, kept = space.root / name, _kept(space, name)
        path = Path(os.path.realpath(named)) if os.path.exists(named) else named
        replaced = durable.exchange(path, text.encode("utf-8", "surrogateescape"), kept)
        return self._replaced(kept) if replaced else None

    def _replaced(self, kept: Path) -> str:
        try:
            self._returned[kept], text = _settled(kept)
        except OSError as error:
            raise _refused(kept, f"it was replaced, and cannot be read: {error.strerror}") from error
        return text

    def _left(self, space: Space) -> Mapping[str, str]:
        kept = {name: _kept(space, name) for name in names_of(space)}
        for path in kept.values():
            durable.remove(path.with_suffix(".draft"))
        return {name: self._replaced(path) for name, path in kept.items() if os.path.lexists(path)}

    def _compared(self, kept: Path) -> None:
        returned = self._returned.pop(kept, None)
        if returned and os.path.lexists(kept) and _changed(kept, returned):
            log.info("memory.written_meanwhile", file=kept.name)
        else:
            durable.remove(kept)


def _kept(space: Space, name: str) -> Path:
    if name not in names_of(space):
        raise ValueError(f"{name} is no memory file of {space.name}")
    return space.root / "memory" / f".{Path(name).name}.new"


def _settled(path: Path) -> tuple[State, str]:
    """A file's text, and the state it was in; while somebody is writing it, some time is given for that to end.

    Raises OSError, Refused for one that is too large.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        with open_regular(path) as file:
            before = state_of(os.fstat(file.fileno()))
            if before[2] > LARGEST_FILE:
                raise _refused(path, f"it is larger than {LARGEST_FILE // 1024} kB")
            data = file.read(LARGEST_FILE + 1)
            quiet = not _is_being_written(file) and state_of(os.fstat(file.fileno())) == before
        if quiet or time.monotonic() > end:
            return before, data.decode("utf-8", "surrogateescape")
        time.sleep(_PAUSE_S)


def _changed(kept: Path, state: State) -> bool:
    """Whether somebody has written it since it was in that state."""
    try:
        return _settled(kept)[0] != state
    except (OSError, Refused):
        return True


def state_of(found: os.stat_result) -> State:
    """What changes whenever the file does; the time of its last change at the end."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_being_written(file: BinaryIO) -> bool:
    """Whether somebody has it open for writing: then the system gives no lease on it. False where it cannot be told."""
    if sys.platform != "linux":
        return False
    try:
        # Whoever opens it while we have the lease waits, and we are sent a signal; the usual one would end us.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def _refused(path: Path, reason: str) -> Refused:
    return Refused(f"{path} cannot be used: {reason}. Mend it, or move it away; until then no memory is written here.")


def open_regular(path: Path | str, folder: int | None = None) -> BinaryIO:
    """Opens a file to read; a pipe or device in its place is refused, not waited for. Raises OSError.

    A name in a `folder`, given as a descriptor, is that of a file in it: a link is refused, too.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if folder is None else os.O_NOFOLLOW)
    fd = os.open(path, flags, dir_fd=folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no file", str(path))
