"""The way out to one network, which all share who have something to deliver there.

While it is closed one at a time looks whether it is open again, so that a long outage costs the same for one
waiting answer as for a thousand. Knows nothing of what is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable

from nanomem.errors import NotHere, Refused, TryLater
from nanomem.ports import Clock

BETWEEN_S = 1.0


class Way:
    """Open until an attempt finds it closed, and closed until one gets through."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed = False
        self._turn = asyncio.Lock()
        self._tried_at = 0.0

    async def attempt(self, call: Callable[[], Awaitable[None]]) -> None:
        """The call, raising what it raises; while the way is closed only in turn, a second after the last one began."""
        if self._closed:
            async with self._turn:
                if self._closed:
                    await self._clock.sleep(max(0.0, self._tried_at + BETWEEN_S - self._clock.monotonic()))
                    return await self._try(call)
        await self._try(call)

    async def _try(self, call: Callable[[], Awaitable[None]]) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            await call()
        except TryLater as error:  # a hint is for one chat, and who is not there concerns no other
            if error.after_s is None and not isinstance(error, NotHere):
                self._closed = True
            raise
        except Refused:
            self._closed = False
            raise
        self._closed = False
