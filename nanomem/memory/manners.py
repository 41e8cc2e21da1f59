"""SOUL.md as all spaces see it: as a person last wrote it.

What is learnt from the owner's chats may go into the owner's SOUL.md, and is for the owner alone.
"""

from collections.abc import Sequence
from pathlib import Path

from nanomem.facts import MemoryFiles
from nanomem.memory.undoing import undone
from nanomem.ports import Versions
from nanomem.spaces import Space
from nanomem.versions import Version


class Manners:
    """Found once for each newest version."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._found: dict[Path, tuple[Version, str]] = {}

    async def of(self, owners: Space) -> str:
        """SOUL.md of the newest version by hand that changed it and is not undone. Raises CannotStore."""
        known = await self._versions.all(owners)
        if not known:
            return ""
        seen, soul = self._found.get(owners.root, (None, ""))
        if seen != known[-1]:
            is_as_seen = seen is not None and seen == known[: seen.number][-1]
            later = known[seen.number :] if seen and is_as_seen else known
            if any("Undoes" in version.trailers for version in later):
                later = known
            found = await self._by_hand(owners, known, later)
            soul = found if found is not None else soul if len(later) < len(known) else ""
            self._found[owners.root] = (known[-1], soul)
        return soul

    async def _by_hand(self, owners: Space, known: Sequence[Version], later: Sequence[Version]) -> str | None:
        gone = undone(known)
        for version in reversed(later):
            if version.kind == "manual" and version.number not in gone:
                soul = (await self._versions.read(owners, version.id)).soul
                if soul != (await self._before(owners, known, version)).soul:
                    return soul
        return None

    async def _before(self, owners: Space, known: Sequence[Version], version: Version) -> MemoryFiles:
        if version.number == 1:
            return MemoryFiles()
        return await self._versions.read(owners, known[version.number - 2].id)
