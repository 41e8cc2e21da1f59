"""The index that finds what was said again: an SQLite file a space, with the words of each saying in FTS5.

All in it is made of the logs, each read on from where the last reading ended, in one transaction with that place: so a
crash loses nothing and doubles nothing, and a file that is missing, damaged or of another version is begun anew.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from pathlib import Path
from typing import TypeVar

from nanomem.errors import BegunAnew
from nanomem.ports import Bare, Vector
from nanomem.recall.found import Found, Sought
from nanomem.spaces import Space, file_name
from nanomem.stores.recall_file import RecallFile
from nanomem.stores.recall_intake import Intake
from nanomem.stores.recall_search import Search, people_of

MOST_OPEN = 32
"""Files that stay open, with the vectors in memory: a space takes three descriptors, and there may be hundreds."""
_THREADS = 4
T = TypeVar("T")


class SqliteRecallIndex:
    """`ports.RecallIndex` in a folder of its own; `zone` is that of the people who ask.

    `model` is the name of the embedder whose vectors are kept: "" none, None those that are there.
    """

    def __init__(self, folder: Path, zone: tzinfo, model: str | None = "") -> None:
        self._folder = folder
        self._zone = zone
        self._model = model
        self._indexes: dict[str, RecallFile] = {}
        self._open: dict[str, RecallFile] = {}  # the newest used at the end
        # Its own, so that whoever waits for a large index keeps nobody from a thread that writes what was said.
        self._threads = ThreadPoolExecutor(_THREADS, "recall")

    async def logs(self, space: Space) -> list[str]:
        """See the port."""
        return await self._run(space, lambda file: Intake(file).logs(space))

    async def read(self, space: Space, log: str) -> bool:
        """See the port."""
        return await self._run(space, lambda file: Intake(file).read(space, log))

    async def know(self, space: Space, facts: Mapping[str, Sequence[str]]) -> None:
        """See the port."""
        await self._run(space, lambda file: Intake(file).know(facts))

    async def find(self, space: Space, sought: Sought) -> Found:
        """See the port."""
        return await self._run(space, lambda file: Search(file, sought, self._zone).found())

    async def people(self, space: Space) -> Mapping[str, Sequence[str]]:
        """See the port."""
        return await self._run(space, lambda file: people_of(file.db))

    async def bare(self, space: Space, most: int) -> list[Bare]:
        """See the port."""
        return await self._run(space, lambda file: file.vectors.bare(file.db, most))

    async def embed(self, space: Space, texts: Sequence[Bare], vectors: Sequence[Vector]) -> None:
        """See the port."""
        await self._run(space, lambda file: file.vectors.take(file.db, texts, vectors))

    async def close(self) -> None:
        """Closes all files; they are opened again when needed."""
        while self._open:
            _, index = self._open.popitem()
            await asyncio.get_running_loop().run_in_executor(self._threads, index.close)

    async def _run(self, space: Space, work: Callable[["RecallFile"], T]) -> T:
        index = self._indexes.get(space.name)
        if index is None:
            index = RecallFile(self._folder / f"{file_name(space.name)}.db", self._model)
            self._indexes[space.name] = index
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, index.run, work)
        except BegunAnew:
            index.lost = ""  # somebody knows it now
            raise
        finally:
            self._open.pop(space.name, None)
            self._open[space.name] = index
            while len(self._open) > MOST_OPEN:
                self._threads.submit(self._open.pop(next(iter(self._open))).close)
