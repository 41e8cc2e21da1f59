"""SOUL.md as all spaces see it: as a person last wrote it.

What is learnt from the owner's chats may go into the owner's SOUL.md, and is for the owner alone, also where the owner
left it standing when they edited another line.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nanomem.facts import FACTS, MemoryFiles, blocks, without
from nanomem.memory.tracing import Trail, follow_all
from nanomem.memory.undoing import undone
from nanomem.ports import Versions
from nanomem.spaces import Space
from nanomem.versions import Version


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
        """SOUL.md of the newest version by hand that changed it and is not undone, without what was learnt into it
        before. Raises CannotStore."""
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
                if soul != (await self._before(owners, known, version)).soul:
                    return _Hand(version.number, soul)
        return None

    async def _before(self, owners: Space, known: Sequence[Version], version: Version) -> MemoryFiles:
        if version.number == 1:
            return MemoryFiles()
        return await self._versions.read(owners, known[version.number - 2].id)


def _by_hand_alone(soul: str, known: Sequence[Version]) -> str:
    """SOUL.md of the last of these versions, without the facts that no person has written or reworded."""
    found = blocks(soul)
    trails = iter(follow_all([block.text for block in found if block.kind in FACTS], known))
    return without(found, [block.kind in FACTS and not _is_by_hand(next(trails)) for block in found])


def _is_by_hand(trails: Sequence[Trail]) -> bool:
    """Whether a person made any of what became the fact; so it is taken where no version says who did."""
    makers = [version for trail in trails for version in (trail.origin, *_reworded(trail))]
    return not makers or any(version is None or version.kind == "manual" for version in makers)


def _reworded(trail: Trail) -> list[Version]:
    return [step.version for step in trail.steps if step.what == "reworded"]
