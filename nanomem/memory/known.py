"""What is known, together with the version that it is."""

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
