"""Vectors by a static model in a folder of this machine, and what such a model needs. The only place of model2vec.

Nothing is ever fetched: what is no folder is no model.
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nanomem.errors import TellUser
from nanomem.ports import Embedded, Vector
from nanomem.recall.words import clean

LOCAL = "local:"
"""Before the folder, in the settings."""
INSTALL = "pip install 'nanomem[embeddings]'"


class LocalEmbedder:
    """A `ports.Embedder` on model2vec, loaded when it is first used (some 0.5 s and 50 MB beside the model itself)."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model: Future[Any] | None = None
        self.name = f"{LOCAL}{folder} {_state(folder)}"

    async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
        """See the port. A text of unknown words points nowhere."""
        if not texts:
            return Embedded(())
        try:
            model = await asyncio.shield(asyncio.wrap_future(self._load()))
            return Embedded(await asyncio.to_thread(_vectors, model, texts))
        except Exception as error:  # of what three packages may raise over a damaged file, nothing is promised
            raise TellUser(f"The model in {self._folder} cannot be used: {error}") from None

    def _load(self) -> Future[Any]:
        if self._model is None or (self._model.done() and self._model.exception()):
            executor = ThreadPoolExecutor(1, "load-model2vec")
            self._model = executor.submit(_loaded, self._folder)
            executor.shutdown(wait=False)
        return self._model


def folder_of(wanted: str, home: Path) -> Path:
    """The folder that `local:FOLDER` names; a relative one is in the home folder."""
    return home / os.path.expanduser(wanted.removeprefix(LOCAL).strip())


def trouble(wanted: str, home: Path) -> tuple[str, str] | None:
    """What keeps vectors by that model from being made, and what to do about it; None if nothing is known to."""
    needed = ("numpy", "model2vec") if wanted.startswith(LOCAL) else ("numpy",)
    if missing := [name for name in needed if find_spec(name) is None]:
        return f"{' and '.join(missing)} must be installed for {wanted}", INSTALL
    try:
        import_module("numpy")
    except Exception as error:  # it raises more than ImportError where it was built for another processor
        return f"numpy cannot be loaded: {' '.join(str(error).split())[:200]}", INSTALL
    if wanted.startswith(LOCAL) and not (wanted.removeprefix(LOCAL).strip() and folder_of(wanted, home).is_dir()):
        return f"there is no folder {folder_of(wanted, home)}", "put a model2vec model there; none is ever fetched"
    return None


def _state(folder: Path) -> str:
    """What changes where another model is put into the folder."""
    try:
        found = (folder / "model.safetensors").stat()
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}"


def _loaded(folder: Path) -> Any:
    if not folder.is_dir():
        raise FileNotFoundError("it is gone")
    os.environ["HF_HUB_OFFLINE"] = "1"  # model2vec takes what is no folder for a name to fetch
    from model2vec import StaticModel

    return StaticModel.from_pretrained(folder.resolve())


def _vectors(model: Any, texts: Sequence[str]) -> list[Vector]:
    vectors: list[Vector] = model.encode([clean(text) for text in texts], use_multiprocessing=False).tolist()
    return vectors
