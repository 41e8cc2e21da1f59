"""Whether anybody waits for an answer, so that what nobody waits for lets them go first. Knows nothing of either."""

from collections.abc import Iterator
from contextlib import contextmanager

from nanomem.ports import Clock

PATIENCE_S = 60
"""As long is given way at a time; a tool may run for hours."""


class Traffic:
    """Counts who is being served."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._served = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Around the service of somebody who waits."""
        self._served += 1
        try:
            yield
        finally:
            self._served -= 1

    async def calm(self) -> None:
        """Returns once nobody is being served, or patience has ended."""
        for _ in range(PATIENCE_S):
            if not self._served:
                return
            await self._clock.sleep(1)
