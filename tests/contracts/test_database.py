"""The one connection to SQLite: what it promises to its stores, and how it bears a bad disk."""

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import CannotStore, Stop
from nanomem.stores.database import VERSION, Database
from proofs.record import SYNCS, events
from proofs.tracer import why_not

TABLES = ["CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL);"]
Environment = Callable[[Path], dict[str, str]]


def note(text: str) -> Callable[[sqlite3.Connection], None]:
    """A work that writes a row."""

    def write(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO notes VALUES (?)", (text,))

    return write


async def notes(database: Database) -> list[str]:
    return await database.run(lambda db: [text for (text,) in db.execute("SELECT text FROM notes ORDER BY rowid")])


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Database]:
    database = await Database.open(path, TABLES)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bus.db"


async def test_what_returned_is_on_disk(path: Path) -> None:
    """Another connection sees it at once; nobody else may read the file."""
    async with opened(path) as database:
        await database.run(note("kept"))
        other = sqlite3.connect(path)
        assert other.execute("SELECT text FROM notes").fetchall() == [("kept",)]
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        other.close()
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert all(part.stat().st_mode & 0o077 == 0 for part in path.parent.iterdir())


async def test_much_that_comes_at_once_is_committed_together(path: Path) -> None:
    """A disk sync for many, not for each; all are in order."""
    async with opened(path) as database:
        commits = 0

        def count(statement: str) -> None:
            nonlocal commits
            commits += statement == "COMMIT"

        await database.run(lambda db: db.set_trace_callback(count))
        await asyncio.gather(*(database.run(note(str(n))) for n in range(500)))
        await database.run(lambda db: db.set_trace_callback(None))
        assert commits <= 50
        assert await notes(database) == [str(n) for n in range(500)]


async def test_one_work_that_fails_hurts_no_other(path: Path) -> None:
    """What it did before it failed is taken back; its error goes to who asked."""

    def bad(db: sqlite3.Connection) -> None:
        note("half done")(db)
        raise ValueError("a bug")

    def worse(db: sqlite3.Connection) -> None:
        note("half done")(db)
        db.execute("INSERT INTO notes VALUES (NULL)")

    async with opened(path) as database:
        works = [note("one"), bad, note("two"), worse, note("three")]
        outcomes = await asyncio.gather(*map(database.run, works), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            type(None), ValueError, type(None), sqlite3.IntegrityError, type(None),
        ]  # fmt: skip
        assert await notes(database) == ["one", "two", "three"]


async def test_what_cannot_even_be_taken_back_ends_all_writing(path: Path) -> None:
    """Nobody waits for ever: who asked is told, who asks later, too, and closing is no trouble."""
    async with opened(path) as database:
        await database.run(note("one"))
        works = (lambda db: db.close(), note("two"))
        outcomes = await asyncio.gather(*map(database.run, works), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Stop, Stop]
        with pytest.raises(Stop):
            await asyncio.wait_for(database.run(note("three")), 10)
    async with opened(path) as again:
        assert await notes(again) == ["one"]


async def test_a_bug_that_takes_the_transaction_with_it_hurts_nobody_for_long(path: Path) -> None:
    """SQLite may have taken all back before the error comes: whoever was in it is told, and the next one is served."""

    def bad(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise ValueError("a bug")

    async with opened(path) as database:
        with pytest.raises(ValueError, match="a bug"):
            await database.run(bad)
        await asyncio.wait_for(database.run(note("two")), 10)
        assert await notes(database) == ["two"]


async def test_who_does_not_wait_any_more_has_it_done_all_the_same(path: Path) -> None:
    """Cancelling the wait takes nothing back, and hurts nobody."""
    async with opened(path) as database:
        waiting = asyncio.create_task(database.run(note("one")))
        await asyncio.sleep(0)
        waiting.cancel()
        await database.run(note("two"))
        assert await notes(database) == ["one", "two"]


async def test_closing_finishes_what_is_queued(path: Path) -> None:
    """All that was asked for before is on disk."""
    database = await Database.open(path, TABLES)
    works = [asyncio.create_task(database.run(note(str(n)))) for n in range(20)]
    await asyncio.sleep(0)
    await database.close()
    await asyncio.gather(*works)
    async with opened(path) as again:
        assert len(await notes(again)) == 20


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no database": lambda data: b"this is a letter to my aunt" * 500,
    "cut short": lambda data: data[: len(data) // 2],
    "a bad page": lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
    "a torn header": lambda data: data[:100] + bytes(len(data) - 100),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_file_is_put_aside_and_said(path: Path, damage: str) -> None:
    """A fresh one is made; the old one is kept for whoever may save it."""
    async with opened(path) as database:
        for n in range(200):
            await database.run(note(f"{n}" * 100))
    broken = DAMAGES[damage](path.read_bytes())
    path.write_bytes(broken)
    with capture_logs() as events:
        async with opened(path) as database:
            assert await notes(database) == []
            await database.run(note("fresh"))
    assert [event["event"] for event in events] == ["database.damaged"]
    assert path.with_name("bus.db.damaged-1").read_bytes() == broken
    async with opened(path) as database:
        assert await notes(database) == ["fresh"]


async def test_an_empty_file_is_a_new_one(path: Path) -> None:
    """Nothing is lost where nothing was."""
    path.parent.mkdir()
    path.touch()
    async with opened(path) as database:
        assert await notes(database) == []


async def test_a_newer_version_is_not_touched(path: Path) -> None:
    """It says which program it needs."""
    async with opened(path) as database:
        await database.run(note("of tomorrow"))
        await database.run(lambda db: db.execute(f"PRAGMA user_version={VERSION + 1}").close())
    with pytest.raises(Stop, match="newer nanomem"):
        await Database.open(path, TABLES)
    other = sqlite3.connect(path)
    assert other.execute("SELECT text FROM notes").fetchall() == [("of tomorrow",)]
    other.close()


async def test_what_cannot_be_opened_stops_the_start(path: Path) -> None:
    """A folder in its place, or a file where its folder should be: in words, not as a bug."""
    path.mkdir(parents=True)
    with pytest.raises(Stop, match="Cannot open"):
        await Database.open(path, TABLES)
    with pytest.raises(Stop, match="Cannot open"):
        await Database.open(Path(__file__) / "bus.db", TABLES)


# A disk that takes no more: files may not grow past a limit, which is then raised again.
FULL = """
import asyncio, resource, sqlite3, sys
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.stores.database import Database

def note(size):
    return lambda db: db.execute("INSERT INTO notes VALUES (?)", ("x" * size,)).close()

async def main():
    database = await Database.open(Path(sys.argv[1]), ["CREATE TABLE IF NOT EXISTS notes (text TEXT);"])
    await database.run(note(10))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    for size in (300_000, 5_000_000):
        works = [database.run(note(size)), database.run(note(10)), database.run(note(size))]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        assert any(isinstance(outcome, CannotStore) for outcome in outcomes), outcomes
        assert all(isinstance(outcome, CannotStore | None) for outcome in outcomes), outcomes
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await database.run(note(20))
    await database.close()
    db = sqlite3.connect(sys.argv[1])
    print(db.execute("SELECT group_concat(length(text)) FROM notes").fetchone()[0])
    print(db.execute("PRAGMA integrity_check").fetchone()[0])

asyncio.run(main())
"""


def test_a_full_disk_is_said_and_passes(path: Path, guarded_env: Environment) -> None:
    """Nothing is acknowledged that is not there, nothing is damaged, and it goes on when there is room again."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        env=guarded_env(path.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sizes, check = done.stdout.splitlines()
    assert check == "ok"
    assert set(sizes.split(",")) <= {"10", "20"} and sizes.split(",")[0] == "10" and sizes.endswith("20")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB, where we may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_real_disk_that_is_full(small_disk: Path) -> None:
    """As above, with the errors a file system gives; then it is read-only, and cannot be opened."""
    async with opened(small_disk / "bus.db") as database:
        await database.run(note("before"))
        filler = small_disk / "filler"
        filler.write_bytes(b"x" * 500_000)
        for _ in range(3):
            with pytest.raises(CannotStore, match="Cannot write"):
                await database.run(note("x" * 3_000_000))
        filler.unlink()
        await database.run(note("after"))
        assert await notes(database) == ["before", "after"]
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Stop, match="Cannot open"):
        await Database.open(small_disk / "bus.db", TABLES)


# A disk that fails one sync, of the log or of the file, and then says that all is well.
FAILING = """
import asyncio, sys
from pathlib import Path
from nanomem.errors import Stop
from nanomem.stores.database import Database

def note(db):
    db.execute("INSERT INTO notes VALUES ('x')").close()

async def main():
    kept = 0
    try:
        database = await Database.open(Path(sys.argv[1]), ["CREATE TABLE IF NOT EXISTS notes (text TEXT);"])
    except Stop as error:
        print(kept, error.text)
        return
    try:
        while kept < 1000:
            await database.run(note)
            kept += 1
    except Stop as error:
        print(kept, error.text)
    for _ in range(3):
        try:
            await database.run(note)
        except Stop:
            print("no more")
    await database.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(("file", "nth"), [("bus.db-wal", 2), ("bus.db-wal", 20), ("bus.db", 3)])
def test_after_a_sync_that_failed_nothing_is_synced_again(
    path: Path, guarded_env: Environment, file: str, nth: int
) -> None:
    """Not by the next commit, a checkpoint, or in closing; all that was promised is there after a new start."""
    if problem := why_not():
        pytest.skip(problem)
    path.parent.mkdir()
    path.touch()
    record = path.parent / "record"
    tracer = [sys.executable, "-m", "proofs.tracer", "--home", str(path.parent), "--record", str(record)]
    fault = ["--fail", "EIO", "--at", str(nth), "--times", "1", "--calls", "fsync,fdatasync", "--under", file]
    done = subprocess.run(
        [*tracer, *fault, "--", sys.executable, "-c", FAILING, str(path)],
        env=guarded_env(path.parent) | {"PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    promised, *said = done.stdout.splitlines()
    if nth == 2:  # while it is opened
        assert promised.startswith("0 Cannot open") and said == []
    else:
        assert "a sync failed" in promised and said == ["no more"] * 3
    with record.open() as lines:
        syncs = [event.result for event in events(lines) if event.call in SYNCS and event.path == file]
    assert syncs[-1] == -errno.EIO and {*syncs[:-1]} == {0}
    db = sqlite3.connect(path)
    if kept := int(promised.split()[0]):
        assert db.execute("SELECT count(*) FROM notes").fetchone()[0] >= kept
    db.close()
