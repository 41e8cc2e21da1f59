"""Who has a space to himself: a command that runs in it, or the memory's writer while it replaces SOUL.md or USER.md.

Replacing a file that a running command is kept from would uncover it, and clearing up after one command uncovers the
truth to another. So they take turns.
"""

import asyncio
from pathlib import Path
from weakref import WeakValueDictionary

from nanomem.spaces import Space


class Stillness:
    """`async with still(space)`: no command runs there. In the order of asking; not to be asked for twice by one."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    def __call__(self, space: Space) -> asyncio.Lock:
        return self._locks.setdefault(space.root, asyncio.Lock())
