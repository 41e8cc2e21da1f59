"""The tool `write_file`: a whole file, new or instead of an older one; of a memory file, a new version."""

import asyncio
from collections.abc import Mapping
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.ports import Memory, Origin, Tool
from nanomem.tools import contained, rewriting
from nanomem.tools.workbench import Workbench


class WriteFile:
    """Writes all or nothing. Of a memory file no fact is lost by it: what is left out is put back."""

    schema = tool_schema(
        "write_file",
        "Write a text file in the workspace, replacing what it held. Missing folders are made.",
        {"path": "relative path", "content": "the whole text"},
    )
    parallel = False

    def __init__(self, memory: Memory | None) -> None:
        self._memory = memory

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        path, text = arguments["path"], arguments["content"]
        if self._memory and (name := contained.memory_file(origin.space, path)):
            return await rewriting.rewrite(self._memory, origin, name, lambda _: text)
        content = text.encode()
        await asyncio.to_thread(contained.write, origin.space, path, content)
        return f"Wrote {len(content):,} bytes to {path}."


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return WriteFile(workbench.memory)
