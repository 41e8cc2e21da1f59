"""Tokens and cost by day. Implements `ports.Meter` on SQLite."""

import sqlite3

from nanomem.messages import Usage
from nanomem.stores.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS spent (
    day TEXT PRIMARY KEY, prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0
);
"""


class SqliteMeter:
    """See `ports.Meter`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spend(self, day: str, usage: Usage) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO spent (day) VALUES (?)", (day,))
            db.execute(
                "UPDATE spent SET prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,"
                " cached_tokens = cached_tokens + ?, cost_usd = cost_usd + ? WHERE day = ?",
                (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cost_usd, day),
            )

        await self._database.run(write)

    async def spent(self, day: str) -> Usage:
        def read(db: sqlite3.Connection) -> Usage:
            row = db.execute(
                "SELECT prompt_tokens, completion_tokens, cached_tokens, cost_usd FROM spent WHERE day = ?", (day,)
            ).fetchone()
            return Usage(*row) if row else Usage()

        return await self._database.run(read)
