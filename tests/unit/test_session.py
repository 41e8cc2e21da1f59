"""The fold over a log, and the history that may be shown: legal whatever the log holds."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.records import (
    Alias,
    AssistantMessage,
    Consolidated,
    Consolidating,
    ConsolidationFailed,
    Metadata,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
)
from nanomem.session import LOST_RESULT, Compacted, Said, Session, history, is_ended, open_calls, repaired, replay
from tests.unit.strategies import NOW, assistant, damaged, records, result, user, whole


def assert_legal(shown: Sequence[Said]) -> None:
    """It starts with a user message; each call has exactly one result right behind it, and no result is an orphan."""
    assert not shown or isinstance(shown[0], UserMessage)
    rest = list(shown)
    while rest:
        message = rest.pop(0)
        assert not isinstance(message, ToolMessage), "a result without its call"
        if isinstance(message, AssistantMessage):
            wanted = [call.id for call in message.tool_calls]
            assert len(set(wanted)) == len(wanted)
            results = [rest.pop(0) for _ in wanted if rest]
            assert sorted(wanted) == sorted(r.tool_call_id for r in results if isinstance(r, ToolMessage))


@given(damaged)
def test_any_damage_is_repaired(messages: list[Said]) -> None:
    """Orphans, doubles, missing results, a start in the middle: what is shown is legal."""
    assert_legal(repaired(messages))


@given(damaged)
def test_repairing_twice_changes_nothing(messages: list[Said]) -> None:
    """What is legal stays as it is."""
    once = repaired(messages)
    assert repaired(once) == once


@given(whole())
def test_a_healthy_history_is_shown_as_it_is(messages: list[Said]) -> None:
    """Nothing is left out and nothing invented."""
    assert_legal(messages)
    assert repaired(messages) == messages


@given(damaged)
def test_repairing_keeps_every_question(messages: list[Said]) -> None:
    """Of what a person said nothing is ever left out, and the order stays."""
    asked = [m.n for m in messages if isinstance(m, UserMessage)]
    assert [m.n for m in repaired(messages) if isinstance(m, UserMessage)] == asked
    shown = [m.n for m in repaired(messages) if not (isinstance(m, ToolMessage) and m.content == LOST_RESULT)]
    assert shown == sorted(set(shown))


def test_a_lost_result_says_so() -> None:
    """In the place where it should be; what came of the other calls stays."""
    shown = repaired([user(1), assistant(2, calls=["a", "b"]), result(3, "b"), result(4, "b"), assistant(5)])
    assert [m.content for m in shown] == ["hello", "hi", "seen", LOST_RESULT, "hi"]


def test_the_note_of_a_failed_turn_goes_once_it_is_done_again() -> None:
    """The model sees the question and the answer, as if nothing had happened; others' ends stay."""
    failed: list[Said] = [user(1), assistant(2, "t1", "failed", end="failed")]
    again = assistant(3, "t2", "failed too", end="failed", retries="t1")
    better = assistant(4, "t3", "fine", end="answer", retries="t2")
    assert [m.content for m in repaired([*failed, again, better])] == ["hello", "fine"]
    stranger = assistant(3, "t3", "fine", end="answer", retries="somebody else")
    assert [m.content for m in repaired([*failed, stranger])] == ["hello", "failed", "fine"]


def test_the_work_of_a_stopped_turn_stays_when_it_is_done_again() -> None:
    """Only the note at its end is left out."""
    stopped: list[Said] = [
        user(1),
        assistant(2, calls=["a"]),
        result(3, "a"),
        assistant(4, text="(stopped)", end="stopped"),
    ]
    shown = repaired([*stopped, assistant(5, "t2", "fine", end="answer", retries="t1")])
    assert [m.n for m in shown] == [1, 2, 3, 5]


@given(st.one_of(damaged, whole()), st.integers(1, 12))
def test_a_window_is_legal_and_no_longer_than_allowed(messages: list[Said], most: int) -> None:
    """Unless one turn alone is longer, which is then shown whole."""
    shown = history(messages, most)
    assert_legal(shown)
    kept = [m for m in shown if not (isinstance(m, ToolMessage) and m.content == LOST_RESULT)]
    if len(kept) > most:
        starts = [i for i, m in enumerate(kept) if isinstance(m, UserMessage)]
        assert all(isinstance(kept[i - 1], UserMessage) for i in starts[1:]), "more than one turn"


@given(whole(), st.integers(1, 12))
def test_a_window_ends_with_the_newest_and_tears_no_turn(messages: list[Said], most: int) -> None:
    """It is the end of the conversation, from the first message of a turn on."""
    shown = history(messages, most)
    assert shown == messages[len(messages) - len(shown) :]
    if messages:
        assert shown
        before = messages[: len(messages) - len(shown)]
        assert not before or before[-1].turn != shown[0].turn


@given(st.lists(records, max_size=12), st.integers(0, 12))
def test_replaying_is_applying_one_by_one(log: list[Record], at: int) -> None:
    """A session that lived through it and one that read it are the same."""
    session = replay(log[:at])
    for record in log[at:]:
        session.apply(record)
    assert session == replay(log)


@given(st.lists(records, max_size=12))
def test_pointers_never_go_back(log: list[Record]) -> None:
    """`last_n` and `last_consolidated` only grow, and what is consolidated is not in memory."""
    session = Session()
    before = (0, 0)
    for record in log:
        session.apply(record)
        assert session.last_n >= before[0] and session.last_consolidated >= before[1]
        assert session.last_n >= session.last_consolidated
        assert all(message.n > session.last_consolidated for message in session.messages)
        before = (session.last_n, session.last_consolidated)


def test_a_reset_hides_what_was_before_and_numbers_go_on() -> None:
    """Its command is remembered; a later reset without one does not forget it."""
    session = replay([user(1), assistant(2), Reset(through=2, timestamp=NOW, inbound="9"), user(3)])
    assert [m.n for m in session.messages] == [3]
    assert (session.last_n, session.last_consolidated, session.last_reset) == (3, 2, "9")
    session.apply(Reset(through=1, timestamp=NOW))
    assert ([m.n for m in session.messages], session.last_consolidated, session.last_reset) == ([3], 2, "9")
    session.apply(Reset(through=3, timestamp=NOW))
    assert (session.messages, session.last_n) == ([], 3)


def test_what_stands_beside_the_messages_is_folded_too() -> None:
    """The key, and when it began and was last added to."""
    session = replay([Metadata(key="a:1", created_at=NOW), Alias(key="a:2", timestamp=NOW), first := user(1)])
    assert (session.key, session.created_at) == ("a:1", NOW)
    assert (session.updated_at, session.last_n) == (first.timestamp, 1)


def test_the_records_of_a_turn() -> None:
    """The newest turn's, or none; whether it is ended, and which of its calls are open."""
    session = replay([user(1, "a"), assistant(2, "a", end="answer"), user(3, "b"), assistant(4, "b", calls=["x", "y"])])
    session.apply(result(5, "y", "b"))
    assert [m.n for m in session.of_turn("b")] == [m.n for m in session.last_turn()] == [3, 4, 5]
    assert session.of_turn("a") == [] and Session().last_turn() == []
    assert open_calls(session.last_turn()) == [("x", "look")]
    assert not is_ended(session.last_turn()) and not is_ended([])
    assert open_calls([user(1)]) == [] and open_calls([]) == []
    session.apply(assistant(6, "b", end="stopped"))
    assert is_ended(session.last_turn()) and open_calls(session.last_turn()) == []


@pytest.mark.parametrize("size", [0, 1, 3])
def test_messages_of_one_question_stay_together(size: int) -> None:
    """However small the window."""
    turn: list[Said] = [user(1, "a"), assistant(2, "a"), user(3, "b"), user(4, "b"), assistant(5, "b")]
    assert [m.n for m in history(turn, size)] == [3, 4, 5]


def consolidating(first: int, through: int, id: str = "d1", **more: Any) -> Consolidating:
    return Consolidating(id=id, type="consolidation", first=first, through=through, history_entry="talk", **more)


def consolidated(through: int, history: int = 1, id: str = "d1") -> Consolidated:
    return Consolidated(id=id, through=through, history=history, timestamp=NOW)


def failed(through: int) -> ConsolidationFailed:
    return ConsolidationFailed(through=through, reason="no", timestamp=NOW)


def test_the_pointer_follows_what_is_consolidated() -> None:
    """What is decided alone moves nothing; the messages behind the pointer stay as they are."""
    log: list[Record] = [user(1), assistant(2, end="answer"), user(3, "t2"), consolidating(1, 2)]
    session = replay(log)
    assert (session.last_consolidated, session.pending) == (0, log[3])
    session.apply(consolidated(2, history=7))
    assert (session.last_consolidated, session.history, session.pending) == (2, 7, None)
    assert session.messages == [log[2]]


def test_failures_in_a_row_are_counted_from_the_log() -> None:
    """What succeeds, and a new conversation, start the count again."""
    log: list[Record] = [user(1), failed(1), failed(1)]
    assert replay(log).failures == 2
    assert replay([*log, consolidated(1), failed(2)]).failures == 1
    assert replay([*log, Reset(through=1, timestamp=NOW), failed(2)]).failures == 1


def test_a_turn_that_was_cut_keeps_its_question() -> None:
    """And the number of its answers, also when it is cut once more."""
    turn: list[Record] = [user(1), user(2)]
    for n in range(3, 11, 2):
        turn += [assistant(n, calls=[f"c{n}"]), result(n + 1, f"c{n}")]
    session = replay([user(1, "t0"), *turn[1:], consolidated(4)])
    assert [m.n for m in session.shown][:3] == [1, 2, 5]
    assert session.rounds("t1") == 4
    session.apply(consolidated(8, history=2, id="d2"))
    assert [m.n for m in session.shown] == [1, 2, 9, 10]
    assert session.rounds("t1") == 4
    session.apply(user(11, "t9"))
    session.apply(consolidated(10, history=3, id="d3"))
    assert [m.n for m in session.shown] == [11]
    assert session.rounds("t9") == 0


def test_what_a_command_has_consolidated_is_known() -> None:
    """All its stretches together, for the reply that it may have to repeat."""
    session = replay(
        [
            *(user(n, f"t{n}") for n in range(1, 9)),
            consolidating(1, 3, inbound="7"),
            consolidated(3),
            consolidating(4, 6, "d2", inbound="7"),
            consolidated(6, 2, "d2"),
        ]
    )
    assert session.compacted == Compacted("7", 1, 6, 2, raw=False)
