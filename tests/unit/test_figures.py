"""What a benchmark finds: targets, the floor, and how both are shown."""

import pytest

from benchmarks.figures import Figure, quantile, table


@pytest.mark.parametrize(
    ("figure", "missed", "shown"),
    [
        (Figure("a", "ms", [1, 2, 3], at_most=2), False, "met 2"),
        (Figure("a", "ms", [1, 3, 3], at_most=2), True, "MISSED 2"),
        (Figure("a", "%", [90, 90], at_least=80), False, "met 80"),
        (Figure("a", "%", [70, 90], at_least=80), True, "MISSED 80"),
        (Figure("a", "ms", [1, 1, 9], at_most=2, p95_at_most=8), True, "met 2, p95 MISSED 8"),
        (Figure("a", "ms", [1, 1, 8], p95_at_most=8), False, "p95 met 8"),
        (Figure("a", "ms", [1]), False, ""),
    ],
)
def test_a_target_is_met_by_the_median_or_by_p95(figure: Figure, missed: bool, shown: str) -> None:
    """And both are said where there are two."""
    assert figure.summary()["missed"] is missed
    assert table([figure])[1].endswith(shown)


def test_a_figure_with_a_floor_says_how_many_times_it_is() -> None:
    """In a column that is there where any has one."""
    with_floor, without = Figure("a", "ms", [10, 30], floor=4), Figure("b", "ms", [1])
    assert with_floor.summary()["times_the_floor"] == 2.5
    assert without.summary()["times_the_floor"] is None
    heading, one, other = table([with_floor, without])
    assert "x floor" in heading and "2.50" in one and "2.50" not in other
    assert "x floor" not in table([without])[0]


def test_quantiles_are_values_that_were_measured() -> None:
    """By nearest rank."""
    assert [quantile([3, 1, 2, 4], share) for share in (0.0, 0.5, 0.75, 0.95)] == [1, 2, 3, 4]
