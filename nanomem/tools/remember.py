"""The tool `remember`: one fact more in the long-term memory, saved when the answer says so."""

from collections.abc import Mapping
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.ports import Memory, Origin, Tool
from nanomem.remembering import one_fact, remembered, told
from nanomem.tools.workbench import Workbench


class Remember:
    """Does what `/remember` does."""

    schema = tool_schema("remember", "Keep a fact in long-term memory.", {"fact": "one fact, in one sentence"})
    parallel = False

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        fact = one_fact(arguments["fact"])
        return told(await self._memory.change(origin.space, remembered(fact, origin.trailers)), fact)


def build(workbench: Workbench) -> Tool | None:
    """None where there is no memory to write to."""
    return Remember(workbench.memory) if workbench.memory else None
