"""Lanes: which of what waits is served together."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nanomem.bus import Bus, Kind, Lane, albums_joined
from nanomem.messages import Attachment, Inbound
from nanomem.ports import Queued
from nanomem.testing import FakeInbox, inbound, updates


def kind(message: Inbound) -> Kind:
    if message.text.startswith("/urgent"):
        return "urgent"
    return "command" if message.text.startswith("/") else "message"


def lane(*texts: str, turns: dict[int, str] | None = None) -> Lane:
    """A lane where these wait; `turns` says which of them are stamped already."""
    found = Lane("fake:42")
    for n, text in enumerate(texts, 1):
        found.waiting.append(Queued(n, inbound(text, n), (turns or {}).get(n)))
    return found


def taken(waits: Lane, room: int = 1000) -> list[list[str]]:
    batches = []
    while batch := waits.take(kind, room):
        batches.append([row.message.text for row in batch])
    return batches


def test_messages_are_taken_together_up_to_the_next_command() -> None:
    """A command is alone, in its place."""
    assert taken(lane("a", "b", "/c", "/d", "e", "f")) == [["a", "b"], ["/c"], ["/d"], ["e", "f"]]


def test_a_stamped_batch_is_handed_out_exactly() -> None:
    """Neither less nor more than the turn had before the crash, however long it is."""
    waits = lane("a" * 900, "b" * 900, "c", turns={1: "t", 2: "t"})
    assert taken(waits) == [["a" * 900, "b" * 900], ["c"]]
    assert taken(lane("a", "b", turns={1: "t", 2: "u"})) == [["a"], ["b"]]
    assert taken(lane("/retry", "b", turns={1: "t"})) == [["/retry"], ["b"]]


def test_a_batch_is_bound_by_its_texts() -> None:
    """But the first message is always taken."""
    assert taken(lane("x" * 600, "y" * 400, "z"), room=1000) == [["x" * 600, "y" * 400], ["z"]]
    assert taken(lane("x" * 6000, "z"), room=1000) == [["x" * 6000], ["z"]]


batches = st.lists(st.sampled_from(["one", "two words", "/command", "x" * 50]), max_size=12)


@given(batches, st.integers(0, 12), st.integers(0, 80))
def test_all_is_taken_once_and_in_order(texts: list[str], stamped: int, room: int) -> None:
    """Whatever waits; what is put back comes again."""
    waits = lane(*texts, turns=dict.fromkeys(range(1, stamped + 1), "t"))
    first = waits.take(kind, room)
    waits.put_back(first)
    assert waits.take(kind, room) == first
    waits.put_back(first)
    found = taken(waits, room)
    assert [text for batch in found for text in batch] == texts
    assert all(batch for batch in found)
    for batch in found[1 if stamped else 0 :]:
        assert len(batch) == 1 or not any(text.startswith("/") for text in batch)
        assert len(batch) == 1 or sum(map(len, batch)) <= room


def photo(number: int, album: str | None, text: str = "") -> Inbound:
    return replace(inbound(text, number), album=album, attachments=(Attachment("image", f"{number}", "", 1, "r"),))


def test_an_album_is_one_message() -> None:
    """Its texts joined, its attachments together; another album and what is none stay apart."""
    first, second, other = albums_joined(
        [photo(1, "a", "look"), photo(2, "a"), photo(3, "a", "here"), photo(4, "b"), photo(5, None)]
    )
    assert (first.id, first.text, [a.name for a in first.attachments]) == ("1", "look\nhere", ["1", "2", "3"])
    assert (second.id, other.id) == ("4", "5")
    assert albums_joined([photo(1, None), photo(2, None)]) == [photo(1, None), photo(2, None)]
    assert albums_joined([]) == []


@given(st.lists(st.sampled_from([None, "a", "b"]), max_size=8))
def test_nothing_of_an_album_is_lost(albums: list[str | None]) -> None:
    """Every attachment is there once, in order."""
    messages = [photo(n, album, str(n)) for n, album in enumerate(albums)]
    joined = albums_joined(messages)
    assert [a.name for m in joined for a in m.attachments] == [a.name for m in messages for a in m.attachments]
    assert "\n".join(m.text for m in joined) == "\n".join(m.text for m in messages)


async def test_a_lane_is_given_out_once_while_it_is_served() -> None:
    """Then again if something came meanwhile; an empty one is forgotten."""
    bus = Bus(FakeInbox(), kind)
    await bus.take("fake", updates([inbound("a", 1), inbound("b", 2)]))
    served = await bus.next()
    assert isinstance(served, Lane)
    await bus.take("fake", updates([inbound("/urgent", 3)]))
    urgent = await bus.next()
    assert isinstance(urgent, Queued) and urgent.message.text == "/urgent"
    assert [row.message.text for row in served.take(kind, 100)] == ["a", "b"]
    bus.rest(served)
    assert bus.lane("fake:42") is not served
    await bus.take("fake", updates([inbound("c", 4)]), offset=5)
    assert await bus.next() is bus.lane("fake:42")
    assert await bus.offset("fake") == 5
    bus.close()
    assert await bus.next() is None


async def test_what_waited_comes_back_for_the_channels_that_run() -> None:
    """What belongs to another channel stays on disk."""
    inbox = FakeInbox()
    messages = [inbound("mine", 1), inbound("another's", 2, "other:1")]
    await inbox.take("fake", updates(messages), None)
    bus = Bus(inbox, kind)
    await bus.restore(["fake"])
    served = await bus.next()
    assert isinstance(served, Lane) and [row.message.text for row in served.waiting] == ["mine"]
    assert not bus.lane("other:1").waiting
