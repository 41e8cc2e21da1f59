"""What a version of the memory tells: the verdict on each fact, and the commit message it is written as.

Pure. A message is a subject `[kind] ...`, a line for each fact, and trailers; it reads back as it was written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

What = Literal["new", "reworded", "moved", "removed", "kept"]
Kind = Literal["consolidation", "Dream", "agent", "manual", "restore"]

TRAILERS = ("Session", "Messages", "History", "Inbound", "By", "Id", "Undoes")
_LONGEST_SUBJECT = 100
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class Removal:
    """A fact that shall go, in its own or nearly its own words, and why."""

    fact: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened to one fact. `kept` is one that a proposal dropped without a word, and that was put back.

    `detail` is the new wording of a reworded fact (one of several where it was split), the file that a moved one
    is in now, the reason of a removed one.
    """

    what: What
    fact: str
    detail: str = ""


class Stretch(NamedTuple):
    """Messages of a session, by their first and last `n`, both included."""

    session: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Version:
    """One change of a space's memory. `number` counts from 1, the oldest; `id` is the commit's hash."""

    number: int
    id: str
    at: datetime
    subject: str
    lines: tuple[str, ...] = ()
    trailers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_note(self) -> bool:
        """Whether it changed nothing, and only says what was put back."""
        return bool(self.lines) and all(line.startswith("= ") for line in self.lines)

    @property
    def kind(self) -> str:
        """What made it: `consolidation`, `Dream`, `agent`, `manual`, `restore`."""
        return self.subject.partition("]")[0].lstrip("[")

    @property
    def entries(self) -> tuple[int, int] | None:
        """The first and the last history entry that it was made from."""
        found = _RANGE.fullmatch(self.trailers.get("History", ""))
        return (int(found[1]), int(found[2] or found[1])) if found else None

    @property
    def read_through(self) -> int:
        """The last history entry that it was made from; 0 for none."""
        return self.entries[1] if self.entries else 0

    @property
    def heard(self) -> list[Stretch]:
        """The messages that it was made from."""
        sessions, ranges = self.trailers.get("Session", ""), self.trailers.get("Messages", "").split(", ")
        named = [sessions] if len(ranges) == 1 else [unquote(session) for session in sessions.split(", ")]
        found = [(session, _RANGE.fullmatch(text)) for session, text in zip(named, ranges, strict=False)]
        return [Stretch(session, int(a[1]), int(a[2] or a[1])) for session, a in found if session and a]


def of_messages(stretches: Sequence[Stretch]) -> dict[str, str]:
    """The trailers that name the messages a version was made from; of several sessions a list each."""
    sessions = [stretch.session for stretch in stretches]
    if len(sessions) > 1:
        sessions = [quote(session, safe=":") for session in sessions]
    ranges = [f"{stretch.first}-{stretch.last}" for stretch in stretches]
    return {"Session": ", ".join(sessions), "Messages": ", ".join(ranges)} if ranges else {}


def line(verdict: Verdict) -> str:
    """The line of a commit's body that says it."""
    fact, detail = flat(verdict.fact), flat(verdict.detail)
    match verdict.what:
        case "new":
            return f"+ {fact}"
        case "reworded":
            return f"~ {fact} -> {detail}"
        case "moved":
            return f"> {fact} moved to {detail}"
        case "removed":
            return f"- {fact} ({detail})"
        case "kept":
            return f"= {fact} put back"


def message(subject: str, lines: Sequence[str], trailers: Mapping[str, str]) -> str:
    """The commit message of a version."""
    known = [f"{name}: {flat(trailers[name])}" for name in TRAILERS if trailers.get(name)]
    return "\n\n".join(filter(None, (flat(subject), "\n".join(lines), "\n".join(known)))) + "\n"


def parsed(text: str) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Subject, lines and trailers of a commit message; one that somebody else wrote has a subject at least."""
    subject, _, rest = text.partition("\n")
    body = [found for found in rest.strip().split("\n") if found.strip()]
    trailers: dict[str, str] = {}
    while body and body[-1].partition(": ")[0] in TRAILERS:
        name, _, value = body.pop().partition(": ")
        trailers[name] = value
    return subject, tuple(body), trailers


def headline(kind: Kind, verdicts: Sequence[Verdict]) -> str:
    """A subject made from the real change: `[agent] Likes tea; 2 more new, 1 reworded`."""
    counts = {what: sum(v.what == what for v in verdicts) for what in ("new", "reworded", "moved", "removed", "kept")}
    first = next((v for what in counts for v in verdicts if v.what == what), None)
    if first is None:
        return f"[{kind}] Headings and prose"
    counts[first.what] -= 1
    words = {"new": "new", "reworded": "reworded", "moved": "moved", "removed": "removed", "kept": "put back"}
    more = ", ".join(
        f"{count} {'more ' if what == first.what else ''}{words[what]}" for what, count in counts.items() if count
    )
    shown = flat(first.detail if first.what == "reworded" else first.fact)
    if first.what not in ("new", "reworded"):
        shown = f"{words[first.what]}: {shown}"
    room = _LONGEST_SUBJECT - len(kind) - len(more) - 5
    shown = shown if len(shown) <= room else f"{shown[: room - 1]}…"
    return f"[{kind}] {shown}" + (f"; {more}" if more else "")


def flat(text: str) -> str:
    """A text on one line, as UTF-8 can hold it."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
