"""Trying again what may work later, with the other side's own hint or after a wait of our own.

The one place that knows the retry library.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_never

from nanomem.errors import CannotStore, NanomemError, NotHere, TryLater, is_news
from nanomem.ports import Clock

log = structlog.get_logger()

FIRST_S = 1.0
LONGEST_S = 2.0
"""Without a hint: whatever was in the way, soon after it has gone all is as before."""


async def patiently(
    clock: Clock, what: str, attempts: int | None = None, longest_hint_s: float | None = None
) -> AsyncIterator[AbstractContextManager[object]]:
    """`async for attempt in patiently(...): with attempt: ...` does it until TryLater and CannotStore stop.

    Waits as long as TryLater says, else begins the second 1 s after the first, and all others 2 s after the one before.
    The error itself is raised after so many attempts, at once for a hint longer than `longest_hint_s`, and at once for
    NotHere. What fails for long is logged about once a minute.
    """
    began = clock.monotonic()

    def worth_it(error: BaseException) -> bool:
        if isinstance(error, NotHere) or not isinstance(error, TryLater | CannotStore):
            return False
        return longest_hint_s is None or _hint(error, 0.0) <= longest_hint_s

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        between = FIRST_S if state.attempt_number == 1 else LONGEST_S
        return _hint(error, max(0.0, began + between - clock.monotonic()))

    def say(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if not is_news(state.attempt_number):
            return
        kind, reason = type(error).__name__, error.gist if isinstance(error, NanomemError) else ""
        log.warning(
            f"{what}.waits", kind=kind, seconds=state.upcoming_sleep, attempt=state.attempt_number, reason=reason
        )
        log.debug(f"{what}.reason", reason=str(error))  # a provider may quote what was said

    async for attempt in AsyncRetrying(
        sleep=clock.sleep,
        wait=wait,
        before_sleep=say,
        stop=stop_after_attempt(attempts) if attempts else stop_never,
        retry=retry_if_exception(worth_it),
        reraise=True,
    ):
        began = clock.monotonic()
        yield attempt


def _hint(error: BaseException | None, default: float) -> float:
    return error.after_s if isinstance(error, TryLater) and error.after_s is not None else default
