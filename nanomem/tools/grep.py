"""The tool `grep`: lines that match a regular expression, within bounds of time, files, bytes and matches."""

import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import regex  # type: ignore[import-untyped]

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Tool
from nanomem.spaces import Space
from nanomem.tools.contained import is_hidden, opened
from nanomem.tools.patience import Patience, patiently
from nanomem.tools.workbench import Workbench

_SECONDS = 10.0
_SECONDS_A_LINE = 1.0
_MATCHES = 100
_BYTES = 100_000_000
_BYTES_A_FILE = 5_000_000
_ENTRIES_A_FOLDER = 20_000
_DEEPEST = 30
_LINE_SHOWN = 300

Opened = tuple[str, int]
"""A file's path to show, and a descriptor that is open until the next one is asked for."""


class Grep:
    """Searches; `regex` rather than `re` because it has a time-out and lets other threads run meanwhile."""

    schema = tool_schema(
        "grep",
        "Search files of the workspace line by line.",
        {"pattern": "regular expression"},
        path={"type": "string", "description": "file or folder"},
    )
    parallel = True

    async def run(self, arguments: Mapping[str, Any], space: Space) -> str:
        path = arguments.get("path") or "."
        return await patiently(_SECONDS, lambda patience: _grep(space, arguments["pattern"], path, patience))


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return Grep()


def _grep(space: Space, pattern: str, path: str, patience: Patience) -> str:
    found, compiled = _Found(patience), _compiled(pattern)
    with opened(space, path) as (fd, place, is_folder):
        for name, file in _files(fd, place, patience) if is_folder else [(path, fd)]:
            data = _text_of(file)
            found.add(len(data), _matches(compiled, name, data, patience))
            if found.stopped:
                break
    return found.told()


def _compiled(pattern: str) -> "regex.Pattern[str]":
    try:
        if len(pattern) > 1_000:
            raise ValueError("it is longer than 1,000 characters")
        return regex.compile(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ShowModel(f"The pattern cannot be used: {error}.") from None


class _Found:
    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._lines: list[str] = []
        self._searched = 0

    def add(self, size: int, matches: Iterator[str]) -> None:
        """The matches of one file of so many bytes."""
        self._searched += size
        self._lines.extend(islice(matches, _MATCHES + 1 - len(self._lines)))

    @property
    def stopped(self) -> str:
        """Why to search no further, if so."""
        if len(self._lines) > _MATCHES:
            return f"only the first {_MATCHES} matches are shown"
        if self._searched > _BYTES or self._patience.is_over():
            return "stopped before all was searched: give a path that holds less"
        return ""

    def told(self) -> str:
        """The result, and whether it is all."""
        note = [f"[{self.stopped}]"] if self.stopped else []
        text = "\n".join(self._lines[:_MATCHES] + note) or "No line matches."
        return text.encode("utf-8", "replace").decode()  # names of files may be no text


def _matches(pattern: "regex.Pattern[str]", path: str, data: bytes, patience: Patience) -> Iterator[str]:
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        try:
            match = pattern.search(line, timeout=_SECONDS_A_LINE)
        except TimeoutError:
            raise ShowModel(f"The pattern takes too long on line {number} of {path}: make it simpler.") from None
        if match:
            start = max(0, match.start() - _LINE_SHOWN // 3)
            yield f"{path}:{number}: {line[start : start + _LINE_SHOWN].strip()}"
        if patience.is_over():
            return


def _text_of(fd: int) -> bytes:
    """The beginning of a file; nothing of a binary one."""
    with open(fd, "rb", closefd=False) as file:
        data = file.read(_BYTES_A_FILE)
    return b"" if b"\0" in data[:8192] else data


def _files(folder: int, place: tuple[str, ...], patience: Patience) -> Iterator[Opened]:
    """Regular files below, links not followed, in the order of their names."""
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in islice(entries, _ENTRIES_A_FOLDER) if not e.is_symlink() and e.name != ".git")
    for name in names:
        if patience.is_over():
            return
        here = (*place, name)
        if not is_hidden(here):
            yield from _below(folder, name, here, patience)


def _below(folder: int, name: str, here: tuple[str, ...], patience: Patience) -> Iterator[Opened]:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return  # gone, or not ours to read
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            yield "/".join(here), fd
        elif stat.S_ISDIR(kind) and len(here) <= _DEEPEST:
            yield from _files(fd, here, patience)
    finally:
        os.close(fd)
