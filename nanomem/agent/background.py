"""Work that goes on beside the conversations, with an owner: it is drained at the stop, and a bug ends only itself."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from nanomem.agent.together import unwrapped
from nanomem.errors import NanomemError, Stop, passes

log = structlog.get_logger()


class Background:
    """Runs tasks for as long as `run` does. A task that fails is logged, and fails alone; Stop ends all."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._closed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def idle(self) -> None:
        """Returns when nothing goes on."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def run(self) -> None:
        """Returns once closed and nothing runs any more. Raises Stop."""
        with unwrapped():
            async with asyncio.TaskGroup() as self._group:
                await self._closed.wait()
        self._group = None

    def start(self, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Begins something; None where nothing may begin any more."""
        if self._group is None or self._closed.is_set():
            work.close()
            return None
        alone = self._alone(what, work)
        try:
            task = self._group.create_task(alone)
        except RuntimeError:  # the group is ending over an error, which is to be heard of before this
            alone.close()
            work.close()
            return None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Nothing begins any more; what runs goes on to its end, or until `run` is cancelled."""
        self._closed.set()

    async def _alone(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Stop:
            raise
        except NanomemError as error:
            log.warning("background.failed", what=what, kind=type(error).__name__, reason=error.gist)
        except Exception as error:  # as in a lane: what fails here stops nothing else
            if passes(error):
                log.warning("background.failed", what=what, kind=type(error).__name__, reason=str(error))
            else:
                log.exception("background.bug", what=what)
