"""The tool `edit_file`: one passage of a text file replaced by another."""

import asyncio
from collections.abc import Mapping
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Tool
from nanomem.spaces import Space
from nanomem.tools import contained
from nanomem.tools.workbench import Workbench

_LARGEST = 5_000_000


class EditFile:
    """Changes a file only where it is clear which passage is meant."""

    schema = tool_schema(
        "edit_file",
        "Replace one passage of a text file in the workspace. `old` must be in it exactly once.",
        {"path": "relative path", "old": "exact text now", "new": "text instead"},
    )
    parallel = False

    async def run(self, arguments: Mapping[str, Any], space: Space) -> str:
        path, old, new = (arguments[name] for name in ("path", "old", "new"))
        await asyncio.to_thread(_edit, space, path, old, new)
        return f"Changed {path}."


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return EditFile()


def _edit(space: Space, path: str, old: str, new: str) -> None:
    if not old or old == new:
        raise ShowModel("`old` is empty, or the same as `new`: nothing to change.")
    with contained.opened_file(space, path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ShowModel(f"{path} is larger than {_LARGEST:,} bytes: change it with exec.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ShowModel(f"{path} is not valid UTF-8 text, so it cannot be edited safely.") from None
    if not (found := text.count(old)):
        raise ShowModel(f"`old` is not in {path}. It must match exactly: read the file again.")
    if found > 1:
        raise ShowModel(f"`old` is in {path} {found} times. Give more of the text around the one you mean.")
    contained.write(space, path, text.replace(old, new).encode())
