"""The tool `grep`: lines that match a regular expression, within bounds of time and matches."""

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Origin, Tool
from nanomem.spaces import Space
from nanomem.tools.contained import is_hidden, opened
from nanomem.tools.workbench import Workbench

_SECONDS = 10.0
_SECONDS_A_LINE = 1.0
_MATCHES = 100
_BYTES_A_FILE = 5_000_000
_ENTRIES_A_FOLDER = 20_000
_DEEPEST = 30
_LINE_SHOWN = 300


class Grep:
    """Searches; `regex` rather than `re` because it has a time-out and lets other threads run meanwhile."""

    schema = tool_schema(
        "grep",
        "Search files of the workspace line by line.",
        {"pattern": "regular expression"},
        path={"type": "string", "description": "file or folder"},
    )
    parallel = True

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        return await asyncio.to_thread(_grep, origin.space, arguments["pattern"], arguments.get("path") or ".")


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return Grep()


def _grep(space: Space, pattern: str, path: str) -> str:
    lines = list(islice(_found(space, _compiled(pattern), path), _MATCHES + 1))
    if len(lines) > _MATCHES:
        lines[_MATCHES:] = [f"[only the first {_MATCHES} matches are shown]"]
    text = "\n".join(lines) or "No line matches."
    return text.encode("utf-8", "replace").decode()  # names of files may be no text


def _compiled(pattern: str) -> Any:
    import regex  # type: ignore[import-untyped]

    try:
        if len(pattern) > 1_000:
            raise ValueError("it is longer than 1,000 characters")
        return regex.compile(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ShowModel(f"The pattern cannot be used: {error}.") from None


def _found(space: Space, pattern: Any, path: str) -> Iterator[str]:
    """The matches, and a last line if not all was searched."""
    end = time.monotonic() + _SECONDS
    with opened(space, path) as (fd, place, is_folder):
        for name, file in _files(fd, place, end) if is_folder else [(path, fd)]:
            yield from _matches(pattern, name, _text_of(file), end)
    if time.monotonic() > end:
        yield "[stopped before all was searched: give a path that holds less]"


def _text_of(fd: int) -> str:
    """The beginning of a file; nothing of a binary one."""
    with open(fd, "rb", closefd=False) as file:
        data = file.read(_BYTES_A_FILE)
    return "" if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def _matches(pattern: Any, path: str, text: str, end: float) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        try:
            match = pattern.search(line, timeout=_SECONDS_A_LINE)
        except TimeoutError:
            raise ShowModel(f"The pattern takes too long on line {number} of {path}: make it simpler.") from None
        if match:
            start = max(0, match.start() - _LINE_SHOWN // 3)
            yield f"{path}:{number}: {line[start : start + _LINE_SHOWN].strip()}"
        if time.monotonic() > end:
            return


def _files(folder: int, place: tuple[str, ...], end: float) -> Iterator[tuple[str, int]]:
    """Paths and descriptors of the regular files below, in order; links are not followed, .git is left out."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _ENTRIES_A_FOLDER))
    for name in names:
        here = (*place, name)
        if time.monotonic() > end:
            return
        if name == ".git" or is_hidden(here):
            continue
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue  # a link, gone, or not ours to read
        try:
            kind = os.fstat(fd).st_mode
            if stat.S_ISREG(kind):
                yield "/".join(here), fd
            elif stat.S_ISDIR(kind) and len(here) <= _DEEPEST:
                yield from _files(fd, here, end)
        finally:
            os.close(fd)
