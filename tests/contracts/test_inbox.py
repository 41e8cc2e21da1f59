"""What every inbox and every meter promises: one suite over the fakes and the real ones."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanomem.messages import Attachment, Inbound, Outbound, Sender, Usage
from nanomem.ports import Inbox, Meter, Update
from nanomem.stores import counters, inbox
from nanomem.stores.database import Database
from nanomem.testing import FakeInbox, FakeMeter, inbound, updates

TABLES = (inbox.TABLES, counters.TABLES)


@dataclass
class Stores:
    inbox: Inbox
    meter: Meter


@pytest.fixture(params=["fake", "real"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    if request.param == "fake":
        yield Stores(FakeInbox(), FakeMeter())
        return
    database = await Database.open(tmp_path / "state" / "bus.db", TABLES)
    yield Stores(inbox.SqliteInbox(database), counters.SqliteMeter(database))
    await database.close()


async def test_what_was_taken_waits_in_order(stores: Stores) -> None:
    """Each update once, however often it is delivered, also within one batch; the offset with it."""
    box = stores.inbox
    assert await box.offset("fake") is None
    sent = updates([inbound("a", 1), inbound("b", 2), inbound("a again", 1)])
    new = await box.take("fake", sent, 3)
    assert [row.message.text for row in new] == ["a", "b"]
    assert await box.take("fake", sent, 4) == []
    assert await box.take("other", updates([inbound("c", 1, "other:1")]), None)
    waiting = await box.waiting()
    assert [row.message.text for row in waiting] == ["a", "b", "c"]
    assert waiting[:2] == new and [row.seq for row in waiting] == sorted(row.seq for row in waiting)
    assert (await box.offset("fake"), await box.offset("other")) == (4, None)


async def test_what_cannot_be_read_is_set_aside_once(stores: Stores) -> None:
    """What is to be left unanswered needs no place at all; both are confirmed."""
    box = stores.inbox
    sent = [Update("1", "{}", error="of an unknown kind"), Update("2", "{}"), Update("1", "{}", error="again")]
    assert await box.take("fake", sent, 3) == []
    assert await box.take("fake", sent, 3) == []
    assert await box.waiting() == [] and await box.offset("fake") == 3
    assert dict(await box.counts()) == {"waiting": 0, "undelivered": 0, "set_aside": 1}


async def test_a_stamp_stays_and_opens_the_outbox(stores: Stores) -> None:
    """The turn, its attempts and where the log stood; the outbound row knows what it answers."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("a", 1), inbound("b", 2), inbound("c", 3)]), None)
    await box.stamp("fake:42#1", rows[:2], log_n=7, attempts=2)
    found = await box.waiting()
    assert [(row.turn, row.attempts, row.log_n) for row in found] == [("fake:42#1", 2, 7)] * 2 + [(None, 0, 0)]
    assert await box.outbound("fake:42#1") == Outbound("fake:42#1", "fake:42", answers=("1", "2"))
    assert await box.undelivered() == [] and await box.outbound("nothing") is None


async def test_a_second_stamp_keeps_what_was_placed(stores: Stores) -> None:
    """So that an interrupted answer is completed in place."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("a", 1)]), None)
    await box.stamp("t", rows, 0, 1)
    await box.placed("t", ["77", "78"])
    await box.stamp("t", await box.waiting(), 1, 2)
    found = await box.outbound("t")
    assert found and found.placed == ("77", "78")
    await box.placed("unknown", ["1"])
    assert await box.outbound("unknown") is None


async def test_an_attempt_is_given_back(stores: Stores) -> None:
    """Once for each start, never below none, and only to that turn."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("a", 1), inbound("b", 2)]), None)
    await box.stamp("t", rows[:1], 0, 1)
    await box.stamp("u", rows[1:], 0, 2)
    await box.park("t")
    await box.park("t")
    assert [row.attempts for row in await box.waiting()] == [0, 2]
    assert [row.turn for row in await box.waiting()] == ["t", "u"], "it is still the same batch"


async def test_settled_rows_are_gone_and_the_answer_waits(stores: Stores) -> None:
    """Until it is delivered; doing it again changes nothing."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("a", 1), inbound("b", 2)]), None)
    await box.stamp("t", rows, 0, 1)
    await box.placed("t", ["9"])
    for _ in range(2):
        await box.settle(Outbound("t", "fake:42", "the answer", "answer", answers=("1", "2")), rows)
        assert await box.waiting() == []
        sent = Outbound("t", "fake:42", "the answer", "answer", ("9",), ("1", "2"))
        assert await box.undelivered() == [sent] and await box.outbound("t") == sent
    for _ in range(2):
        await box.delivered("t")
        assert await box.undelivered() == [] and await box.outbound("t") is None
    assert await box.take("fake", updates([inbound("a", 1)]), None) == [], "its id is remembered"


async def test_a_reply_needs_no_stamp(stores: Stores) -> None:
    """The answer to a command; several are delivered in the order they were made."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("/help", n) for n in (1, 2, 3)]), None)
    for n in (3, 1, 2):
        await box.settle(Outbound(f"fake:42#{n}", "fake:42", f"reply {n}", answers=(str(n),)), rows[n - 1 : n])
    assert [(o.text, o.end) for o in await box.undelivered()] == [
        ("reply 3", None),
        ("reply 1", None),
        ("reply 2", None),
    ]


async def test_messages_that_kill_are_set_aside(stores: Stores) -> None:
    """Counted, and not given out again."""
    box = stores.inbox
    rows = await box.take("fake", updates([inbound("deadly", 1)]), None)
    await box.settle(Outbound("t", "fake:42", "sorry", "failed"), rows, aside=True)
    assert await box.waiting() == []
    assert dict(await box.counts()) == {"waiting": 0, "undelivered": 1, "set_aside": 1}


async def test_aliases(stores: Stores) -> None:
    """New chat to old; the newest word counts."""
    box = stores.inbox
    assert dict(await box.aliases()) == {}
    await box.alias("fake:-1", "fake:-1001")
    await box.alias("fake:-2", "fake:-1002")
    await box.alias("fake:-3", "fake:-1002")
    assert dict(await box.aliases()) == {"fake:-1001": "fake:-1", "fake:-1002": "fake:-3"}


words = st.text(max_size=20)
attachments = st.builds(
    Attachment, st.sampled_from(["image", "document"]), words, words, st.none() | st.integers(0, 2**40), words
)
messages = st.builds(
    Inbound,
    words.map(lambda chat: f"fake:{chat}"),
    words,
    words,
    st.builds(Sender, words, words),
    st.datetimes(timezones=st.just(UTC)),
    from_owner=st.booleans(),
    reply_to=st.none() | words,
    forwarded_from=st.none() | words,
    edited=st.booleans(),
    attachments=st.lists(attachments, max_size=2).map(tuple),
    album=st.none() | words,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(message=messages)
async def test_a_message_comes_out_as_it_went_in(stores: Stores, message: Inbound) -> None:
    """With every field, whatever is in it."""
    fresh = str(len(await stores.inbox.waiting()))
    await stores.inbox.take("fake", [Update(fresh, "raw", message)], None)
    assert (await stores.inbox.waiting())[-1].message == message


async def test_what_is_spent_adds_up_by_day(stores: Stores) -> None:
    """A day nothing was spent on has cost nothing."""
    meter = stores.meter
    await meter.spend("2026-04-10", Usage(100, 20, 50, 0.25))
    await meter.spend("2026-04-10", Usage(1, 2, 3, 0.5))
    await meter.spend("2026-04-11", Usage(5))
    assert await meter.spent("2026-04-10") == Usage(101, 22, 53, 0.75)
    assert await meter.spent("2026-04-11") == Usage(5)
    assert await meter.spent("2026-04-12") == Usage()


async def test_what_is_spent_is_known_by_its_purpose(stores: Stores) -> None:
    """Talk where nothing else is said; a day's sum is that of all purposes."""
    meter = stores.meter
    await meter.spend("2026-04-10", Usage(100, 20, 50, 0.25))
    await meter.spend("2026-04-10", Usage(7, 1, 0, 0.5), "dream")
    await meter.spend("2026-04-10", Usage(3, 1, 2, 0.5), "dream")
    await meter.spend("2026-04-11", Usage(5), "dream")
    assert await meter.spent("2026-04-10", "talk") == Usage(100, 20, 50, 0.25)
    assert await meter.spent("2026-04-10", "dream") == Usage(10, 2, 2, 1.0)
    assert await meter.spent("2026-04-10") == Usage(110, 22, 52, 1.25)
    assert await meter.spent("2026-04-11", "talk") == await meter.spent("2026-04-12", "dream") == Usage()


# --- the real one only


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bus.db"


async def test_all_is_there_after_a_restart(path: Path) -> None:
    """What waited, what was not delivered, offsets, aliases and costs."""
    database = await Database.open(path, TABLES)
    box, meter = inbox.SqliteInbox(database), counters.SqliteMeter(database)
    rows = await box.take("fake", updates([inbound("a", 1), inbound("b", 2)]), 3)
    await box.stamp("t", rows[:1], 4, 1)
    await box.settle(Outbound("u", "fake:42", "answer", "answer"), rows[1:])
    await box.alias("fake:1", "fake:2")
    await meter.spend("2026-04-10", Usage(7))
    await meter.spend("2026-04-10", Usage(2), "dream")
    before = (await box.waiting(), await box.undelivered(), await box.outbound("t"))
    await database.close()
    database = await Database.open(path, TABLES)
    box, meter = inbox.SqliteInbox(database), counters.SqliteMeter(database)
    assert (await box.waiting(), await box.undelivered(), await box.outbound("t")) == before
    assert (await box.offset("fake"), dict(await box.aliases())) == (3, {"fake:2": "fake:1"})
    assert await meter.spent("2026-04-10") == Usage(9)
    assert (await meter.spent("2026-04-10", "talk"), await meter.spent("2026-04-10", "dream")) == (Usage(7), Usage(2))
    await database.close()


SPENT_BEFORE = """
CREATE TABLE spent (
    day TEXT PRIMARY KEY, prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0
);
INSERT INTO spent VALUES ('2026-04-10', 900, 80, 500, 0.25);
"""


async def test_what_was_spent_before_there_were_purposes_went_into_talk(path: Path) -> None:
    """The limit of the day of an update counts what was spent before it; each start finds the same."""
    await (await Database.open(path, [inbox.TABLES, SPENT_BEFORE])).close()
    for n in range(3):
        database = await Database.open(path, TABLES)
        meter = counters.SqliteMeter(database)
        assert await meter.spent("2026-04-10", "talk") == Usage(900, 80, 500, 0.25)
        assert await meter.spent("2026-04-10", "dream") == Usage(n)
        assert await meter.spent("2026-04-10") == Usage(900 + n, 80, 500, 0.25)
        assert await meter.spent("2026-04-11", "talk") == Usage()
        await meter.spend("2026-04-10", Usage(1), "dream")
        await database.close()


async def test_texts_are_deleted_as_soon_as_they_are_not_needed(path: Path) -> None:
    """No row keeps what was said; ids stay, so that a repeated update is known."""
    database = await Database.open(path, TABLES)
    box = inbox.SqliteInbox(database)
    rows = await box.take("fake", [Update("1", '{"text": "canary"}', inbound("canary", 1))], None)
    await box.stamp("t", rows, 0, 1)

    async def dump() -> str:
        return await database.run(lambda db: "\n".join(db.iterdump()))

    assert "canary" in await dump()
    await box.settle(Outbound("t", "fake:42", "the parrot", "answer"), rows)
    assert "canary" not in await dump() and "parrot" in await dump()
    await box.delivered("t")
    assert "parrot" not in await dump()
    await database.close()


async def test_ids_are_remembered_for_long_and_not_for_ever(path: Path) -> None:
    """As many as the constant says; what still waits or was set aside is never forgotten."""
    database = await Database.open(path, TABLES)
    box = inbox.SqliteInbox(database)
    count = inbox.IDS_REMEMBERED + 50
    await box.take("fake", updates([inbound("waits", 0)]), None)
    await box.take("fake", [Update("aside", "{}", error="unknown")], None)
    rows = await box.take("fake", updates(inbound("x", n) for n in range(1, count + 1)), None)
    await box.settle(Outbound("t", "fake:42", "done", "answer"), rows)

    async def is_known(number: int) -> bool:
        return not await box.take("fake", updates([inbound("x", number)]), None)

    stored = await database.run(lambda db: db.execute("SELECT count(*) FROM inbound").fetchone()[0])
    assert inbox.IDS_REMEMBERED <= stored <= inbox.IDS_REMEMBERED + 10
    assert await is_known(count) and await is_known(count - inbox.IDS_REMEMBERED + 1)
    assert await is_known(0) and not await is_known(1)
    assert (await box.counts())["set_aside"] == 1
    await database.close()


async def test_rows_settled_out_of_order_are_remembered_too(path: Path) -> None:
    """A lane that was slow does not make its own ids forgotten."""
    database = await Database.open(path, TABLES)
    box = inbox.SqliteInbox(database)
    rows = await box.take("fake", updates(inbound("x", n) for n in range(1, 20)), None)
    for row in reversed(rows):
        await box.settle(Outbound(f"t{row.seq}", "fake:42", "done"), [row])
    assert await box.take("fake", updates(inbound("x", n) for n in range(1, 20)), None) == []
    await database.close()
