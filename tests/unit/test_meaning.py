"""What comes first where meaning counts beside words: the pure part."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.recall.meaning import NEAR_AT_ALL, Near, Spread, best, likely, spread, without_names
from nanomem.recall.scoring import Weight

Weighed = Callable[[Sequence[int]], Mapping[int, Weight]]


def plain(factors: Mapping[int, float] | None = None) -> Weighed:
    """All may be shown, and of equals the lower place is first."""
    return lambda places: {place: Weight(False, (factors or {}).get(place, 1.0), (place,)) for place in places}


def near(**places: float) -> Near:
    """`near(p1=0.5)`: place 1 is that near."""
    found = {int(name[1:]): value for name, value in places.items()}
    return Near(found, spread(found.values()))


def ranked(score: Mapping[int, float], by: Near, weighed: Weighed | None = None, weight: float = 1.0) -> list[int]:
    return best(score, likely(score), by, weight, 10, 4.0, weighed or plain())


def test_standard_scores() -> None:
    """Of the whole, and none where all are the same."""
    found = spread([1.0, 3.0])
    assert found == Spread(2.0, 1.0) and found.of(4.0) == 2.0
    assert spread([5.0, 5.0]).of(5.0) == 0.0 and spread([]).of(1.0) == 0.0


@given(st.lists(st.floats(0, 1), min_size=1), st.randoms())
def test_a_spread_does_not_depend_on_the_order(values: list[float], chance: Random) -> None:
    """Down to the last bit: the order of what is found must not depend on when it was taken in."""
    other = values[:]
    chance.shuffle(other)
    assert spread(values) == spread(other)


def test_what_has_no_word_of_the_question_is_found_by_its_meaning() -> None:
    """Without a word it starts lower, but it may well be first."""
    by = Near({10: 0.9, 20: 0.1, 30: 0.1}, spread([0.9, *[0.1] * 10]))
    assert ranked({20: 1.0, 30: 1.1}, by)[0] == 10
    assert ranked({}, by) == [10]


def test_words_still_count() -> None:
    """Of two that are as near, the one with more of the words is first; and one without a vector has its words."""
    by = near(p10=0.5, p20=0.5, p30=0.1)
    assert ranked({10: 1.0, 20: 3.0}, by)[:2] == [20, 10]
    assert 40 in ranked({10: 1.0, 40: 3.0}, by)


def test_factors_count_for_both() -> None:
    """By the person who is meant: more of the words' score, and nearer."""
    by = near(p10=0.4, p20=0.5, p30=0.1, p40=0.1)
    assert ranked({10: 1.0, 20: 1.0}, by)[0] == 20
    assert ranked({10: 1.0, 20: 1.0}, by, plain({10: 2.0}))[0] == 10


def test_the_weight_is_what_meaning_counts() -> None:
    """With none of it only words order."""
    by = near(p10=0.9, p20=0.3, p30=0.3)
    score = {10: 1.0, 20: 2.0}
    assert ranked(score, by)[0] == 10 and ranked(score, by, weight=0.1)[0] == 20


def test_something_is_always_the_nearest_and_need_not_be_shown() -> None:
    """What is a stranger to the question is not, nor what is far behind the nearest."""
    assert ranked({}, near(p10=NEAR_AT_ALL / 2, p20=0.0)) == []
    assert ranked({}, near(p10=0.8, p20=0.6, p30=0.3, p40=0.0)) == [10, 20]


def test_what_may_not_be_shown_makes_room_for_others() -> None:
    """A filter leaves out what is first, however near."""
    by = near(p10=0.9, p20=0.8, p30=0.1)
    assert ranked({}, by, lambda places: {p: Weight(False, 1.0, (p,)) for p in places if p != 10}) == [20]


def test_word_for_word_is_first() -> None:
    """Whatever is nearer."""
    by = near(p10=0.9, p20=0.3)
    assert ranked({20: 1.0}, by, lambda places: {p: Weight(p == 20, 1.0, (p,)) for p in places})[0] == 20


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("What did Caroline paint?", "What did paint?"),
        ("Is Ann Lee's dog old?", "Is dog old?"),
        ("Where do I live?", "Where do I live?"),
        ("Caroline", "Caroline"),
        ("", ""),
    ],
)
def test_names_are_left_out_of_what_a_question_means(text: str, left: str) -> None:
    """Who spoke is weighed apart; a question of nothing else stays."""
    assert without_names(text, {"1": ["Caroline"], "2": ["Ann Lee"], "agent": ["Assistant"]}) == left
