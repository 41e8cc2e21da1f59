"""The merge: a proposal, made from a base, applied to what the files are by now. Pure."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from nanomem.facts import NAMES, MemoryFiles
from nanomem.ledger.judging import Judged
from nanomem.ledger.page import Page
from nanomem.ledger.state import State
from nanomem.ledger.talk import memory_only
from nanomem.versions import Removal, Verdict


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
    old = State(base, keys)
    now = old if current == base else State(current, keys)
    judged = Judged(old, State(proposal, keys), now, removed)
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
