"""The tool `read_file`: a stretch of lines of a text file."""

import asyncio
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from typing import Any

from nanomem.arguments import tool_schema, whole_number
from nanomem.errors import ShowModel
from nanomem.ports import Origin, Tool
from nanomem.spaces import Space
from nanomem.tools.contained import opened_file
from nanomem.tools.workbench import Workbench

_SHOWN = 20_000
_FARTHEST = 100_000_000  # bytes looked through for the first line wanted


class ReadFile:
    """Reads lines; the rest of a long file is named, not shown. What is not UTF-8 comes as U+FFFD."""

    schema = tool_schema(
        "read_file",
        "Read a text file of the workspace.",
        {"path": "relative path"},
        offset=whole_number("first line, from 1"),
        limit=whole_number("how many lines"),
    )
    parallel = True

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        offset, limit = max(1, arguments.get("offset", 1)), max(1, arguments.get("limit", 2_000))
        return await asyncio.to_thread(_read, origin.space, arguments["path"], offset, limit)


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return ReadFile()


def _read(space: Space, path: str, offset: int, limit: int) -> str:
    shown = ""
    with opened_file(space, path) as file:
        if b"\0" in file.peek(8192):
            raise ShowModel(f"{path} is a binary file, which cannot be shown as text.")
        for number, piece in _pieces(TextIOWrapper(file, "utf-8-sig", "replace", newline="\n")):
            if number < offset:
                if file.tell() > _FARTHEST:
                    raise ShowModel(f"Line {offset} of {path} is too far into the file: use grep or exec.")
            elif number < offset + limit and not (shown and len(shown) + len(piece) > _SHOWN):
                shown += piece
            else:
                return shown + _more(shown, number)
    if not shown:
        return "\n[the file is empty]" if offset == 1 else f"\n[the file has fewer than {offset} lines]"
    return shown


def _pieces(file: TextIOWrapper) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1; one of a gigabyte comes in bits of the same number."""
    number = 1
    while piece := file.readline(_SHOWN):
        yield number, piece
        number += piece.endswith("\n")


def _more(shown: str, number: int) -> str:
    """Where to go on when `number` is the line that was not shown, or of which only the beginning was."""
    if shown.endswith("\n"):
        return f"\n[more lines follow: go on with offset={number}]"
    too_long = f"line {number} is too long to show whole: use grep, or cut with exec"
    return f"\n[{too_long}]\n[if more lines follow: go on with offset={number + 1}]"
