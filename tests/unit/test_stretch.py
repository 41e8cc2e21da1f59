"""Where a stretch of conversation may end, and how it reads."""

import re
from dataclasses import replace
from datetime import UTC
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from nanomem.budget import cost
from nanomem.records import AssistantMessage, UserMessage
from nanomem.session import Said, open_calls, starts_turn
from nanomem.stretch import all_but_newest, as_text, fitting, pick_boundary, raw_entries, turns_before_last
from tests.unit.strategies import assistant, result, user, whole

HEAD = re.compile(r"^\[[^]]*\] (USER|ASSISTANT( \[tools: [^]]*\])?|TOOL \([^)]*\)): ")
TURN: list[Said] = [user(1), assistant(2, calls=["a"]), result(3, "a")]
TURN += [assistant(4, calls=["b"]), result(5, "b"), assistant(6)]


def conversation(turns: int, tokens: int = 10) -> list[Said]:
    """A question and an answer for each turn."""
    return [
        message
        for n in range(1, 2 * turns, 2)
        for message in (user(n, turn=f"t{n}", tokens=tokens), assistant(n + 1, turn=f"t{n}", tokens=tokens))
    ]


@given(whole(), st.integers(-10, 10_000))
def test_a_boundary_never_tears(messages: list[Said], tokens: int) -> None:
    """It stands before a turn, or else between two rounds of the only one; something always stays."""
    place = pick_boundary(messages, tokens)
    assert 0 <= place < max(len(messages), 1)
    if place and any(starts_turn(messages, i) for i in range(1, len(messages))):
        assert starts_turn(messages, place)
    elif place:
        assert isinstance(messages[place], AssistantMessage)
        assert not open_calls(messages[:place])


@given(whole(), st.integers(1, 10_000))
def test_a_boundary_is_the_first_that_frees_enough(messages: list[Said], tokens: int) -> None:
    """One turn less would not do; where none does, it is the last."""
    place = pick_boundary(messages, tokens)
    places = [i for i in range(1, len(messages)) if starts_turn(messages, i)]
    if places:
        enough = [i for i in places if sum(map(cost, messages[:i])) >= tokens]
        assert place == (enough[0] if enough else places[-1])


def test_one_turn_alone_is_cut_between_its_rounds() -> None:
    """The last round stays, since the model has not seen what came of it."""
    assert pick_boundary(TURN, 1) == 3
    assert pick_boundary(TURN, 10_000) == 5
    assert pick_boundary(TURN[:5], 10_000) == 3


def test_there_may_be_nothing_to_cut() -> None:
    """A lone question, a first round, an empty session."""
    assert [pick_boundary(messages, 100) for messages in ([], TURN[:1], TURN[:3])] == [0, 0, 0]


@given(whole(), st.integers(0, 30))
def test_the_newest_are_kept(messages: list[Said], keep: int) -> None:
    """At least so many, and the stretch ends before a turn; nothing where there are too few."""
    place = all_but_newest(messages, keep)
    assert place == 0 or (starts_turn(messages, place) and len(messages) - place >= keep)
    assert place == max(
        (i for i in range(1, min(len(messages) - keep + 1, len(messages))) if starts_turn(messages, i)), default=0
    )


def test_everything_but_the_last_turn() -> None:
    """As `/compact` takes it."""
    assert turns_before_last(conversation(3)) == 4
    assert turns_before_last(conversation(1)) == 0


@given(whole(), st.integers(1, 500))
def test_what_fits_into_a_call(messages: list[Said], tokens: int) -> None:
    """As much as fits, at a boundary; at least up to the first one, so that it always goes on."""
    place = fitting(messages, tokens)
    assert (place > 0) == bool(messages)
    if place < len(messages):
        assert isinstance(messages[place], UserMessage | AssistantMessage)
        assert not open_calls(messages[:place])
        before = [i for i in range(1, place) if starts_turn(messages, i)]
        assert sum(map(cost, messages[:place])) <= tokens or not before


def test_a_stretch_reads_as_a_line_a_message() -> None:
    """With who spoke, in the zone of people; a name cannot fake the frame."""
    messages: list[Said] = [
        user(1, text="one\ntwo", name="Ann) [x]: y"),
        assistant(2, text="", calls=["a"]),
        result(3, "a", text="x" * 1_100),
    ]
    first, second, third = as_text(messages, ZoneInfo("Europe/Berlin")).split("\n")
    assert first == "[2026-04-10 11:16] USER (Ann x y): one two"
    forwarded = replace(user(1, text="I live in Rome", name="Ann"), forwarded_from="Bob (x)")
    assert as_text([forwarded], UTC) == "[2026-04-10 09:16] USER (Ann, forwarded from Bob x): I live in Rome"
    assert second == "[2026-04-10 11:17] ASSISTANT [tools: look]: "
    assert third.startswith("[2026-04-10 11:18] TOOL (look): xxx") and third.endswith("[... 100 more characters]")


@given(whole(), st.integers(40, 400))
def test_a_raw_archive_holds_every_word(messages: list[Said], limit: int) -> None:
    """In order, each message in one entry or in several that it fills alone; the ranges join without a gap."""
    entries = raw_entries(messages, "telegram:42", UTC, limit)
    assert [e.first for e in entries] == sorted(e.first for e in entries)
    covered = [n for e in entries for n in range(e.first, e.last + 1)]
    assert sorted(set(covered)) == sorted({m.n for m in messages} | set(covered))
    assert {m.n for m in messages} <= set(covered)
    text = "".join(HEAD.sub("", line) for e in entries for line in e.summary.split("\n")[1:])
    assert text == "".join(m.content.replace("\r\n", " ").replace("\n", " ").replace("\r", " ") for m in messages)
    for entry in entries:
        assert entry.summary.startswith("[RAW] ")


def test_a_raw_archive_is_cut_between_messages() -> None:
    """And a message longer than the limit is split."""
    messages: list[Said] = [user(1, tokens=30), assistant(2, tokens=30), user(3, text="x" * 1000, tokens=250)]
    entries = raw_entries(messages, "telegram:42", UTC, 110)
    assert [(e.first, e.last) for e in entries] == [(1, 2)] + [(3, 3)] * 12
    assert entries[0].summary.split("\n") == [
        "[RAW] 2 messages",
        "[2026-04-10 09:16] USER: hello",
        "[2026-04-10 09:17] ASSISTANT: hi",
    ]
    assert entries[1].timestamp == messages[2].timestamp
