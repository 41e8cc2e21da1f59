"""Making a stretch of conversation short: one forced call of a model, and what it said.

Knows the wording; what is done with the answer is `decisions.py`'s.
"""

from collections.abc import Sequence
from datetime import tzinfo
from functools import partial

from nanomem.agent.prompting import beginning
from nanomem.facts import MemoryFiles
from nanomem.memory.calling import Caller
from nanomem.ports import Clock, Templates, Tokenizer
from nanomem.proposal import IN_CHANGES, WHOLE, Distilled, understood
from nanomem.session import Said
from nanomem.stretch import as_text

MEMORY_SHARE, USER_SHARE = 2, 8
"""Of all that goes in, the memory may take a half, verbatim up to there, and what is known of the person an eighth."""


class Distiller:
    """Asks a model what a stretch comes down to."""

    def __init__(self, caller: Caller, templates: Templates, tokenizer: Tokenizer, clock: Clock) -> None:
        self._caller = caller
        self._templates = templates
        self._tokenizer = tokenizer
        self._clock = clock

    @property
    def zone(self) -> tzinfo:
        """The time zone of people."""
        return self._caller.limits.zone

    async def room(self, known: MemoryFiles) -> int:
        """The o200k tokens of a stretch that fit into one call beside what is known."""
        return await self._caller.room(known.memory + known.user)

    async def distilled(self, known: MemoryFiles, stretch: Sequence[Said]) -> Distilled:
        """One call. Raises TellUser for all that goes wrong with it; its text says what."""
        room, memory = await self.room(known), await self._tokenizer.count(known.memory)
        schema = IN_CHANGES if memory > self._caller.limits.max_tokens // 2 else WHOLE
        text = as_text(stretch, self.zone)
        if (size := await self._tokenizer.count(text)) > room:
            longest = max(len(text) * room // size // len(stretch) - 80, 80)
            text = as_text(stretch, self.zone, longest)
        now = f"{self._clock.now().astimezone(self.zone):%Y-%m-%d}"
        allowed = self._caller.allowed
        system = self._templates.render("consolidation_system", as_changes=schema is IN_CHANGES, now=now)
        prompt = self._templates.render(
            "consolidation",
            user=await beginning(known.user.strip(), allowed // USER_SHARE, self._tokenizer),
            memory=await beginning(known.memory, allowed // MEMORY_SHARE, self._tokenizer),
            stretch=text,
        )
        return await self._caller.call(system, prompt, schema, partial(understood, schema))
