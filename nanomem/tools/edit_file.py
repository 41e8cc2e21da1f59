"""The tool `edit_file`: one passage of a text file replaced by another; in a memory file, as a new version; in a
skill, as a draft."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Memory, Origin, Skills, Tool
from nanomem.spaces import Space
from nanomem.tools import contained, drafting, rewriting
from nanomem.tools.workbench import Workbench

_LARGEST = 5_000_000


class EditFile:
    """Changes a file only where it is clear which passage is meant."""

    schema = tool_schema(
        "edit_file",
        "Replace one passage of a text file in the workspace, also of a memory file. `old` must be in it exactly once.",
        {"path": "relative path", "old": "exact text now", "new": "text instead"},
    )
    parallel = False

    def __init__(self, memory: Memory | None, skills: Skills | None) -> None:
        self._memory = memory
        self._skills = skills

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        path, old, new = (arguments[name] for name in ("path", "old", "new"))
        if not old or old == new:
            raise ShowModel("`old` is empty, or the same as `new`: nothing to change.")
        if self._memory and (name := contained.memory_file(origin.space, path)):
            edit = partial(_replaced, path=name, old=old, new=new)
            return await rewriting.rewrite(self._memory, origin, name, edit, reason="edited by the agent")
        if self._skills and (name := contained.skill_name(origin.space, path)):
            return await drafting.redraft(self._skills, origin, name, partial(_replaced, path=path, old=old, new=new))
        await asyncio.to_thread(_edit, origin.space, path, old, new)
        return f"Changed {path}."


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return EditFile(workbench.memory, workbench.skills)


def _edit(space: Space, path: str, old: str, new: str) -> None:
    with contained.opened_file(space, path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ShowModel(f"{path} is larger than {_LARGEST:,} bytes: change it with exec.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ShowModel(f"{path} is not valid UTF-8 text, so it cannot be edited safely.") from None
    contained.write(space, path, _replaced(text, path, old, new).encode())


def _replaced(text: str, path: str, old: str, new: str) -> str:
    if not (found := text.count(old)):
        raise ShowModel(f"`old` is not in {path}. It must match exactly: read the file again.")
    if found > 1:
        raise ShowModel(f"`old` is in {path} {found} times. Give more of the text around the one you mean.")
    return text.replace(old, new)
