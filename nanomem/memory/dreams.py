"""When Dreams are run: as scheduled, when enough is waiting, and when somebody asks. Knows nothing of what one does.

One at a time in a space. A run that was due while the daemon was off is made once, soon after its start.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import structlog

from nanomem.agent.background import Background
from nanomem.agent.together import beside
from nanomem.errors import CannotStore, Refused
from nanomem.memory.dream import Dreamer
from nanomem.ports import Clock, Diary, PassedOver, Run
from nanomem.spaces import Space

log = structlog.get_logger()

AFTER_START_S = 5.0
"""Seconds that whoever waits for an answer at the start is given before."""
SHOWN = 10
"""Receipts that are shown."""
_NEVER = datetime(1, 1, 1, tzinfo=UTC)
LONGEST_SLEEP_S = 600.0
"""A machine that was asleep, or a clock that was set, is noticed within that."""


class Dreams:
    """`spaces` are those that there are; `next_due` says when the next run is after a moment, None: never.
    `threshold` history entries that wait are run at once; 0: they are not."""

    def __init__(
        self,
        dreamer: Dreamer,
        diary: Diary,
        clock: Clock,
        background: Background,
        spaces: Callable[[], Iterable[Space]],
        next_due: Callable[[datetime], datetime | None],
        threshold: int,
    ) -> None:
        self._dreamer = dreamer
        self._diary = diary
        self._clock = clock
        self._background = background
        self._spaces = spaces
        self._next_due = next_due
        self._threshold = threshold
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._written: dict[Path, Space] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._troubled: set[Path] = set()
        self._wake = asyncio.Event()
        self._sleep_s = LONGEST_SLEEP_S

    async def catch_up(self, space: Space) -> None:
        """Has `.dream_cursor` and the logs say what was read, where a crash kept a run from it. Raises CannotStore."""
        async with self._alone_in(space):
            await self._dreamer.catch_up(space)

    async def learn(self, space: Space, inbound: str = "") -> Run | None:
        """One run, behind the one that goes on; None: nothing is new. Raises CannotStore, Refused."""
        async with self._alone_in(space):
            with self._stoppable():
                run = await self._dreamer.run(space, self._clock.now(), inbound)
        (self._troubled.add if run and run.reason else self._troubled.discard)(space.root)
        return run

    def stop(self) -> None:
        """Ends what runs: it is made anew, and who has asked for it gets the answer after the next start."""
        for task in self._running:
            task.cancel()

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)

    async def due(self) -> datetime | None:
        """When the next scheduled run is; None: never."""
        return self._next_due(min(await self._made(), self._clock.now()))

    async def report(self, space: Space | None = None) -> tuple[Sequence[Run], Sequence[PassedOver], datetime | None]:
        """The newest runs, the newest first, what was passed over, and when the next scheduled run is; of one space,
        or of all."""
        name = space.name if space else None
        return await self._diary.runs(name, SHOWN), await self._diary.passed_over(name), await self.due()

    def written(self, space: Space) -> None:
        """There are new history entries in that space: if enough of them wait now, they are read."""
        if self._threshold:
            self._written[space.root] = space
            self._wake.set()

    async def run(self) -> None:
        """Makes the runs that are due, for ever. One that fails is logged, and ends only itself. Raises Stop."""
        await self._clock.sleep(AFTER_START_S)
        await self._alone(self._look_at_all())
        while True:
            await self._alone(self._read_where_enough_waits())
            await self._alone(self._read_where_due())
            await beside(self._alarm(), self._woken())

    async def _look_at_all(self) -> None:
        for space in self._spaces():
            self.written(space)

    async def _read_where_enough_waits(self) -> None:
        written, self._written = self._written, {}
        for space in written.values():
            await self._alone(self._learn_where_enough_waits(space))

    async def _read_where_due(self) -> None:
        self._sleep_s = LONGEST_SLEEP_S
        due = await self.due()
        if due is not None and due <= self._clock.now():
            for space in await self._in_turn():
                if not await self._alone(self._learn_quietly(space)):
                    return  # nanomem ends: the run is made after the next start
            await self._diary.set_due(self._clock.now())
            due = await self.due()
        if due is not None:
            self._sleep_s = min(max((due - self._clock.now()).total_seconds(), 0.0), LONGEST_SLEEP_S)

    async def _learn_where_enough_waits(self, space: Space) -> None:
        if space.root not in self._troubled and await self._dreamer.waiting(space) >= self._threshold:
            await self._learn_quietly(space)

    async def _learn_quietly(self, space: Space) -> None:
        """Where something went wrong, the next one is that of the schedule: a provider that is down for some hours
        must not use up the attempts."""
        try:
            await self.learn(space)
        except (CannotStore, Refused) as error:
            log.warning("dream.not_made", space=space.name, reason=error.text)

    async def _in_turn(self) -> list[Space]:
        """All spaces; where the day's allowance ends before the last, that one is among the first another day."""
        newest = {space: await self._diary.runs(space.name) for space in self._spaces()}
        return sorted(newest, key=lambda space: newest[space][0].at if newest[space] else _NEVER)

    async def _made(self) -> datetime:
        """When the newest scheduled run was made; at first it is as if one had been just now."""
        made = await self._diary.due()
        if made is None:
            made = self._clock.now()
            await self._diary.set_due(made)
        return made

    def _alone_in(self, space: Space) -> asyncio.Lock:
        return self._locks.setdefault(space.root, asyncio.Lock())

    async def _alone(self, work: Coroutine[Any, Any, None]) -> bool:
        """Does it where a bug ends only itself; cancelled, it does not go on. False: nothing may begin any more."""
        task = self._background.start("dreaming", work)
        if task:
            try:
                await asyncio.wait([task])
            finally:
                task.cancel()
        return task is not None

    async def _alarm(self) -> None:
        await self._clock.sleep(self._sleep_s)
        self._wake.set()

    async def _woken(self) -> None:
        await self._wake.wait()
        self._wake.clear()
