"""The merge: a proposal, made from a base, applied to what the files are by now. Pure."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from nanomem.facts import NAMES, MemoryFiles
from nanomem.ledger.judging import Judged
from nanomem.ledger.page import Page
from nanomem.ledger.state import State
from nanomem.ledger.talk import memory_only
from nanomem.versions import Removal, Verdict

_MOST_TIMES = 4
"""Where a line or a heading stands several times, a merge may leave something for the next: then it is done again."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What the files shall be, and what happened to each fact."""

    files: MemoryFiles
    verdicts: tuple[Verdict, ...] = ()


def merge(
    base: MemoryFiles,
    proposal: MemoryFiles,
    current: MemoryFiles,
    removed: Sequence[Removal] = (),
    *,
    has_talk: bool = True,
) -> Merged:
    """Apply `proposal`, made from `base`, to `current`. What it drops without a reason stays; what was taken out of
    `current` meanwhile stays out. A person's text or an earlier version, other than a model's, has no talk in it."""
    if has_talk:
        proposal = MemoryFiles(*map(memory_only, astuple(proposal), astuple(base)))
    if proposal == base:
        return Merged(current)
    keys: dict[str, str] = {}
    old, wanted = State(base, keys), State(proposal, keys)
    now = old if current == base else State(current, keys)
    merged = _merged(old, wanted, now, removed)
    for _ in range(_MOST_TIMES):
        after = State(merged.files, keys) if any(state.has_copies for state in (old, wanted, now)) else None
        again = _merged(old, wanted, after, removed) if after else merged
        if again.files == merged.files:
            break
        merged = Merged(again.files, (*merged.verdicts, *(v for v in again.verdicts if v not in merged.verdicts)))
    return merged


def _merged(old: State, wanted: State, now: State, removed: Sequence[Removal]) -> Merged:
    judged = Judged(old, wanted, now, removed)
    texts = [Page(judged, file).text() for file in range(len(NAMES))]
    return Merged(MemoryFiles(*texts), tuple(judged.verdicts()))


def changes(before: MemoryFiles, after: MemoryFiles, reason: str) -> tuple[Verdict, ...]:
    """What happened to each fact between two states, where every loss has that reason."""
    if before == after:
        return ()
    keys: dict[str, str] = {}
    old = State(before, keys)
    judged = Judged(old, State(after, keys), old, (), reason)
    return tuple(judged.verdicts())
