"""The entries of history in a space: `history.jsonl` is the truth, `HISTORY.md` and `.cursor` are views of it.

The truth is only ever appended to. Cursors grow with the place in the file, so that one entry is found by halving.
"""

import asyncio
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import tzinfo
from itertools import count, takewhile
from pathlib import Path
from typing import Literal, TypeVar
from weakref import WeakValueDictionary

import structlog

from nanomem.entries import Entry, for_people, from_json, to_json
from nanomem.errors import CannotStore
from nanomem.records import BadRecord
from nanomem.spaces import Space
from nanomem.stores import durable
from nanomem.stores.lines import Lines
from nanomem.stores.memory_files import open_regular

log = structlog.get_logger()

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes; a longer line is damage."""
_LARGEST_CURSOR = 2**63
_VIEW, _CURSOR, _DREAM_CURSOR = "HISTORY.md", ".cursor", ".dream_cursor"
_COMPARED = 4096  # bytes at the end of the view that are looked at before something is appended to it

_T = TypeVar("_T")


class _Unreadable(CannotStore):
    """The truth is there and cannot be read: it is never taken for an empty one."""


def path_of(space: Space) -> Path:
    """Where the entries of a space are."""
    return space.root / "memory" / "history.jsonl"


class JsonlHistory:
    """`ports.History` on files. What people read has its times in `zone`.

    In one space one thing is done at a time. A view that cannot be written is no failure: it is put right at the next
    append or repair, and the log says so. `appended` is told the name of the file after each append.
    """

    def __init__(self, zone: tzinfo, appended: Callable[[Space, str], None] = lambda space, log: None) -> None:
        self._zone = zone
        self._appended = appended
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._reported: set[tuple[Path, int]] = set()

    async def append(self, space: Space, entries: Sequence[Entry]) -> list[Entry]:
        """See the port. Once begun it is finished, also when the caller is cancelled."""
        if not entries:
            return []
        try:
            return await self._alone(space, lambda: self._append(space, entries))
        finally:
            self._appended(space, path_of(space).name)

    async def last(self, space: Space) -> int:
        """See the port. Raises CannotStore where the truth cannot be read, as all others here."""
        newest = await self._alone(space, lambda: self._newest(path_of(space)))
        return newest.cursor if newest else 0

    async def entry(self, space: Space, cursor: int) -> Entry | None:
        """See the port."""
        return await self._alone(space, lambda: _found(path_of(space), cursor))

    async def after(self, space: Space, cursor: int) -> list[Entry]:
        """See the port."""
        return await self._alone(space, lambda: self._back_to(path_of(space), cursor))

    async def repair(self, space: Space) -> bool:
        """See the port. Goes through all entries; what a person wrote into HISTORY.md is kept beside it."""
        return await self._alone(space, lambda: self._repair(space))

    async def dreamt(self, space: Space) -> int:
        """See the port."""
        return await self._alone(space, lambda: _noted(path_of(space).with_name(_DREAM_CURSOR)))

    async def set_dreamt(self, space: Space, cursor: int) -> None:
        """See the port."""
        await self._alone(space, lambda: durable.replace(path_of(space).with_name(_DREAM_CURSOR), b"%d\n" % cursor))

    async def _alone(self, space: Space, work: Callable[[], _T]) -> _T:
        async with self._locks.setdefault(path_of(space), asyncio.Lock()):
            return await durable.finished(work)

    # --- in a thread

    def _append(self, space: Space, entries: Sequence[Entry]) -> list[Entry]:
        path = path_of(space)
        before = self._newest(path)
        first = before.cursor + 1 if before else 1
        lines = [_line(replace(entry, cursor=cursor)) for cursor, entry in enumerate(entries, first)]
        added = [from_json(json.loads(line)) for line in lines]  # as it will be read: views are made of nothing else
        durable.append(path, b"".join(lines))
        try:
            self._add_to_view(space, before, added)
            durable.replace(path.with_name(_CURSOR), _number(added[-1]))
        except CannotStore as error:
            log.warning("history.view_behind", space=space.name, reason=error.text)
        return added

    def _newest(self, path: Path) -> Entry | None:
        with closing(self._backwards(path)) as entries:
            return next(entries, None)

    def _back_to(self, path: Path, cursor: int) -> list[Entry]:
        with closing(self._backwards(path)) as entries:
            return list(takewhile(lambda entry: entry.cursor > cursor, entries))[::-1]

    def _backwards(self, path: Path) -> Generator[Entry]:
        """The entries from the last one back. Closed, it reports what it has met that was damaged."""
        bad: list[tuple[int, BadRecord]] = []
        with _opened(path) as lines:
            try:
                for start, end in lines.backwards():
                    try:
                        yield _entry(lines, start, end)
                    except BadRecord as error:
                        if (path, start) not in self._reported:
                            bad.append((start, error))
            finally:
                number, counted = 1, 0
                for start, reason in reversed(bad):
                    number, counted = number + lines.breaks(counted, start), start
                    self._report(path, start, number, reason)

    def _forwards(self, path: Path) -> Iterator[Entry]:
        with _opened(path) as lines:
            for number, (start, end) in enumerate(lines.forwards(), 1):
                try:
                    yield _entry(lines, start, end)
                except BadRecord as error:
                    self._report(path, start, number, error)

    def _report(self, path: Path, start: int, number: int, reason: BadRecord) -> None:
        if (path, start) not in self._reported:
            self._reported.add((path, start))
            log.warning("history.bad_line", file=str(path), line=number, reason=str(reason))

    # --- the views

    def _shown(self, entry: Entry) -> bytes:
        return for_people(entry, self._zone).encode("utf-8", "replace") + b"\n"

    def _add_to_view(self, space: Space, before: Entry | None, added: Sequence[Entry]) -> None:
        view = path_of(space).with_name(_VIEW)
        if _ends_with(view, self._shown(before) if before else b""):
            durable.append(view, (b"\n" if before else b"") + b"\n".join(map(self._shown, added)))
        else:
            self._renew_view(space)

    def _pieces(self, space: Space) -> Iterator[bytes]:
        """HISTORY.md as it shall be."""
        between = b""
        for entry in self._forwards(path_of(space)):
            yield between + self._shown(entry)
            between = b"\n"

    def _repair(self, space: Space) -> bool:
        path = path_of(space)
        newest = self._newest(path)
        try:
            view = self._renew_view(space)
            return _renew_cursor(path.with_name(_CURSOR), newest) or view
        except _Unreadable:
            raise
        except CannotStore as error:
            log.warning("history.view_behind", space=space.name, reason=error.text)
            return False

    def _renew_view(self, space: Space) -> bool:
        view = path_of(space).with_name(_VIEW)
        match _compared(view, self._pieces(space)):
            case "same":
                return False
            case "other":
                kept = _set_aside(view)
                log.warning("history.view_replaced", space=space.name, kept=str(kept))
            case "behind":
                log.info("history.view_completed", space=space.name)
        durable.replace(view, self._pieces(space))
        return True


@contextmanager
def _opened(path: Path) -> Iterator[Lines]:
    """The lines of the truth: none if it is missing. Raises CannotStore for all else, also while it is read."""
    try:
        try:
            file = open_regular(path)
        except FileNotFoundError:
            file = open(os.devnull, "rb")  # noqa: SIM115 -- closed just below
        with file:
            yield Lines(file)
    except OSError as error:
        raise _Unreadable(f"Cannot read {path}: {error.strerror}.") from error


def _entry(lines: Lines, start: int, end: int) -> Entry:
    """The entry of a line. Raises BadRecord."""
    if end - start > LONGEST_LINE:
        raise BadRecord("longer than any entry")
    line = lines.text(start, end)
    try:
        entry = from_json(json.loads(line))
    except BadRecord:
        raise
    except (ValueError, RecursionError) as error:
        raise BadRecord("damaged" if line.endswith(b"\n") else "torn") from error
    if not 0 < entry.cursor < _LARGEST_CURSOR:
        raise BadRecord("a cursor out of range")
    return entry


def _line(entry: Entry) -> bytes:
    return json.dumps(to_json(entry), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _found(path: Path, cursor: int) -> Entry | None:
    """Halves what the entry may be in, until it is found; damaged lines are stepped over."""
    with _opened(path) as lines:
        low, high = 0, lines.size
        while low < high:
            start = lines.start((low + high) // 2)
            entry, end = _first_readable(lines, start, high)
            if entry and entry.cursor == cursor:
                return entry
            if entry and entry.cursor < cursor:
                low = end
            else:
                high = start
    return None


def _first_readable(lines: Lines, start: int, high: int) -> tuple[Entry | None, int]:
    """The first entry from a line's beginning on, and where its line ends; None if there is none before `high`."""
    while start < high:
        end = lines.end(start)
        try:
            return _entry(lines, start, end), end
        except BadRecord:
            start = end
    return None, high


def _number(newest: Entry | None) -> bytes:
    return b"%d\n" % (newest.cursor if newest else 0)


def _noted(path: Path) -> int:
    """The number in a cursor's file; 0 where there is none that can be read."""
    try:
        with open_regular(path) as file:
            text = file.read(32).strip()
    except OSError:
        return 0
    found = int(text) if text.isdigit() else 0
    return found if found < _LARGEST_CURSOR else 0


def _renew_cursor(path: Path, newest: Entry | None) -> bool:
    number = _number(newest)
    if _compared(path, iter([number])) == "same" or not (newest or os.path.lexists(path)):
        return False
    durable.replace(path, number)
    return True


def _ends_with(view: Path, tail: bytes) -> bool:
    """Whether the view ends so, as far as a short look tells; without a tail, whether it is empty or missing."""
    try:
        with open_regular(view) as file:
            size = file.seek(0, os.SEEK_END)
            if not tail or size < len(tail):
                return size == len(tail)
            file.seek(size - min(len(tail), _COMPARED))
            return tail.endswith(file.read())
    except FileNotFoundError:
        return not tail
    except OSError:
        return False


def _compared(view: Path, pieces: Iterator[bytes]) -> Literal["same", "behind", "other"]:
    """How a view is to what it shall be; `behind` if only its end is missing. In constant memory."""
    try:
        with open_regular(view) as file:
            for piece in pieces:
                if (found := file.read(len(piece))) != piece:
                    return "behind" if piece.startswith(found) else "other"
            return "other" if file.read(1) else "same"
    except FileNotFoundError:
        return "same" if next(pieces, None) is None else "behind"
    except OSError:
        return "other"


def _set_aside(view: Path) -> Path:
    """Gives the view another name, under which it stays."""
    names = (view.with_name(f"{view.name}.before{f'-{n}' if n > 1 else ''}") for n in count(1))
    kept = next(name for name in names if not os.path.lexists(name))
    try:
        os.rename(view, kept)
    except OSError as error:
        raise CannotStore(durable.reason(view, error)) from error
    return kept
