"""The index that finds what was said again: an SQLite file a space, with the words of each saying in FTS5.

All in it is made of the logs, each read on from where the last reading ended, in one transaction with that place: so a
crash loses nothing and doubles nothing, and a file that is missing, damaged or of another version is begun anew.
"""

import asyncio
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO, TypeVar

import structlog

from nanomem import entries, records
from nanomem.errors import BegunAnew, CannotStore
from nanomem.ports import Bare, Vector
from nanomem.recall import scoring
from nanomem.recall.found import Found, Sought
from nanomem.recall.sayings import MEMORY, Kind, Reader, Reading, Saying, Speaker
from nanomem.recall.words import indexed, plain
from nanomem.spaces import Space, file_name
from nanomem.stores import vectors
from nanomem.stores.memory_files import open_regular
from nanomem.stores.recall_search import Search, ids_of, people_of, place_of, row_of

log = structlog.get_logger()

VERSION = 1
"""Of the tables, and of how words are taken out of a text: a file of another version is made anew."""
TABLES = """
CREATE TABLE IF NOT EXISTS sources(
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, read INTEGER NOT NULL DEFAULT 0,
    mark INTEGER NOT NULL DEFAULT 0, reading TEXT NOT NULL DEFAULT '', sayings INTEGER NOT NULL DEFAULT 0,
    UNIQUE(kind, name)) STRICT;
CREATE TABLE IF NOT EXISTS people(
    id INTEGER PRIMARY KEY, speaker TEXT NOT NULL, name TEXT NOT NULL, UNIQUE(speaker, name)) STRICT;
CREATE TABLE IF NOT EXISTS said(
    id INTEGER PRIMARY KEY, n INTEGER NOT NULL, at INTEGER, person INTEGER NOT NULL, spot TEXT, text TEXT NOT NULL
) STRICT;
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    text, content='said', content_rowid='id', columnsize=0, tokenize='porter unicode61 remove_diacritics 2');
"""
HISTORY, FACTS = "history.jsonl", "facts"
LONGEST_LINE = 32 * 1024 * 1024
"""Bytes; a longer line is damage."""
LINES_AT_ONCE, BYTES_AT_ONCE = 250, 512 * 1024
"""What one reading takes in at most, some ten milliseconds of it: searches and appends wait no longer."""
MOST_OPEN = 32
"""Files that stay open, with the vectors in memory: a space takes three descriptors, and there may be hundreds."""
_THREADS = 4
_MARKED = 64  # bytes before the place read up to, by which a log is known to be the same

_LARGEST = 2**63 - 1  # of what SQLite calls a number
_FIRST, _LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2, 9999))

T = TypeVar("T")


class SqliteRecallIndex:
    """`ports.RecallIndex` in a folder of its own; `zone` is that of the people who ask.

    `model` is the name of the embedder whose vectors are kept: "" none, None those that are there.
    """

    def __init__(self, folder: Path, zone: tzinfo, model: str | None = "") -> None:
        self._folder = folder
        self._zone = zone
        self._model = model
        self._indexes: dict[str, _Index] = {}
        self._open: dict[str, _Index] = {}  # the newest used at the end
        # Its own, so that whoever waits for a large index keeps nobody from a thread that writes what was said.
        self._threads = ThreadPoolExecutor(_THREADS, "recall")

    async def logs(self, space: Space) -> list[str]:
        """See the port."""
        return await self._run(space, lambda index: index.logs(space))

    async def read(self, space: Space, log: str) -> bool:
        """See the port."""
        return await self._run(space, lambda index: index.read(_path(space, log), log))

    async def know(self, space: Space, facts: Mapping[str, Sequence[str]]) -> None:
        """See the port."""
        await self._run(space, lambda index: index.know(facts))

    async def find(self, space: Space, sought: Sought) -> Found:
        """See the port."""
        return await self._run(space, lambda index: index.find(sought, self._zone))

    async def people(self, space: Space) -> Mapping[str, Sequence[str]]:
        """See the port."""
        return await self._run(space, lambda index: index.people())

    async def bare(self, space: Space, most: int) -> list[Bare]:
        """See the port."""
        return await self._run(space, lambda index: index.bare(most))

    async def embed(self, space: Space, texts: Sequence[Bare], vectors: Sequence[Vector]) -> None:
        """See the port."""
        await self._run(space, lambda index: index.embed(texts, vectors))

    async def close(self) -> None:
        """Closes all files; they are opened again when needed."""
        while self._open:
            _, index = self._open.popitem()
            await asyncio.get_running_loop().run_in_executor(self._threads, index.close)

    async def _run(self, space: Space, work: Callable[["_Index"], T]) -> T:
        index = self._indexes.get(space.name)
        if index is None:
            index = _Index(self._folder / f"{file_name(space.name)}.db", self._model)
            self._indexes[space.name] = index
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, index.run, work)
        except BegunAnew:
            index.lost = ""  # somebody knows it now
            raise
        finally:
            self._open.pop(space.name, None)
            self._open[space.name] = index
            while len(self._open) > MOST_OPEN:
                self._threads.submit(self._open.pop(next(iter(self._open))).close)


def _path(space: Space, log: str) -> Path:
    return space.root / "memory" / HISTORY if log == HISTORY else space.root / "sessions" / log


class _Index:
    """One file, and the only connection to it. All of it blocks: call it in a thread.

    `lost` says why it was begun anew, until whoever reads the logs was told: who was told first may have gone.
    """

    def __init__(self, path: Path, model: str | None) -> None:
        self._path = path
        self._vectors = vectors.Vectors(model)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._checked = False
        self.lost = ""

    def run(self, work: Callable[["_Index"], T]) -> T:
        """What `work` returns; one at a time. Raises CannotStore, BegunAnew."""
        with self._lock:
            if self.lost:
                raise BegunAnew(self.lost)
            try:
                return self._transaction(work)
            except OSError as error:
                raise CannotStore(f"Cannot read what {self._path.name} is made of: {error}.") from error
            except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter is what damage may look like, too
                if _is_of_the_disk(error):
                    self._drop_connection()  # with what it may have begun
                    raise CannotStore(f"Cannot use {self._path}: {error}.") from error
                log.warning("recall.damaged", file=self._path.name, reason=str(error))
                self._remove()
                self.lost = f"The index {self._path.name} was damaged: {error}."
                raise BegunAnew(self.lost) from error

    def close(self) -> None:
        """Closes the connection."""
        with self._lock:
            self._drop_connection()

    def _transaction(self, work: Callable[["_Index"], T]) -> T:
        if self._connection is None:
            self._connection = _connected(self._path)
            self._inode = _inode(self._path)
        elif _inode(self._path) != self._inode:
            raise sqlite3.DatabaseError("it was removed while it was in use")
        self._connection.execute("BEGIN")
        try:
            result = work(self)
            self._connection.execute("COMMIT")
        except BaseException:
            self._vectors.forget()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result

    def _remove(self) -> None:
        """So that the next one who comes makes a new file. Raises CannotStore."""
        self._drop_connection()
        try:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            raise CannotStore(f"Cannot remove {self._path}: {error.strerror}.") from error

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._vectors.forget()

    @property
    def _db(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    # --- taking in

    def logs(self, space: Space) -> list[str]:
        """The logs there are; checks the file once, and drops what came from logs that are gone."""
        if not self._checked:
            self._check()
            self._vectors.settle(self._db)
            self._checked = True
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

    def read(self, path: Path, name: str) -> bool:
        """Takes in the next lines of a log; whether there are more."""
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
            values = (row, n, at, people[saying.speaker], _clean(saying.spot) or None, indexed(saying.text))
            rows.setdefault(saying.kind, []).append(values)
        for kind, new in rows.items():
            # No trigger does this: with one, FTS5 would write to the file after each row.
            self._db.executemany("INSERT INTO said VALUES (?, ?, ?, ?, ?, ?)", new)
            self._db.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", [(row[0], row[-1]) for row in new])
            self._db.execute("UPDATE sources SET sayings = sayings + ? WHERE id = ?", (len(new), sources[kind]))

    def _take_out(self, source: int, rows: Iterable[int]) -> None:
        for row in rows:
            self._vectors.forget()
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
        names = (_clean(speaker.id), _clean(speaker.name))
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

    # --- finding

    def find(self, sought: Sought, zone: tzinfo) -> Found:
        """The best of what is there."""
        return Search(self._db, sought, zone, self._vectors).found()

    def people(self) -> dict[str, list[str]]:
        """The names of those who speak, by their ids."""
        return people_of(self._db)

    # --- vectors

    def bare(self, most: int) -> list[Bare]:
        """Texts without a vector."""
        return self._vectors.bare(self._db, most)

    def embed(self, texts: Sequence[Bare], vectors: Sequence[Vector]) -> None:
        """Keeps their vectors."""
        self._vectors.take(self._db, texts, vectors)


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


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which are no text to SQLite."""
    return text.encode("utf-8", "replace").decode()


def _is_text(name: str) -> bool:
    """Whether a file's name is; no log of ours has another."""
    return _clean(name) == name


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


def _connected(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise CannotStore(f"Cannot write {path}: {error.strerror}.") from error
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA page_size=1024")  # most spaces are small
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may take back the newest, never tear it
        connection.execute("PRAGMA secure_delete=ON")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}")
        connection.executescript(f"BEGIN; {TABLES} {vectors.TABLES} PRAGMA user_version={VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1


def _is_of_the_disk(error: Exception) -> bool:
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY", "SQLITE_IOERR"))
