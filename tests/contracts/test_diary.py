"""What every diary of Dreams promises: one suite over the fake and the real one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from nanomem.messages import Usage
from nanomem.ports import Diary, PassedOver, Run
from nanomem.stores import counters, inbox
from nanomem.stores.database import Database
from nanomem.stores.diary import TABLES, SqliteDiary
from nanomem.testing import FakeDiary

NOW = datetime(2026, 4, 10, 2, 0, tzinfo=UTC)
LEARNT = Run("owner", NOW, 3, 41, Usage(900, 80, 500, 0.25), 4, 2, 1, 3, 12, "Today's limit is reached.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bus.db"


@pytest.fixture(params=["fake", "real"])
async def diary(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Diary]:
    if request.param == "fake":
        yield FakeDiary()
        return
    async with opened(path) as real:
        yield real


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteDiary]:
    database = await Database.open(path, [TABLES])
    try:
        yield SqliteDiary(database)
    finally:
        await database.close()


def passed(number: int, space: str = "owner") -> PassedOver:
    return PassedOver(space, f"entries {number} to {number + 9}", "The model gave no answer.", NOW)


async def test_a_new_diary_is_empty(diary: Diary) -> None:
    """Nothing was due, begun, passed over or learnt."""
    assert await diary.due() is None
    assert dict(await diary.attempts("owner")) == {}
    assert [*await diary.passed_over(), *await diary.passed_over("owner")] == []
    assert [*await diary.runs(), *await diary.runs("owner", 10)] == []


async def test_the_newest_due_run_is_kept(diary: Diary) -> None:
    """Whole seconds, whatever zone it was told in; it may also go back, when a clock was put right."""
    await diary.set_due(NOW)
    assert await diary.due() == NOW
    later = datetime(2026, 4, 11, 4, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    await diary.set_due(later)
    assert await diary.due() == NOW + timedelta(days=1)
    await diary.set_due(NOW)
    assert await diary.due() == NOW


async def test_beginnings_are_counted_by_batch_and_space(diary: Diary) -> None:
    """Each count is told at once, and all of a space can be looked at."""
    assert [await diary.attempt("owner", "a") for _ in range(3)] == [1, 2, 3]
    assert await diary.attempt("owner", "b") == 1
    assert await diary.attempt("telegram:-7", "a") == 1
    assert dict(await diary.attempts("owner")) == {"a": 3, "b": 1}
    assert dict(await diary.attempts("telegram:-7")) == {"a": 1}
    assert dict(await diary.attempts("telegram:8")) == {}


async def test_a_beginning_is_given_back(diary: Diary) -> None:
    """Once for each that was interrupted, never below none, only in that space, and unknown ones do no harm."""
    for batch in ("a", "a", "b", "c"):
        await diary.attempt("owner", batch)
    await diary.attempt("telegram:-7", "a")
    await diary.give_back("owner", ["a", "b", "never begun"])
    await diary.give_back("owner", ["b"])
    await diary.give_back("owner", [])
    left = await diary.attempts("owner")
    assert {batch: count for batch, count in left.items() if count} == {"a": 1, "c": 1}
    assert dict(await diary.attempts("telegram:-7")) == {"a": 1}
    assert await diary.attempt("owner", "b") == 1, "it counts from none again"


async def test_what_is_done_is_forgotten(diary: Diary) -> None:
    """Only those, only there; doing it again changes nothing."""
    for space in ("owner", "telegram:-7"):
        for batch in ("a", "b", "c"):
            await diary.attempt(space, batch)
    for _ in range(2):
        await diary.done("owner", ["a", "c", "never begun"])
        await diary.done("owner", [])
        assert dict(await diary.attempts("owner")) == {"b": 1}
        assert dict(await diary.attempts("telegram:-7")) == {"a": 1, "b": 1, "c": 1}
    assert await diary.attempt("owner", "a") == 1


async def test_what_is_passed_over_is_listed_and_no_longer_counted(diary: Diary) -> None:
    """The newest first; of one space or of all."""
    first, second, theirs = passed(1), passed(11), passed(1, "telegram:-7")
    for batch in (first.batch, second.batch, "another"):
        await diary.attempt("owner", batch)
    await diary.attempt("telegram:-7", first.batch)
    await diary.pass_over(first)
    assert dict(await diary.attempts("owner")) == {second.batch: 1, "another": 1}
    assert dict(await diary.attempts("telegram:-7")) == {first.batch: 1}
    await diary.pass_over(theirs)
    await diary.pass_over(replace(second, at=NOW.replace(microsecond=7)))
    assert list(await diary.passed_over()) == [second, theirs, first]
    assert list(await diary.passed_over("owner")) == [second, first]
    assert list(await diary.passed_over("telegram:8")) == []


async def test_of_much_that_was_passed_over_the_newest_hundred_are_told(diary: Diary) -> None:
    """Of each space: one where much goes wrong does not hide what went wrong in another."""
    await diary.pass_over(theirs := passed(1, "telegram:-7"))
    for number in range(120):
        await diary.pass_over(passed(number))
    newest = [passed(number) for number in range(119, 19, -1)]
    assert list(await diary.passed_over("owner")) == newest == list(await diary.passed_over())
    assert list(await diary.passed_over("telegram:-7")) == [theirs]


async def test_a_receipt_comes_back_with_every_field(diary: Diary) -> None:
    """Also one of a run that found nothing; the time in whole seconds."""
    idle = Run("owner", NOW + timedelta(days=1))
    await diary.note(replace(LEARNT, at=NOW.replace(microsecond=500_000)))
    assert list(await diary.runs()) == [LEARNT]
    await diary.note(idle)
    assert list(await diary.runs("owner", 2)) == [idle, LEARNT]
    assert idle.version is None and (await diary.runs())[0].version is None


async def test_receipts_of_one_space_or_of_all(diary: Diary) -> None:
    """In the order they were noted, the newest first, as many as are asked for; one without being asked."""
    runs = [replace(LEARNT, space=space, version=n) for n, space in enumerate(["owner", "telegram:-7", "owner"], 1)]
    for run in runs:
        await diary.note(run)
    assert list(await diary.runs()) == runs[2:]
    assert list(await diary.runs(most=10)) == runs[::-1]
    assert list(await diary.runs("owner", 10)) == [runs[2], runs[0]]
    assert list(await diary.runs("telegram:-7")) == [runs[1]]
    assert list(await diary.runs("telegram:8", 10)) == []
    assert list(await diary.runs("owner", 0)) == []


async def test_of_each_space_the_newest_hundred_receipts_stay(diary: Diary) -> None:
    """A space that dreams much does not push out another's; two that are alike are two."""
    await diary.note(theirs := replace(LEARNT, space="telegram:-7"))
    runs = [replace(LEARNT, version=n % 7) for n in range(130)]
    for run in runs:
        await diary.note(run)
    assert list(await diary.runs("owner", 1_000)) == runs[:-101:-1]
    assert list(await diary.runs("telegram:-7", 1_000)) == [theirs]
    assert len(await diary.runs(most=1_000)) == 101


# --- the real one only


async def test_all_is_there_after_a_restart(path: Path) -> None:
    """What was due, what was begun, what was passed over, and the receipts."""
    async with opened(path) as diary:
        await diary.set_due(NOW)
        await diary.attempt("owner", "a")
        await diary.attempt("owner", "a")
        await diary.pass_over(passed(1))
        await diary.note(LEARNT)
    async with opened(path) as diary:
        assert await diary.due() == NOW
        assert await diary.attempt("owner", "a") == 3
        assert list(await diary.passed_over()) == [passed(1)]
        assert list(await diary.runs()) == [LEARNT]


async def test_a_database_from_before_there_were_dreams_opens(path: Path) -> None:
    """The tables come to it; what was in it stays."""
    before = await Database.open(path, [inbox.TABLES, counters.TABLES])
    await inbox.SqliteInbox(before).alias("fake:1", "fake:2")
    await before.close()
    database = await Database.open(path, [inbox.TABLES, counters.TABLES, TABLES])
    diary = SqliteDiary(database)
    assert await diary.due() is None and list(await diary.runs()) == []
    await diary.note(LEARNT)
    assert list(await diary.runs()) == [LEARNT]
    assert dict(await inbox.SqliteInbox(database).aliases()) == {"fake:2": "fake:1"}
    await database.close()


async def test_half_of_a_surrogate_pair_is_stored_as_a_question_mark(path: Path) -> None:
    """It is no text; an error's words or a file's name may hold one, and the receipt is not lost over it."""
    odd = "telegram:\ud83d"
    async with opened(path) as diary:
        assert [await diary.attempt(odd, odd), await diary.attempt(odd, odd)] == [1, 2]
        await diary.give_back(odd, [odd])
        assert dict(await diary.attempts(odd)) == {"telegram:?": 1}
        await diary.pass_over(PassedOver(odd, odd, f"Cannot read {odd}.", NOW))
        assert [(p.batch, p.reason) for p in await diary.passed_over(odd)] == [
            ("telegram:?", "Cannot read telegram:?.")
        ]
        assert dict(await diary.attempts(odd)) == {}
        await diary.note(replace(LEARNT, space=odd, reason="\udcff"))
        assert [run.reason for run in await diary.runs(odd)] == ["?"]
        await diary.done(odd, [odd])
