"""What a benchmark finds: named values with a unit, and how they are summed up.

Pure: knows nothing of what was measured.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """What one thing measured gave, each time it was measured. `at_most` and `at_least` are for the median.

    `floor` is the median of what the least agent took for the same, in the same unit; see `benchmarks/floor.py`.
    """

    name: str
    unit: str
    values: Sequence[float]
    at_most: float | None = None
    at_least: float | None = None
    p95_at_most: float | None = None
    floor: float | None = None

    @property
    def p50(self) -> float:
        """The median."""
        return quantile(self.values, 0.5)

    @property
    def p95(self) -> float:
        return quantile(self.values, 0.95)

    @property
    def targets(self) -> list[tuple[str, float, bool]]:
        """What is aimed at: of what, how much, and whether it was met."""
        found = [
            ("", self.at_most, self.at_most is None or self.p50 <= self.at_most),
            ("", self.at_least, self.at_least is None or self.p50 >= self.at_least),
            ("p95 ", self.p95_at_most, self.p95_at_most is None or self.p95 <= self.p95_at_most),
        ]
        return [(of, aim, met) for of, aim, met in found if aim is not None]

    @property
    def times_the_floor(self) -> float | None:
        return self.p50 / self.floor if self.floor else None

    def summary(self) -> dict[str, Any]:
        """For programs; `values` in the order in which they were measured."""
        return {
            "name": self.name,
            "unit": self.unit,
            "p50": self.p50,
            "p95": self.p95,
            "min": min(self.values),
            "max": max(self.values),
            "n": len(self.values),
            "at_most": self.at_most,
            "at_least": self.at_least,
            "p95_at_most": self.p95_at_most,
            "missed": not all(met for _, _, met in self.targets),
            "floor": self.floor,
            "times_the_floor": self.times_the_floor,
            "values": list(self.values),
        }


def quantile(values: Sequence[float], share: float) -> float:
    """By nearest rank: always one of the values, which must not be empty."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def table(figures: Sequence[Figure]) -> list[str]:
    """A line for each figure, under a heading; how many times the floor it is only where that is known of one."""
    rows: list[tuple[str, ...]] = [("", "p50", "p95", "min", "max", "n", "unit", "x floor", "target")]
    for figure in figures:
        numbers = [short(value) for value in (figure.p50, figure.p95, min(figure.values), max(figure.values))]
        times = "" if figure.times_the_floor is None else f"{figure.times_the_floor:.2f}"
        targets = [f"{of}{'met' if met else 'MISSED'} {aim:g}" for of, aim, met in figure.targets]
        rows.append((figure.name, *numbers, str(len(figure.values)), figure.unit, times, ", ".join(targets)))
    if any(figure.floor for figure in figures):
        return columns(rows, left={0, 6, 8})
    return columns([(*row[:7], row[8]) for row in rows], left={0, 6, 7})


def columns(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """A line for each row, its parts below each other; those of the `left` columns begin there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join(f"{{:{'<' if i in left else '>'}{width}}}" for i, width in enumerate(widths))
    return [line.format(*row).rstrip() for row in rows]


def short(value: float) -> str:
    """Three digits that count, and never a power of ten."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:#.3g}".rstrip(".")
