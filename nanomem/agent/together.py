"""Running things side by side so that nothing outlives its caller and an error arrives as itself."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unwrapped() -> Iterator[None]:
    """Around a task group: the first error that ended it is raised as itself.

    A cancellation that arrives while the group is ending over an error goes before the error: a group
    forgets it, and whoever asked for it would wait for ever.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except BaseExceptionGroup as errors:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError from errors
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from first.__cause__


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Runs all to their end; if one fails the others are cancelled and its error is raised."""
    with unwrapped():
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)


async def beside(companion: Coroutine[Any, Any, None], work: Awaitable[None]) -> None:
    """Runs `work` with a companion that is cancelled when the work is over."""
    with unwrapped():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(companion)
            await work
            task.cancel()


async def to_its_end(work: Coroutine[Any, Any, None], patience_s: float) -> None:
    """Runs it; a cancellation ends it only after so long, and then arrives, whatever became of the work."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task], timeout=patience_s)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise


class StopScope:
    """A stretch of a task that somebody else may end: `with scope: ...`, and `scope.stop()` from outside.

    Afterwards `stopped` tells whether it was. A cancellation from elsewhere passes through, as it does
    through `asyncio.timeout`, whose way this follows.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._before = 0

    def stop(self) -> None:
        """Ends the stretch; one that has not begun is not to be begun."""
        if self._task and not self.stopped:
            self._cancelled = self._task.cancel()
        self.stopped = True

    def __enter__(self) -> "StopScope":
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task else 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return False
        return task.uncancel() <= self._before and kind is asyncio.CancelledError
