"""Recall: the index is fed behind what is said, and asked.

Nothing waits for it but a search, and that not for long: what is not taken in yet is said to be missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

import structlog

from nanomem.errors import BegunAnew, CannotStore, Refused
from nanomem.facts import facts
from nanomem.memory.embedding import Embedding
from nanomem.ports import Clock, RecallIndex
from nanomem.recall.found import Found, Sought, answer
from nanomem.recall.typed import typed
from nanomem.spaces import Space

log = structlog.get_logger()

PATIENCE_S = 0.25
"""For what was just said, which is taken in within milliseconds; years of it are not waited for."""
CALM_S = 1.0
"""What a turn adds is taken in at one go, once it is over: each go writes pages anew. A search does not wait for it."""
RETRY_S = 10.0
MOST_BEGINNINGS = 3
"""How often an index may have to be begun anew before it is taken in once: then something else is wrong."""
_PAUSE_S = 0.005  # between two pieces of years of talk: searches, and the conversations, go first


@dataclass(slots=True)
class _Behind:
    """What of a space is to be taken in: `listed` once all its logs are known, `known` once its facts are.

    `begun` counts how often it was begun anew since all was taken in, `trouble` is what was last said to be wrong.
    """

    space: Space
    listed: bool = False
    known: bool = False
    logs: dict[str, None] = field(default_factory=dict)
    begun: int = 0
    trouble: str = ""
    one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_nothing(self) -> bool:
        return self.listed and self.known and not self.logs


class Recalling:
    """Feeds an index and searches it. `files` reads the memory files of a space; `zone` is that of the people. With an
    `embedding` what is taken in gets vectors, and so does a question."""

    def __init__(
        self,
        index: RecallIndex,
        files: Callable[[Space], Awaitable[Mapping[str, str | None]]],
        clock: Clock,
        zone: tzinfo,
        embedding: Embedding | None = None,
    ) -> None:
        self._index = index
        self._embedding = embedding
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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            if self._embedding:
                group.create_task(self._embed(self._embedding))

    async def _embed(self, embedding: Embedding) -> None:
        try:
            await embedding.run(self._lost)
        except Exception:  # a view is not worth the daemon: until the next start recall goes by words
            log.exception("recall.without_vectors")

    async def _follow(self) -> None:
        while True:
            self._woken.clear()
            for behind in list(self._spaces.values()):
                await self._take_in(behind)
            if any(behind.trouble for behind in self._spaces.values()):
                await self._clock.sleep(RETRY_S)  # whoever searches meanwhile tries at once
            else:
                await self._woken.wait()
                await self._clock.sleep(CALM_S)

    async def _take_in(self, behind: _Behind) -> None:
        """All that a space has, unless it cannot be stored: that is said once."""
        try:
            while await self._step(behind):
                await self._clock.sleep(_PAUSE_S)
            behind.trouble = ""
        except CannotStore as error:
            if error.text != behind.trouble:
                log.warning("recall.not_indexed", space=behind.space.name, reason=error.text)
            behind.trouble = error.text
        except Exception:  # a view is not worth the daemon: it is tried again later
            log.exception("recall.not_indexed", space=behind.space.name)
            behind.trouble = "a fault of its own"

    async def catch_up(self, space: Space) -> None:
        """Takes in all that a space has, however long it takes. Raises CannotStore."""
        while await self._step(self._of(space)):
            pass

    async def search(
        self, space: Space, sought: Sought, patience_s: float = PATIENCE_S, at_once: bool = False
    ) -> tuple[Found, bool]:
        """What fits best, and whether all of the space was looked through; `at_once` asks no model elsewhere.

        Raises CannotStore.
        """
        behind, until = self._of(space), self._clock.monotonic() + patience_s
        text = ""
        for _ in range(MOST_BEGINNINGS):
            while self._clock.monotonic() < until and await self._step(behind):
                pass
            whole = behind.is_nothing  # what is said from here on was not asked for
            try:
                if self._embedding and sought.meaning is None:
                    sought = await self._embedding.asked(space, sought, at_once)
                return await self._index.find(space, sought), whole
            except BegunAnew as error:
                self._lost(space)
                text = error.text
        raise CannotStore(text)

    async def answer(self, space: Space, text: str) -> str:
        """What a person is told who typed this. Raises Refused, CannotStore."""
        now = self._clock.now().astimezone(self._zone)
        sought = typed(text, now)
        found, whole = await self.search(space, sought)
        return answer(found, sought, whole, self._zone)

    def _of(self, space: Space) -> _Behind:
        return self._spaces.setdefault(space.name, _Behind(space))

    def _lost(self, space: Space) -> None:
        """The index of that space was begun anew."""
        behind = self._of(space)
        behind.listed = behind.known = False
        self._woken.set()

    async def _step(self, behind: _Behind) -> bool:
        """Takes in one piece; False when there is none. Raises CannotStore: it is still to be done."""
        async with behind.one_by_one:  # who searches waits for the piece that is being taken in
            return await self._next(behind)

    async def _next(self, behind: _Behind) -> bool:
        space = behind.space
        try:
            if not behind.listed:
                behind.logs |= dict.fromkeys(await self._index.logs(space))
                behind.listed = True
            elif not behind.known:
                behind.known = True
                await self._know(behind)
            elif behind.logs:
                await self._read(behind, next(iter(behind.logs)))
            else:
                behind.begun = 0
                return False
        except BegunAnew as error:
            self._begin_anew(behind, error)
        if self._embedding and behind.is_nothing:
            self._embedding.changed(space)
        return True

    def _begin_anew(self, behind: _Behind, error: BegunAnew) -> None:
        """Raises CannotStore where that did not help."""
        self._lost(behind.space)
        behind.begun += 1
        if behind.begun > MOST_BEGINNINGS:
            behind.begun = 0
            raise CannotStore(error.text) from error

    async def _know(self, behind: _Behind) -> None:
        try:
            files = await self._files(behind.space)
            await self._index.know(behind.space, {name: facts(text) for name, text in files.items() if text})
        except Refused as error:  # a file that is none: what was known stays, until the memory changes again
            log.warning("recall.facts_not_read", space=behind.space.name, reason=error.text)
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
