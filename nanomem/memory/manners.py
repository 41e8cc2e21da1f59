"""SOUL.md as all spaces see it: as a person last wrote it.

What is learnt from the owner's chats may go into the owner's SOUL.md, and is for the owner alone, also where the owner
left it standing when they edited another line: as a line of its own, or in the words of one that a person wrote.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nanomem.facts import FACTS, Block, blocks, without
from nanomem.memory.known import files_before
from nanomem.memory.tracing import Trail, follow_all, key
from nanomem.memory.undoing import undone
from nanomem.ports import Versions
from nanomem.spaces import Space
from nanomem.versions import Version

_LEAD = {False: re.compile(r"[ \t]*"), True: re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])\s+")}
"""What stands before the wording of a fact; of a list item its marker, too."""


class _Hand(NamedTuple):
    """SOUL.md of the version by hand that counts, and its number; 0 where there is none."""

    number: int = 0
    soul: str = ""


class Manners:
    """Found once for each newest version."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._found: dict[Path, tuple[Version, _Hand, str]] = {}

    async def of(self, owners: Space) -> str:
        """SOUL.md of the newest version by hand that changed it and is not undone, each fact as a person last worded
        it, without what was learnt into it before. Raises CannotStore."""
        known = await self._versions.all(owners)
        if not known:
            return ""
        seen, hand, shown = self._found.get(owners.root, (None, _Hand(), ""))
        if seen != known[-1]:
            is_as_seen = seen is not None and seen == known[: seen.number][-1]
            later = known[seen.number :] if seen and is_as_seen else known
            if any("Undoes" in version.trailers for version in later):
                later = known
            found = await self._by_hand(owners, known, later)
            if found or len(later) == len(known):
                hand = found or _Hand()
                shown = await asyncio.to_thread(_by_hand_alone, hand.soul, known[: hand.number])
            self._found[owners.root] = (known[-1], hand, shown)
        return shown

    async def _by_hand(self, owners: Space, known: Sequence[Version], later: Sequence[Version]) -> _Hand | None:
        gone = undone(known)
        for version in reversed(later):
            if version.kind == "manual" and version.number not in gone:
                soul = (await self._versions.read(owners, version.id)).soul
                if soul != (await files_before(self._versions, owners, known, version)).soul:
                    return _Hand(version.number, soul)
        return None


def _by_hand_alone(soul: str, known: Sequence[Version]) -> str:
    """SOUL.md of the last of these versions, with each fact as a person last worded it, and without those that none
    has."""
    found = blocks(soul)
    trails = iter(follow_all([block.text for block in found if block.kind in FACTS], known))
    shown = [_as_worded(block, next(trails)) if block.kind in FACTS else [block] for block in found]
    said = {key(block.text) for block, worded in zip(found, shown, strict=True) if worded == [block]}
    kept: list[tuple[Block, bool]] = []
    for block, worded in zip(found, shown, strict=True):
        if worded != [block]:
            worded = [one for one in worded if key(one.text) not in said]
            said.update(key(one.text) for one in worded)  # one that was split is shown once
        kept += [(one, False) for one in worded] or [(block, True)]
    return without([block for block, _ in kept], [is_gone for _, is_gone in kept])


def _as_worded(block: Block, trails: Sequence[Trail]) -> list[Block]:
    """The fact as it stands where its wording is a person's, which it is taken for where no version says whose; else
    each wording that a person gave to what became the fact."""
    wordings = [worded for trail in trails if (worded := _by_hand(trail, block.text)) is not None]
    if not trails or any(key(worded) == key(block.text) for worded in wordings):
        return [block]
    if block.kind == "code":
        return []  # its lines are in no version's words
    unique = {key(worded): worded for worded in wordings}
    return [_reworded(block, worded) for worded in unique.values()]


def _by_hand(trail: Trail, fact: str) -> str | None:
    """The newest wording that a person gave the fact; None: there is none. What a restore put back was worded by
    whoever had worded it so before."""
    steps = [step for step in trail.steps if step.what == "reworded"]
    makers = [*(step.version for step in steps), trail.origin]
    wordings = [fact, *(step.before for step in steps)]
    at = 0
    while at < len(makers):
        maker = makers[at]
        if maker is None or maker.kind == "manual":
            return wordings[at]
        is_back = [later for later in range(at + 1, len(makers)) if key(wordings[later]) == key(wordings[at])]
        at = is_back[0] if maker.kind == "restore" and is_back else at + 1
    return None


def _reworded(block: Block, worded: str) -> Block:
    """The block with another wording, on one line."""
    lead = _LEAD[block.kind == "item"].match(block.raw)
    text = f"{lead[0] if lead else '- '}{worded}"
    return block._replace(raw=text + ("\r\n" if block.raw.endswith("\r\n") else "\n"), text=text.strip())
