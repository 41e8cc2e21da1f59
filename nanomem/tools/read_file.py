"""The tool `read_file`: a stretch of lines of a text file."""

import asyncio
import codecs
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import Any

from nanomem.arguments import tool_schema, whole_number
from nanomem.errors import ShowModel
from nanomem.ports import Tool
from nanomem.spaces import Space
from nanomem.tools.contained import opened_file
from nanomem.tools.workbench import Workbench

_SHOWN = 20_000
_FARTHEST = 100_000_000  # bytes looked through for the first line wanted


class ReadFile:
    """Reads lines; the rest of a long file is named, not shown."""

    schema = tool_schema(
        "read_file",
        "Read a text file of the workspace.",
        {"path": "relative path"},
        offset=whole_number("first line, from 1"),
        limit=whole_number("how many lines"),
    )
    parallel = True

    async def run(self, arguments: Mapping[str, Any], space: Space) -> str:
        offset, limit = max(1, arguments.get("offset", 1)), max(1, arguments.get("limit", 2_000))
        return await asyncio.to_thread(_read, space, arguments["path"], offset, limit)


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return ReadFile()


def _read(space: Space, path: str, offset: int, limit: int) -> str:
    with opened_file(space, path) as file:
        if b"\0" in file.peek(8192):
            raise ShowModel(f"{path} is a binary file, which cannot be shown as text.")
        raw, more = _stretch(file, offset, limit, path)
    text = raw.decode("utf-8-sig" if offset == 1 else "utf-8", "replace")
    text, cut = _bounded(text)
    after = offset + text.count("\n") + (0 if text.endswith("\n") else 1)
    notes = ["not valid UTF-8: unreadable bytes are shown as \ufffd"] if not _is_utf8(raw) else []
    if cut and not text.endswith("\n"):
        notes.append(f"line {after - 1} is too long to show whole: use grep, or cut with exec")
    if more or cut:
        notes.append(f"more lines follow: go on with offset={after}")
    if not text:
        notes.append("the file is empty" if offset == 1 else f"the file has fewer than {offset} lines")
    return text + "".join(f"\n[{note}]" for note in notes)


def _stretch(file: BufferedReader, offset: int, limit: int, path: str) -> tuple[bytes, bool]:
    """The bytes of the lines wanted, as far as they can be shown, and whether the file goes on."""
    taken: list[bytes] = []
    size = 0
    for number, piece in _pieces(file):
        if number < offset:
            if file.tell() > _FARTHEST:
                raise ShowModel(f"Line {offset} of {path} is too far into the file: use grep or exec.")
            continue
        if number >= offset + limit or size > 4 * _SHOWN:
            return b"".join(taken), True
        taken.append(piece)
        size += len(piece)
    return b"".join(taken), False


def _pieces(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1; one of a gigabyte comes in bits of the same number."""
    number = 1
    while piece := file.readline(4 * _SHOWN):
        yield number, piece
        number += piece.endswith(b"\n")


def _bounded(text: str) -> tuple[str, bool]:
    """At most what can be shown, cut after a line if there is one."""
    if len(text) <= _SHOWN:
        return text, False
    end = text.rfind("\n", 0, _SHOWN)
    return text[: end + 1 or _SHOWN], True


def _is_utf8(raw: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)  # the end may be cut in the middle of a character
    except UnicodeDecodeError:
        return False
    return True
