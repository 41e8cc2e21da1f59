"""Running the tools a model asks for: side by side where they allow it, each call with exactly one result.

Knows the tool port; what a tool does is its own file's business.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import structlog

from nanomem.agent.together import together
from nanomem.arguments import check_arguments
from nanomem.errors import CannotStore, Refused, ShowModel, TryLater
from nanomem.messages import ToolCall, ToolSchema
from nanomem.ports import Origin, Tool

log = structlog.get_logger()

AT_ONCE = 8
LONGEST_RESULT = 100_000
"""Characters of a result that are kept; tools bound their own output far below."""

Keep = Callable[[str, str, str], Awaitable[None]]


class Toolbox:
    """All tools, in a fixed order."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in tools.values())

    async def run(self, calls: Sequence[ToolCall], origin: Origin, keep: Keep) -> None:
        """Runs the calls in order, neighbours that may run in parallel together; each result is kept at once."""
        for parallel, group in groupby(calls, key=self._is_parallel):
            if not parallel:
                for call in group:
                    await keep(call.id, call.name, await self._result(call, origin))
                continue
            room, order = asyncio.Semaphore(AT_ONCE), asyncio.Lock()
            await together(*(self._side_by_side(call, origin, keep, room, order) for call in group))

    def _is_parallel(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.parallel

    async def _side_by_side(
        self, call: ToolCall, origin: Origin, keep: Keep, room: asyncio.Semaphore, order: asyncio.Lock
    ) -> None:
        async with room:
            result = await self._result(call, origin)
        async with order:
            await keep(call.id, call.name, result)

    async def _result(self, call: ToolCall, origin: Origin) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            return f"There is no tool {call.name[:64]!r}. The tools are: {', '.join(self._tools) or 'none'}."
        log.info("tool.started", tool=call.name, space=origin.space.name)
        try:
            given = check_arguments(tool.schema, call.arguments)
            text = await tool.run(given, replace(origin, id=f"{origin.id}/{call.id}"))
        except (ShowModel, TryLater, Refused) as error:
            log.info("tool.failed", tool=call.name, space=origin.space.name)
            return f"Failed: {error.text}"
        except CannotStore as error:
            log.warning("tool.failed", tool=call.name, space=origin.space.name, reason=error.text)
            return f"Failed: {error.text}"
        except OSError as error:
            log.warning("tool.failed", tool=call.name, space=origin.space.name, reason=str(error))
            return f"Failed: {error.strerror or error}"
        if len(text) > LONGEST_RESULT:
            text = f"{text[:LONGEST_RESULT]}\n[... {len(text) - LONGEST_RESULT:,} characters left out]"
        return text or "(no output)"
