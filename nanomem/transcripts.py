"""The conversations of a home, for its owner's eyes: listed, shown, exported. Reads session logs, changes nothing."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from nanomem.errors import Misuse
from nanomem.home import Home
from nanomem.records import AssistantMessage, Record, Reset, ToolMessage, UserMessage
from nanomem.session import replay
from nanomem.spaces import file_name
from nanomem.stores.session_log import read_all


@dataclass(frozen=True, slots=True)
class Summary:
    """One session: its key, space, number of messages and last change (empty if nothing was said)."""

    key: str
    space: str
    messages: int
    updated_at: str


def list_sessions(home: Home, zone: tzinfo) -> list[Summary]:
    """All sessions of all spaces, newest first."""
    return sorted((_summary(path, zone) for path in home.logs()), key=lambda found: found.updated_at, reverse=True)


def show(home: Home, key: str, zone: tzinfo) -> Iterator[str]:
    """A session as lines for people. Raises Misuse: there is none of that name."""
    for record in read_all(_log(home, key)):
        if line := _line(record, zone):
            yield line


def export(home: Home, key: str) -> None:
    """Writes a session's log to stdout as it is. Raises Misuse: there is none of that name."""
    with _log(home, key).open("rb") as file:
        while block := file.read(2**20):
            sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def _log(home: Home, key: str) -> Path:
    name = f"{file_name(key)}.jsonl"
    found = next((path for path in home.logs() if path.name == name), None)
    if found is None:
        raise Misuse(f"There is no session {key!r}. nanomem sessions list shows all.")
    return found


def _summary(path: Path, zone: tzinfo) -> Summary:
    session = replay(read_all(path))
    space = "owner" if path.parents[1].name == "workspace" else path.parents[1].name
    updated = f"{session.updated_at.astimezone(zone):%Y-%m-%d %H:%M}" if session.updated_at else ""
    return Summary(session.key or path.stem, space, session.last_n, updated)


def _line(record: Record, zone: tzinfo) -> str:
    match record:
        case UserMessage():
            who, text = f"USER ({record.sender.name})" if record.sender.name else "USER", record.content
        case AssistantMessage():
            tools = ", ".join(call.name for call in record.tool_calls)
            who, text = f"ASSISTANT [tools: {tools}]" if tools else "ASSISTANT", record.content
        case ToolMessage():
            who, text = f"TOOL ({record.name})", record.content
        case Reset():
            return f"[{record.timestamp.astimezone(zone):%Y-%m-%d %H:%M}] --- new session ---"
        case _:
            return ""
    return f"[{record.timestamp.astimezone(zone):%Y-%m-%d %H:%M}] {who}: {text}"
