"""The three memory files of a space, as a person may have left them: any encoding, any size, or not at all."""

import asyncio
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

import structlog

from nanomem.ports import MemoryFiles
from nanomem.spaces import Space

log = structlog.get_logger()

LARGEST = 1024 * 1024
"""Bytes that are read of one file; what is longer is cut, and said."""


class PlainMemory:
    """`ports.Memory` on plain files. What is wrong with a file is reported once for each state it is in."""

    def __init__(self) -> None:
        self._reported: set[tuple[Path, str, int]] = set()

    async def read(self, space: Space) -> MemoryFiles:
        """See the port. SOUL.md comes from the owner's space: the manner is the same for all."""
        return await asyncio.to_thread(self._read, space)

    def _read(self, space: Space) -> MemoryFiles:
        return MemoryFiles(
            soul=self._text(space.shared_root / "SOUL.md"),
            user=self._text(space.root / "USER.md"),
            memory=self._text(space.root / "memory" / "MEMORY.md"),
        )

    def _text(self, path: Path) -> str:
        try:
            with open_regular(path) as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            self._report(path, f"cannot be read: {error.strerror}", 0)
            return ""
        if len(data) > LARGEST:
            self._report(path, f"longer than {LARGEST} bytes; the rest is not used", len(data))
            data = data[:LARGEST]
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8-sig", "replace")
            if len(data) < LARGEST:
                self._report(path, f"not UTF-8 at byte {error.start}", len(data))
        return text.replace("\r\n", "\n").replace("\0", "")

    def _report(self, path: Path, reason: str, size: int) -> None:
        if (path, reason, size) not in self._reported:
            self._reported.add((path, reason, size))
            log.warning("memory.damaged", file=path.name, reason=reason)


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
