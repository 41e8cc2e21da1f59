"""A disk, and what a power cut may leave of it. Pure.

What is done to files lands in memory first. Certain is only what a finished sync covers: of a file, its data and size;
of a folder, the names in it. Everything later is open. What is assumed is the weakest that POSIX leaves, and that the
file systems compared by Pillai et al. ("All File Systems Are Not Created Equal", OSDI 2014) show somewhere:

- Open effects survive in any choice, in no order among each other: neither between files, nor between data and names,
  nor between the names of one folder (btrfs reorders these; ext4 and xfs keep them in order). A file's sync says
  nothing of its name, where ext4, xfs and btrfs promise more.
- Of one name the disk holds one moment of its history: if a later change of a name survives, so does each before it.
- A change of names is all or nothing, a rename into another folder and an exchange, too; so a sync of either folder
  makes it certain. The name has the old file or the new one, and of the new one only what was synced: it may be empty.
- An open write survives whole, or not at all, or torn: at a sector, at any byte, or with its size but without its data,
  which then is zeros. Bytes beside it in the same sector are not damaged (SQLite calls that a powersafe overwrite, and
  assumes it, too).

A folder whose own name did not survive is gone with all in it. Nothing is known of modes and times. A database's `-shm`
is left out: it is written through a mapping, and says nothing that the next start does not find out by itself.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from random import Random
from typing import NamedTuple

from proofs.record import (
    EXCHANGE,
    KEEP_SIZE,
    LINKS,
    MKDIRS,
    OPENS,
    REMOVALS,
    RENAMES,
    SYMLINKS,
    SYNCS,
    TRUNCATIONS,
    WRITES,
    Event,
)

SECTOR = 512
ROOT = 0
SHARED_MEMORY = "-shm"


@dataclass(frozen=True)
class State:
    """What is on a disk, by paths: what is in the files, the folders but for the root, where symbolic links point."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)

    def digest(self, but: Callable[[str], bool] = lambda path: False) -> str:
        """The same for the same state; paths that `but` is true of do not count."""
        parts = [("folder", path, "") for path in self.folders]
        parts += [("link", path, to) for path, to in self.links.items()]
        parts += [("file", path, sha256(data).hexdigest()) for path, data in self.files.items()]
        return sha256(json.dumps(sorted(part for part in parts if not but(part[1]))).encode()).hexdigest()


class Part(NamedTuple):
    """What survives of a write: these bytes of it, and with `sized` the length of the file as if all did."""

    start: int
    stop: int
    sized: bool = False


WHOLE = Part(0, 2**63, True)
Choice = Sequence[Part | None]
"""What becomes of each open effect: None if it is lost."""


@dataclass(eq=False, slots=True)
class Names:
    """A change of names, all or nothing: which node each has from then on, by folder and name."""

    paths: tuple[str, ...]
    given: Mapping[tuple[int, str], int | None]

    def is_in(self, folder: int) -> bool:
        return any(above == folder for above, _ in self.given)

    def outcomes(self) -> list[Part | None]:
        return [None, WHOLE]


@dataclass(eq=False, slots=True)
class Data:
    """A write, or without `data` a new end at `offset`."""

    paths: tuple[str, ...]
    node: int
    offset: int
    data: bytes | None

    def outcomes(self) -> list[Part | None]:
        """The kinds there are; of a long one the tears near its ends and in its middle."""
        if self.data is None:
            return [None, WHOLE]
        length = len(self.data)
        sectors = [cut for cut in range(-self.offset % SECTOR, length, SECTOR) if cut]
        cuts = {*sectors[:1], *sectors[-1:], 1, length // 2, length - 1} - {0, length}
        late = [Part(cut, length) for cut in sectors[:1]]
        return [None, WHOLE, Part(0, 0, True), *(Part(0, cut) for cut in sorted(cuts)), *late]

    def on(self, content: bytes, part: Part) -> bytes:
        """The file's content with that part of it."""
        if self.data is None:
            return content[: self.offset].ljust(self.offset, b"\0")
        start, stop = part.start, min(part.stop, len(self.data))
        content = content.ljust(self.offset + (len(self.data) if part.sized else stop), b"\0")
        return content[: self.offset + start] + self.data[start:stop] + content[self.offset + stop :]


Effect = Names | Data


class Disk:
    """Told in order what was done, it knows what is open; made with what was certain at the beginning."""

    def __init__(self, start: State) -> None:
        self.open: list[Effect] = []
        """In order."""
        self._kept: dict[tuple[int, str], int] = {}
        self._content: dict[int, bytes] = {}
        self._folders = {ROOT}
        self._links: dict[int, str] = {}
        self._sizes: dict[int, int] = {}
        self._count = 0
        paths = {".": ROOT}
        for path in sorted([*start.folders, *start.files, *start.links]):
            above, _, name = path.rpartition("/")
            if path in start.folders:
                node = self._folder()
            elif path in start.links:
                node = self._link(start.links[path])
            else:
                node = self._file()
                self._content[node] = start.files[path]
                self._sizes[node] = len(start.files[path])
            self._kept[paths[above or "."], name] = paths[path] = node
        self._seen = dict(self._kept)

    def see(self, event: Event) -> None:
        """One more thing was done, or was not."""
        call, path, to = event.call, event.path, event.to
        if event.result is None or event.result < 0 or path.endswith(SHARED_MEMORY):
            return
        if call in WRITES:
            if event.data:
                self._write(path, event.offset, event.data)
        elif call in SYNCS:
            node = self._node(path)
            self._settle(
                [effect.is_in(node) if isinstance(effect, Names) else effect.node == node for effect in self.open]
            )
        elif call == "syncfs":
            self._settle([True] * len(self.open))
        elif call in TRUNCATIONS:
            self._write(path, event.size, None)
        elif call == "fallocate":
            if not event.flags & KEEP_SIZE and event.size > self._sizes[self._node(path)]:
                self._write(path, event.size, None)
        elif call in OPENS:
            if self._find(path) is None:
                self._change({path: self._file()})
            elif event.flags & os.O_TRUNC:
                self._write(path, 0, None)
        elif call in RENAMES:
            node, other = self._node(path), self._find(to)
            if node != other:
                self._change({path: other if event.flags & EXCHANGE else None, to: node})
        elif call in LINKS:
            self._change({to: self._node(path)})
        elif call in SYMLINKS:
            self._change({path: self._link(to)})
        elif call in REMOVALS:
            self._change({path: None})
        elif call in MKDIRS:
            self._change({path: self._folder()})
        else:
            raise ValueError(f"no disk knows {call}, as was done to {path}")

    def seen(self) -> State:
        """What programs see, and what is left if all survives."""
        return self.after([WHOLE] * len(self.open))

    def after(self, choice: Choice) -> State:
        """What is left if that becomes of the open effects; more survives of a name where it must."""
        names, content = dict(self._kept), dict(self._content)
        for effect, part in zip(self.open, self._legal(choice), strict=True):
            if part is None:
                continue
            if isinstance(effect, Names):
                _give(names, effect)
            else:
                content[effect.node] = effect.on(content[effect.node], part)
        return self._state(names, content)

    def states(
        self, most: int = 64, dice: Random | None = None, aside: Callable[[str], bool] = lambda path: False
    ) -> Iterator[State]:
        """Different states that a cut may leave, `most` at most, beginning with the two ends: all survives, nothing.

        All of them if the open effects have at most so many outcomes together, else some of the extremes (one alone is
        lost, or survives, or is torn, the others being lost or surviving; each prefix with a torn end), half of what
        is asked for, and the rest by the dice. Paths that `aside` is true of are left to the dice, too, and make no
        state a different one.
        """
        dice = dice or Random(0)
        kinds = [effect.outcomes() for effect in self.open]
        idle = [all(map(aside, effect.paths)) for effect in self.open]
        found: set[str] = set()
        for choice in self._choices(kinds, idle, most, dice):
            luck = dice.choice([0.0, 0.5, 1.0])
            if found:
                choice = [
                    _drawn(kind, dice, luck) if free else part
                    for kind, free, part in zip(kinds, idle, choice, strict=True)
                ]
            state = self.after(choice)
            if (digest := state.digest(but=aside)) not in found:
                found.add(digest)
                yield state
            if len(found) == most:
                return

    def _choices(
        self, kinds: list[list[Part | None]], idle: list[bool], most: int, dice: Random
    ) -> Iterator[list[Part | None]]:
        yield [WHOLE] * len(kinds)
        yield [None] * len(kinds)
        busy = [at for at, free in enumerate(idle) if not free]
        if math.prod(len(kinds[at]) for at in busy) <= most:
            for parts in product(*(kinds[at] for at in busy)):
                chosen = dict(zip(busy, parts, strict=True))
                yield [chosen.get(at) for at in range(len(kinds))]
            return
        extremes: list[list[Part | None]] = []
        for count, at in enumerate(busy):
            before = set(busy[:count])
            prefix: list[Part | None] = [WHOLE if i in before else None for i in range(len(kinds))]
            for part in kinds[at]:
                extremes.append([part if i == at else survives for i, survives in enumerate(prefix)])
                extremes.append([part if i == at else None for i in range(len(kinds))])
                extremes.append([part if i == at else WHOLE for i in range(len(kinds))])
        dice.shuffle(extremes)
        yield from extremes[: most // 2]
        for _ in range(4 * most):
            luck = dice.choice([0.2, 0.5, 0.8])
            yield [_drawn(kind, dice, luck) for kind in kinds]

    def _legal(self, choice: Choice) -> list[Part | None]:
        """With what must survive, too, since a later change of the same name does."""
        legal, held = list(choice), set[tuple[int, str]]()
        for at in reversed(range(len(legal))):
            effect = self.open[at]
            if isinstance(effect, Names) and (legal[at] is not None or held & effect.given.keys()):
                legal[at] = WHOLE
                held |= effect.given.keys()
        return legal

    def _file(self) -> int:
        self._count += 1
        self._content[self._count] = b""
        self._sizes[self._count] = 0
        return self._count

    def _folder(self) -> int:
        self._count += 1
        self._folders.add(self._count)
        return self._count

    def _link(self, to: str) -> int:
        self._count += 1
        self._links[self._count] = to
        return self._count

    def _find(self, path: str) -> int | None:
        node: int | None = ROOT
        for name in [] if path == "." else path.split("/"):
            node = None if node is None else self._seen.get((node, name))
        return node

    def _node(self, path: str) -> int:
        node = self._find(path)
        if node is None:
            raise ValueError(f"there is no {path}")
        return node

    def _change(self, changes: Mapping[str, int | None]) -> None:
        given: dict[tuple[int, str], int | None] = {}
        for path, node in changes.items():
            above, _, name = path.rpartition("/")
            given[self._node(above or "."), name] = node
        effect = Names(tuple(changes), given)
        self.open.append(effect)
        _give(self._seen, effect)

    def _write(self, path: str, offset: int, data: bytes | None) -> None:
        node = self._node(path)
        self.open.append(Data((path,), node, offset, data))
        self._sizes[node] = offset if data is None else max(self._sizes[node], offset + len(data))

    def _settle(self, covered: Sequence[bool]) -> None:
        """The effects that a sync covers become certain, and with a name the changes of it before."""
        certain = self._legal([WHOLE if is_covered else None for is_covered in covered])
        for effect, part in zip(self.open, certain, strict=True):
            if part is None:
                continue
            if isinstance(effect, Names):
                _give(self._kept, effect)
            else:
                self._content[effect.node] = effect.on(self._content[effect.node], WHOLE)
        self.open = [effect for effect, part in zip(self.open, certain, strict=True) if part is None]

    def _state(self, names: Mapping[tuple[int, str], int], content: Mapping[int, bytes]) -> State:
        inside: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in names.items():
            inside.setdefault(folder, []).append((name, node))
        files: dict[str, bytes] = {}
        links: dict[str, str] = {}
        folders: set[str] = set()
        waiting = [(ROOT, "")]
        while waiting:
            folder, prefix = waiting.pop()
            for name, node in inside.get(folder, ()):
                path = prefix + name
                if node in self._links:
                    links[path] = self._links[node]
                elif node not in self._folders:
                    files[path] = content[node]
                else:
                    folders.add(path)
                    waiting.append((node, f"{path}/"))
        return State(files, frozenset(folders), links)


def _give(names: dict[tuple[int, str], int], change: Names) -> None:
    for place, node in change.given.items():
        if node is None:
            names.pop(place, None)
        else:
            names[place] = node


def _drawn(kind: Sequence[Part | None], dice: Random, luck: float) -> Part | None:
    """It survives with so much luck; a torn one is in between."""
    if luck and len(kind) > 2 and dice.random() < 0.2:
        return dice.choice(kind[2:])
    return WHOLE if dice.random() < luck else None
