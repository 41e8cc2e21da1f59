"""The lines of a file, found from any place in it without reading more than is asked for.

Knows nothing of what they mean. All of it blocks: call it in a thread.
"""

import errno
import os
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK = 16 * 1024


class Lines:
    """An open file, as long as it was when this was made. A place is a number of bytes from its beginning.

    Whoever wants a line says where it is; only `text` holds it in memory. Raises OSError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self.size = os.fstat(self._fd).st_size
        self._base = -1
        self._block = b""

    def start(self, place: int) -> int:
        """Where the line begins that the byte at a place belongs to."""
        while place > 0:
            base, block = self._around(place - 1)
            if (found := block.rfind(b"\n", 0, place - base)) >= 0:
                return base + found + 1
            place = base
        return 0

    def end(self, place: int) -> int:
        """Where the line ends that the byte at a place belongs to: behind its break, or at the end of the file."""
        while place < self.size:
            base, block = self._around(place)
            if (found := block.find(b"\n", place - base)) >= 0:
                return base + found + 1
            place = base + len(block)
        return self.size

    def text(self, start: int, end: int) -> bytes:
        """The bytes between two places."""
        base, block = self._around(start)
        if end <= base + len(block):
            return block[start - base : end - base]
        return self._read(start, end)

    def forwards(self) -> Iterator[tuple[int, int]]:
        """Where each line begins and ends, from the first on."""
        start = 0
        while start < self.size:
            end = self.end(start)
            yield start, end
            start = end

    def backwards(self) -> Iterator[tuple[int, int]]:
        """Where each line begins and ends, from the last one back."""
        end = self.size
        while end > 0:
            start = self.start(end - 1)
            yield start, end
            end = start

    def breaks(self, start: int, end: int) -> int:
        """How many lines end between two places."""
        found = 0
        while start < end:
            base, block = self._around(start)
            found += block.count(b"\n", start - base, end - base)
            start = base + len(block)
        return found

    def _around(self, place: int) -> tuple[int, bytes]:
        base = place - place % _BLOCK
        if base != self._base:
            self._block = self._read(base, min(base + _BLOCK, self.size))
            self._base = base
        return base, self._block

    def _read(self, start: int, end: int) -> bytes:
        found = os.pread(self._fd, end - start, start)
        if len(found) < end - start:
            raise OSError(errno.EIO, "it became shorter while it was read")
        return found
