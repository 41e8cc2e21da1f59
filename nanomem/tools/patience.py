"""Lets blocking work in a thread see that its time is over, or that nobody waits for it any more."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Asked by the work itself, often; it cannot be interrupted from outside."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._left = threading.Event()

    def is_over(self) -> bool:
        """Whether to stop with what there is."""
        return self._left.is_set() or time.monotonic() > self._end

    def leave(self) -> None:
        """Nobody waits any more."""
        self._left.set()


async def patiently(seconds: float, work: Callable[[Patience], T]) -> T:
    """Runs the work in a thread; when cancelled, the work is told and soon ends."""
    patience = Patience(seconds)
    try:
        return await asyncio.to_thread(work, patience)
    finally:
        patience.leave()
