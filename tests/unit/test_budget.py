"""Making a request fit: oldest turns first, then this turn's long results, else a word that names the size."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.budget import (
    GREATEST_FACTOR,
    LEAST_FACTOR,
    PER_MESSAGE,
    PER_REQUEST,
    SHORT_RESULT,
    UNSEEN_FACTOR,
    Calibration,
    cost,
    cut_results,
    drop_oldest,
    estimate,
)
from nanomem.errors import TellUser
from nanomem.records import ToolMessage
from nanomem.session import Said, repaired
from tests.unit.strategies import assistant, result, user, whole

excesses = st.integers(-100, 20_000)


@given(whole(), excesses, st.integers(1, 3))
def test_the_oldest_turns_go_until_it_fits(messages: list[Said], excess: int, newest: int) -> None:
    """Whole turns, no more than needed, and never one of this request's own."""
    turns = list(dict.fromkeys(message.turn for message in messages))
    own = set(turns[-newest:])
    kept = drop_oldest(messages, own, excess)
    assert kept == messages[len(messages) - len(kept) :]
    assert [m for m in kept if m.turn in own] == [m for m in messages if m.turn in own]
    assert repaired(kept) == kept, "what is left is legal"
    freed = estimate(messages, 0) - estimate(kept, 0)
    assert freed >= excess or all(message.turn in own for message in kept)
    dropped = messages[: len(messages) - len(kept)]
    if dropped:
        last = [m for m in dropped if m.turn == dropped[-1].turn]
        assert freed - sum(map(cost, last)) < excess, "one turn less would have done"


def test_an_older_layout_without_turns_is_dropped_question_by_question() -> None:
    """Its messages name no turn; not all of them go at once."""
    old: list[Said] = [user(1, ""), assistant(2, ""), user(3, ""), assistant(4, ""), user(5, "new")]
    assert [m.n for m in drop_oldest(old, {"new"}, 20)] == [3, 4, 5]


@given(whole(most_turns=3), excesses)
def test_long_results_of_this_turn_are_cut_or_the_size_is_named(messages: list[Said], excess: int) -> None:
    """Enough is freed, with head and tail kept and a note between; or a person is told how much it is too large."""
    own = {messages[-1].turn} if messages else set()
    try:
        cut = cut_results(messages, own, excess)
    except TellUser as error:
        free = sum(m.tokens - SHORT_RESULT for m in messages if m.turn in own and isinstance(m, ToolMessage))
        assert excess > max(0, free) or excess > 0
        assert re.search(r"[\d,]+ tokens too large", error.text)
        return
    assert sum(m.tokens for m in messages) - sum(m.tokens for m in cut) >= excess
    for before, after in zip(messages, cut, strict=True):
        if before == after:
            continue
        assert isinstance(after, ToolMessage) and after.turn in own and after.tokens >= SHORT_RESULT
        assert replace(after, content="", tokens=0) == replace(before, content="", tokens=0)


@given(st.text("ab\n🙂", min_size=1, max_size=3000), st.integers(401, 5000), st.integers(1, 4000))
def test_a_cut_result_keeps_its_head_and_tail(text: str, tokens: int, excess: int) -> None:
    """And says how much is missing between them: all of it is accounted for."""
    messages: list[Said] = [user(1), assistant(2, calls=["a"]), result(3, "a", text=text, tokens=tokens)]
    try:
        cut = cut_results(messages, {"t1"}, excess)[-1].content
    except TellUser:
        assert tokens - excess < SHORT_RESULT
        return
    note = re.search(r"\n\[\.\.\. ([\d,]+) characters left out.*\]\n", cut)
    assert note
    head, tail = cut[: note.start()], cut[note.end() :]
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) + int(note[1].replace(",", "")) == len(text)


def test_the_longest_result_is_cut_first() -> None:
    """Short ones stay whole."""
    long, short = result(3, "a", text="x" * 8000, tokens=2000), result(4, "b", text="y" * 1600, tokens=500)
    cut = cut_results([user(1), assistant(2, calls=["a", "b"]), long, short], {"t1"}, 1000)
    assert cut[3] == short and cut[2].tokens == 1000 and cut[2].content.startswith("xxx")


def test_an_estimate_is_a_sum() -> None:
    """Messages, what each costs beside its text, and what is fixed."""
    assert estimate([], 100) == 100 + PER_REQUEST
    assert estimate([assistant(1, tokens=50)], 100) == 100 + PER_REQUEST + PER_MESSAGE + 50


@given(st.lists(st.tuples(st.integers(-5, 10**6), st.integers(-5, 10**7)), max_size=10), st.integers(0, 5))
def test_a_factor_stays_within_reason(counted: list[tuple[int, int]], too_small: int) -> None:
    """Whatever a provider counts, or claims; a model not seen yet has 1.2; models do not mix."""
    calibration = Calibration()
    for estimated, tokens in counted:
        calibration.learn("one", estimated, tokens)
        assert LEAST_FACTOR <= calibration.factor("one") <= GREATEST_FACTOR
        if estimated > 0 and LEAST_FACTOR <= tokens / estimated <= GREATEST_FACTOR:
            assert calibration.factor("one") == pytest.approx(tokens / estimated)
    for _ in range(too_small):
        before = calibration.factor("one")
        calibration.too_small("one")
        assert before <= calibration.factor("one") <= GREATEST_FACTOR
    assert calibration.factor("other") == UNSEEN_FACTOR
