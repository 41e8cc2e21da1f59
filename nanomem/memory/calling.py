"""One forced call of a model beside the conversations, and what it said. Knows nothing of what is asked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TypeVar

import structlog

from nanomem.agent.asking import Asker
from nanomem.budget import Calibration
from nanomem.errors import CannotForce, ShowModel, TellUser, TooLong
from nanomem.messages import PromptMessage, Reply, Request, ToolSchema, Usage
from nanomem.ports import Tokenizer

log = structlog.get_logger()

FRAME = 1_000
"""Tokens of a call's instructions and schema, rounded up."""
LEAST_ROOM = 500

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What one call may take: `budget` is in the model's tokens, for all that goes in; `max_tokens` come out."""

    budget: int
    max_tokens: int
    temperature: float
    zone: tzinfo


class DoesNotFit(TellUser):
    """The call was too long for the model; with less in it, it may be answered."""


class Caller:
    """Makes calls that have to be answered with one tool call."""

    def __init__(self, limits: CallLimits, asker: Asker, calibration: Calibration, tokenizer: Tokenizer) -> None:
        self.limits = limits
        self.asker = asker
        self._calibration = calibration
        self._tokenizer = tokenizer

    @property
    def allowed(self) -> int:
        """The o200k tokens that may go in."""
        return self.in_o200k(self.limits.budget)

    def in_o200k(self, tokens: int) -> int:
        """So many of the model's tokens, in those that are counted here."""
        return int(tokens / self._calibration.factor(self.asker.model.name))

    async def room(self, known: str) -> int:
        """The o200k tokens that fit into one call beside what is known."""
        taken = await self._tokenizer.count(known)
        return max(self.allowed - FRAME - taken, self.allowed // 4, LEAST_ROOM)

    async def call(
        self,
        system: str,
        prompt: str,
        schema: ToolSchema,
        understood: Callable[[str], _T],
        spent: Callable[[Usage], None] = lambda usage: None,
    ) -> _T:
        """What the arguments mean; `spent` is told what the call cost. Raises TellUser for all that goes wrong with
        it; its text says what. One that was too long raises DoesNotFit."""
        size = await self._tokenizer.count(system + prompt + schema.text)
        request = Request(
            system=system,
            messages=(PromptMessage("user", prompt),),
            tools=(schema,),
            forced=schema.name,
            max_tokens=self.limits.max_tokens,
            temperature=self.limits.temperature,
        )
        reply = await self._ask(request)
        spent(reply.usage)
        self._calibration.learn(self.asker.model.name, size, reply.usage.prompt_tokens)
        call = next((call for call in reply.tool_calls if call.name == schema.name), None)
        if call is None:
            raise TellUser(f"The model answered in prose instead of calling {schema.name}.")
        try:
            return understood(call.arguments)
        except ShowModel as error:
            cut = " Its answer was cut off at its greatest length." if reply.cut == "length" else ""
            gist = f"The model called {schema.name} with what cannot be used."
            raise TellUser(f"{error.text}{cut}", gist=gist) from error

    async def _ask(self, request: Request) -> Reply:
        """Forced; once more without where the provider does not take that."""
        try:
            try:
                return await self.asker.ask(request)
            except CannotForce:
                log.info("call.not_forced", model=self.asker.model.name, call=request.forced)
                return await self.asker.ask(replace(request, forced=None))
        except TooLong as error:
            self._calibration.too_small(self.asker.model.name)
            raise DoesNotFit(error.text, gist=error.gist) from error
