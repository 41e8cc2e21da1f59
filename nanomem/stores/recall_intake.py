"""What a recall index is made of: each log read on from where the last reading ended, and what is known now."""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from nanomem import entries, records
from nanomem.recall import scoring
from nanomem.recall.sayings import MEMORY, Kind, Reader, Reading, Saying, Speaker
from nanomem.recall.words import clean, indexed, plain
from nanomem.spaces import Space
from nanomem.stores.memory_files import open_regular
from nanomem.stores.recall_file import RecallFile
from nanomem.stores.recall_search import ids_of, place_of, row_of

log = structlog.get_logger()

HISTORY, FACTS = "history.jsonl", "facts"
LONGEST_LINE = 32 * 1024 * 1024
"""Bytes; a longer line is damage."""
LINES_AT_ONCE, BYTES_AT_ONCE = 250, 512 * 1024
"""What one reading takes in at most, some ten milliseconds of it: searches and appends wait no longer."""
_MARKED = 64  # bytes before the place read up to, by which a log is known to be the same

_LARGEST = 2**63 - 1  # of what SQLite calls a number
_FIRST, _LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2, 9999))


class Intake:
    """Takes things into a file, within one of its transactions. All of it blocks."""

    def __init__(self, file: RecallFile) -> None:
        self._file = file
        self._db = file.db

    def logs(self, space: Space) -> list[str]:
        """The logs there are; checks the file once, and drops what came from logs that are gone."""
        if not self._file.checked:
            self._check()
            self._file.vectors.settle(self._db)
            self._file.checked = True
        sessions, memory = _names(space.root / "sessions"), _names(space.root / "memory")
        names = [name for name in sorted(sessions) if name.endswith(".jsonl") and _is_text(name)]
        names += [HISTORY] if HISTORY in memory else []
        known = self._db.execute("SELECT DISTINCT name FROM sources WHERE kind != 'memory'").fetchall()
        for (name,) in known:
            if name not in names:
                self._forget(name)
        return names

    def _check(self) -> None:
        """Raises DatabaseError where the file is not what was written, down to the words of each text."""
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        if self._only(
            "SELECT count(*) FROM said WHERE person NOT IN (SELECT id FROM people)"
            " OR id / ? NOT IN (SELECT id FROM sources) OR at NOT BETWEEN ? AND ?",
            *(ids_of(1)[0], _FIRST, _LAST),
        ):
            raise sqlite3.DatabaseError("something was said by nobody, nowhere or never")
        for (reading,) in self._db.execute("SELECT reading FROM sources WHERE reading != ''"):
            _reading(reading)
        self._db.execute("INSERT INTO words(words, rank) VALUES ('integrity-check', 1)")

    def read(self, space: Space, name: str) -> bool:
        """Takes in the next lines of a log; whether there are more."""
        path = _path(space, name)
        kind: Kind = "history" if name == HISTORY else "talk"
        try:
            file = open_regular(path)
        except FileNotFoundError:
            self._forget(name)
            return False
        except OSError as error:
            log.warning("recall.unreadable", file=path.name, reason=str(error))
            return False
        with file:
            start, reading = self._where(kind, name, file)
            reader = Reader(reading)
            lines, end, more = _lines(file, start)
            if end == start:
                return False
            is_history = kind == "history"
            self._take_in(
                name, reader.read_history(_entries(lines)) if is_history else reader.read(_records(lines, reader))
            )
            self._source(kind, name)
            values = (end, _mark(file, end), json.dumps(reader.reading.to_json()), kind, name)
            self._db.execute("UPDATE sources SET read = ?, mark = ?, reading = ? WHERE kind = ? AND name = ?", values)
            return more

    def know(self, facts: Mapping[str, Sequence[str]]) -> None:
        """Puts in which facts are new, and takes out which are gone."""
        source = self._source("memory", FACTS)
        wanted = {(indexed(text), file): None for file, texts in facts.items() for text in texts if text.strip()}
        first, last = ids_of(source)
        known = {
            (text, spot): row
            for row, text, spot in self._db.execute(
                "SELECT id, text, spot FROM said WHERE id BETWEEN ? AND ?", (first, last)
            )
        }
        self._take_out(source, [row for fact, row in known.items() if fact not in wanted])
        newest = max((place_of(row) for row in known.values()), default=0)
        new = (fact for fact in wanted if fact not in known)
        sayings = (
            Saying("memory", newest + number * scoring.GAP, 0, None, MEMORY, plain(text), file)
            for number, (text, file) in enumerate(new, 1)
        )
        self._take_in(FACTS, sayings)

    def _take_in(self, name: str, sayings: Iterable[Saying]) -> None:
        people: dict[Speaker, int] = {}
        rows: dict[Kind, list[tuple[object, ...]]] = {}
        sources: dict[Kind, int] = {}
        for saying in sayings:
            if saying.kind not in sources:
                sources[saying.kind] = self._source(saying.kind, name)
            if saying.speaker not in people:
                people[saying.speaker] = self._person(saying.speaker)
            row = row_of(sources[saying.kind], saying.place, saying.asks)
            n, at = min(max(saying.n, 0), _LARGEST), None if saying.at is None else _seconds(saying.at)
            values = (row, n, at, people[saying.speaker], clean(saying.spot) or None, indexed(saying.text))
            rows.setdefault(saying.kind, []).append(values)
        for kind, new in rows.items():
            # No trigger does this: with one, FTS5 would write to the file after each row.
            self._db.executemany("INSERT INTO said VALUES (?, ?, ?, ?, ?, ?)", new)
            self._db.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", [(row[0], row[-1]) for row in new])
            self._db.execute("UPDATE sources SET sayings = sayings + ? WHERE id = ?", (len(new), sources[kind]))

    def _take_out(self, source: int, rows: Iterable[int]) -> None:
        for row in rows:
            self._file.vectors.forget()
            gone = "INSERT INTO words(words, rowid, text) SELECT 'delete', id, text FROM said WHERE id = ?"
            self._db.execute(gone, (row,))
            self._db.execute("DELETE FROM said WHERE id = ?", (row,))
            self._db.execute("UPDATE sources SET sayings = sayings - 1 WHERE id = ?", (source,))

    def _where(self, kind: Kind, name: str, file: BinaryIO) -> tuple[int, Reading]:
        """Where to read on; from the beginning if the log is not the one that was read."""
        row = self._db.execute(
            "SELECT read, mark, reading FROM sources WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        if row is not None and row[2]:
            if _mark(file, row[0]) == row[1]:
                return row[0], _reading(row[2])
            log.warning("recall.log_changed", file=name)
            self._forget(name)
        return 0, Reading()

    def _source(self, kind: Kind, name: str) -> int:
        self._db.execute("INSERT OR IGNORE INTO sources(kind, name) VALUES (?, ?)", (kind, name))
        return self._only("SELECT id FROM sources WHERE kind = ? AND name = ?", kind, name)

    def _person(self, speaker: Speaker) -> int:
        names = (clean(speaker.id), clean(speaker.name))
        self._db.execute("INSERT OR IGNORE INTO people(speaker, name) VALUES (?, ?)", names)
        return self._only("SELECT id FROM people WHERE speaker = ? AND name = ?", *names)

    def _only(self, query: str, *values: object) -> int:
        return int(self._db.execute(query, values).fetchone()[0])

    def _forget(self, name: str) -> None:
        """Takes out all that came from a log."""
        for (source,) in self._db.execute("SELECT id FROM sources WHERE name = ?", (name,)).fetchall():
            rows = self._db.execute("SELECT id FROM said WHERE id BETWEEN ? AND ?", ids_of(source)).fetchall()
            self._take_out(source, [row for (row,) in rows])
            self._db.execute("DELETE FROM sources WHERE id = ?", (source,))


def _path(space: Space, log: str) -> Path:
    return space.root / "memory" / HISTORY if log == HISTORY else space.root / "sessions" / log


def _names(folder: Path) -> list[str]:
    """What is in a folder. Raises OSError where that cannot be told: then nothing in it is gone."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _entries(lines: Iterable[bytes]) -> Iterator[entries.Entry]:
    for line in lines:
        with suppress(records.BadRecord, ValueError, RecursionError):
            yield entries.from_json(json.loads(line))


def _records(lines: Iterable[bytes], reader: Reader) -> Iterator[records.Record]:
    for line in lines:
        with suppress(records.BadRecord, ValueError, RecursionError):
            yield records.from_json(json.loads(line), reader.reading.n + 1)


def _lines(file: BinaryIO, start: int) -> tuple[list[bytes], int, bool]:
    """The next lines, where they end, and whether there are more. A last one that may not be whole yet stays."""
    file.seek(start)
    found: list[bytes] = []
    end = start
    while len(found) < LINES_AT_ONCE and end - start < BYTES_AT_ONCE:
        line = file.readline(LONGEST_LINE)
        if not line:
            return found, end, False
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE and not _is_whole(line):
            return found, end, False
        found.append(line)
        end += len(line)
    return found, end, True


def _is_text(name: str) -> bool:
    """Whether a file's name is; no log of ours has another."""
    return clean(name) == name


def _seconds(at: datetime) -> int:
    """Since 1970; within what every time zone has a date for."""
    return min(max(int(at.timestamp()), _FIRST), _LAST)


def _reading(text: str) -> Reading:
    try:
        return Reading.from_json(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise sqlite3.DatabaseError(f"where a log was read up to is no such thing: {error}") from error


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _mark(file: BinaryIO, end: int) -> int:
    """What is known again at that place of a log; -1 where it is shorter."""
    start = max(0, end - _MARKED)
    found = os.pread(file.fileno(), end - start, start)
    return zlib.crc32(found) if len(found) == end - start else -1
