"""The tool `write_file`: a whole file, new or instead of an older one; of a memory file, a new version; of a skill, a
draft."""

import asyncio
from collections.abc import Mapping
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.ports import Memory, Origin, Skills, Tool
from nanomem.tools import contained, drafting, rewriting
from nanomem.tools.workbench import Workbench


class WriteFile:
    """Writes all or nothing. Of a memory file no fact is lost by it: what is left out is put back."""

    schema = tool_schema(
        "write_file",
        "Write a text file in the workspace, replacing what it held. Missing folders are made.",
        {"path": "relative path", "content": "the whole text"},
    )
    parallel = False

    def __init__(self, memory: Memory | None, skills: Skills | None) -> None:
        self._memory = memory
        self._skills = skills

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        path, text = arguments["path"], arguments["content"]
        if self._memory and (name := contained.memory_file(origin.space, path)):
            return await rewriting.rewrite(self._memory, origin, name, lambda _: text)
        if self._skills and (name := contained.skill_name(origin.space, path)):
            return await drafting.draft(self._skills, origin, name, text)
        content = text.encode()
        await asyncio.to_thread(contained.write, origin.space, path, content)
        return f"Wrote {len(content):,} bytes to {path}."


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return WriteFile(workbench.memory, workbench.skills)
