"""Versions of the memory, a git repository for each space. Knows nothing of how a repository lies on disk."""

import asyncio
import re
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from nanomem.errors import CannotStore
from nanomem.facts import NAMES, MemoryFiles
from nanomem.spaces import Space, file_name
from nanomem.stores import durable, repository
from nanomem.stores.repository import MAIN, Commit, Objects
from nanomem.versions import Version, parsed

PLACED, PUSHED = "refs/placed", "refs/pushed"
_LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the others stand for bytes that are no UTF-8
_SPACES_IN_MEMORY = 64
_FILES_IN_MEMORY = 32


@dataclass(slots=True)
class _History:
    """The versions of a space by id, the oldest first; `stored` are the objects of the newest that was made here."""

    versions: dict[str, Version] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()

    @property
    def tip(self) -> str | None:
        return next(reversed(self.versions), None)


class GitVersions:
    """`ports.Versions` in a folder of repositories. Any method may wait for another one on the same space."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._histories: OrderedDict[str, _History] = OrderedDict()
        self._read_once = lru_cache(_FILES_IN_MEMORY)(self._read)

    def path(self, space: Space) -> Path:
        """Where a space's repository is, or will be after its first version."""
        return self._root / f"{file_name(space.name)}.git"

    def names(self) -> list[str]:
        """The names of all spaces that have versions."""
        return sorted(filter(None, map(_space_name, repository.repositories(self._root))))

    async def all(self, space: Space) -> Sequence[Version]:
        """See the port. Follows first parents. Raises CannotStore for a repository that is damaged."""
        return await asyncio.to_thread(self._all, space)

    async def read(self, space: Space, version: str) -> MemoryFiles:
        """See the port. Raises CannotStore for a repository that is damaged."""
        return await asyncio.to_thread(self._read_once, space, version)

    async def commit(self, space: Space, files: MemoryFiles, message: str, at: datetime) -> Version:
        """See the port. CannotStore, too, where somebody else has moved `main` since it was last looked at."""
        return await durable.finished(self._commit, space, files, message, at)

    async def placed(self, space: Space) -> str | None:
        """See the port."""
        return await asyncio.to_thread(repository.read_ref, self.path(space), PLACED)

    async def set_placed(self, space: Space, version: str) -> None:
        """See the port. Raises KeyError: there is no such version."""
        await durable.finished(self._note, space, PLACED, version)

    async def set_pushed(self, space: Space, version: str) -> None:
        """Notes that a version is with the remote. Raises as `set_placed`."""
        await durable.finished(self._note, space, PUSHED, version)

    def _all(self, space: Space) -> tuple[Version, ...]:
        with self._locks[space.name]:
            return tuple(self._history(space).versions.values())

    def _history(self, space: Space) -> _History:
        """What is known, brought up to date: costs as much as there is new."""
        path, history = self.path(space), self._histories.get(space.name, _History())
        tip = repository.tip(path)
        if tip is None and history.versions:
            raise CannotStore(f"{path} is gone. Put it back; or restart nanomem, which then begins a new history.")
        if tip != history.tip:
            history = _followed(path, tip, history.versions)
        self._histories.pop(space.name, None)
        self._histories[space.name] = history
        if len(self._histories) > _SPACES_IN_MEMORY:
            self._histories.popitem(last=False)
        return history

    def _read(self, space: Space, version: str) -> MemoryFiles:
        path = self.path(space)
        with closing(Objects(path)) as objects:
            if commit := objects.commit(version):
                files = (objects.file(commit.tree, name) for name in NAMES)
                return MemoryFiles(*(data.decode("utf-8", "surrogateescape") for data in files))
        with self._locks[space.name]:
            if version in self._history(space).versions:
                raise repository.damaged(path, f"commit {version} is missing or damaged")
        raise KeyError(version)

    def _commit(self, space: Space, files: MemoryFiles, message: str, at: datetime) -> Version:
        path = self.path(space)
        data = {name: _bytes(text) for name, text in files.by_name.items() if text}
        with self._locks[space.name]:
            seen, history = self._histories.get(space.name), self._history(space)
            if seen and seen.tip != history.tip:
                raise CannotStore(f"Somebody else has just changed {path}. Try again.")
            commit, objects = repository.made(data, message, at, history.tip)
            new = {name: made for name, made in objects.items() if name not in history.stored}
            if history.tip:
                repository.store(path, new)
                repository.move(path, MAIN, history.tip, commit.id)
            else:
                repository.create(path, space.name, new, commit.id)
            history.stored = frozenset(objects)
            history.versions[commit.id] = _version(len(history.versions) + 1, commit)
            return history.versions[commit.id]

    def _note(self, space: Space, ref: str, version: str) -> None:
        path = self.path(space)
        with self._locks[space.name]:
            if version not in self._history(space).versions:
                raise KeyError(version)
            if (old := repository.read_ref(path, ref)) != version:
                repository.move(path, ref, old, version)


def _followed(path: Path, tip: str | None, known: dict[str, Version]) -> _History:
    """The history that ends with a commit."""
    new = list(repository.commits(path, tip, known))[::-1]
    before = new[0].parent if new else tip
    kept = known[before].number if before in known else 0
    versions = [*known.values()][:kept] + [_version(number, commit) for number, commit in enumerate(new, kept + 1)]
    return _History({version.id: version for version in versions})


def _version(number: int, commit: Commit) -> Version:
    return Version(number, commit.id, commit.at, *parsed(commit.message))


def _bytes(text: str) -> bytes:
    """The very bytes that a text was read from."""
    return _LONE_SURROGATE.sub("\ufffd", text).encode("utf-8", "surrogateescape")


def _space_name(path: Path) -> str | None:
    """The name of the space whose repository this is; noted in it, since a long one does not fit into the folder's."""
    try:
        noted = (path / "description").read_text("utf-8").removesuffix("\n")
    except (OSError, ValueError):
        noted = ""
    names = (noted, unquote(path.name.removesuffix(".git")))
    return next((name for name in names if f"{file_name(name)}.git" == path.name), None)
