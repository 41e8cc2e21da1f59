"""Tokens and cost by day. Implements `ports.Meter` on SQLite."""

import sqlite3

from nanomem.messages import Usage
from nanomem.ports import Purpose
from nanomem.stores.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS spent (
    day TEXT PRIMARY KEY, prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS spent_on (
    day TEXT NOT NULL, purpose TEXT NOT NULL, prompt_tokens INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0, cached_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0, PRIMARY KEY (day, purpose)
);
INSERT INTO spent_on
SELECT day, 'talk', prompt_tokens, completion_tokens, cached_tokens, cost_usd
FROM spent WHERE day NOT IN (SELECT day FROM spent_on);
"""
"""What was spent before there were purposes went into talk."""
_ADDED = (
    "prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,"
    " cached_tokens = cached_tokens + ?, cost_usd = cost_usd + ?"
)
_COUNTS = "prompt_tokens, completion_tokens, cached_tokens, cost_usd"


class SqliteMeter:
    """See `ports.Meter`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spend(self, day: str, usage: Usage, purpose: Purpose = "talk") -> None:
        counts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cost_usd)

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO spent (day) VALUES (?)", (day,))
            db.execute(f"UPDATE spent SET {_ADDED} WHERE day = ?", (*counts, day))
            db.execute("INSERT OR IGNORE INTO spent_on (day, purpose) VALUES (?, ?)", (day, purpose))
            db.execute(f"UPDATE spent_on SET {_ADDED} WHERE day = ? AND purpose = ?", (*counts, day, purpose))

        await self._database.run(write)

    async def spent(self, day: str, purpose: Purpose | None = None) -> Usage:
        def read(db: sqlite3.Connection) -> Usage:
            of_all = db.execute(f"SELECT {_COUNTS} FROM spent WHERE day = ?", (day,))
            of_one = db.execute(f"SELECT {_COUNTS} FROM spent_on WHERE day = ? AND purpose = ?", (day, purpose))
            row = (of_one if purpose else of_all).fetchone()
            return Usage(*row) if row else Usage()

        return await self._database.run(read)
