"""What of a conversation, a history and a memory can be found again, and which place it has in the index.

Pure: a fold over the records of one log. Its state between two batches is a value that can be kept.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Literal

from nanomem.entries import Entry
from nanomem.recall.question import AGENT
from nanomem.recall.scoring import GAP
from nanomem.recall.words import asks
from nanomem.records import AssistantMessage, Metadata, Record, Reset, ToolMessage, UserMessage

PAUSE = timedelta(hours=1)
"""After so long a silence a conversation begins anew: what was said before says little about what comes."""
LARGEST_RESULT = 1_000
"""Characters of a tool's result that can still be found; longer ones are pages and files, and can be read again."""
RECALL = "recall"
_UNFOUND_TOOLS = frozenset({RECALL, "read_skill", "list_dir", "grep"})
"""Their results repeat what is found anyway, or are no more than a look around."""
_FEWEST_QUOTED = 12
_LONGEST_NAME = 90
_RESULT = re.compile(r"(?m)^ *\[[^\]\n]*\] [^:\n]{1,99}: (.+?)(?: \([^()\n]*\))?$")

Kind = Literal["talk", "results", "history", "memory"]
"""A session's talk, the results of its tools, the entries of history, and what is known."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who says something: `id` the network's own or a word that is no such id; `name` for people."""

    id: str
    name: str = ""


THE_AGENT, SUMMARY, MEMORY = Speaker(AGENT, "Assistant"), Speaker("summary", "Summary"), Speaker("memory", "Memory")
NOBODY = frozenset({SUMMARY.id, MEMORY.id})
TOOL = "tool:"
"""Before the name of a tool, the speaker of its results."""


@dataclass(frozen=True, slots=True)
class Saying:
    """One thing that can be found. `n` is the message's number, or the entry's; `at` is None of what is just known.

    `spot` says where it is, in words for people, where `n` alone does not.
    """

    kind: Kind
    place: int
    n: int
    at: datetime | None
    speaker: Speaker
    text: str
    spot: str = ""

    @property
    def asks(self) -> bool:
        """Whether it ends with a question."""
        return asks(self.text)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the reading of a log stands: the newest places, number and time, and what recall has shown in the running
    turn. `key` is the session that the log says it is of."""

    key: str = ""
    place: int = 0
    results: int = 0
    n: int = 0
    at: datetime | None = None
    turn: str = ""
    shown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As an object that JSON takes."""
        return {**asdict(self), "at": self.at.isoformat() if self.at else None}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> "Reading":
        """What `to_json` was made of."""
        at = fields["at"]
        shown = tuple(fields["shown"])
        return Reading(**{**fields, "at": datetime.fromisoformat(at) if at else None, "shown": shown})


class Reader:
    """Reads a log in order. `reading` is where it stands."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def read(self, records: Iterable[Record]) -> Iterator[Saying]:
        """What can be found of the records of a session."""
        for record in records:
            match record:
                case Metadata(key=key):
                    self.reading = replace(self.reading, key=self.reading.key or key)
                case Reset():
                    self.reading = replace(self.reading, at=None)
                case UserMessage() | AssistantMessage() | ToolMessage():
                    yield from self._said(record)

    def read_history(self, entries: Iterable[Entry]) -> Iterator[Saying]:
        """What can be found of entries of history; raw ones repeat the conversation."""
        for entry in entries:
            if entry.type != "raw":
                self.reading = replace(self.reading, place=self.reading.place + GAP)
                text = "\n".join([entry.summary, *entry.key_facts]).strip()
                spot = f"{entry.session}, messages {entry.first}-{entry.last}, history {entry.cursor}"
                yield Saying("history", self.reading.place, entry.cursor, entry.timestamp, SUMMARY, text, spot)

    def _said(self, record: UserMessage | AssistantMessage | ToolMessage) -> Iterator[Saying]:
        now, saying = self.reading, None
        shown = now.shown if record.turn == now.turn else ()
        place, results, at = now.place, now.results, now.at
        match record:
            case UserMessage():
                names = [PurePosixPath(path).name for path in record.files]
                saying = self._talk(record, _sender(record), "\n".join([record.content, *names]))
            case AssistantMessage() if record.end != "failed":
                saying = self._talk(record, THE_AGENT, _without(record.content, shown))
            case ToolMessage(name=name, content=content) if name == RECALL:
                shown = (*shown, *_RESULT.findall(content))
            case ToolMessage(name=name, content=content) if name not in _UNFOUND_TOOLS:
                if content.strip() and len(content) <= LARGEST_RESULT:
                    results += GAP
                    yield Saying("results", results, record.n, record.timestamp, Speaker(TOOL + name, name), content)
        if saying:
            place, at = saying.place, saying.at
            yield saying
        self.reading = Reading(now.key, place, results, record.n, at, record.turn, shown)

    def _talk(self, record: UserMessage | AssistantMessage, speaker: Speaker, text: str) -> Saying | None:
        if not text.strip():
            return None
        last = self.reading.at
        away = last is None or abs(record.timestamp - last) > PAUSE
        place = self.reading.place + (GAP if away else 1)
        return Saying("talk", place, record.n, record.timestamp, speaker, text.strip())


def _sender(record: UserMessage) -> Speaker:
    name = " ".join(record.sender.name.split())[:_LONGEST_NAME]  # of its own making: it may hold line breaks
    return Speaker(record.sender.id or name or "user", name or "User")


def _without(text: str, shown: Iterable[str]) -> str:
    """An answer without what recall had just shown, which it quotes; nothing of one that hardly says more."""
    whole = len(text)
    for quoted in shown:
        said = quoted.strip().removeprefix("...").removesuffix("...").strip()
        if len(said) >= _FEWEST_QUOTED:
            text = text.replace(said, "...")
    return text if len(text) > whole // 2 else ""
