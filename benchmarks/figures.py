"""What a benchmark finds: named values with a unit, and how they are summed up.

Pure: knows nothing of what was measured.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """What one thing measured gave, each time it was measured. `at_most` and `at_least` are for the median."""

    name: str
    unit: str
    values: Sequence[float]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def p50(self) -> float:
        """The median."""
        return quantile(self.values, 0.5)

    @property
    def is_missed(self) -> bool:
        """Whether there is a target and the median is beyond it."""
        too_much = self.at_most is not None and self.p50 > self.at_most
        return too_much or (self.at_least is not None and self.p50 < self.at_least)

    def summary(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "unit": self.unit,
            "p50": self.p50,
            "p95": quantile(self.values, 0.95),
            "min": min(self.values),
            "max": max(self.values),
            "n": len(self.values),
            "at_most": self.at_most,
            "at_least": self.at_least,
            "missed": self.is_missed,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """By nearest rank: always one of the values, which must not be empty."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def table(figures: Sequence[Figure]) -> list[str]:
    """A line for each figure, under a heading."""
    rows: list[tuple[str, ...]] = [("", "p50", "p95", "min", "max", "n", "unit", "target")]
    for figure in figures:
        found = figure.summary()
        meant = figure.at_least if figure.at_most is None else figure.at_most
        target = "" if meant is None else f"{'MISSED' if figure.is_missed else 'met'} {meant:g}"
        numbers = (short(found[key]) for key in ("p50", "p95", "min", "max"))
        rows.append((figure.name, *numbers, str(len(figure.values)), figure.unit, target))
    return columns(rows, left={0, 6, 7})


def columns(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """A line for each row, its parts below each other; those of the `left` columns begin there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join(f"{{:{'<' if i in left else '>'}{width}}}" for i, width in enumerate(widths))
    return [line.format(*row).rstrip() for row in rows]


def short(value: float) -> str:
    """Three digits that count, and never a power of ten."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:#.3g}".rstrip(".")
