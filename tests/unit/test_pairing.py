"""One-time codes: once, for a quarter of an hour, and nobody can read them afterwards."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanomem.stores.database import Database
from nanomem.stores.pairing import TABLES, VALID, Pairings

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "bus.db", [TABLES])
    yield database
    await database.close()


@pytest.fixture
def codes(database: Database) -> Pairings:
    return Pairings(database)


async def test_a_code_is_good_once(codes: Pairings) -> None:
    """As it is typed: in small letters, with space around it. Another one is not."""
    code = await codes.new_code(NOW)
    assert not await codes.redeem("WRONG", NOW) and not await codes.redeem("", NOW)
    assert await codes.redeem(f" {code.lower()} ", NOW)
    assert not await codes.redeem(code, NOW)


async def test_a_code_is_good_for_a_quarter_of_an_hour(codes: Pairings) -> None:
    """To the end of it, and no longer, also where seconds have fractions."""
    assert timedelta(minutes=15) == VALID
    for moment in (NOW, NOW + timedelta(microseconds=500_000)):
        first, second = await codes.new_code(moment), await codes.new_code(moment)
        assert await codes.redeem(first, moment + timedelta(minutes=15))
        assert not await codes.redeem(second, moment + timedelta(minutes=15, microseconds=1))
        assert not await codes.redeem(second, moment), "it was deleted when it was found too old"


async def test_several_codes_are_out_at_once(codes: Pairings) -> None:
    """Each is another's; using one leaves the others; they can be read aloud."""
    made = [await codes.new_code(NOW) for _ in range(20)]
    assert len(set(made)) == 20
    assert all(len(code) == 10 and not set(code) & set("01OIL") for code in made)
    for code in made:
        assert await codes.redeem(code, NOW)


async def test_only_a_hash_is_kept(codes: Pairings, database: Database) -> None:
    """Who reads the file cannot come in with it; what was used is gone."""
    code = await codes.new_code(NOW)

    async def dump() -> str:
        return await database.run(lambda db: "\n".join(db.iterdump()))

    before = await dump()
    assert code not in before and before.count('INSERT INTO "codes"') == 1
    assert await codes.redeem(code, NOW)
    assert "INSERT INTO" not in await dump()


async def test_two_who_use_a_code_at_once(codes: Pairings) -> None:
    """Only one gets in."""
    code = await codes.new_code(NOW)
    assert sorted(await asyncio.gather(*(codes.redeem(code, NOW) for _ in range(5)))) == [False] * 4 + [True]
