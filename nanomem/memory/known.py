"""What is known, together with the version that it is; and what was, before one."""

from collections.abc import Sequence

from nanomem.facts import MemoryFiles
from nanomem.ports import Memory, Versions
from nanomem.spaces import Space
from nanomem.versions import Version


async def known_now(memory: Memory, versions: Versions, space: Space) -> tuple[MemoryFiles, Sequence[Version]]:
    """The files, and the versions of which the newest is just these: nobody has changed it between the two looks."""
    before = await versions.all(space)
    while True:
        files, after = await memory.read(space), await versions.all(space)
        if len(after) == len(before):
            return files, after
        before = after


async def files_before(versions: Versions, space: Space, known: Sequence[Version], version: Version) -> MemoryFiles:
    """The files as they were before a version; before the first there were none."""
    return await versions.read(space, known[version.number - 2].id) if version.number > 1 else MemoryFiles()


def newest_dream(known: Sequence[Version]) -> Version | None:
    """The newest version that a Dream made."""
    return next((version for version in reversed(known) if version.kind == "Dream"), None)
