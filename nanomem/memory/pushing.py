"""Brings new versions to the remote, one space after another, for as long as it takes. Knows nothing of git."""

import asyncio
from collections.abc import Awaitable, Callable

from nanomem.agent.patience import patiently
from nanomem.errors import CannotStore, TryLater
from nanomem.ports import Clock
from nanomem.spaces import Space

_FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 3600.0
"""Between two attempts: a remote that turns us down shall not take us for an attack."""


class Pusher:
    """Pushes the spaces that have `changed`; what fails is tried again after 1, 2, 4 ... s, the others meanwhile not.

    `push` must return at once for a space with nothing new. At the start it is told of all spaces: only it can say
    which of them were not pushed any more before the last stop.
    """

    def __init__(self, push: Callable[[Space], Awaitable[None]], clock: Clock) -> None:
        self._push = push
        self._clock = clock
        self._changed: dict[str, Space] = {}
        self._woken = asyncio.Event()
        self._wait_s = _FIRST_WAIT_S

    def changed(self, space: Space) -> None:
        """There may be a new version in that space. Returns at once."""
        self._changed[space.name] = space
        self._woken.set()

    async def run(self) -> None:
        """Pushes until cancelled. Raises Stop."""
        while True:
            await self._woken.wait()
            async for attempt in patiently(self._clock, "memory.push"):
                with attempt:
                    await self._push_changed()

    async def _push_changed(self) -> None:
        """Tries each of them once. Raises TryLater if one failed."""
        self._woken.clear()
        failed: list[tuple[Space, str]] = []
        while self._changed:
            space = self._changed.pop(next(iter(self._changed)))
            try:
                await self._push(space)
            except (TryLater, CannotStore) as error:
                failed.append((space, error.text))
        self._changed |= {space.name: space for space, _ in failed if space.name not in self._changed}
        if not failed:
            self._wait_s = _FIRST_WAIT_S
            return
        wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, LONGEST_WAIT_S)
        raise TryLater(failed[0][1], wait_s)
