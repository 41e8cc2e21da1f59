"""What is in flight: messages taken and not yet answered, answers not yet delivered, ids handled.

Implements `ports.Inbox` on SQLite. Texts are deleted as soon as they are not needed any more.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from nanomem.messages import Attachment, Inbound, Outbound, Sender
from nanomem.ports import Queued, Update
from nanomem.stores.database import Database

IDS_REMEMBERED = 10_000
"""Handled ids that are kept to know a repeated update by; networks repeat within a day."""

TABLES = """
CREATE TABLE IF NOT EXISTS inbound (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL, id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'aside')),
    raw TEXT, message TEXT, error TEXT,
    turn TEXT, attempts INTEGER NOT NULL DEFAULT 0, log_n INTEGER NOT NULL DEFAULT 0,
    UNIQUE (channel, id)
);
CREATE INDEX IF NOT EXISTS inbound_open ON inbound (state) WHERE state <> 'done';
CREATE INDEX IF NOT EXISTS inbound_turn ON inbound (turn) WHERE state = 'waiting';
CREATE TABLE IF NOT EXISTS outbound (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE, address TEXT NOT NULL,
    text TEXT, ending TEXT, placed TEXT NOT NULL DEFAULT '[]', answers TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE IF NOT EXISTS offsets (channel TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS aliases (new TEXT PRIMARY KEY, old TEXT NOT NULL);
"""


class SqliteInbox:
    """See `ports.Inbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def offset(self, channel: str) -> int | None:
        def read(db: sqlite3.Connection) -> int | None:
            row = db.execute("SELECT value FROM offsets WHERE channel = ?", (channel,)).fetchone()
            return row[0] if row else None

        return await self._database.run(read)

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None) -> list[Queued]:
        def write(db: sqlite3.Connection) -> list[Queued]:
            new = [queued for update in updates if (queued := _insert(db, channel, update))]
            if offset is not None:
                db.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?)", (channel, offset))
            return new

        return await self._database.run(write)

    async def waiting(self) -> list[Queued]:
        def read(db: sqlite3.Connection) -> list[Queued]:
            rows = db.execute(
                "SELECT seq, message, turn, attempts, log_n FROM inbound WHERE state = 'waiting' ORDER BY seq"
            )
            return [Queued(seq, _inbound(message), *stamp) for seq, message, *stamp in rows]

        return await self._database.run(read)

    async def stamp(self, turn: str, rows: Sequence[Queued], log_n: int, attempts: int) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.executemany(
                "UPDATE inbound SET turn = ?, attempts = ?, log_n = ? WHERE seq = ?",
                [(turn, attempts, log_n, row.seq) for row in rows],
            )
            db.execute(
                "INSERT OR IGNORE INTO outbound (id, address, answers) VALUES (?, ?, ?)",
                (turn, rows[0].message.address, json.dumps([row.message.id for row in rows])),
            )

        await self._database.run(write)

    async def park(self, turn: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE inbound SET attempts = max(attempts - 1, 0) WHERE turn = ? AND state = 'waiting'", (turn,)
            )

        await self._database.run(write)

    async def placed(self, outbound_id: str, ids: Sequence[str]) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE outbound SET placed = ? WHERE id = ?", (json.dumps(list(ids)), outbound_id))

        await self._database.run(write)

    async def settle(self, outbound: Outbound, rows: Sequence[Queued], aside: bool = False) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO outbound (id, address, text, ending, answers) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET text = excluded.text, ending = excluded.ending",
                (outbound.id, outbound.address, outbound.text, outbound.end, json.dumps(outbound.answers)),
            )
            if aside:
                db.executemany("UPDATE inbound SET state = 'aside' WHERE seq = ?", [(row.seq,) for row in rows])
            else:
                _forget(db, rows)

        await self._database.run(write)

    async def delivered(self, outbound_id: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM outbound WHERE id = ?", (outbound_id,))

        await self._database.run(write)

    async def outbound(self, outbound_id: str) -> Outbound | None:
        found = await self._outbound("WHERE id = ?", outbound_id)
        return found[0] if found else None

    async def undelivered(self) -> list[Outbound]:
        return await self._outbound("WHERE text IS NOT NULL ORDER BY seq")

    async def _outbound(self, where: str, *values: str) -> list[Outbound]:
        def read(db: sqlite3.Connection) -> list[Outbound]:
            rows = db.execute("SELECT id, address, text, ending, placed, answers FROM outbound " + where, values)
            return [
                Outbound(id, address, text, end, tuple(json.loads(placed)), tuple(json.loads(answers)))
                for id, address, text, end, placed, answers in rows
            ]

        return await self._database.run(read)

    async def counts(self) -> Mapping[str, int]:
        def read(db: sqlite3.Connection) -> dict[str, int]:
            states = dict(db.execute("SELECT state, count(*) FROM inbound WHERE state <> 'done' GROUP BY state"))
            sending = db.execute("SELECT count(*) FROM outbound WHERE text IS NOT NULL").fetchone()[0]
            return {"waiting": states.get("waiting", 0), "undelivered": sending, "set_aside": states.get("aside", 0)}

        return await self._database.run(read)

    async def alias(self, old: str, new: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO aliases (new, old) VALUES (?, ?)", (new, old))

        await self._database.run(write)

    async def aliases(self) -> Mapping[str, str]:
        return await self._database.run(lambda db: dict(db.execute("SELECT new, old FROM aliases")))


def _insert(db: sqlite3.Connection, channel: str, update: Update) -> Queued | None:
    """The row's value if it is a new message; what is neither message nor error needs no row."""
    if update.message is None and update.error is None:
        return None
    message = None if update.message is None else json.dumps(asdict(update.message), default=datetime.isoformat)
    row = db.execute(
        "INSERT OR IGNORE INTO inbound (channel, id, state, raw, message, error) VALUES (?, ?, ?, ?, ?, ?)",
        (channel, update.id, "waiting" if message else "aside", update.raw, message, update.error),
    )
    if not row.rowcount or update.message is None or row.lastrowid is None:
        return None
    return Queued(row.lastrowid, update.message)


def _forget(db: sqlite3.Connection, rows: Sequence[Queued]) -> None:
    seqs = [(row.seq,) for row in rows]
    db.executemany("UPDATE inbound SET state = 'done', raw = NULL, message = NULL WHERE seq = ?", seqs)
    if rows:
        oldest = rows[-1].seq - IDS_REMEMBERED
        db.execute("DELETE FROM inbound WHERE seq < ? AND state = 'done'", (oldest,))


def _inbound(text: str) -> Inbound:
    fields: dict[str, Any] = json.loads(text)
    fields["sender"] = Sender(**fields["sender"])
    fields["sent_at"] = datetime.fromisoformat(fields["sent_at"])
    fields["attachments"] = tuple(Attachment(**attachment) for attachment in fields["attachments"])
    return Inbound(**fields)
