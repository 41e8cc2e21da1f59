"""Where a fact comes from: the version that first had it, the history entry and the messages behind that, who said it.

Reads what the versions, the history and the session logs tell; changes nothing and asks no model.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from nanomem.entries import Entry, for_people
from nanomem.facts import MemoryFiles, facts
from nanomem.memory.quoting import Quote, excerpt, matching, overlap, quotes, terms
from nanomem.memory.tracing import Step, Trail, follow_all, key
from nanomem.ports import History, Memory, Versions
from nanomem.remembering import bare
from nanomem.session import Said
from nanomem.spaces import Space
from nanomem.versions import Stretch, Version

Messages = Callable[[Space, str, int, int], Awaitable[Sequence[Said]]]
"""Reads the messages of a session from a first to a last `n`, both included; what cannot be read is left out."""

MOST_FACTS = 10
_MOST_SOURCES = 5
_MOST_ENTRIES = 50  # looked through for the one that a fact is from
_BEFORE_IT = 3  # entries of other sessions may be out of order by a few
_MOST_NUMBERS = 5


@dataclass(frozen=True, slots=True)
class Source:
    """One origin of a fact: its trail, and of what the origin names, what is still to be found."""

    trail: Trail
    entry: Entry | None = None
    quotes: Sequence[Quote] = ()


@dataclass(frozen=True, slots=True)
class Explained:
    """A fact and the file it is in; without sources it stands in the file, and in no version yet."""

    fact: str
    file: str
    sources: Sequence[Source]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts that were asked for, and how many more there are."""

    found: Sequence[Explained]
    more: int = 0


class Why:
    """Explains the facts of a space."""

    def __init__(self, memory: Memory, versions: Versions, history: History, said: Messages) -> None:
        self._memory = memory
        self._versions = versions
        self._history = history
        self._said = said

    async def explain(self, space: Space, words: str) -> Explanation:
        """The current facts that have these words, with where each comes from. Raises CannotStore: a log cannot
        be read."""
        files = own(space, await self._memory.read(space))
        wanted = await asyncio.to_thread(matching, files, words)
        shown = wanted[:MOST_FACTS]
        versions = await self._versions.all(space)
        trails = await asyncio.to_thread(follow_all, [fact for _, fact in shown], versions)
        newest = await self._facts(space, versions[-1]) if versions else set()
        found: list[Explained] = []
        for (name, fact), its in zip(shown, trails, strict=True):
            its = await self._from_the_first(space, its, versions) if key(fact) in newest else []
            sources = [await self._source(space, trail) for trail in its[:_MOST_SOURCES]]
            found.append(Explained(bare(fact), name.rpartition("/")[2], sources))
        return Explanation(found, len(wanted) - len(shown))

    async def _from_the_first(self, space: Space, trails: list[Trail], versions: Sequence[Version]) -> list[Trail]:
        """What no version says to be new was there before the first, if it stands in that."""
        if all(trail.origin for trail in trails):
            return trails
        there = await self._facts(space, versions[0])
        return [
            replace(trail, origin=versions[0]) if trail.origin is None and key(trail.wording) in there else trail
            for trail in trails
        ]

    async def _facts(self, space: Space, version: Version) -> set[str]:
        files = await self._versions.read(space, version.id)
        return {key(fact) for text in files.by_name.values() for fact in facts(text)}

    async def _source(self, space: Space, trail: Trail) -> Source:
        heard = trail.origin.heard if trail.origin else []
        entry = await self._entry(space, trail.wording, trail.origin.entries if trail.origin else None)
        said = [message for stretch in heard for message in await self._said(space, *stretch)]
        if entry is None and trail.origin and heard:
            entry = await self._covering(space, heard[0].session, heard[0].first, trail.origin)
        elif entry and not any(_covers(stretch, entry) for stretch in heard):
            said += await self._said(space, entry.session, entry.first, entry.last)
        return Source(trail, entry, await asyncio.to_thread(quotes, trail.wording, said))

    async def _covering(self, space: Space, session: str, n: int, origin: Version) -> Entry | None:
        """The entry that a message is in by now, if it is in one: written after the version, and looked for from the
        first that reaches so far."""
        low, high = 1, await self._history.last(space) + 1
        while low < high:
            middle = (low + high) // 2
            entry = await self._history.entry(space, middle)
            low, high = (low, middle) if entry and entry.timestamp >= origin.at else (middle + 1, high)
        for number in range(max(1, low - _BEFORE_IT), low + _MOST_ENTRIES):
            entry = await self._history.entry(space, number)
            if entry and entry.session == session and entry.first <= n <= entry.last:
                return entry
        return None

    async def _entry(self, space: Space, fact: str, cursors: tuple[int, int] | None) -> Entry | None:
        """That of the entries which shares most words with the fact."""
        if cursors is None:
            return None
        first, last = cursors
        numbers = range(first, min(last, first + _MOST_ENTRIES - 1) + 1)
        entries = [entry for number in numbers if (entry := await self._history.entry(space, number))]
        wanted = terms(fact)
        return max(entries, key=lambda entry: overlap(wanted, _whole(entry)), default=None)


def own(space: Space, files: MemoryFiles) -> MemoryFiles:
    """What is known in the space itself: SOUL.md is the owner's, wherever it is seen."""
    return files if space.is_owners else replace(files, soul="")


def _covers(stretch: Stretch, entry: Entry) -> bool:
    return stretch.session == entry.session and stretch.first <= entry.first and entry.last <= stretch.last


def _whole(entry: Entry) -> str:
    return " ".join((entry.summary, *entry.key_facts))


def as_text(explanation: Explanation, words: str, zone: tzinfo) -> str:
    """An explanation for people."""
    if not explanation.found:
        return f"Nothing I know matches {words}. Try fewer words, or only a part of one."
    blocks = ["\n".join(_block(explained, zone)) for explained in explanation.found]
    if explanation.more:
        blocks.append(f"{explanation.more} more match: give more words.")
    return "\n\n".join(blocks)


def _block(explained: Explained, zone: tzinfo) -> list[str]:
    lines = [f"{explained.fact} ({explained.file})"]
    if not explained.sources:
        return [*lines, "  by hand, since the newest version"]
    for source in explained.sources:
        lines += [f"  {line}" for line in _lines(source, explained.fact, zone)]
    return lines


def _lines(source: Source, fact: str, zone: tzinfo) -> list[str]:
    trail, origin = source.trail, source.trail.origin
    if origin is None:
        return ["; ".join(("no version says where it comes from", *_since(trail.steps)))]
    at = f"{origin.at.astimezone(zone):%Y-%m-%d %H:%M}"
    lines = ["; ".join((f"version {origin.number}, {at}, {_by(origin)}", *_since(trail.steps)))]
    if key(fact) != key(trail.wording):
        lines.append(f"at first: {trail.wording}")
    if source.entry:
        lines.append(f"history {source.entry.cursor}: {excerpt(for_people(source.entry, zone), terms(trail.wording))}")
    for quote in source.quotes:
        lines.append(f'{quote.who}, {quote.at.astimezone(zone):%Y-%m-%d %H:%M}: "{quote.text}"')
    return lines


def _by(origin: Version) -> str:
    """Who or what made a version, in a word."""
    if origin.kind == "manual":
        return "by hand"
    if not origin.trailers.get("Id", "").startswith("remember "):
        return origin.kind
    return " by ".join(filter(None, ("/remember", origin.trailers.get("By", ""))))


def _since(steps: Sequence[Step]) -> list[str]:
    """What happened later: `reworded in versions 9 and 12`."""
    numbers: dict[str, list[str]] = {}
    for step in reversed(steps):
        numbers.setdefault(step.what, []).append(str(step.version.number))
    return [f"{what} in version{'s' if len(found) > 1 else ''} {_listed(found)}" for what, found in numbers.items()]


def _listed(numbers: Sequence[str]) -> str:
    if len(numbers) > _MOST_NUMBERS:
        numbers = [*numbers[: _MOST_NUMBERS - 1], "...", numbers[-1]]
    return " and ".join(filter(None, (", ".join(numbers[:-1]), numbers[-1])))
