"""How often words stand there, without counting each time."""

from nanomem.recall.counts import Counts


def counted(counts: Counts, count: int, totals: list[int]) -> list[int]:
    """At which of these totals it was really counted."""
    looked: list[int] = []
    for total in totals:

        def look(_: str, total: int = total) -> int:
            looked.append(total)
            return count

        assert counts.of("tea", total, look) == count
    return looked


def test_a_common_word_is_counted_again_when_there_is_a_twentieth_more() -> None:
    """Or less: something was taken out."""
    assert counted(Counts(), 500, [1000, 1001, 1050, 1051, 1100, 1050]) == [1000, 1051, 1050]


def test_a_rare_word_is_counted_each_time() -> None:
    """It takes no time, and one more is much."""
    assert counted(Counts(), 3, [1000, 1001]) == [1000, 1001]


def test_what_is_forgotten_is_counted_anew() -> None:
    counts = Counts()
    assert counted(counts, 500, [1000]) == [1000]
    counts.forget()
    assert counted(counts, 700, [1000]) == [1000]


def test_no_more_is_kept_than_some_thousand_words() -> None:
    """Whatever people say."""
    counts = Counts()
    for number in range(2_001):
        counts.of(str(number), 1000, lambda _: 500)
    assert counts.of("2000", 1000, lambda _: 600) == 500
    assert counts.of("0", 1000, lambda _: 600) == 600
