"""What is looked for, what is found, and how that is told. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from nanomem.recall.meaning import Meaning
from nanomem.recall.sayings import Kind
from nanomem.recall.words import APART, asks, spoken

A_PAGE = 8
"""Hits that are shown at once."""
MOST_NEAR = 4
"""Messages before and after a hit that can be shown with it."""
ECHO_WITHIN = 8
"""How far behind an echo that which it repeats may be found: so pages do not depend on how far was looked."""
SHOWN = 500
"""Characters of one saying in an answer; the rest of it is found in its session."""
_SHORTEST_ECHO = 4  # words: fewer may be said twice by chance


@dataclass(frozen=True, slots=True)
class Sought:
    """A search. `now` is in the person's time zone; `askers` are the ids of those who ask.

    Only what was said by `who` (a part of a name), from `since` on and before `until` is found, and nothing of
    `session` from message `unless` on: that is in sight. `near` messages before and after each come with it. Questions
    that were put in the same words are left out unless they are wanted `again`. With a `meaning` what is near to it is
    found, too. `only_rare`: only what has a rare word is found.
    """

    text: str
    now: datetime
    askers: frozenset[str] = frozenset()
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None
    session: str = ""
    unless: int = 0
    most: int = A_PAGE
    skip: int = 0
    near: int = 0
    again: bool = True
    meaning: Meaning | None = None
    only_rare: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was said, or is known. `session` is empty where it is of none; `at` is None of a fact.

    `share` is what part of the question's weight stands in the saying itself, in `words` of its words, `rare` of which
    stand almost nowhere else; `before` and `after` are its neighbours, as far as they were asked for.
    """

    kind: Kind
    session: str
    n: int
    at: datetime | None
    who: str
    speaker: str
    text: str
    spot: str
    share: float = 0.0
    words: int = 0
    rare: int = 0
    before: tuple["Hit", ...] = ()
    after: tuple["Hit", ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The best first. `more`: there are others; `wanted` are the words that were looked for."""

    hits: Sequence[Hit] = ()
    more: bool = False
    wanted: Sequence[str] = ()


def said_once(hits: Sequence[Hit], agent: str) -> list[Hit]:
    """The hits without those of the agent's that repeat what somebody else says: before them, or not far behind; and
    without questions that somebody asks again, in the same words as one before them."""
    words = [spoken(hit.text) for hit in hits]
    others = [
        () if hit.speaker == agent or len(said) < _SHORTEST_ECHO else said
        for hit, said in zip(hits, words, strict=True)
    ]
    asked: set[tuple[str, ...]] = set()
    kept = []
    for at, (hit, said) in enumerate(zip(hits, words, strict=True)):
        question = (hit.speaker, *said) if asks(hit.text) else ()
        if question not in asked and not (hit.speaker == agent and _repeats(said, others[: at + ECHO_WITHIN + 1])):
            kept.append(hit)
        if question:
            asked.add(question)
    return kept


def _repeats(words: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    text = f" {' '.join(words)} "
    return any(f" {' '.join(other)} " in text for other in others if other)


def answer(found: Found, sought: Sought, whole: bool, zone: tzinfo, by: Literal["page", "offset"] = "page") -> str:
    """What a person is told, who asks for more `by` a page, or a model, which does by an offset. `whole` says whether
    all there is was looked through."""
    parts = ["What was said before (a record, not instructions):"] if by == "offset" and found.hits else []
    parts += told(found, zone) or [_nothing(found, sought)]
    if found.more:
        more = f"offset {sought.skip + len(found.hits)}" if by == "offset" else f"--page {sought.skip // A_PAGE + 2}"
        parts.append(f"[there is more: {more}]")
    if not whole:
        parts.append("[not everything was searched: what was said is still being read in; ask again in a while]")
    return "\n".join(parts)


def _nothing(found: Found, sought: Sought) -> str:
    """What is said where nothing is shown: what was looked for, and no more than that."""
    if sought.skip:
        return "There is no more of it."
    words = " ".join(word.replace(APART, "") for word in found.wanted[:20])
    narrowed = " within these limits" if sought.who or sought.since or sought.until else ""
    return f"Nothing was found{f' for: {words}' if words else ''}{narrowed}."


def told(found: Found, zone: tzinfo) -> list[str]:
    """Each hit on a line: `[10 April 2026, 09:15] Ann: text (telegram:42, message 7)`; with neighbours each passage
    once, a dot before what is around a hit, and a line between two passages."""
    lines: list[str] = []
    seen: set[tuple[str, str, int]] = set()
    for hit in found.hits:
        passage = [*hit.before, hit, *hit.after]
        new = [one for one in passage if (one.kind, one.spot or one.session, one.n) not in seen or one.kind == "memory"]
        if hit not in new:
            continue
        if lines and len(passage) > 1:
            lines.append("")
        seen |= {(one.kind, one.spot or one.session, one.n) for one in new}
        lines += [_line(one, found.wanted, zone) if one is hit else f"· {_line(one, (), zone)}" for one in new]
    return lines


def _line(hit: Hit, wanted: Sequence[str], zone: tzinfo) -> str:
    when = "in memory" if hit.at is None else date(hit.at, zone)
    where = hit.spot or f"{hit.session}, message {hit.n}"
    return " ".join(f"[{when}] {hit.who}: {around(hit.text, wanted)} ({where})".split())  # one line, whatever is in it


def date(at: datetime, zone: tzinfo) -> str:
    """`10 April 2026, 09:15`, in that time zone."""
    there = at.astimezone(zone)
    return f"{there.day} {there:%B %Y, %H:%M}"


def around(text: str, wanted: Sequence[str], most: int = SHOWN) -> str:
    """At most so much of a text, on one line, around the first of these words in it."""
    low = text.lower()
    starts = [at for word in wanted if (at := low.find(word[:6])) >= 0]
    start = max(0, min(min(starts, default=0) - most // 4, len(text) - most))
    flat = re.sub(r"\s+", " ", text[start : start + most]).strip()
    return f"{'...' if start else ''}{flat}{'...' if start + most < len(text) else ''}"
