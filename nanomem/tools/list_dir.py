"""The tool `list_dir`: what is in a folder."""

import asyncio
import os
from collections.abc import Mapping
from itertools import islice
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Origin, Tool
from nanomem.spaces import Space
from nanomem.tools.contained import is_hidden, opened
from nanomem.tools.workbench import Workbench

_SHOWN = 500
_LOOKED_AT = 20_000  # sorting wants them all in memory


class ListDir:
    """Lists one level."""

    schema = tool_schema("list_dir", "List a folder of the workspace.", {"path": "relative path, . for the top"})
    parallel = True

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        return await asyncio.to_thread(_list, origin.space, arguments["path"])


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return ListDir()


def _list(space: Space, path: str) -> str:
    with opened(space, path) as (fd, place, is_folder):
        if not is_folder:
            raise ShowModel(f"{path} is a file.")
        with os.scandir(fd) as entries:
            lines = sorted(_line(entry) for entry in islice(entries, _LOOKED_AT) if not is_hidden((*place, entry.name)))
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"[{len(lines):,} entries or more; the rest is not shown: use grep or exec]"]
    return "\n".join(lines) or "(empty)"


def _line(entry: "os.DirEntry[str]") -> str:
    name = entry.name if entry.name.isprintable() else repr(entry.name)
    if entry.is_symlink():
        return f"{name} (symbolic link)"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name} ({entry.stat(follow_symlinks=False).st_size:,} bytes)"
    except OSError:
        return name
