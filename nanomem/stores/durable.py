"""The only code that syncs. All but `finished` blocks: call it in a thread.

A write that fails leaves what was there before; a sync that fails is never tried again, since the
kernel may have dropped the data while calling it clean.
"""

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nanomem.errors import CannotStore, Stop

T = TypeVar("T")
_SWAP = 2  # RENAME_EXCHANGE of renameat2(2), and RENAME_SWAP of renamex_np(2)
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the slower one


async def finished(work: Callable[..., T], *arguments: Any) -> T:
    """Runs a write in a thread, and to its end also when the caller is cancelled, however often, meanwhile."""
    future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled and not isinstance(future.exception(), Stop):
        raise cancelled
    return future.result()


def append(path: Path, data: bytes, header: bytes = b"") -> None:
    """Adds whole lines to a file and syncs them; a new file begins with `header`.

    A torn last line is ended first, so that it stays and spoils nothing; as it may be the header, that comes again.
    Raises CannotStore, Stop.
    """
    try:
        make_folder(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not (size := os.fstat(fd).st_size):  # new, or left by an attempt that failed
                sync_folder(path.parent)
                data = header + data
            elif os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + header + data
            _write_or_take_back(fd, path, size, data)
            sync(fd, path)
        finally:
            os.close(fd)
    except OSError as error:
        raise CannotStore(reason(path, error)) from error


def _write_or_take_back(fd: int, path: Path, size: int, data: bytes) -> None:
    try:
        _write(fd, data)
    except OSError as error:
        try:
            os.ftruncate(fd, size)
        except OSError as worse:
            raise Stop(reason(path, worse)) from error
        raise CannotStore(reason(path, error)) from error


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace(path: Path, data: bytes | Iterator[bytes], draft: Path | None = None) -> None:
    """Puts a whole file in place, atomically and durably; `data` may come in pieces. Raises CannotStore, Stop.

    `draft` is its name until it is whole, on the same disk; without one it is `.NAME.draft` beside it.
    """
    draft = draft or path.with_name(f".{path.name}.draft")
    try:
        make_folder(path.parent)
        with names_synced(path.parent):
            _write_draft(draft, data)
            os.replace(draft, path)
    except OSError as error:
        raise CannotStore(reason(path, error)) from error
    finally:
        discard(draft)


def exchange(path: Path, data: bytes, kept: Path) -> bool:
    """Puts a whole file in place, durably, and keeps what it replaces under the name `kept`: whether there was any.

    Whatever somebody else puts in place meanwhile is in one of the two. Where the system can exchange two names,
    there is no moment without a whole file in place; elsewhere there is a short one without any. The mode is that of
    the file before, 0600 for a new one. Before it is in place, `kept` may hold the new text, whole. Raises
    CannotStore (it is not in place; also where `kept` is there already), Stop.
    """
    draft = kept.with_suffix(".draft")
    try:
        make_folder(path.parent)
        make_folder(kept.parent)
        if os.path.lexists(kept):
            raise CannotStore(f"Cannot write {path}: what stood there before is still in {kept}.")
        with names_synced(path.parent, kept.parent):
            _write_draft(draft, data, _attributes(path))
            return _swap_in(draft, path, kept)
    except OSError as error:
        raise CannotStore(reason(path, error)) from error
    finally:
        discard(draft)


def _attributes(path: Path) -> os.stat_result | None:
    """Whose the file is and who may read it; None if there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no file")
    return found


def _swap_in(draft: Path, path: Path, kept: Path) -> bool:
    if move_in(draft, path):
        return False
    os.rename(draft, kept)
    if not _names_swapped(kept, path):
        os.rename(kept, draft)
        set_aside(draft, path, kept)
    return True


def set_aside(draft: Path, path: Path, kept: Path) -> None:
    """Does in two steps what an exchange does in one; nothing of somebody else is overwritten. Raises OSError."""
    os.rename(path, kept)
    if not move_in(draft, path):
        raise OSError(errno.EBUSY, "somebody else is writing it")


def move_in(draft: Path, path: Path) -> bool:
    """Gives a file its name if there is none of that name; whether it did. Raises OSError."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # there are file systems without links
        if os.path.lexists(path):
            return False
        os.rename(draft, path)
        return True
    os.unlink(draft)
    return True


def _names_swapped(one: Path, other: Path) -> bool:
    """Lets two files exchange their names at one stroke; False where that cannot be done."""
    import ctypes

    libc = ctypes.CDLL(None)
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(*names, _SWAP)
        else:
            here = -100  # AT_FDCWD; the paths are absolute or seen from here, as everywhere
            failed = libc.renameat2(here, names[0], here, names[1], _SWAP)
    except AttributeError:
        return False
    return not failed


def remove(path: Path) -> None:
    """Takes a file away that is not needed any more, if it is there. Raises CannotStore, Stop."""
    try:
        with names_synced(path.parent):
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotStore(reason(path, error)) from error


def _write_draft(draft: Path, data: bytes | Iterator[bytes], like: os.stat_result | None = None) -> None:
    """A new file, whole and synced: nothing that stands under its name, a link perhaps, is written to.

    Who could read and edit a file `like` it can do so with this one, as far as that is ours to give.
    """
    discard(draft)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for piece in (data,) if isinstance(data, bytes) else data:
            _write(fd, piece)
        if like:
            try:
                os.fchown(fd, like.st_uid, like.st_gid)
            except OSError:
                pass
            os.fchmod(fd, stat.S_IMODE(like.st_mode))
        sync(fd, draft)
    finally:
        os.close(fd)


def discard(path: Path) -> None:
    """Takes away what is left of an attempt, if there is anything; the next attempt does where this one cannot."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass


def sync(fd: int, path: Path) -> None:
    """Returns once the file's data is on disk. Raises Stop."""
    try:
        _sync(fd)
    except OSError as error:
        raise Stop(reason(path, error)) from error


@contextmanager
def names_synced(*folders: Path) -> Iterator[None]:
    """What is made, renamed or removed in these folders within is on disk afterwards. Raises OSError, Stop.

    They are opened first: where that cannot be done nothing has happened yet.
    """
    with ExitStack() as opened:
        fds = {}
        for folder in {*folders}:
            fds[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, fds[folder])
        yield
        for folder, fd in fds.items():
            sync_names(fd, folder)


def sync_folder(path: Path) -> None:
    """Returns once the folder's entries, whoever made them, are on disk. Raises CannotStore, Stop."""
    try:
        with names_synced(path):
            pass
    except OSError as error:
        raise CannotStore(reason(path, error)) from error


def sync_names(fd: int, path: Path) -> None:
    """Returns once an opened folder's entries are on disk. Raises Stop."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise Stop(reason(path, error)) from error


def settle(path: Path) -> None:
    """Returns once all is on disk that anybody has written to the file system of this file. Raises Stop.

    A process that was killed may have written what it had no time to sync. Who comes next reads it, and takes it for
    decided: shows an answer, confirms a message. After that it must not be lost in a power cut.
    """
    import ctypes

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Stop(reason(path, error)) from error
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs"):  # macOS
            os.sync()
        elif libc.syncfs(fd):
            number = ctypes.get_errno()
            raise Stop(reason(path, OSError(number, os.strerror(number))))
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it, and syncs their entries. Raises OSError, Stop."""
    if not path.is_dir():
        make_folder(path.parent)
        with names_synced(path.parent):
            path.mkdir(mode=0o700, exist_ok=True)


def reason(path: Path, error: OSError) -> str:
    """What a person is told of a write that failed."""
    return f"Cannot write {path}: {error.strerror or error}."
