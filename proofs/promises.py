"""What somebody at Telegram's end was promised, when, and whether a home keeps it.

A promise is an update that was confirmed, so that it never comes again; an answer on the screen; a receipt.
"""

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.daemon.running import OWNER, World
from tests.emulators import TelegramServer

_LONG_S = 3600.0
RECEIPTS = ("Saved (", "Learned (", "Restored version ", "Consolidated messages ", "New session started.")


@dataclass(frozen=True)
class Promise:
    """Made before the tracer had written down more than `at` events: that an update is taken, or what a text says.

    The text of an update is what somebody said with it.
    """

    at: int
    update: int
    text: str


class Witness:
    """Notes each promise once, with how much the tracer had recorded by then; `known` are those of earlier lives."""

    def __init__(self, telegram: TelegramServer, chats: Collection[int], first_update: int) -> None:
        self._telegram = telegram
        self._chats = chats
        self._first_update = first_update
        self._found: dict[tuple[int, str], Promise] = {}

    async def watches(self, record: Path) -> None:
        """Until it is cancelled; what was promised in earlier lives was so from its beginning on."""
        self._found = {key: Promise(0, *key) for key in self._found}
        with record.open("rb") as lines:
            count = 0

            def note() -> None:
                nonlocal count
                count += lines.read().count(b"\n")
                for key in self._seen():
                    self._found.setdefault(key, Promise(count, *key))

            await self._telegram.wait_for(note, _LONG_S)

    def promises(self, answers: Collection[str]) -> list[Promise]:
        """All of them; of the texts only answers and receipts, since a text may be an answer that still grows."""
        shown = set(self._seen())
        return [
            promise
            for key, promise in self._found.items()
            if key in shown and (promise.update or promise.text in answers or promise.text.startswith(RECEIPTS))
        ]

    def _seen(self) -> Iterator[tuple[int, str]]:
        waiting = {*self._telegram.unconfirmed}
        for update in range(self._first_update, self._telegram.next_update_id):
            if update not in waiting:
                yield update, self._telegram.update(update)["message"]["text"]
        for chat in self._chats:
            for text in self._telegram.visible(chat):
                yield 0, text


def broken(promises: Sequence[Promise], world: World) -> list[str]:
    """Those of the owner's chat that the files do not keep, each in words. What was said and answered in earlier lives
    keeps none of them, though it may sound the same.
    """
    taken = _taken(world.home / "state" / "bus.db")
    new = _after(world.said(), world.earlier[OWNER])
    heard = {record["content"] for record in new if record["role"] == "user"}
    answers = {record["content"] for record in new if "end" in record}
    found = []
    for promise in promises:
        if promise.update:
            state = taken.get(str(promise.update), "lost")
            is_kept = promise.text in heard or promise.text.startswith("/")
            if state != "waiting" and not (state == "done" and is_kept):
                found.append(f"confirmed, but {state}, and not in the log: {promise.text!r}")
        elif promise.text.startswith(RECEIPTS):
            if not _holds(promise.text, world):
                found.append(f"not so: {promise.text!r}")
        elif promise.text not in answers:
            found.append(f"shown, but not in the log: {promise.text!r}")
    return found


def _after(said: Sequence[dict[str, Any]], ends: int) -> Sequence[dict[str, Any]]:
    """What stands in a log behind so many ends of turns."""
    places = [0, *(place for place, record in enumerate(said, 1) if "end" in record)]
    return said[places[ends] :] if ends < len(places) else []


def _taken(path: Path) -> dict[str, str]:
    """What became of each message that was taken, by its id, as the database tells."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as bus:
        try:
            rows = bus.execute("SELECT id, state FROM inbound WHERE state <> 'waiting' OR coalesce(message, raw) <> ''")
            return dict(rows.fetchall())
        except sqlite3.DatabaseError:  # no such table, or no database
            return {}


def _holds(receipt: str, world: World) -> bool:
    """Whether what somebody was told is done is so."""
    if match := re.match(r"Consolidated messages (\d+)-(\d+) \(history entry (\d+)\)", receipt):
        first, last, number = map(int, match.groups())
        return [first, last] in [entry["messages"] for entry in world.entries() if entry["cursor"] == number]
    if match := re.match(r"Saved \(version (\d+)\): (.*)", receipt):
        return _version(int(match[1]), f"+ {match[2]}", world)
    if match := re.match(r"Learned \(version (\d+)\)|Restored version \d+ as version (\d+)", receipt):
        return _version(int(match[1] or match[2]), "[Dream]" if match[1] else "[restore]", world)
    return any(record.get("_type") == "reset" for record in world.records())


def _version(number: int, line: str, world: World) -> bool:
    """Whether there is such a version, with such a line or beginning of its subject."""
    try:
        versions = world.versions()
    except AssertionError:  # git cannot read them
        return False
    return number <= len(versions) and any(
        told.startswith(line) for told in (versions[number - 1].subject, *versions[number - 1].lines)
    )
