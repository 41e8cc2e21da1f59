"""What a process did to a folder, as the tracer wrote it down, and the folder as of any moment of it. Pure.

Modes and times are not part of it. What goes through a shared mapping of a file is not seen, only the mapping itself:
SQLite's `-shm` files are such, and hold nothing that has to survive.
"""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range"})
SYNCS = frozenset({"fsync", "fdatasync"})
OPENS = frozenset({"open", "openat", "openat2", "creat"})
RENAMES = frozenset({"rename", "renameat", "renameat2"})
LINKS = frozenset({"link", "linkat"})
SYMLINKS = frozenset({"symlink", "symlinkat"})
REMOVALS = frozenset({"unlink", "unlinkat", "rmdir"})
MKDIRS = frozenset({"mkdir", "mkdirat"})
TRUNCATIONS = frozenset({"truncate", "ftruncate"})

KEEP_SIZE, EXCHANGE = 1, 2
"""Of fallocate; of renameat2."""


@dataclass(frozen=True, slots=True)
class Event:
    """A call and what came of it: `result` below 0 is minus an errno, None if the process was killed before it.

    Paths are relative to the folder, "." is the folder, absolute ones lie outside. `to` is the new name of a rename
    or link, and what a symbolic link points to.
    """

    n: int
    call: str
    path: str
    result: int | None
    to: str = ""
    offset: int = 0
    data: bytes = b""
    size: int = 0
    flags: int = 0

    @property
    def line(self) -> str:
        """One line of JSON."""
        some = {"to": self.to, "offset": self.offset, "size": self.size, "flags": self.flags}
        found: dict[str, Any] = {"n": self.n, "call": self.call, "path": self.path}
        found |= {name: value for name, value in some.items() if value}
        if self.data:
            found["data"] = base64.b64encode(self.data).decode()
        return json.dumps(found | {"result": self.result}) + "\n"


def events(lines: Iterable[str]) -> Iterator[Event]:
    """What was recorded; a line that is cut off is the last."""
    for line in lines:
        if not line.endswith("\n"):
            return
        found = json.loads(line)
        yield Event(**found | {"data": base64.b64decode(found.get("data", ""))})


@dataclass(slots=True)
class Folder:
    """A folder's files by name; two names of one file hold the same object. `links` point to what they say."""

    files: dict[str, bytearray] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, files: Mapping[str, bytes], folders: Iterable[str] = (), links: Mapping[str, str] | None = None
    ) -> "Folder":
        """As it was before."""
        return cls({name: bytearray(data) for name, data in files.items()}, set(folders), dict(links or {}))

    def take(self, event: Event) -> None:
        """What a call that succeeded did."""
        if event.result is None or event.result < 0:
            return
        call, path = event.call, event.path
        if call in WRITES:
            self._write(self.files[path], event.offset, event.data)
        elif call in TRUNCATIONS:
            self._resize(self.files[path], event.size)
        elif call == "fallocate":
            if not event.flags & KEEP_SIZE:
                self._resize(self.files[path], max(len(self.files[path]), event.size))
        elif call in OPENS:
            if event.flags & os.O_CREAT:
                self.files.setdefault(path, bytearray())
            if event.flags & os.O_TRUNC:
                del self.files[path][:]
        elif call in RENAMES:
            self._rename(path, event.to, exchange=bool(event.flags & EXCHANGE))
        elif call in LINKS:
            self.files[event.to] = self.files[path]
        elif call in SYMLINKS:
            self.links[path] = event.to
        elif call in REMOVALS:
            self._remove(path)
        elif call in MKDIRS:
            self.folders.add(path)

    def _write(self, file: bytearray, offset: int, data: bytes) -> None:
        if len(file) < offset:
            self._resize(file, offset)
        file[offset : offset + len(data)] = data

    def _resize(self, file: bytearray, size: int) -> None:
        del file[size:]
        file.extend(bytes(size - len(file)))

    def _rename(self, path: str, to: str, exchange: bool) -> None:
        moved, replaced = self._taken(path), self._taken(to)
        self._put(moved, path, to)
        if exchange:
            self._put(replaced, to, path)

    def _taken(self, top: str) -> "Folder":
        """What has that name, and all below it, which is then gone from here."""
        below = top + "/"
        found = Folder()
        for name in [name for name in self.files if name == top or name.startswith(below)]:
            found.files[name] = self.files.pop(name)
        for name in [name for name in self.links if name == top or name.startswith(below)]:
            found.links[name] = self.links.pop(name)
        found.folders = {name for name in self.folders if name == top or name.startswith(below)}
        self.folders -= found.folders
        return found

    def _put(self, taken: "Folder", old: str, new: str) -> None:
        self.files |= {new + name.removeprefix(old): data for name, data in taken.files.items()}
        self.links |= {new + name.removeprefix(old): to for name, to in taken.links.items()}
        self.folders |= {new + name.removeprefix(old) for name in taken.folders}

    def _remove(self, path: str) -> None:
        self.files.pop(path, None)
        self.links.pop(path, None)
        self.folders.discard(path)
