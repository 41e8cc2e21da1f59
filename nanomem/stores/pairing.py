"""One-time codes that let a stranger in: at most one good use each, for 15 minutes.

Only a code's hash is kept.
"""

import hashlib
import secrets
import sqlite3
from datetime import datetime, timedelta

from nanomem.stores.database import Database

VALID = timedelta(minutes=15)
TABLES = "CREATE TABLE IF NOT EXISTS codes (hash TEXT PRIMARY KEY, expires TEXT NOT NULL);"
_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"


class Pairings:
    """The codes that are out."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def new_code(self, now: datetime) -> str:
        """A code of ten letters and digits that cannot be mistaken for each other (49 bits)."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(10))

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO codes VALUES (?, ?)", (_hash(code), (now + VALID).isoformat()))

        await self._database.run(write)
        return code

    async def is_valid(self, code: str, now: datetime) -> bool:
        """Whether a code is out and not expired. Those that are expired are deleted."""

        def write(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM codes WHERE expires < ?", (now.isoformat(),))
            return db.execute("SELECT 1 FROM codes WHERE hash = ?", (_hash(code),)).fetchone() is not None

        return await self._database.run(write)

    async def spend(self, code: str) -> None:
        """From now on the code is not valid."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM codes WHERE hash = ?", (_hash(code),))

        await self._database.run(write)


def _hash(code: str) -> str:
    return hashlib.sha256(code.strip().upper().encode()).hexdigest()
