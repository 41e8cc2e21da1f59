"""What comes first."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.recall.scoring import (
    AFTER,
    ANSWERS,
    BEFORE,
    GAP,
    LEAST,
    Postings,
    Weight,
    best,
    is_rare,
    scores,
    scores_of_rare,
    weight_of,
)

postings = st.lists(st.tuples(st.integers(5, 60), st.booleans()), max_size=10, unique_by=lambda one: one[0]).map(
    lambda places: Postings(len(places), places)
)


@given(st.lists(postings, max_size=5), st.integers(0, 100))
def test_a_place_that_has_all_words_has_the_highest_score(found: list[Postings], total: int) -> None:
    """Neighbours add nothing to what stands in the message itself."""
    score = scores(found, total)
    whole = sum(weight_of(one.count, total) for one in found)
    assert all(0 < value <= whole + 1e-9 for value in score.values())
    for place in set(score):
        if all(place in dict(one.places) for one in found):
            assert score[place] >= max(score.values()) - 1e-9


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_rarer_word_weighs_more_and_none_nothing(one: int, other: int, total: int) -> None:
    """Also where the counts are wrong."""
    assert weight_of(one, total) > 0
    few, many = sorted((min(one, total), min(other, total)))
    assert weight_of(few, total) >= weight_of(many, total)


@given(st.lists(postings, max_size=5), st.integers(0, 2_000))
def test_where_a_rare_word_stands_the_score_is_the_same(found: list[Postings], total: int) -> None:
    """And elsewhere there is none."""
    rare = {place for one in found if is_rare(one.count, total) for place, _ in one.places}
    score = scores(found, total)
    assert scores_of_rare(found, total) == pytest.approx({place: score[place] for place in rare})


def test_neighbours_share_a_word() -> None:
    """Those behind more than those before, the nearest most, and an answer most of all; none over a gap."""
    score = scores([Postings(1, [(20, False)])], 10)
    whole = score[20]
    assert [score[20 + d] / whole for d in (1, 2, 3, 4)] == pytest.approx(AFTER)
    assert [score[20 - d] / whole for d in (1, 2, 3, 4)] == pytest.approx(BEFORE)
    assert 20 + GAP not in score and 20 - GAP not in score
    assert scores([Postings(1, [(20, True)])], 10)[21] / whole == pytest.approx(AFTER[0] * ANSWERS)


def ranked(score: Mapping[int, float], weights: Mapping[int, Weight], most: int, greatest: float = 4.0) -> list[int]:
    def weighed(places: Sequence[int]) -> dict[int, Weight]:
        return {place: weights[place] for place in places if place in weights}

    return best(score, most, greatest, weighed)


@given(
    st.dictionaries(st.integers(0, 3_000), st.sampled_from([1.0, 2.0, 3.0, 5.0]), max_size=60),
    st.lists(st.sampled_from([0.85, 1.0, 2.0, 4.0]), min_size=60, max_size=60),
    st.integers(1, 20),
)
def test_the_best_are_those_of_all(score: dict[int, float], factors: list[float], most: int) -> None:
    """As if every place had been weighed; what fits far worse than the best is left out."""
    weights = {p: Weight(False, f, (-p,)) for p, f in zip(score, factors, strict=False)}
    values = {p: score[p] * weights[p].factor for p in weights}
    least = LEAST * max(values.values(), default=0)
    wanted = sorted((p for p in values if values[p] >= least), key=lambda p: (-values[p], -p))[:most]
    assert ranked(score, weights, most) == wanted


def test_many_places_are_weighed_in_pieces() -> None:
    """Only as many as may be among the best."""
    score = {place: float(place) for place in range(1, 5_000)}
    asked: list[int] = []

    def weighed(places: Sequence[int]) -> dict[int, Weight]:
        asked.extend(places)
        return {place: Weight(False, 1.0, ()) for place in places}

    assert best(score, 3, 1.0, weighed) == [4_999, 4_998, 4_997]
    assert len(asked) < 1_000
    assert best(dict.fromkeys(range(3_000), 1.0), 1, 1.0, lambda ps: {p: Weight(False, 1.0, (p,)) for p in ps}) == [0]


def test_word_for_word_is_first_and_what_may_not_be_shown_is_passed_over() -> None:
    """Whatever factors others have."""
    same = {1: Weight(True, 0.85, ()), 2: Weight(False, 4.0, ())}
    assert ranked({1: 1.0, 2: 1.0, 3: 9.0}, same, 2) == [1, 2]
    assert ranked({}, {}, 5) == [] == ranked({1: 1.0}, {}, 5)
