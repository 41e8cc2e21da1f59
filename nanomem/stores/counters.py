"""Tokens and cost by day. Implements `ports.Meter` on SQLite."""

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
"""`spent` is from before there were purposes: what stands there went into talk, and it is written to no more."""
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
_SPEND = (
    f"INSERT INTO spent_on (day, purpose, {', '.join(_COUNTS)}) VALUES (?, ?, ?, ?, ?, ?)"
    f" ON CONFLICT (day, purpose) DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _COUNTS)}"
)
_SPENT = f"SELECT {', '.join(f'coalesce(sum({name}), 0)' for name in _COUNTS)} FROM spent_on WHERE day = ?"


class SqliteMeter:
    """See `ports.Meter`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spend(self, day: str, usage: Usage, purpose: Purpose = "talk") -> None:
        counts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cost_usd)

        await self._database.run(lambda db: db.execute(_SPEND, (day, purpose, *counts)).close())

    async def spent(self, day: str, purpose: Purpose | None = None) -> Usage:
        asked, about = (f"{_SPENT} AND purpose = ?", (day, purpose)) if purpose else (_SPENT, (day,))
        return await self._database.run(lambda db: Usage(*db.execute(asked, about).fetchone()))
