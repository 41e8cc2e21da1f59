"""What a proof is asked for, what it found, and how far it is."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try. A `quick` one takes a sample, the same for the same `seed`, that is over within half a minute.

    `seconds` is for what could go on for ever; what has an end, like all kill points of a scenario, is tried in full.
    """

    quick: bool = False
    seed: int = 0
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Report:
    """What was `tried` and how often, each violation with what it takes to see it again, and what was measured."""

    tried: Mapping[str, int]
    violations: Sequence[str] = ()
    measured: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim does, as far as was tried; of what was not tried at all nobody knows."""
        return not self.violations and not self.skipped and any(self.tried.values())

    def lines(self) -> list[str]:
        """For people."""
        if self.skipped:
            return [f"skipped: {self.skipped}"]
        width = max((len(name) for name in (*self.tried, *self.measured)), default=0)
        counted = [f"{name:<{width}}  {count:>8,}" for name, count in self.tried.items()]
        measured = [f"{name:<{width}}  {value:>8,.2f}" for name, value in self.measured.items()]
        found = [] if any(self.tried.values()) else ["nothing was tried"]
        found += [f"{'violations':<{width}}  {len(self.violations):>8,}", *self.violations]
        return [*counted, *measured, *found]

    def summary(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self) | {"holds": self.holds}


def say(text: str) -> None:
    """To whoever waits for a proof: how far it is, and what was found so far. A run of hours may be ended before."""
    print(text, file=sys.stderr, flush=True)


class Claim(Protocol):
    """A module in `claims`."""

    NAME: str
    CLAIM: str
    """What is held to be true, in a sentence."""

    async def prove(self, folder: Path, effort: Effort) -> Report:
        """Tries to show that it is not so. `folder` is empty and its own."""
