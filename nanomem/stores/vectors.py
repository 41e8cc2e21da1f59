"""The vectors of one recall index: a signed byte for each number, kept beside the texts they are made of.

What of an index has none yet is a row without a vector, put there and taken away by the database with the text itself.
The only place where numpy is imported, and only once there is something to reckon. All of it blocks.
"""

import sqlite3
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nanomem.ports import Bare, Vector
from nanomem.recall.meaning import LOOKED_AT, NEXT, PREVIOUS, Near, Spread
from nanomem.recall.words import plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLES = """
CREATE TABLE IF NOT EXISTS embedded(model TEXT NOT NULL, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS vectors(id INTEGER PRIMARY KEY, scale REAL, vector BLOB);
CREATE INDEX IF NOT EXISTS bare ON vectors(id) WHERE vector IS NULL;
CREATE TRIGGER IF NOT EXISTS wants_vector AFTER INSERT ON said WHEN EXISTS (SELECT 1 FROM embedded) BEGIN
    INSERT OR REPLACE INTO vectors(id) VALUES (new.id);
END;
CREATE TRIGGER IF NOT EXISTS loses_vector AFTER DELETE ON said BEGIN
    DELETE FROM vectors WHERE id = old.id;
END;
"""
_LARGEST = 127
_EXACT = 1024  # numbers, since 1024 * 127 * 127 is below 2**24
_ROWS_AT_ONCE = 256  # what stays in the processor's cache is four times as fast


class _Loaded(NamedTuple):
    """`rows` and `scales` as they came; `order` puts them into that of `places`."""

    ids: "NDArray[np.int64]"
    scales: "NDArray[np.float64]"
    rows: "NDArray[np.int8]"
    order: "NDArray[np.int64]"
    places: "NDArray[np.int64]"


class Vectors:
    """Those of one `model`; None leaves alone what is there, "" wants none. Kept in memory once they were asked for."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._loaded: _Loaded | None = None
        self._new: list[tuple[int, float, bytes]] = []

    def forget(self) -> None:
        """What is in memory may no longer be what is in the file."""
        self._loaded = None
        self._new.clear()

    def settle(self, db: sqlite3.Connection) -> None:
        """Drops what another model has made, and notes that all wants vectors of this one."""
        kept = db.execute("SELECT model FROM embedded").fetchone()
        if self._model is None or (kept[0] if kept else "") == self._model:
            return
        self._begin(db, 0)

    def bare(self, db: sqlite3.Connection, most: int) -> list[Bare]:
        """Texts without a vector, the newest of each log first."""
        self.settle(db)
        if not self._model:
            return []
        rows = db.execute(
            "SELECT said.id, text FROM vectors JOIN said USING(id) WHERE vector IS NULL ORDER BY id DESC LIMIT ?",
            (most,),
        )
        return [Bare(id, plain(text)) for id, text in rows]

    def take(self, db: sqlite3.Connection, texts: Sequence[Bare], vectors: Sequence[Vector]) -> None:
        """Keeps the vectors of texts that are still there. One of another length than the others begins them anew."""
        size = max(map(len, vectors), default=0)
        known = db.execute("SELECT model, size FROM embedded").fetchone()
        if known is None or known[0] != self._model:
            return
        if size and size != known[1]:
            if known[1]:
                self._begin(db, size)
            db.execute("UPDATE embedded SET size = ?", (size,))
        for bare, vector in zip(texts, vectors, strict=True):
            row = db.execute("SELECT text FROM said WHERE id = ?", (bare.id,)).fetchone()
            if row and plain(row[0]) == bare.text:
                scale, packed = _packed(vector if len(vector) == size else ())
                db.execute("UPDATE vectors SET scale = ?, vector = ? WHERE id = ?", (scale, packed, bare.id))
                if self._loaded is not None and packed:
                    self._new.append((bare.id, scale, packed))

    def near(self, db: sqlite3.Connection, vector: Vector, places: Collection[int]) -> Near | None:
        """How near the nearest and these places are; None where there are no vectors, or only another model's."""
        import numpy as np

        known = db.execute("SELECT model, size FROM embedded").fetchone()
        scale, packed = _packed(vector)
        if known is None or known[0] != self._model or known[1] != len(vector) or not packed:
            return None
        loaded = self._all(db, known[1])
        if not len(loaded.rows):
            return None
        cosines = _products(loaded.rows, np.frombuffer(packed, np.int8)) * loaded.scales * scale
        there = loaded.places
        near = _with_neighbours(cosines[loaded.order], there)
        in_order = np.sort(near)  # a sum does not depend on where the rows stand
        spread = Spread(float(in_order.mean()), float(in_order.std()))
        nearest = np.argpartition(near, -LOOKED_AT)[-LOOKED_AT:] if len(near) > LOOKED_AT else np.arange(len(near))
        asked_for = np.array(sorted(places), np.int64)
        at = np.minimum(np.searchsorted(there, asked_for), len(there) - 1)
        chosen = np.union1d(nearest, at[there[at] == asked_for])
        return Near(dict(zip(there[chosen].tolist(), near[chosen].tolist(), strict=True)), spread)

    def _begin(self, db: sqlite3.Connection, size: int) -> None:
        self.forget()
        db.execute("DELETE FROM vectors")
        db.execute("DELETE FROM embedded")
        if self._model:
            db.execute("INSERT INTO embedded VALUES (?, ?)", (self._model, size))
            db.execute("INSERT INTO vectors(id) SELECT id FROM said")

    def _all(self, db: sqlite3.Connection, size: int) -> _Loaded:
        import numpy as np

        if self._loaded is None:
            self._new.clear()
            found = db.execute("SELECT id, scale, vector FROM vectors WHERE length(vector) > 0 ORDER BY id")
            self._loaded = _ordered(*_unpacked(found.fetchall(), size))
        elif self._new:
            (ids, scales, rows, *_), new = self._loaded, _unpacked(self._new, size)
            self._loaded = _ordered(
                np.concatenate((ids, new[0])), np.concatenate((scales, new[1])), np.concatenate((rows, new[2]))
            )
            self._new.clear()
        return self._loaded


def _unpacked(
    found: Sequence[tuple[int, float, bytes]], size: int
) -> "tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int8]]":
    """Raises DatabaseError where the rows are not what was written."""
    import numpy as np

    ids, scales, packed = zip(*found, strict=True) if found else ((), (), ())
    if any(len(one) != size for one in packed):
        raise sqlite3.DatabaseError("a vector is of another length than it should be")
    rows = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), size)
    return np.array(ids, np.int64), np.array(scales, np.float64), rows


def _ordered(ids: "NDArray[np.int64]", scales: "NDArray[np.float64]", rows: "NDArray[np.int8]") -> _Loaded:
    order = ids.argsort()
    return _Loaded(ids, scales, rows, order, ids[order] >> 1)


def _products(rows: "NDArray[np.int8]", asked: "NDArray[np.int8]") -> "NDArray[np.float64]":
    """The dot product of each row, exact: float32 is fast, and counts in ones as far as so many numbers go."""
    import numpy as np

    found = np.zeros(len(rows), np.float64)
    for first in range(0, len(asked), _EXACT):
        some = asked[first : first + _EXACT].astype(np.float32)
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            piece = rows[at : at + _ROWS_AT_ONCE, first : first + _EXACT].astype(np.float32)
            found[at : at + _ROWS_AT_ONCE] += piece @ some
    return found


def _with_neighbours(cosines: "NDArray[np.float64]", places: "NDArray[np.int64]") -> "NDArray[np.float64]":
    """Each with a part of what its neighbours have in the same conversation; never below 0."""
    import numpy as np

    together = np.diff(places) == 1
    near = cosines.copy()
    near[1:] += PREVIOUS * cosines[:-1] * together
    near[:-1] += NEXT * cosines[1:] * together
    return np.maximum(near, 0.0)


def _packed(vector: Vector) -> tuple[float, bytes]:
    """A vector of length 1 as bytes, and what each of them counts; nothing for one that points nowhere."""
    import numpy as np

    given = np.asarray(vector, np.float64)
    length = float(np.sqrt(given @ given)) if given.size else 0.0
    if not np.isfinite(length) or length < 1e-12:
        return 0.0, b""
    largest = float(np.abs(given).max())
    return largest / length / _LARGEST, np.rint(given / largest * _LARGEST).astype(np.int8).tobytes()
