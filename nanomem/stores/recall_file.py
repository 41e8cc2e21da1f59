"""One SQLite file that can be made again at any time: opened, watched for damage, and begun anew."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog

from nanomem.errors import BegunAnew, CannotStore
from nanomem.recall.counts import Counts
from nanomem.stores import vectors

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
T = TypeVar("T")


class RecallFile:
    """One file, and the only connection to it. All of it blocks: call it in a thread.

    `vectors` are those in it, `counts` those of its words; `checked` is for whoever has looked for damage. `lost` says
    why it was begun anew, until whoever reads the logs was told: who was told first may have gone.
    """

    def __init__(self, path: Path, model: str | None) -> None:
        self._path = path
        self.vectors = vectors.Vectors(model)
        self.counts = Counts()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self.checked = False
        self.lost = ""

    def run(self, work: Callable[["RecallFile"], T]) -> T:
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

    def _transaction(self, work: Callable[["RecallFile"], T]) -> T:
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
            self.vectors.forget()
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
        self.vectors.forget()
        self.counts.forget()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection, for work that runs."""
        assert self._connection is not None
        return self._connection


def _connected(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise CannotStore(f"Cannot write {path}: {error.strerror}.") from error
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA page_size=1024")  # most spaces are small
        connection.execute("PRAGMA cache_size=-512")  # kB for each space; the system has the file's pages, too
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={1 << 20}")  # bytes; when words are sorted anew it is some more
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
