"""Asking a model: within the daily limits, again when it may work later, and counting what it cost.

Knows nothing of what is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

import structlog

from nanomem.agent.patience import patiently
from nanomem.errors import CannotStore, NotNow, TellUser, TryLater
from nanomem.messages import Reply, Request, Usage
from nanomem.ports import Clock, Meter, Model, Purpose

log = structlog.get_logger()

ATTEMPTS = 4
ADVICE = " Your message is kept; /retry asks again."
LONGEST_HINT_S = 120.0
"""A provider that asks for a longer wait is told to the person instead."""


@dataclass(frozen=True, slots=True)
class DailyLimits:
    """0 is none. The tokens are those that go into `purpose`, the cost is that of all. Days are those of a zone."""

    tokens: int = 0
    cost_usd: float = 0.0
    purpose: Purpose = "talk"


class Purse:
    """What may be spent today, and what was."""

    def __init__(self, meter: Meter, clock: Clock, zone: tzinfo, limits: DailyLimits) -> None:
        self._meter = meter
        self._clock = clock
        self._zone = zone
        self._limits = limits

    @property
    def today(self) -> str:
        """The day that is counted for now."""
        return self._clock.now().astimezone(self._zone).date().isoformat()

    async def spent_today(self, purpose: Purpose | None = None) -> Usage:
        """What today has cost so far: all of it, or what went into one purpose."""
        return await self._meter.spent(self.today, purpose)

    async def check(self) -> None:
        """Raises NotNow where a limit is reached."""
        limits = self._limits
        if limits.tokens and limits.tokens <= (await self.spent_today(limits.purpose)).tokens:
            raise NotNow(f"Today's limit of {limits.tokens:,} tokens is reached. It starts anew at midnight.")
        if limits.cost_usd and limits.cost_usd <= (await self.spent_today()).cost_usd:
            raise NotNow(f"Today's limit of ${limits.cost_usd:.2f} is reached. It starts anew at midnight.")

    async def spend(self, usage: Usage) -> None:
        """Counts what was used. Never raises CannotStore: it is paid for, and not thrown away over the count."""
        if usage == Usage():
            return
        try:
            await self._meter.spend(self.today, usage, self._limits.purpose)
        except CannotStore as error:
            log.error("meter.not_kept", tokens=usage.prompt_tokens, reason=error.text)


class Asker:
    """A model with patience and a purse. `advice` ends the word on a provider that is down."""

    def __init__(
        self, model: Model, meter: Meter, clock: Clock, zone: tzinfo, limits: DailyLimits, advice: str = ADVICE
    ) -> None:
        self.model = model
        self._clock = clock
        self._purse = Purse(meter, clock, zone, limits)
        self._advice = advice

    @property
    def today(self) -> str:
        """The day that is counted for now."""
        return self._purse.today

    async def spent_today(self, purpose: Purpose | None = None) -> Usage:
        """What today has cost so far: all of it, or what went into one purpose."""
        return await self._purse.spent_today(purpose)

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """The answer. Raises TooLong, NotNow, and TellUser for all that asking again at once cannot mend."""
        await self._purse.check()
        try:
            async for attempt in patiently(self._clock, "model", ATTEMPTS, LONGEST_HINT_S):
                with attempt:
                    reply = await self.model.ask(request, heard)
        except TryLater as error:
            hint = f" It asks to wait {error.after_s:.0f} s." if error.after_s else ""
            raise TellUser(f"{error.text}{hint}{self._advice}", gist=error.gist) from error
        await self._purse.spend(reply.usage)
        return reply
