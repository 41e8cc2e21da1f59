"""SQLite behind one connection in one thread, which commits together whatever has queued up.

One connection, since SQLite up to 3.51.2 can damage a write-ahead log that several write to. After a sync that failed
it does nothing any more, not even close. Knows no table of its own.
"""

import asyncio
import itertools
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import structlog

from nanomem.errors import CannotStore, Stop

log = structlog.get_logger()

VERSION = 1
_COMMITS_BETWEEN_CHECKPOINTS = 200
T = TypeVar("T")
_Work = tuple[Callable[[sqlite3.Connection], Any], "asyncio.Future[Any]"]
_Result = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Database:
    """Runs functions against the database, each atomically and durably; made by `Database.open`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._failed: Stop | None = None
        self._thread = threading.Thread(target=self._serve, name="database", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, tables: Sequence[str]) -> "Database":
        """Opens or makes it. A damaged file is put aside and said; one of a newer version raises Stop."""
        try:
            return cls(await asyncio.to_thread(_connect_or_put_aside, path, tables))
        except OSError as error:
            raise Stop(f"Cannot open {path}: {error.strerror}.") from error

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, once it is on disk. Raises CannotStore (nothing changed), Stop.

        Cancelling the wait does not take the work back.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((work, future))
        return await future

    async def is_new(self) -> bool:
        """Whether nobody has said yet that what the logs tell is taken in: after the first start, and a loss."""
        return await self.run(lambda db: db.execute("PRAGMA application_id").fetchone()[0] == 0)

    async def is_complete(self) -> None:
        """From now on it is not new any more."""
        await self.run(lambda db: db.execute("PRAGMA application_id = 1"))

    async def close(self) -> None:
        """Finishes what is queued, then closes."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        more = True
        commits = 0
        while more:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            more = None not in batch
            self._commit([work for work in batch if work is not None])
            commits += 1
            if commits % _COMMITS_BETWEEN_CHECKPOINTS == 0:
                self._checkpoint()
        _let_go(self._connection, self._failed)

    def _checkpoint(self) -> None:
        """Moves what is committed from the log to the file. SQLite would do it, and tell nobody of a failed sync."""
        if self._failed is None:
            try:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            except sqlite3.Error as error:  # all is in the log still
                self._note(_translated(error))

    def _note(self, error: Exception) -> Exception:
        if isinstance(error, Stop):
            self._failed = error
        return error

    def _commit(self, batch: Sequence[_Work]) -> None:
        if self._failed is not None:
            self._tell([(future, None, self._failed) for _, future in batch])
            return
        results: list[_Result] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work, future in batch:
                results.append((future, *self._attempt(work)))
            self._connection.execute("COMMIT")
        except Exception as error:
            failed = self._taken_back(error)
            results = [(future, None, failed) for _, future in batch]
        self._tell(results)

    def _taken_back(self, error: Exception) -> Exception:
        """What whoever waits is told, with nothing done. Where not even that can be, nothing is done any more."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as worse:
            return self._note(Stop(f"Cannot write state/bus.db: {worse}."))
        return self._note(_translated(error) if isinstance(error, sqlite3.Error) else error)

    def _tell(self, results: Sequence[_Result]) -> None:
        self._loop.call_soon_threadsafe(_resolve, results)

    def _attempt(self, work: Callable[[sqlite3.Connection], Any]) -> tuple[Any, BaseException | None]:
        self._connection.execute("SAVEPOINT work")
        try:
            result = work(self._connection)
        except Exception as error:  # handed to whoever asked; the others' work goes on
            if not self._connection.in_transaction:
                raise  # a full disk may make SQLite take back the whole transaction
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            return None, _translated(error) if isinstance(error, sqlite3.Error) else error
        self._connection.execute("RELEASE work")
        return result, None


def _resolve(results: Sequence[_Result]) -> None:
    for future, result, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def _translated(error: sqlite3.Error) -> Exception:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name in {"SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY"} or name.startswith("SQLITE_IOERR"):
        if "FSYNC" in name:
            return Stop(f"Cannot write state/bus.db: a sync failed ({error}).")
        return CannotStore(f"Cannot write state/bus.db: {error}.")
    return error


def _connect_or_put_aside(path: Path, tables: Sequence[str]) -> sqlite3.Connection:
    try:
        return _connect(path, tables)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise Stop(f"Cannot open {path}: {error}.") from error
        numbers = itertools.count(1)
        aside = next(at for n in numbers if not (at := path.with_name(f"{path.name}.damaged-{n}")).exists())
        log.error("database.damaged", path=str(path), kept_as=str(aside), reason=str(error))
        for suffix in ("", "-wal", "-shm"):
            if (part := path.with_name(path.name + suffix)).exists():
                part.replace(aside.with_name(aside.name + suffix))
        return _connect(path, tables)


def _connect(path: Path, tables: Sequence[str]) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA page_size=1024")  # rows are short, and each commit writes whole pages
        connection.execute("PRAGMA cache_size=-512")  # kB; years of ids that were handled need not be at hand
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise Stop(f"{path} was written by a newer nanomem (version {version}). Install that version again.")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("it fails its own check")
        for table in tables:
            connection.executescript(table)
        connection.execute(f"PRAGMA user_version={VERSION}")
    except BaseException as error:
        _let_go(connection, _translated(error) if isinstance(error, sqlite3.Error) else None)
        raise
    return connection


def _let_go(connection: sqlite3.Connection, failed: Exception | None) -> None:
    """Closes it. Where a sync has failed it stays open to the end of the process, since closing would sync again."""
    if isinstance(failed, Stop):
        threading.Thread(target=lambda held: threading.Event().wait(), args=(connection,), daemon=True).start()
    else:
        connection.close()
