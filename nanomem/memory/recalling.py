"""Recall: the index is fed behind what is said, and asked.

Nothing waits for it but a search, and that not for long: what is not taken in yet is said to be missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

import structlog

from nanomem.errors import BegunAnew, CannotStore
from nanomem.facts import facts
from nanomem.ports import Clock, RecallIndex
from nanomem.recall.found import Found, Sought, answer
from nanomem.recall.typed import typed
from nanomem.spaces import Space

log = structlog.get_logger()

PATIENCE_S = 0.25
"""For what was just said, which is taken in within milliseconds; years of it are not waited for."""
RETRY_S = 10.0
_MOST_LOST = 3  # times in a row that all is begun anew at once; then it is given a rest
_PAUSE_S = 0.005  # between two pieces of years of talk: searches, and the conversations, go first


@dataclass(slots=True)
class _Behind:
    """What of a space is to be taken in: `listed` once all its logs are known, `known` once its facts are. `lost` is
    how often all of it was lost again since it was whole."""

    space: Space
    listed: bool = False
    known: bool = False
    lost: int = 0
    logs: dict[str, None] = field(default_factory=dict)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_nothing(self) -> bool:
        return self.listed and self.known and not self.logs


class Recalling:
    """Feeds an index and searches it. `files` reads the memory files of a space; `zone` is that of the people."""

    def __init__(
        self,
        index: RecallIndex,
        files: Callable[[Space], Awaitable[Mapping[str, str | None]]],
        clock: Clock,
        zone: tzinfo,
    ) -> None:
        self._index = index
        self._files = files
        self._clock = clock
        self._zone = zone
        self._spaces: dict[str, _Behind] = {}
        self._woken = asyncio.Event()

    def appended(self, space: Space, log: str) -> None:
        """Something was added to a log. Returns at once."""
        self._of(space).logs[log] = None
        self._woken.set()

    def changed(self, space: Space) -> None:
        """What is known in a space may have changed. Returns at once."""
        self._of(space).known = False
        self._woken.set()

    async def run(self, spaces: Iterable[Space]) -> None:
        """Takes in what these spaces have, and then whatever comes, until cancelled."""
        for space in spaces:
            self._of(space)
        while True:
            self._woken.clear()
            for behind in list(self._spaces.values()):
                try:
                    while await self._step(behind):
                        await self._clock.sleep(_PAUSE_S)
                except CannotStore as error:
                    log.warning("recall.not_indexed", space=behind.space.name, reason=error.text)
                    asyncio.get_running_loop().call_later(RETRY_S, self._woken.set)
            await self._woken.wait()

    async def catch_up(self, space: Space) -> None:
        """Takes in all that a space has, however long it takes. Raises CannotStore."""
        while await self._step(self._of(space)):
            pass

    async def search(self, space: Space, sought: Sought, patience_s: float = PATIENCE_S) -> tuple[Found, bool]:
        """What fits best, and whether all of the space was looked through. Raises CannotStore."""
        behind, until = self._of(space), self._clock.monotonic() + patience_s
        for _ in range(2):  # the second time where it turned out to be damaged
            while self._clock.monotonic() < until and await self._step(behind):
                pass
            whole = behind.is_nothing  # what is said from here on was not asked for
            try:
                return await self._index.find(space, sought), whole
            except BegunAnew:
                behind.listed = behind.known = False
                self._woken.set()
        return Found(), False

    async def answer(self, space: Space, text: str) -> str:
        """What a person is told who typed this. Raises Refused, CannotStore."""
        now = self._clock.now().astimezone(self._zone)
        sought = typed(text, now)
        found, whole = await self.search(space, sought)
        return answer(found, sought, whole, self._zone)

    def _of(self, space: Space) -> _Behind:
        return self._spaces.setdefault(space.name, _Behind(space))

    async def _step(self, behind: _Behind) -> bool:
        """Takes in one piece; False when there is none. Raises CannotStore: it is still to be done."""
        async with behind.reading:
            if behind.is_nothing:
                behind.lost = 0
                return False
            try:
                await self._take_in(behind)
            except BegunAnew as error:
                behind.listed = behind.known = False
                behind.lost += 1
                if behind.lost > _MOST_LOST:
                    raise CannotStore(error.text) from error
            return True

    async def _take_in(self, behind: _Behind) -> None:
        if not behind.listed:
            behind.logs |= dict.fromkeys(await self._index.logs(behind.space))
            behind.listed = True
        elif not behind.known:
            await self._know(behind)
        else:
            await self._read(behind, next(iter(behind.logs)))

    async def _know(self, behind: _Behind) -> None:
        behind.known = True  # before it is read, as below
        try:
            files = await self._files(behind.space)
            await self._index.know(behind.space, {name: facts(text) for name, text in files.items() if text})
        except BaseException:
            behind.known = False
            raise

    async def _read(self, behind: _Behind, name: str) -> None:
        del behind.logs[name]  # before it is read: what is appended meanwhile puts it back
        more = True
        try:
            more = await self._index.read(behind.space, name)
        finally:
            if more:
                behind.logs[name] = None
