"""Entries of history: what a stretch of conversation was about, as a line of history.jsonl and as a person reads it.

Pure. What cannot be read raises BadRecord.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, get_args

from nanomem.records import BadRecord, EntryType, moment, stamp

_STAMP = re.compile(r"\A\s*\[\d{4}-\d\d-\d\d(?: \d\d:\d\d)?\]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `cursor` numbers the entries of a space from 1, and is 0 before it is appended.

    `first` and `last` are the messages it covers, both included; `timestamp` is that of the last one.
    """

    cursor: int = 0
    timestamp: datetime
    type: EntryType
    session: str
    first: int
    last: int
    summary: str
    key_facts: Sequence[str] = ()


def to_json(entry: Entry) -> dict[str, Any]:
    """The object of its line."""
    return {
        "cursor": entry.cursor,
        "timestamp": stamp(entry.timestamp),
        "type": entry.type,
        "session": entry.session,
        "messages": [entry.first, entry.last],
        "summary": entry.summary,
        "key_facts": list(entry.key_facts),
    }


def from_json(fields: Any) -> Entry:
    """The entry of a line's object. Raises BadRecord."""
    try:
        first, last = fields["messages"]
        if fields["type"] not in get_args(EntryType) or not all(
            isinstance(n, int) for n in (first, last, fields["cursor"])
        ):
            raise BadRecord("no entry of a known type")
        return Entry(
            cursor=fields["cursor"],
            timestamp=moment(fields["timestamp"]),
            type=fields["type"],
            session=str(fields["session"]),
            first=first,
            last=last,
            summary=str(fields["summary"]),
            key_facts=tuple(map(str, fields.get("key_facts") or ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRecord(f"no entry: {error}") from error


def for_people(entry: Entry, zone: tzinfo) -> str:
    """The entry as HISTORY.md has it: `[YYYY-MM-DD HH:MM] text`, without an empty line in it.

    A raw one has a line for each message. A time that a model has put before its own words is left out.
    """
    said = _STAMP.sub("", entry.summary.replace("\r", "\n"))
    lines = "\n".join(found.rstrip() for found in said.split("\n") if found.strip())
    return f"[{entry.timestamp.astimezone(zone):%Y-%m-%d %H:%M}] {lines}"
