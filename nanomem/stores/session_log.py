"""Session logs as append-only JSONL files, one a session. Loading reads backwards.

Knows nothing of what the records mean beyond how far back a load must go.
"""

import asyncio
import json
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from urllib.parse import unquote
from weakref import WeakValueDictionary

import structlog

from nanomem.errors import CannotStore
from nanomem.records import (
    AssistantMessage,
    BadRecord,
    Consolidated,
    Metadata,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
    from_json,
    to_json,
)
from nanomem.session import Said, Session, replay
from nanomem.spaces import Space, file_name
from nanomem.stores import durable

log = structlog.get_logger()

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes; a longer line is damage."""
MOST_MESSAGES = 2_000
"""Messages that are read at once by their numbers."""
_NEAR = 64 * 1024


def path_of(space: Space, key: str) -> Path:
    """Where a session's log is."""
    return space.root / "sessions" / f"{file_name(key)}.jsonl"


class JsonlSessionLog:
    """`ports.SessionLog` on files. Appends to one file keep their order, others do not wait for them.

    `appended` is told the name of the file after each append.
    """

    def __init__(self, appended: Callable[[Space, str], None] = lambda space, log: None) -> None:
        self._appended = appended
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    async def load(self, space: Space, key: str) -> Session:
        """See the port. A file that cannot be read raises CannotStore: it is never taken for an empty one."""
        path = path_of(space, key)
        try:
            session = await asyncio.to_thread(_load, path)
        except OSError as error:
            raise CannotStore(f"Cannot read {path}: {error.strerror}.") from error
        session.key = key
        return session

    async def append(self, space: Space, key: str, records: Sequence[Record]) -> None:
        """See the port. Once begun it is finished, also when the caller is cancelled."""
        path = path_of(space, key)
        lock = self._locks.setdefault(path, asyncio.Lock())
        async with lock:
            header = _line(Metadata(key=key, created_at=datetime.now(UTC)))
            try:
                await durable.finished(durable.append, path, b"".join(map(_line, records)), header)
            finally:
                self._appended(space, path.name)

    async def messages(self, space: Space, key: str, first: int, last: int) -> list[Said]:
        """See the port; at most `MOST_MESSAGES`. Finds them without reading all."""
        path = path_of(space, key)
        try:
            return await asyncio.to_thread(_between, path, first, last)
        except OSError as error:
            raise CannotStore(f"Cannot read {path}: {error.strerror}.") from error

    async def keys(self, space: Space) -> Sequence[str]:
        """See the port; a file that is not in its session's place is none."""
        return await asyncio.to_thread(_keys, space)


def _keys(space: Space) -> list[str]:
    found = []
    for path in sorted((space.root / "sessions").glob("*.jsonl")):
        try:
            key = key_of(path)
        except OSError as error:
            log.warning("session.unreadable", file=path.name, reason=error.strerror)
            continue
        if key and path == path_of(space, key):
            found.append(key)
    return found


def _line(record: Record) -> bytes:
    text = json.dumps(to_json(record), ensure_ascii=False, separators=(", ", ": "))
    return text.encode("utf-8", "replace") + b"\n"


def _load(path: Path) -> Session:
    try:
        with path.open("rb") as file:
            first = file.readline(LONGEST_LINE)
            if not first:
                return Session()
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return Session()
    with view:
        head = _parsed(first, 0)
        if isinstance(head, Metadata) and head.version is None:
            return replay(_numbered(view, path))
        return replay(_tail(view, path, head))


def read_all(path: Path) -> Iterator[Record]:
    """Every record of a file from its beginning, damaged lines passed over."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield from _numbered(view, path)


def _between(path: Path, first: int, last: int) -> list[Said]:
    try:
        with path.open("rb") as file:
            head = _parsed(file.readline(LONGEST_LINE), 0)
            if not file.seek(0, os.SEEK_END):
                return []
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return []
    with view:
        if isinstance(head, Metadata) and head.version is None:  # an older layout, without numbers
            records = iter([record for _, record in _said(view, 0, len(view), 1)])
        else:
            records = (record for _, record in _said(view, _start_of(view, first), len(view)))
        wanted = takewhile(lambda record: record.n <= last, records)
        return list(islice((record for record in wanted if record.n >= first), MOST_MESSAGES))


def _start_of(view: mmap.mmap, first: int) -> int:
    """Where a line begins with no message at or after `first` before it, and few others: found by halving."""
    low, high = 0, len(view)
    while high - low > _NEAR:
        middle = view.find(b"\n", (low + high) // 2) + 1
        end, record = next(_said(view, middle or high, high), (high, None))
        if record is not None and record.n < first:
            low = end
        else:
            high = (low + high) // 2
    return low


def _said(view: mmap.mmap, start: int, end: int, n: int = 0) -> Iterator[tuple[int, Said]]:
    """The messages whose lines begin from `start` up to `end`, each with where the next line begins.

    With an `n`, that is the number of the first one that has none.
    """
    while start < end:
        after = view.find(b"\n", start) + 1 or len(view)
        record = _parsed(view[start:after], n) if after - start <= LONGEST_LINE else None
        if isinstance(record, UserMessage | AssistantMessage | ToolMessage) and record.n > 0:
            yield after, record
            n = record.n + 1 if n else 0
        start = after


def key_of(path: Path) -> str:
    """The key that a log says it is of, or its name where a power cut took the line that does; else empty. Blocks."""
    said = next((record.key for record in read_all(path) if isinstance(record, Metadata)), "")
    named = unquote(path.stem)
    return said or (named if ":" in named else "")


def _numbered(view: mmap.mmap, path: Path) -> Iterator[Record]:
    """All records from the first on; those without `n` get it by their position among the messages."""
    n = 0
    for number, line in enumerate(iter(view.readline, b""), 1):
        try:
            record = _record(line, n + 1)
        except BadRecord as error:
            _report(path, number, error)
            continue
        n = getattr(record, "n", n)
        yield record


def _tail(view: mmap.mmap, path: Path, head: Record | None) -> list[Record]:
    """The records from the end back to the first message at or before the newest pointer, in order.

    Where that pointer is amid a turn, back to what was asked in it.
    """
    newer: UserMessage | AssistantMessage | ToolMessage | None = None
    found: list[Record] = []
    bad: list[tuple[int, BadRecord]] = []
    through = -1
    end = len(view)
    while end > 0:
        start = view.rfind(b"\n", 0, end - 1) + 1
        try:
            record = _record(view[start:end] if end - start <= LONGEST_LINE else b"", 0)
        except BadRecord as error:
            bad.append((start, error))
        else:
            found.append(record)
            if isinstance(record, Reset | Consolidated):
                through = max(through, record.through)
            elif isinstance(record, UserMessage | AssistantMessage | ToolMessage):
                if 0 < record.n <= through and (newer is None or _is_asked(newer, record, through)):
                    break
                newer = record
        end = start
    if isinstance(head, Metadata) and not (found and isinstance(found[-1], Metadata)):
        found.append(head)
    number, counted = 1, 0
    for start, reason in reversed(bad):
        number, counted = number + view[counted:start].count(b"\n"), start
        _report(path, number, reason)
    return found[::-1]


def _is_asked(newer: Record, record: Record, through: int) -> bool:
    """Whether all of a question is read: it begins at `newer`, or the conversation goes on with one."""
    return isinstance(newer, UserMessage) and (newer.n > through or not isinstance(record, UserMessage))


def _record(line: bytes, n: int) -> Record:
    try:
        return from_json(json.loads(line), n)
    except BadRecord:
        raise
    except (ValueError, RecursionError) as error:
        raise BadRecord("torn" if not line.endswith(b"\n") else "damaged") from error


def _parsed(line: bytes, n: int) -> Record | None:
    try:
        return _record(line, n)
    except BadRecord:
        return None


def _report(path: Path, number: int, error: BadRecord) -> None:
    log.warning("session.bad_line", file=path.name, line=number, reason=str(error))
