"""The vectors that an index keeps beside what was said: given, dropped, compared."""

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanomem.errors import BegunAnew
from nanomem.messages import Sender
from nanomem.ports import Bare, Vector
from nanomem.recall.found import Sought
from nanomem.recall.meaning import Meaning
from nanomem.records import Metadata, UserMessage
from nanomem.spaces import Space
from nanomem.stores.recall_index import SqliteRecallIndex
from nanomem.stores.session_log import JsonlSessionLog

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
KEY, ANN = "telegram:42", Sender("7", "Ann")
SAID = ("My puppy ate a shoe", "It rained in Graz", "The invoice is paid")
POINTS = {
    "My puppy ate a shoe": (1.0, 0.0, 0.1),
    "It rained in Graz": (0.0, 1.0, 0.0),
    "The invoice is paid": (0, 0, 1),
}


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("owner", tmp_path / "workspace", tmp_path / "workspace")


def index_in(tmp_path: Path, model: str | None = "one") -> SqliteRecallIndex:
    return SqliteRecallIndex(tmp_path / "recall", UTC, model)


def database(tmp_path: Path) -> sqlite3.Connection:
    return sqlite3.connect(tmp_path / "recall" / "owner.db")


def message(n: int, at: datetime, text: str) -> UserMessage:
    return UserMessage(n=n, turn=f"t{n}", timestamp=at, content=text, tokens=1, sender=ANN)


async def said(space: Space, *texts: str, key: str = KEY, apart_s: float = 7_200) -> None:
    """A log of these messages, hours apart, so that they are no neighbours."""
    records = [message(n, NOW + timedelta(seconds=n * apart_s), text) for n, text in enumerate(texts, 1)]
    await JsonlSessionLog().append(space, key, [Metadata(key=key, created_at=NOW), *records])


async def taken_in(index: SqliteRecallIndex, space: Space) -> None:
    for log in await index.logs(space):
        while await index.read(space, log):
            pass


async def embedded(index: SqliteRecallIndex, space: Space, points: Mapping[str, Vector] = POINTS) -> list[Bare]:
    """Gives vectors to all that has none, and returns what had none."""
    bare = list(await index.bare(space, 100))
    await index.embed(space, bare, [points[one.text] for one in bare])
    return bare


async def found(index: SqliteRecallIndex, space: Space, text: str, vector: Vector) -> list[str]:
    sought = Sought(text, NOW, meaning=Meaning(vector) if vector else None)
    return [hit.text for hit in (await index.find(space, sought)).hits]


async def test_what_means_the_same_is_found_without_a_common_word(tmp_path: Path, space: Space) -> None:
    """With the question's vector; without one there is nothing to go by."""
    index = index_in(tmp_path)
    await said(space, *SAID)
    await taken_in(index, space)
    assert len(await embedded(index, space)) == 3 and not await index.bare(space, 100)
    assert await found(index, space, "dog", (1, 0, 0)) == ["My puppy ate a shoe"]
    assert await found(index, space, "dog", ()) == []
    assert await found(index, space, "dog", (1, 0)) == [], "of another length: it is another model's"
    await index.close()


async def test_neighbours_count_in_a_conversation_and_not_across_a_pause(tmp_path: Path, space: Space) -> None:
    """An answer is near to what its question is near to."""
    index = index_in(tmp_path)
    await said(space, "Which pet?", "Yes, that one", apart_s=20)
    await said(space, "Other things", "Far away", key="telegram:43")
    await taken_in(index, space)
    points = {"Which pet?": (1, 0), "Yes, that one": (0.5, 1), "Other things": (0.5, 1), "Far away": (0, 1)}
    await embedded(index, space, points)
    assert await found(index, space, "dog", (1, 0)) == ["Which pet?", "Yes, that one"]
    await index.close()


async def test_the_order_does_not_depend_on_when_something_was_taken_in(tmp_path: Path, space: Space) -> None:
    """Neither on which log was first, nor on what was in memory when the rest came."""
    points = {f"text {n}": (math.sin(n), math.cos(n), n % 7 / 7) for n in range(60)}
    logs = {f"telegram:{k}": [f"text {n}" for n in range(k * 20, k * 20 + 20)] for k in range(3)}
    for key, texts in logs.items():
        await said(space, *texts, key=key)
    orders = []
    for number, names in enumerate((list(logs), list(reversed(logs)))):
        index = index_in(tmp_path / str(number))
        for name in names:
            while await index.read(space, f"{name.replace(':', '%3A')}.jsonl"):
                pass
            await embedded(index, space, points)
            await found(index, space, "text", (1, 0, 0))
        orders.append(await found(index, space, "something else", (0.3, 0.8, 0.5)))
        await index.close()
    assert orders[0] == orders[1] and len(orders[0]) == 8


async def test_another_model_begins_anew(tmp_path: Path, space: Space) -> None:
    """All is without a vector again, and words find meanwhile; the same model keeps what there is."""
    await said(space, *SAID)
    for model, bare in (("one", 3), ("one", 0), ("two", 3), ("two", 0), (None, 0), ("two", 0), ("", 0), ("two", 3)):
        index = index_in(tmp_path, model)
        await taken_in(index, space)
        assert await found(index, space, "puppy", (1, 0, 0)) == ["My puppy ate a shoe"]
        assert len(await embedded(index, space)) == bare, model
        await index.close()


async def test_without_a_model_nothing_is_stored(tmp_path: Path, space: Space) -> None:
    """And what a model left behind is dropped."""
    await said(space, *SAID)
    for model, kept in (("", 0), ("one", 3), ("", 0)):
        index = index_in(tmp_path, model)
        await taken_in(index, space)
        await embedded(index, space)
        await index.close()
        with database(tmp_path) as db:
            assert db.execute("SELECT count(*) FROM vectors").fetchone() == (kept,)
        db.close()


async def test_what_goes_loses_its_vector(tmp_path: Path, space: Space) -> None:
    """A fact that is known no more, and a log that is gone."""
    index, points = index_in(tmp_path), {**POINTS, "Ann has a beagle": (1.0, 0.1, 0.0)}
    await said(space, *SAID)
    await index.know(space, {"USER.md": ["Ann has a beagle"]})
    await taken_in(index, space)
    await embedded(index, space, points)
    assert set(await found(index, space, "dog", (1, 0, 0))) == {"My puppy ate a shoe", "Ann has a beagle"}
    await index.know(space, {})
    assert await found(index, space, "dog", (1, 0, 0)) == ["My puppy ate a shoe"]
    for path in (space.root / "sessions").iterdir():
        path.unlink()
    await index.logs(space)
    assert await found(index, space, "dog", (1, 0, 0)) == []
    await index.close()
    with database(tmp_path) as db:
        assert db.execute("SELECT count(*) FROM vectors").fetchone() == (0,)
    db.close()


async def test_a_vector_comes_too_late_for_a_text_that_is_gone(tmp_path: Path, space: Space) -> None:
    """Nor does another text that took its place get it."""
    index = index_in(tmp_path)
    await index.know(space, {"USER.md": ["Ann has a beagle"]})
    await taken_in(index, space)
    bare = await index.bare(space, 10)
    await index.know(space, {"USER.md": ["Ann likes tea"]})
    await index.embed(space, bare, [(1.0, 0.0)])
    assert [one.text for one in await index.bare(space, 10)] == ["Ann likes tea"]
    await index.embed(space, [replace(bare[0], text="another")], [(1.0, 0.0)])
    assert await found(index, space, "dog", (1, 0)) == []
    await index.close()


async def test_vectors_of_another_length_begin_anew(tmp_path: Path, space: Space) -> None:
    """A model that changed behind its name: those there cannot be compared with the new ones."""
    index = index_in(tmp_path)
    await said(space, *SAID[:2])
    await taken_in(index, space)
    await embedded(index, space)
    await said(space, *SAID[2:], key="telegram:43")
    await taken_in(index, space)
    await embedded(index, space, {SAID[2]: (1.0, 0.0)})
    assert {one.text for one in await index.bare(space, 10)} == set(SAID[:2])
    await index.close()


@pytest.mark.parametrize("vector", [(), (0.0, 0.0, 0.0), (math.nan, 1.0, 0.0), (math.inf, 1.0, 0.0)])
async def test_what_points_nowhere_is_near_to_nothing(tmp_path: Path, space: Space, vector: tuple[float, ...]) -> None:
    """And it is not asked for again."""
    index = index_in(tmp_path)
    await said(space, *SAID)
    await taken_in(index, space)
    await embedded(index, space, POINTS | {SAID[0]: vector})
    assert not await index.bare(space, 10)
    assert await found(index, space, "dog", (1, 0, 0)) == []
    assert await found(index, space, "puppy", vector) == [SAID[0]]
    await index.close()


async def test_a_damaged_vector_is_noticed(tmp_path: Path, space: Space) -> None:
    """The index is begun anew, as with any damage."""
    index = index_in(tmp_path)
    await said(space, *SAID)
    await taken_in(index, space)
    await embedded(index, space)
    await index.close()
    with database(tmp_path) as db:
        db.execute("UPDATE vectors SET vector = x'0102' WHERE id = (SELECT min(id) FROM vectors)")
    db.close()
    with pytest.raises(BegunAnew):
        await found(index, space, "dog", (1, 0, 0))
    await taken_in(index, space)
    assert len(await embedded(index, space)) == 3
    assert await found(index, space, "dog", (1, 0, 0)) == ["My puppy ate a shoe"]
    await index.close()
