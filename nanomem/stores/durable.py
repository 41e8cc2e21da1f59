"""The only code that syncs. All but `finished` blocks: call it in a thread.

A write that fails leaves what was there before; a sync that fails is never tried again, since the
kernel may have dropped the data while calling it clean.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanomem.errors import CannotStore, Stop


async def finished(work: Callable[..., None], *arguments: Any) -> None:
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
    future.result()


_sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the slower one


def append(path: Path, data: bytes, header: bytes = b"") -> None:
    """Adds whole lines to a file and syncs them; a new file begins with `header`.

    A torn last line is ended first, so that it stays and spoils nothing. Raises CannotStore, Stop.
    """
    try:
        new = _make_folder(path.parent) or not path.exists()
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStore(_reason(path, error)) from error
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            data = header + data
        elif os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        _write_or_take_back(fd, path, size, data)
        sync(fd, path)
    finally:
        os.close(fd)
    if new:
        sync_folder(path.parent)


def _write_or_take_back(fd: int, path: Path, size: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        try:
            os.ftruncate(fd, size)
        except OSError as worse:
            raise Stop(_reason(path, worse)) from error
        raise CannotStore(_reason(path, error)) from error


def replace(path: Path, data: bytes) -> None:
    """Puts a whole file in place, atomically and durably. Raises CannotStore, Stop."""
    draft = path.with_name(f".{path.name}.new")
    try:
        _make_folder(path.parent)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            sync(fd, path)
        finally:
            os.close(fd)
        os.replace(draft, path)
    except OSError as error:
        _remove(draft)
        raise CannotStore(_reason(path, error)) from error
    sync_folder(path.parent)


def _remove(draft: Path) -> None:
    """Gives back the room that a half-written draft takes, if there is one."""
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        pass


def sync(fd: int, path: Path) -> None:
    """Returns once the file's data is on disk. Raises Stop."""
    try:
        _sync(fd)
    except OSError as error:
        raise Stop(_reason(path, error)) from error


def sync_folder(path: Path, opened: int | None = None) -> None:
    """Returns once the folder's entries are on disk; `opened` is its descriptor, if there is one. Raises Stop."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if opened is None else opened
        try:
            os.fsync(fd)
        finally:
            if opened is None:
                os.close(fd)
    except OSError as error:
        raise Stop(_reason(path, error)) from error


def _make_folder(path: Path) -> bool:
    """Makes a folder and syncs its entry in the parent; True if it was not there."""
    if path.is_dir():
        return False
    _make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_folder(path.parent)
    return True


def _reason(path: Path, error: OSError) -> str:
    return f"Cannot write {path}: {error.strerror or error}."
