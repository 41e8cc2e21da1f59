"""What is kept of Dreams: due runs, beginnings, what was passed over, receipts. Implements `ports.Diary` on SQLite."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from nanomem.messages import Usage
from nanomem.ports import PassedOver, Run
from nanomem.records import stamp
from nanomem.stores.database import Database

KEPT = 100
"""Receipts, and batches passed over, that stay of each space."""
TABLES = """
CREATE TABLE IF NOT EXISTS dream_due (one INTEGER PRIMARY KEY CHECK (one = 1), moment TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS dream_attempts (
    space TEXT NOT NULL, batch TEXT NOT NULL, attempts INTEGER NOT NULL, PRIMARY KEY (space, batch)
);
CREATE TABLE IF NOT EXISTS dream_passed_over (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, batch TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS dream_runs (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, at TEXT NOT NULL, entries INTEGER NOT NULL, messages INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL, new INTEGER NOT NULL, reworded INTEGER NOT NULL, out INTEGER NOT NULL,
    refused INTEGER NOT NULL, version INTEGER, reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS dream_runs_of ON dream_runs (space, id);
"""
_RUN = (
    "space, at, entries, messages, prompt_tokens, completion_tokens, cached_tokens, cost_usd,"
    " new, reworded, out, refused, version, reason"
)


class SqliteDiary:
    """See `ports.Diary`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> datetime | None:
        row = await self._database.run(lambda db: db.execute("SELECT moment FROM dream_due").fetchone())
        return datetime.fromisoformat(row[0]) if row else None

    async def set_due(self, moment: datetime) -> None:
        await self._write(lambda db: db.execute("INSERT OR REPLACE INTO dream_due VALUES (1, ?)", (stamp(moment),)))

    async def attempts(self, space: str) -> Mapping[str, int]:
        query = "SELECT batch, attempts FROM dream_attempts WHERE space = ?"
        return dict(await self._database.run(lambda db: db.execute(query, (_plain(space),)).fetchall()))

    async def attempt(self, space: str, batch: str) -> int:
        key = (_plain(space), _plain(batch))

        def write(db: sqlite3.Connection) -> int:
            db.execute("INSERT OR IGNORE INTO dream_attempts VALUES (?, ?, 0)", key)
            of_it = "WHERE space = ? AND batch = ?"
            db.execute(f"UPDATE dream_attempts SET attempts = attempts + 1 {of_it}", key)
            found = db.execute(f"SELECT attempts FROM dream_attempts {of_it}", key).fetchone()
            return int(found[0])

        return await self._database.run(write)

    async def give_back(self, space: str, batches: Sequence[str]) -> None:
        back = "UPDATE dream_attempts SET attempts = max(attempts - 1, 0) WHERE space = ? AND batch = ?"
        await self._write(lambda db: db.executemany(back, _keys(space, batches)))

    async def done(self, space: str, batches: Sequence[str]) -> None:
        forget = "DELETE FROM dream_attempts WHERE space = ? AND batch = ?"
        await self._write(lambda db: db.executemany(forget, _keys(space, batches)))

    async def pass_over(self, passed: PassedOver) -> None:
        def write(db: sqlite3.Connection) -> None:
            row = (_plain(passed.space), _plain(passed.batch), _plain(passed.reason), stamp(passed.at))
            db.execute("INSERT INTO dream_passed_over (space, batch, reason, at) VALUES (?, ?, ?, ?)", row)
            db.execute("DELETE FROM dream_attempts WHERE space = ? AND batch = ?", row[:2])
            db.execute(
                "DELETE FROM dream_passed_over WHERE space = ? AND id NOT IN"
                " (SELECT id FROM dream_passed_over WHERE space = ? ORDER BY id DESC LIMIT ?)",
                (row[0], row[0], KEPT),
            )

        await self._write(write)

    async def passed_over(self, space: str | None = None) -> Sequence[PassedOver]:
        wanted = space and _plain(space)
        which = "WHERE space = ? OR ? IS NULL ORDER BY id DESC LIMIT ?"
        query = f"SELECT space, batch, reason, at FROM dream_passed_over {which}"
        rows = await self._database.run(lambda db: db.execute(query, (wanted, wanted, KEPT)).fetchall())
        return [PassedOver(found, batch, reason, datetime.fromisoformat(at)) for found, batch, reason, at in rows]

    async def note(self, run: Run) -> None:
        usage = run.usage
        row = (
            *(_plain(run.space), stamp(run.at), run.entries, run.messages),
            *(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cost_usd),
            *(run.new, run.reworded, run.out, run.refused, run.version, _plain(run.reason)),
        )

        def write(db: sqlite3.Connection) -> None:
            db.execute(f"INSERT INTO dream_runs ({_RUN}) VALUES ({', '.join('?' * len(row))})", row)
            db.execute(
                "DELETE FROM dream_runs WHERE space = ? AND id NOT IN"
                " (SELECT id FROM dream_runs WHERE space = ? ORDER BY id DESC LIMIT ?)",
                (row[0], row[0], KEPT),
            )

        await self._write(write)

    async def runs(self, space: str | None = None, most: int = 1) -> Sequence[Run]:
        wanted = space and _plain(space)
        query = f"SELECT {_RUN} FROM dream_runs WHERE space = ? OR ? IS NULL ORDER BY id DESC LIMIT ?"
        rows = await self._database.run(lambda db: db.execute(query, (wanted, wanted, most)).fetchall())
        return [
            Run(name, datetime.fromisoformat(at), entries, messages, Usage(*counts), *rest)
            for name, at, entries, messages, *counts, new, reworded, out, refused, version, reason in rows
            for rest in [(new, reworded, out, refused, version, reason)]
        ]

    async def _write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Without what the statement returns: it belongs to the database's thread."""

        def write(db: sqlite3.Connection) -> None:
            work(db)

        await self._database.run(write)


def _keys(space: str, batches: Sequence[str]) -> list[tuple[str, str]]:
    return [(_plain(space), _plain(batch)) for batch in batches]


def _plain(text: str) -> str:
    """Without halves of surrogate pairs, which SQLite takes for no text: a file's name or an error may hold one."""
    return text.encode("utf-8", "replace").decode()
