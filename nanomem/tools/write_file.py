"""The tool `write_file`: a whole file, new or instead of an older one."""

import asyncio
from collections.abc import Mapping
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.ports import Tool
from nanomem.spaces import Space
from nanomem.tools import contained
from nanomem.tools.workbench import Workbench


class WriteFile:
    """Writes all or nothing."""

    schema = tool_schema(
        "write_file",
        "Write a text file in the workspace, replacing what it held. Missing folders are made.",
        {"path": "relative path", "content": "the whole text"},
    )
    parallel = False

    async def run(self, arguments: Mapping[str, Any], space: Space) -> str:
        content = arguments["content"].encode()
        await asyncio.to_thread(contained.write, space, arguments["path"], content)
        return f"Wrote {len(content):,} bytes to {arguments['path']}."


def build(workbench: Workbench) -> Tool | None:
    """Always there."""
    return WriteFile()
