"""How what a Dream reads is cut into calls: nothing is lost, nothing is cut, and what was begun is begun again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nanomem.batches import Batch, Piece, heard, in_full, new_talk, next_batch, parted, talk
from nanomem.entries import Entry
from nanomem.session import Said
from nanomem.versions import Stretch
from tests.unit.strategies import NOW, assistant, result, user, whole

KEYS = ["fake:1", "fake:2"]


def entry(cursor: int, text: str = "They talked.", **more: object) -> Entry:
    made = Entry(timestamp=NOW, type="consolidation", session="fake:1", first=cursor, last=cursor, summary=text)
    return replace(made, cursor=cursor, **more)  # type: ignore[arg-type]


def piece(of: Entry, tokens: int) -> Piece:
    return Piece(of, in_full(of, UTC), tokens)


def talked(messages: Sequence[Said], limit: int, key: str = "fake:1") -> list[Piece]:
    return parted([piece(found, len(found.summary)) for found in talk(messages, key, UTC, limit)])


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Some entries, then talk of two sessions, a message of which may be in several pieces."""
    sizes = draw(st.lists(st.integers(1, 900), max_size=12))
    found = [piece(entry(cursor), size) for cursor, size in enumerate(sizes, 3)]
    for key in KEYS:
        lengths = draw(st.lists(st.integers(1, 400), max_size=6))
        messages: list[Said] = [user(n, f"t{n}", "x" * size, size) for n, size in enumerate(lengths, 1)]
        found += talked(messages, draw(st.integers(40, 300)), key)
    return found


def all_batches(found: Sequence[Piece], room: int, begun: Sequence[str] = ()) -> list[Batch]:
    made: list[Batch] = []
    rest = list(found)
    while batch := next_batch(rest, room, begun):
        made.append(batch)
        rest = rest[len(batch.pieces) :]
    return made


@given(pieces(), st.integers(-5, 2_000))
def test_no_piece_is_lost_or_cut(found: list[Piece], room: int) -> None:
    """All batches together are all pieces, as they are and in their order."""
    assert [one for batch in all_batches(found, room) for one in batch.pieces] == found


@given(pieces(), st.integers(-5, 2_000))
def test_the_room_is_respected(found: list[Piece], room: int) -> None:
    """A batch fits, unless one piece alone does not; and the next piece would not have fitted, too. Entries and talk
    are never in one."""
    made = all_batches(found, room)
    assert all(batch.tokens <= room or len(batch.pieces) == 1 for batch in made)
    assert all(len({piece.is_talk for piece in batch.pieces}) == 1 for batch in made)
    alike = [(one, other) for one, other in pairwise(made) if one.pieces[0].is_talk == other.pieces[0].is_talk]
    assert all(batch.tokens + following.pieces[0].tokens > room for batch, following in alike)


@given(pieces(), st.integers(1, 2_000))
def test_batches_have_names_of_their_own(found: list[Piece], room: int) -> None:
    """Two that are read in one run are never taken for one another, also where they are parts of one message."""
    named = [batch.name for batch in all_batches(found, room)]
    assert len({*named}) == len(named)


@given(pieces(), st.integers(1, 2_000), st.integers(-5, 2_000), st.integers(1, 12))
def test_a_batch_that_was_begun_is_begun_again(found: list[Piece], room: int, later: int, there: int) -> None:
    """Of entries just those, however much room there is the next time, and whatever has come since; talk, which may
    have gone on, at least under the same key."""
    earlier = found[:there]
    if batch := next_batch(earlier, room, ()):
        again = next_batch(parted(found), later, [batch.key])
        assert again and again.key == batch.key
        assert again == batch or batch.pieces[0].is_talk


def test_without_pieces_there_is_no_batch() -> None:
    """And no name to look for."""
    assert next_batch([], 100, ["entries 1-2"]) is None


def test_a_batch_says_for_people_what_it_is() -> None:
    """Entries by their numbers, talk by its session and messages, a part of a message as such."""
    quiet = talked([user(1, "a", "hi"), user(2, "b", "x" * 200, 200)], 100)
    batch = Batch((piece(entry(3), 1), piece(entry(4), 1), *quiet))
    assert batch.name == "entries 3-4, fake:1 messages 1-2 (part 3)"
    assert [one.part for one in quiet] == [0, 1, 2, 3]
    assert Batch((quiet[1],)).name == "fake:1 messages 2 (part 1)-2 (part 1)"
    assert Batch((piece(entry(7), 1),)).name == "entries 7-7"


@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(40, 200))
def test_a_long_message_is_in_its_pieces_whole(lengths: list[int], limit: int) -> None:
    """What stands behind the heads of the lines, put together, is what was said."""
    messages: list[Said] = [user(n, f"t{n}", f"<{'y' * size}>", size + 2) for n, size in enumerate(lengths, 1)]
    lines = [line for one in talked(messages, limit) for line in one.entry.summary.splitlines()[1:]]
    assert "".join(line.partition(": ")[2] for line in lines) == "".join(message.content for message in messages)


def test_what_is_heard_ends_before_a_message_that_goes_on() -> None:
    """Only with its last piece a message has been read."""
    found = talked([user(1, "a", "hi"), user(2, "b", "x" * 200, 200), user(3, "c", "bye")], 100)
    assert [heard(found[:count]) for count in range(1, 5)] == [[Stretch("fake:1", 1, 1)]] * 3 + [
        [Stretch("fake:1", 1, 2)]
    ]
    assert heard(found[1:3]) == []
    assert heard(found) == [Stretch("fake:1", 1, 3)]


@given(pieces())
def test_each_session_is_heard_once(found: list[Piece]) -> None:
    """A stretch for each session that there is talk of; entries are none."""
    stretches = heard(found)
    spoken = dict.fromkeys(one.entry.session for one in found if one.is_talk)
    assert [stretch.session for stretch in stretches] == [*spoken]
    assert all(stretch.first == 1 for stretch in stretches)


@given(whole())
def test_new_talk_is_what_turns_that_ended_said(messages: list[Said]) -> None:
    """Up to the last end, each message once; of results of tools nothing but that there were some."""
    found = new_talk(messages, 0)
    assert [message.n for message in found] == [message.n for message in messages]
    assert not any("x" * 10 in message.content for message in found)


def test_a_turn_that_runs_is_no_talk_yet() -> None:
    """What was asked and is not answered waits, and so does a tool's result; a turn before it is read."""
    ended: list[Said] = [user(1), assistant(2, end="answer")]
    running: list[Said] = [user(3, "t2"), assistant(4, "t2", calls=["a"]), result(5, "a", "t2")]
    assert new_talk([*ended, *running], 0) == ended
    assert new_talk(running, 0) == []


def test_talk_that_was_learnt_is_not_new() -> None:
    """Neither messages up to the mark, nor an end of the agent's alone."""
    said: list[Said] = [user(1), assistant(2, end="answer"), user(3, "t2"), assistant(4, "t2", end="answer")]
    assert new_talk(said, 2) == said[2:]
    assert new_talk(said, 3) == []
    assert new_talk([], 0) == []


def test_in_an_older_layout_each_answer_ends_a_turn() -> None:
    """Which names no turns and no ends; an answer that calls tools ends none."""
    said: list[Said] = [user(1, ""), assistant(2, ""), user(3, ""), assistant(4, "", calls=["a"])]
    assert new_talk(said, 0) == said[:2]


def test_key_facts_are_read_with_their_entry() -> None:
    """Below what it is about; talk has none."""
    assert in_full(entry(1, "They talked.", key_facts=("Likes tea",)), UTC).splitlines() == [
        "[2026-04-10 09:15] They talked.",
        "- Likes tea",
    ]
