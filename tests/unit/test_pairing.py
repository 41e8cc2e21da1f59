"""One-time codes: once, for a quarter of an hour, and nobody can read them afterwards."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.access import TelegramDoor
from nanomem.errors import Refused
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
    assert not await codes.is_valid("WRONG", NOW) and not await codes.is_valid("", NOW)
    assert await codes.is_valid(f" {code.lower()} ", NOW)
    assert await codes.is_valid(code, NOW), "looking at it does not spend it"
    await codes.spend(f" {code.lower()} ")
    await codes.spend("WRONG")
    assert not await codes.is_valid(code, NOW)


async def test_a_code_is_good_for_a_quarter_of_an_hour(codes: Pairings) -> None:
    """To the end of it, and no longer, also where seconds have fractions."""
    assert timedelta(minutes=15) == VALID
    for moment in (NOW, NOW + timedelta(microseconds=500_000)):
        first, second = await codes.new_code(moment), await codes.new_code(moment)
        assert await codes.is_valid(first, moment + timedelta(minutes=15))
        assert not await codes.is_valid(second, moment + timedelta(minutes=15, microseconds=1))
        assert not await codes.is_valid(second, moment), "it was deleted when it was found too old"


async def test_several_codes_are_out_at_once(codes: Pairings) -> None:
    """Each is another's; using one leaves the others; they can be read aloud."""
    made = [await codes.new_code(NOW) for _ in range(20)]
    assert len(set(made)) == 20
    assert all(len(code) == 10 and not set(code) & set("01OIL") for code in made)
    for code in made:
        assert await codes.is_valid(code, NOW)
        await codes.spend(code)


async def test_only_a_hash_is_kept(codes: Pairings, database: Database) -> None:
    """Who reads the file cannot come in with it; what was used is gone."""
    code = await codes.new_code(NOW)

    async def dump() -> str:
        return await database.run(lambda db: "\n".join(db.iterdump()))

    before = await dump()
    assert code not in before and before.count('INSERT INTO "codes"') == 1
    await codes.spend(code)
    assert "INSERT INTO" not in await dump()


# --- the door


class Entrance:
    """A home, and the door to it."""

    def __init__(self, home: Path, codes: Pairings) -> None:
        self.config = home / "config.toml"
        self.config.write_text("# mine\n")
        self.door = TelegramDoor(home, [], [], "audience", lambda code: codes.is_valid(code, NOW), codes.spend)


@pytest.fixture
def entrance(tmp_path: Path, codes: Pairings) -> Entrance:
    return Entrance(tmp_path, codes)


async def test_the_first_who_comes_in_is_the_owner(entrance: Entrance, codes: Pairings) -> None:
    """The second is not; the settings say both, and the log each of them once."""
    with capture_logs() as logs:
        for user in (1, 2):
            assert await entrance.door.pair(await codes.new_code(NOW), user)
    assert entrance.door.admits(2) and [entrance.door.is_owner(user) for user in (1, 2)] == [True, False]
    assert "# mine" in entrance.config.read_text() and "[1, 2]" in entrance.config.read_text()
    assert [(entry["event"], entry["user"]) for entry in logs] == [("telegram.paired", 1), ("telegram.paired", 2)]


async def test_two_who_use_a_code_at_once(entrance: Entrance, codes: Pairings) -> None:
    """Only one gets in."""
    code = await codes.new_code(NOW)
    let_in = await asyncio.gather(*(entrance.door.pair(code, user) for user in range(1, 6)))
    assert sorted(let_in) == [False] * 4 + [True]
    assert [entrance.door.admits(user) for user in range(1, 6)] == let_in


async def test_settings_that_cannot_be_changed(entrance: Entrance, codes: Pairings) -> None:
    """Nobody is let in and it is told; once the owner has mended them, the same code is good."""
    code = await codes.new_code(NOW)
    entrance.config.write_text("[channels\n")
    with capture_logs() as logs, pytest.raises(Refused, match="send the code again"):
        await entrance.door.pair(code, 1)
    assert [(entry["event"], entry["user"]) for entry in logs] == [("telegram.pairing_failed", 1)]
    assert not entrance.door.admits(1) and entrance.config.read_text() == "[channels\n"
    entrance.config.write_text("")
    assert await entrance.door.pair(code, 1)
    assert not await codes.is_valid(code, NOW)
