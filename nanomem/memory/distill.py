"""Making a stretch of conversation short: one forced call of a model, and what it said.

Knows the model and the wording; what is done with the answer is `consolidate.py`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

import structlog

from nanomem.agent.asking import Asker
from nanomem.agent.prompting import beginning
from nanomem.budget import Calibration
from nanomem.errors import CannotForce, ShowModel, TellUser, TooLong
from nanomem.facts import MemoryFiles
from nanomem.messages import PromptMessage, Reply, Request
from nanomem.ports import Clock, Templates, Tokenizer
from nanomem.proposal import IN_CHANGES, NAME, WHOLE, Distilled, understood
from nanomem.session import Said
from nanomem.stretch import as_text

log = structlog.get_logger()

FRAME = 1_000
"""Tokens of the call's instructions and schema, rounded up."""
LEAST_ROOM = 500
MEMORY_SHARE, USER_SHARE = 2, 8
"""Of all that goes in, the memory may take a half, verbatim up to there, and what is known of the person an eighth."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What one call may take: `budget` is in the model's tokens, for all that goes in; `max_tokens` come out."""

    budget: int
    max_tokens: int
    temperature: float
    zone: tzinfo


class Distiller:
    """Asks a model what a stretch comes down to."""

    def __init__(
        self,
        limits: CallLimits,
        asker: Asker,
        calibration: Calibration,
        templates: Templates,
        tokenizer: Tokenizer,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._asker = asker
        self._calibration = calibration
        self._templates = templates
        self._tokenizer = tokenizer
        self._clock = clock

    @property
    def zone(self) -> tzinfo:
        """The time zone of people."""
        return self._limits.zone

    async def room(self, known: MemoryFiles) -> int:
        """The o200k tokens of a stretch that fit into one call beside what is known."""
        taken = await self._tokenizer.count(known.memory + known.user)
        return max(self._allowed - FRAME - taken, self._allowed // 4, LEAST_ROOM)

    @property
    def _allowed(self) -> int:
        return int(self._limits.budget / self._calibration.factor(self._asker.model.name))

    async def distilled(self, known: MemoryFiles, stretch: Sequence[Said]) -> Distilled:
        """One call. Raises TellUser for all that goes wrong with it; its text says what."""
        room, memory = await self.room(known), await self._tokenizer.count(known.memory)
        schema = IN_CHANGES if memory > self._limits.max_tokens // 2 else WHOLE
        text = as_text(stretch, self._limits.zone)
        if (size := await self._tokenizer.count(text)) > room:
            longest = max(len(text) * room // size // len(stretch) - 80, 80)
            text = as_text(stretch, self._limits.zone, longest)
        now = f"{self._clock.now().astimezone(self._limits.zone):%Y-%m-%d}"
        system = self._templates.render("consolidation_system", as_changes=schema is IN_CHANGES, now=now)
        prompt = self._templates.render(
            "consolidation",
            user=await beginning(known.user.strip(), self._allowed // USER_SHARE, self._tokenizer),
            memory=await beginning(known.memory, self._allowed // MEMORY_SHARE, self._tokenizer),
            stretch=text,
        )
        size = await self._tokenizer.count(system + prompt + schema.text)
        request = Request(
            system=system,
            messages=(PromptMessage("user", prompt),),
            tools=(schema,),
            forced=NAME,
            max_tokens=self._limits.max_tokens,
            temperature=self._limits.temperature,
        )
        reply = await self._ask(request)
        self._calibration.learn(self._asker.model.name, size, reply.usage.prompt_tokens)
        call = next((call for call in reply.tool_calls if call.name == NAME), None)
        if call is None:
            raise TellUser("The model answered in prose instead of saving the memory.")
        try:
            return understood(schema, call.arguments)
        except ShowModel as error:
            cut = " Its answer was cut off at its greatest length." if reply.cut == "length" else ""
            raise TellUser(f"{error.text}{cut}") from error

    async def _ask(self, request: Request) -> Reply:
        """Forced; once more without where the provider does not take that."""
        try:
            try:
                return await self._asker.ask(request)
            except CannotForce:
                log.info("consolidation.not_forced", model=self._asker.model.name)
                return await self._asker.ask(replace(request, forced=None))
        except TooLong as error:
            self._calibration.too_small(self._asker.model.name)
            raise TellUser(error.text) from error
