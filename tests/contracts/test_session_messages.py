"""Messages read by their numbers, and which sessions there are: one suite over the fake and the real log."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from nanomem.errors import CannotStore
from nanomem.messages import Sender
from nanomem.records import AssistantMessage, Reset, UserMessage
from nanomem.spaces import Space
from nanomem.stores.session_log import MOST_MESSAGES, JsonlSessionLog, path_of
from nanomem.testing import FakeSessionLog

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
KEY = "telegram:42"
LINE = '{{"role": "user", "content": "{0}", "timestamp": "2026-04-10T09:15:00+00:00", "n": {0}, "turn": "t"}}\n'

Log = FakeSessionLog | JsonlSessionLog


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("owner", tmp_path, tmp_path)


@pytest.fixture(params=[FakeSessionLog, JsonlSessionLog])
def log(request: pytest.FixtureRequest) -> Log:
    make: Callable[[], Log] = request.param
    return make()


async def read(log: Log, space: Space, first: int, last: int) -> list[int]:
    return [message.n for message in await log.messages(space, KEY, first, last)]


async def test_a_range_of_a_conversation(log: Log, space: Space) -> None:
    """Both ends included, whoever spoke, also what is no longer part of the conversation."""
    common = {"turn": "t", "timestamp": NOW, "content": "hi", "tokens": 1}
    for n in range(1, 10, 2):
        asked = UserMessage(n=n, sender=Sender("42", "Ann"), **common)  # type: ignore[arg-type]
        answered = AssistantMessage(n=n + 1, **common)  # type: ignore[arg-type]
        await log.append(space, KEY, [asked, answered])
    await log.append(space, KEY, [Reset(through=10, timestamp=NOW)])
    assert await read(log, space, 3, 6) == [3, 4, 5, 6]
    assert await read(log, space, 9, 99) == [9, 10]
    assert await read(log, space, 6, 5) == await read(log, space, 11, 20) == []


async def test_of_a_session_that_never_was_there_are_none(log: Log, space: Space) -> None:
    """Asking makes none."""
    assert await read(log, space, 1, 5) == []
    assert list(space.root.iterdir()) == []


async def test_the_sessions_of_a_space(log: Log, space: Space, tmp_path: Path) -> None:
    """Those that were written to, each by its own name; not those of another space, nor those only asked for."""
    other = Space("telegram:7", tmp_path / "other", tmp_path / "other")
    assert list(await log.keys(space)) == []
    keys = {KEY, "telegram:-100:5", "cli:Ann/../Bob", "cli:ann/../bob", "x" * 400, "猫 🙂", ".", "terminal"}
    for key in keys:
        await log.append(space, key, [Reset(through=0, timestamp=NOW)])
        await log.append(space, key, [Reset(through=0, timestamp=NOW)])
    await log.append(other, "telegram:7", [Reset(through=0, timestamp=NOW)])
    await log.load(space, "only loaded")
    await log.messages(space, "only asked for", 1, 9)
    found = await log.keys(space)
    assert set(found) == keys and len(found) == len(keys)
    assert list(await log.keys(other)) == ["telegram:7"]


# --- the real one only


def written(space: Space, *lines: str | bytes) -> None:
    path = path_of(space, KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))


@given(st.data())
async def test_any_range_of_a_long_file_with_damage_in_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """What is there of it, in order, wherever the damage is."""
    space = Space("owner", root := tmp_path_factory.mktemp("space"), root)
    count = data.draw(st.integers(0, 60))
    damage = st.sampled_from(["", "\n", "not json\n", "x" * 40_000 + "\n", '{"_type": "mood"}\n', '{"role": "user"}\n'])
    size = st.sampled_from([1, 20_000])
    lines = []
    for n in range(1, count + 1):
        text = LINE.format(n).replace('"turn"', f'"pad": "{"x" * data.draw(size)}", "turn"')
        lines += [text, data.draw(damage)]
    written(space, *lines)
    first, last = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70))
    assert await read(JsonlSessionLog(), space, first, last) == list(range(first, min(last, count) + 1))


async def test_what_lies_before_is_not_read(space: Space) -> None:
    """Only as many messages are read as a place is found with, and at most so many are given."""
    written(space, *(LINE.format(n) for n in range(1, 10_001)))
    log = JsonlSessionLog()
    assert await read(log, space, 9_001, 9_003) == [9_001, 9_002, 9_003]
    assert len(await read(log, space, 1, 10_000)) == MOST_MESSAGES


async def test_an_older_layout_counts_by_position(space: Space) -> None:
    """Its messages have no numbers; what was appended later has."""
    head = '{"_type": "metadata", "key": "telegram:42", "created_at": "2025-01-01T10:00:00", "last_consolidated": 2}\n'
    old = '{{"role": "user", "content": "{0}", "timestamp": "2025-01-01T10:00:00"}}\n'
    written(space, head, *(old.format(n) for n in range(1, 5)), LINE.format(5))
    found = await JsonlSessionLog().messages(space, KEY, 2, 5)
    assert [(m.n, m.content) for m in found] == [(2, "2"), (3, "3"), (4, "4"), (5, "5")]


async def test_a_torn_end_and_an_empty_file(space: Space) -> None:
    """Neither is an error; what cannot be read at all is one."""
    written(space, LINE.format(1), LINE.format(2)[:30])
    assert await read(JsonlSessionLog(), space, 1, 9) == [1]
    written(space)
    assert await read(JsonlSessionLog(), space, 1, 9) == []
    path_of(space, KEY).unlink()
    path_of(space, KEY).mkdir()
    with pytest.raises(CannotStore):
        await read(JsonlSessionLog(), space, 1, 9)


async def test_only_a_log_in_its_own_place_is_a_session(space: Space) -> None:
    """Copies, drafts, what says of no session, and what cannot be read are none, and hide no other."""
    log = JsonlSessionLog()
    await log.append(space, KEY, [Reset(through=0, timestamp=NOW)])
    folder, own = path_of(space, KEY).parent, path_of(space, KEY).read_bytes()
    for name in ("telegram%3A42 (copy).jsonl", "telegram%3A43.jsonl", "telegram%3A42.jsonl.bak", "telegram:42.jsonl"):
        (folder / name).write_bytes(own)
    for name, text in {"empty": b"", "garbage": b"\xff\n[1]\n", "nameless": LINE.format(1).encode()}.items():
        (folder / f"{name}.jsonl").write_bytes(text)
    (folder / "folder.jsonl").mkdir()
    (folder / "nowhere.jsonl").symlink_to("nowhere")
    with capture_logs() as logs:
        assert list(await log.keys(space)) == [KEY]
    unreadable = [entry["file"] for entry in logs if entry["event"] == "session.unreadable"]
    assert unreadable == ["folder.jsonl", "nowhere.jsonl"]


async def test_a_log_that_is_damaged_behind_its_head_is_a_session(space: Space) -> None:
    """Its name stands at its beginning."""
    log = JsonlSessionLog()
    await log.append(space, KEY, [Reset(through=0, timestamp=NOW)])
    with path_of(space, KEY).open("ab") as file:
        file.write(b'\xff\n{"role": "us')
    assert list(await JsonlSessionLog().keys(space)) == [KEY]


async def test_a_log_whose_head_a_power_cut_took_is_a_session(space: Space) -> None:
    """Of its first write only the later sectors had reached the disk; its name still tells whose it is."""
    log = JsonlSessionLog()
    first, again = (
        UserMessage(content=text, timestamp=NOW, n=1, turn=f"{KEY}#1", tokens=1, sender=Sender("42", "Ann"))
        for text in ("x" * 1000, "said again")
    )
    await log.append(space, KEY, [first])
    whole = path_of(space, KEY).read_bytes()
    path_of(space, KEY).write_bytes(bytes(512) + whole[512:])
    await log.append(space, KEY, [again])
    assert list(await JsonlSessionLog().keys(space)) == [KEY]
    assert await log.messages(space, KEY, 1, 9) == [again]


async def test_where_no_folder_of_sessions_is_there_are_none(space: Space) -> None:
    """Nor where something else stands in its place."""
    (space.root / "sessions").write_text("a letter to my aunt")
    assert list(await JsonlSessionLog().keys(space)) == []
