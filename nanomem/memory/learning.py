"""The two calls of a Dream: what there is to learn from a batch, and how a file shall be that changes.

Knows the wording; what is done with the answers is `dream.py`'s.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from nanomem.agent.prompting import beginning
from nanomem.extraction import EXTRACT, Extracted, extracted, update_of, updated
from nanomem.facts import MemoryFiles
from nanomem.memory.calling import Caller
from nanomem.messages import Usage
from nanomem.ports import Clock, Templates, Tokenizer
from nanomem.versions import Removal

FILE_SHARE = 4
"""Of all that goes in, each file may take a fourth in the first call, verbatim up to there."""
WORK = 2_000
"""Tokens that the calls of one run take beside what they read and the files: instructions, schemas, short answers."""

Spent = Callable[[Usage], None]


class Learner:
    """Asks a model what there is to learn. `daily_tokens` is what that may cost in a day; 0: any number. `calm` returns
    when no person waits for an answer."""

    def __init__(
        self,
        caller: Caller,
        templates: Templates,
        tokenizer: Tokenizer,
        clock: Clock,
        daily_tokens: int,
        calm: Callable[[], Awaitable[None]],
    ) -> None:
        self.daily_tokens = daily_tokens
        self._caller = caller
        self._templates = templates
        self._tokenizer = tokenizer
        self._clock = clock
        self._calm = calm

    async def room(self, known: MemoryFiles) -> int:
        """The o200k tokens that one batch may have."""
        return await self._caller.room("".join(known.by_name.values()))

    async def needed(self, known: MemoryFiles) -> int:
        """The o200k tokens that a run takes beside what it reads: each file is read twice and may be written once."""
        return 3 * await self._tokenizer.count("".join(known.by_name.values())) + WORK

    async def left_today(self) -> int | None:
        """The o200k tokens that may still be spent today; None: any number."""
        if not self.daily_tokens:
            return None
        spent = await self._caller.asker.spent_today("dream")
        return self._caller.in_o200k(max(self.daily_tokens - spent.tokens, 0))

    async def is_untouched(self) -> bool:
        """Whether nothing has been spent today."""
        return not (await self._caller.asker.spent_today("dream")).tokens

    async def extract(self, known: MemoryFiles, text: str, may_change_soul: bool, spent: Spent) -> Extracted:
        """What a batch has to teach. Raises TellUser for all that goes wrong with the call; its text says what."""
        await self._calm()
        system = self._templates.render("dream_phase1", now=self._today, soul=may_change_soul)
        room = self._caller.allowed // FILE_SHARE
        soul, user, memory = [await beginning(file, room, self._tokenizer) for file in known.by_name.values()]
        prompt = self._templates.render("dream_batch", soul=soul, user=user, memory=memory, text=text)
        found = await self._caller.call(system, prompt, EXTRACT, extracted, spent)
        return found if may_change_soul else replace(found, updates={**found.updates, "SOUL.md": ()})

    async def update(
        self, file: str, text: str, facts: Sequence[str], outdated: Sequence[Removal], spent: Spent
    ) -> tuple[str, tuple[Removal, ...]]:
        """How a file shall be that takes these in, and what is left out of it on purpose. Raises TellUser."""
        await self._calm()
        system = self._templates.render("dream_phase2", now=self._today, file=file)
        prompt = self._templates.render("dream_file", file=file, text=text, facts=facts, outdated=outdated)
        return await self._caller.call(system, prompt, update_of(file), partial(updated, file), spent)

    @property
    def _today(self) -> str:
        return f"{self._clock.now().astimezone(self._caller.limits.zone):%Y-%m-%d}"
