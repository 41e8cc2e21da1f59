"""Following a fact back through what the versions say of it, to where it came from. Pure.

A fact and a mention of it are the same where the ledger takes them for the same, so a list marker, spacing or an arrow
within a fact do no harm. What says nothing of a fact leaves it as it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from nanomem.remembering import normal
from nanomem.versions import Version
from nanomem.wording import same

What = Literal["reworded", "moved", "put back", "brought back"]

_WANTED = ("manual", "agent", "restore")
"""Kinds of version that somebody wanted, other than those that a model made of what was said."""
_MOST_CUTS = 20
"""Places at which one line may be read as two facts; a line with more is somebody's joke."""


class Step(NamedTuple):
    """What a version did to a fact that was there before it; `before` is its wording until then, in normal form, where
    it was reworded."""

    version: Version
    what: What
    before: str = ""


@dataclass(frozen=True, slots=True)
class Trail:
    """Where a fact came from: the version that first had it, None where no version says so; its wording there, in
    normal form; and what happened to it since, the newest first."""

    origin: Version | None
    wording: str
    steps: tuple[Step, ...] = ()


def key(fact: str) -> str:
    """What all spellings of one fact have in common."""
    return same(normal(fact))


class Gone(NamedTuple):
    """When a fact was taken out or reworded, and what it was reworded to, in normal form; empty for nothing."""

    at: datetime
    became: str = ""


class _Mention(NamedTuple):
    """What a version did to a fact; `other` is what a reworded one was before, and what one that is gone became, in
    normal form."""

    what: Literal["new", "reworded", "moved", "put back", "gone"]
    other: str = ""


@dataclass(frozen=True, slots=True)
class _Walk:
    """One wording on its way back. `brought` is the newest restore that brought it back. An unsure one may not
    have been there before a newer version: it was reworded into there, and counts if an older version has it, too."""

    key: str
    wording: str
    steps: tuple[Step, ...] = ()
    brought: Version | None = None
    sure: bool = True


def follow(fact: str, versions: Sequence[Version]) -> list[Trail]:
    """The trails of a fact that stands in the newest version, one for each that was merged into it, the newest
    first; `versions` are all, the oldest first."""
    return follow_all([fact], versions)[0]


def follow_all(facts: Sequence[str], versions: Sequence[Version]) -> list[list[Trail]]:
    """As `follow`, for each of them: the versions are read once."""
    walks = [{key(fact): _Walk(key(fact), normal(fact))} for fact in facts]
    found: list[list[Trail]] = [[] for _ in facts]
    for version in reversed(versions):
        if not any(walks):
            break
        said = _mentions(version.lines)
        for at, open_walks in enumerate(walks):
            spoken_of = [open_walks.pop(name) for name in [*open_walks] if name in said]
            for walk in spoken_of:
                _go_back(walk, version, said[walk.key], walks[at], found[at])
    for at, open_walks in enumerate(walks):
        lost = [_ended(walk) for walk in open_walks.values() if walk.sure]
        known = [trail for trail in lost if trail.origin]
        found[at] += known if known or found[at] else lost
    return found


def taken_out(versions: Sequence[Version], since: datetime) -> dict[str, Gone]:
    """When each fact was last taken out by somebody who wanted that, by its key, as far as versions made since say."""
    found: dict[str, Gone] = {}
    for version in takewhile(lambda version: version.at >= since, reversed(versions)):
        for fact, became in gone_with(version).items() if version.kind in _WANTED else ():
            found.setdefault(fact, Gone(version.at, became))
    return found


def gone_with(version: Version) -> dict[str, str]:
    """The keys of the facts that a version has taken out or reworded, and what each became, empty for nothing."""
    said = _mentions(version.lines)
    found = {fact: next((one for one in mentions if one.what == "gone"), None) for fact, mentions in said.items()}
    return {fact: mention.other for fact, mention in found.items() if mention}


def come_with(version: Version) -> list[str]:
    """The keys of the facts that are in a version's words: new, or reworded."""
    said = _mentions(version.lines)
    return [fact for fact, mentions in said.items() if any(one.what in ("new", "reworded") for one in mentions)]


def _go_back(
    walk: _Walk, version: Version, said: Sequence[_Mention], further: dict[str, _Walk], found: list[Trail]
) -> None:
    """Takes a walk over one version: to its end, or to what goes further back."""
    kinds = {mention.what for mention in said}
    if "new" in kinds and version.kind != "restore":
        found.append(Trail(version, walk.wording, walk.steps))
        return
    before = [mention.other for mention in said if mention.what == "reworded"]
    for wording in before:
        step = Step(version, "reworded", wording)
        _keep(further, _Walk(key(wording), wording, (*walk.steps, step), walk.brought, walk.sure))
    steps = walk.steps
    if "new" in kinds:
        steps = (*steps, Step(version, "brought back"))
        _keep(further, _Walk(walk.key, walk.wording, steps, walk.brought or version))
    elif "gone" not in kinds or (walk.sure and not before):
        steps += tuple(Step(version, what) for what in ("moved", "put back") if what in kinds)
        _keep(further, _Walk(walk.key, walk.wording, steps, walk.brought, walk.sure and not before))


def _keep(walks: dict[str, _Walk], walk: _Walk) -> None:
    """Two that meet are one; the surer counts."""
    other = walks.get(walk.key)
    if other is None or (walk.sure and not other.sure):
        walks[walk.key] = walk


def _ended(walk: _Walk) -> Trail:
    """Of one that no version first had: it came with what brought it back, if anything did."""
    if walk.brought is None:
        return Trail(None, walk.wording, walk.steps)
    steps = walk.steps[: next(at for at, step in enumerate(walk.steps) if step.version is walk.brought)]
    return Trail(walk.brought, walk.wording, steps)


@lru_cache(maxsize=2_048)
def _mentions(lines: tuple[str, ...]) -> Mapping[str, Sequence[_Mention]]:
    """What a version's lines say of each fact that they may be speaking of, by the fact's key."""
    found: dict[str, list[_Mention]] = {}
    for line in lines:
        for fact, mention in _readings(line[:1], line[2:]):
            found.setdefault(fact, []).append(mention)
    return found


def _readings(sign: str, body: str) -> Iterator[tuple[str, _Mention]]:
    """Every way to read a line: a fact may have an arrow or a bracket in it."""
    match sign:
        case "+":
            yield key(body), _Mention("new")
        case "=":
            yield key(body.removesuffix(" put back")), _Mention("put back")
        case ">":
            for fact, _ in _cuts(body, " moved to "):
                yield key(fact), _Mention("moved")
        case "-":
            for fact, _ in _cuts(body, " ("):
                yield key(fact), _Mention("gone")
        case "~":
            for old, new in _cuts(body, " -> "):
                if key(old) != key(new):
                    yield key(new), _Mention("reworded", normal(old))
                    yield key(old), _Mention("gone", normal(new))


def _cuts(body: str, at: str) -> Iterator[tuple[str, str]]:
    """Both sides of each place where the text could be cut; the last place first."""
    end = len(body)
    for _ in range(_MOST_CUTS):
        end = body.rfind(at, 0, end)
        if end < 0:
            return
        yield body[:end], body[end + len(at) :]
