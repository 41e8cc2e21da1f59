"""Vectors for recall: what was said is given its own piece by piece, behind all else, and a question at once.

Nothing waits for it: without a model, or while it fails, recall goes by words. Knows nothing of how vectors are used.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from nanomem.agent.asking import Purse
from nanomem.errors import BegunAnew, CannotStore, NanomemError, NotNow, TellUser, TooLong, TryLater
from nanomem.ports import Bare, Clock, Embedder, Vector, VectorIndex
from nanomem.recall.found import Sought
from nanomem.recall.meaning import STATIC_WEIGHT, WEIGHT, Meaning, without_names
from nanomem.spaces import Space

log = structlog.get_logger()

AT_ONCE = 64
"""Texts in one call."""
LONGEST = 2_000
"""Characters of a text that its vector is made of; a model reads only so much, and says mostly what it begins with."""
PATIENCE_S, NO_PATIENCE_S = 2.0, 0.05
"""How long a question waits for its vector: of somebody who asks, and where nobody has asked."""
_LONGEST_ALONE = 500
_PAUSE_S = 0.02  # between two calls: searches, and the conversations, go first
_RETRY_S, _LONGEST_RETRY_S = 10.0, 3600.0
_REFUSED = (TryLater, TooLong, TellUser)


class Embedding:
    """Gives the texts of an index vectors, by an embedder that a `purse` pays for."""

    def __init__(self, index: VectorIndex, embedder: Embedder, clock: Clock, purse: Purse | None = None) -> None:
        self._index = index
        self._embedder = embedder
        self._clock = clock
        self._purse = purse
        self._waiting: dict[str, Space] = {}
        self._woken = asyncio.Event()
        self._failures = 0

    def changed(self, space: Space) -> None:
        """There may be texts without a vector. Returns at once."""
        self._waiting[space.name] = space
        self._woken.set()

    async def run(self, lost: Callable[[Space], object]) -> None:
        """Gives vectors to what wants some, until cancelled. `lost` is told of an index that was begun anew."""
        while True:
            self._woken.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                space = self._waiting.pop(name)
                if await self._went_on(space, lost):
                    self._waiting.setdefault(name, space)
            await self._woken.wait()

    async def step(self, space: Space) -> bool:
        """One call; False when nothing is without a vector. Raises what the embedder and the index raise."""
        texts = await self._index.bare(space, AT_ONCE)
        if not texts:
            return False
        try:
            vectors = await self._embed([bare.text[:LONGEST] for bare in texts])
        except NotNow:
            raise
        except (TooLong, TellUser):
            texts, vectors = await self._one_by_one(texts)
        await self._index.embed(space, texts, vectors)
        return True

    async def asked(self, space: Space, sought: Sought, at_once: bool) -> Sought:
        """The search with its meaning, if that can be had in time. `at_once` asks no model elsewhere."""
        if not sought.text.strip() or self._failures or (at_once and not self._embedder.is_local):
            return sought
        text = without_names(sought.text, await self._index.people(space))[:LONGEST]
        try:
            async with asyncio.timeout(NO_PATIENCE_S if at_once else PATIENCE_S):
                [vector] = await self._embed([text], question=True)
        except (*_REFUSED, CannotStore, TimeoutError) as error:
            log.info("recall.question_without_vector", reason=str(error) or "it took too long")
            return sought
        weight = STATIC_WEIGHT if self._embedder.is_local else WEIGHT
        return replace(sought, meaning=Meaning(tuple(vector), weight))

    async def _embed(self, texts: Sequence[str], question: bool = False) -> Sequence[Vector]:
        if self._purse:
            await self._purse.check()
        embedded = await self._embedder.embed(texts, question)
        if self._purse:
            await self._purse.spend(embedded.usage)
        return embedded.vectors

    async def _one_by_one(self, texts: Sequence[Bare]) -> tuple[list[Bare], list[Vector]]:
        """Something among these is refused: that has no vector, if others have. Raises TooLong, TellUser."""
        vectors: list[Vector] = []
        refused: NanomemError | None = None
        for bare in texts:
            try:
                vectors += await self._embed([bare.text[:_LONGEST_ALONE]])
            except NotNow:
                raise
            except (TooLong, TellUser) as error:
                refused = error
                vectors.append(())
        if refused and not any(vectors):
            raise refused
        return list(texts), vectors

    async def _went_on(self, space: Space, lost: Callable[[Space], object]) -> bool:
        """Whether there may be more to do there. What fails is said once, and tried again after a while."""
        try:
            more = await self.step(space)
        except BegunAnew:
            lost(space)
            return False
        except (*_REFUSED, CannotStore) as error:
            if not self._failures:
                log.warning("recall.not_embedded", model=self._embedder.name, reason=error.text)
            hint = getattr(error, "after_s", None) or 0.0
            pause = max(_RETRY_S * 2 ** min(self._failures, 10), hint)
            self._failures += 1
            await self._clock.sleep(min(pause, _LONGEST_RETRY_S))
            return True
        if self._failures:
            log.info("recall.embedded_again", model=self._embedder.name)
        self._failures = 0
        if more:
            await self._clock.sleep(_PAUSE_S)
        return more
