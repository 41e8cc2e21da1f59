"""What every session log promises: one suite over the fake and the real one."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import CannotStore
from nanomem.messages import Sender, ToolCall
from nanomem.ports import SessionLog
from nanomem.records import AssistantMessage, Consolidated, Consolidating, Record, Reset, ToolMessage, UserMessage
from nanomem.session import is_ended, open_calls
from nanomem.spaces import Space
from nanomem.stores.session_log import JsonlSessionLog, path_of, read_all
from nanomem.testing import FakeSessionLog

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
KEY = "telegram:42"


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("owner", tmp_path, tmp_path)


@pytest.fixture(params=[FakeSessionLog, JsonlSessionLog])
def log(request: pytest.FixtureRequest) -> SessionLog:
    make: Callable[[], SessionLog] = request.param
    return make()


def user(n: int, text: str = "hello", turn: str = "t") -> UserMessage:
    return UserMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, sender=Sender("42", "Ann"))


def assistant(n: int, text: str = "hi", turn: str = "t", **more: object) -> AssistantMessage:
    return AssistantMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, **more)  # type: ignore[arg-type]


def tool(n: int, turn: str = "t") -> ToolMessage:
    return ToolMessage(n=n, turn=turn, timestamp=NOW, content="seen", tokens=1, tool_call_id="c", name="look")


async def test_what_was_appended_is_loaded(log: SessionLog, space: Space) -> None:
    """In order, with every field."""
    call = ToolCall("c1", "look", '{"a": 1}')
    records: list[Record] = [
        user(1),
        assistant(2, tool_calls=(call,)),
        ToolMessage(n=3, turn="t", timestamp=NOW, content="seen", tokens=2, tool_call_id="c1", name="look"),
        assistant(4, end="answer"),
    ]
    await log.append(space, KEY, records[:1])
    await log.append(space, KEY, records[1:])
    session = await log.load(space, KEY)
    assert session.messages == records
    assert (session.last_n, session.key) == (4, KEY)
    assert is_ended(session.of_turn("t")) and not open_calls(session.messages[:3])


async def test_a_session_that_never_was_is_empty(log: SessionLog, space: Space) -> None:
    """Loading creates nothing."""
    session = await log.load(space, KEY)
    assert (session.messages, session.last_n) == ([], 0)


async def test_a_reset_hides_what_was_before(log: SessionLog, space: Space) -> None:
    """Numbers go on, and nothing is deleted."""
    await log.append(space, KEY, [user(1), assistant(2), Reset(through=2, timestamp=NOW, inbound="9")])
    await log.append(space, KEY, [user(3, "again")])
    session = await log.load(space, KEY)
    assert [m.n for m in session.messages] == [3]
    assert (session.last_n, session.last_consolidated, session.last_reset) == (3, 2, "9")


async def test_sessions_are_apart(log: SessionLog, space: Space) -> None:
    """Also those whose keys differ only in case, or are no file names."""
    keys = ["terminal:a", "terminal:A", "../../x", "x" * 10_000, ".", ".."]
    for number, key in enumerate(keys, 1):
        await log.append(space, key, [user(1, f"in {number}")])
    for number, key in enumerate(keys, 1):
        assert [m.content for m in (await log.load(space, key)).messages] == [f"in {number}"]


# --- the real one only


async def written(space: Space, *lines: str | bytes) -> Path:
    path = path_of(space, KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"".join(data))
    return path


LINE = '{{"role": "user", "content": "{0}", "timestamp": "2026-04-10T09:15:00+00:00", "n": {0}, "turn": "t"}}\n'


async def test_names_in_the_folder_stay_in_it(space: Space) -> None:
    """No key leads outside, and none is longer than a name may be."""
    log = JsonlSessionLog()
    for key in ("../../x", "x" * 10_000, "..", "a/b", "tele\0gram"):
        await log.append(space, key, [user(1)])
    names = [path.name for path in (space.root / "sessions").iterdir()]
    assert len(names) == 5 and all(len(name.encode()) <= 210 for name in names)
    assert sorted(path.name for path in space.root.iterdir()) == ["sessions"]


async def test_a_torn_last_line_stays_and_spoils_nothing(space: Space) -> None:
    """It is ended with a line break at the next append, and passed over."""
    path = await written(space, LINE.format(1), LINE.format(2)[:30])
    log = JsonlSessionLog()
    assert [m.n for m in (await log.load(space, KEY)).messages] == [1]
    await log.append(space, KEY, [user(2, "again")])
    assert [m.content for m in (await log.load(space, KEY)).messages] == ["1", "again"]
    assert LINE.format(2)[:30] + "\n" in path.read_text()


async def test_a_last_line_that_lacks_only_its_break_counts(space: Space) -> None:
    """It is whole."""
    await written(space, LINE.format(1), LINE.format(2).rstrip("\n"))
    log = JsonlSessionLog()
    assert (await log.load(space, KEY)).last_n == 2
    await log.append(space, KEY, [user(3)])
    assert (await log.load(space, KEY)).last_n == 3


@pytest.mark.parametrize(
    "damage",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b'{"role": "user"}\n',
        b'{"role": "user", "content": 5, "timestamp": "2026-04-10T09:15:00+00:00"}\n',
        b'{"role": "alien", "content": "", "timestamp": "2026-04-10T09:15:00+00:00"}\n',
        b"[1]\n",
        b"\n",
        b"[" * 100_000 + b"\n",
        b'{"role": "assistant", "content": "", "tool_calls": [1], "timestamp": "2026-04-10T09:15:00+00:00"}\n',
    ],
)
async def test_a_bad_line_in_the_middle_is_passed_over(space: Space, damage: bytes) -> None:
    """What stands around it is read; the file is left as it is."""
    path = await written(space, LINE.format(1), damage, LINE.format(3))
    before = path.read_bytes()
    assert [m.n for m in (await JsonlSessionLog().load(space, KEY)).messages] == [1, 3]
    assert path.read_bytes() == before


async def test_unknown_kinds_and_keys_are_kept_and_ignored(space: Space) -> None:
    """A later version may have written them."""
    future = '{"_type": "mood", "value": 3}\n'
    await written(space, LINE.format(1).replace('"turn"', '"colour": "red", "turn"'), future)
    session = await JsonlSessionLog().load(space, KEY)
    assert [m.n for m in session.messages] == [1]


async def test_an_unreadable_log_is_no_empty_one(space: Space) -> None:
    """A folder in its place is an error, not a fresh start."""
    path_of(space, KEY).mkdir(parents=True)
    with pytest.raises(CannotStore):
        await JsonlSessionLog().load(space, KEY)


async def test_an_older_layout_is_read_as_it_is(space: Space) -> None:
    """No version, no `n`: messages count by position, and what was consolidated stays so."""
    head = '{"_type": "metadata", "key": "telegram:42", "created_at": "2025-01-01T10:00:00", "last_consolidated": 2}\n'
    old = '{{"role": "{1}", "content": "{0}", "timestamp": "2025-01-01T10:00:00"}}\n'
    lines = [old.format(n, "user" if n % 2 else "assistant") for n in range(1, 5)]
    path = await written(space, head, *lines)
    log = JsonlSessionLog()
    session = await log.load(space, KEY)
    assert [(m.n, m.content) for m in session.messages] == [(3, "3"), (4, "4")]
    await log.append(space, KEY, [user(5, "new")])
    assert [m.n for m in (await log.load(space, KEY)).messages] == [3, 4, 5]
    assert path.read_text().startswith(head + lines[0])


async def test_a_long_log_is_read_from_its_end(space: Space) -> None:
    """Only what is not consolidated, and the message before it, are parsed: what is broken earlier goes unnoticed."""
    lines = ["broken\n"] * 1000 + [LINE.format(n) for n in range(1001, 1011)]
    reset = '{"_type": "reset", "through": 1008, "timestamp": "2026-04-10T09:15:00+00:00"}\n'
    await written(space, *lines, reset)
    session = await JsonlSessionLog().load(space, KEY)
    assert [m.n for m in session.messages] == [1009, 1010]


async def test_bad_lines_are_reported_by_their_number(space: Space) -> None:
    """In order, and however many there are, the file is gone through once."""
    await written(space, LINE.format(1), "bad\n", LINE.format(2), "\n", "worse\n", LINE.format(3))
    with capture_logs() as logs:
        await JsonlSessionLog().load(space, KEY)
    assert [entry["line"] for entry in logs] == [2, 4, 5]
    await written(space, LINE.format(1), *["x" * 2_000 + "\n"] * 10_000)
    began = time.monotonic()
    with capture_logs() as logs:
        await JsonlSessionLog().load(space, KEY)
    assert [entry["line"] for entry in logs] == list(range(2, 10_002))
    assert time.monotonic() - began < 10, "counting from the beginning for each line takes a minute"


async def test_the_file_reads_as_the_format_says(space: Space) -> None:
    """Metadata first, times in UTC with seconds, one object a line, modes that keep others out."""
    await JsonlSessionLog().append(space, KEY, [user(1), assistant(2, end="answer")])
    path = path_of(space, KEY)
    head, first, last = (json.loads(line) for line in path.read_text().splitlines())
    assert (head["_type"], head["version"], head["key"]) == ("metadata", 1, KEY)
    assert path.name == "telegram%3A42.jsonl"
    assert first == {
        "role": "user",
        "content": "hello",
        "timestamp": "2026-04-10T09:15:00+00:00",
        "n": 1,
        "turn": "t",
        "tokens": 1,
        "sender": {"id": "42", "name": "Ann"},
    }
    assert last["end"] == "answer"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert len(list(read_all(path))) == 3


async def test_a_log_is_read_back_as_far_as_the_pointer(log: SessionLog, space: Space) -> None:
    """What is consolidated is not read; where the pointer is amid a turn, its question still is."""
    turns: list[Record] = [
        record
        for n in range(1, 9, 2)
        for record in (user(n, turn=f"t{n}"), assistant(n + 1, turn=f"t{n}", end="answer"))
    ]
    call = ToolCall("c", "look", "{}")
    rounds: list[Record] = [user(9, "long", turn="t9")]
    for n in (10, 12, 14):
        rounds += [assistant(n, turn="t9", tool_calls=(call,)), tool(n + 1, turn="t9")]
    await log.append(space, KEY, [*turns, *rounds])
    await log.append(space, KEY, [Consolidated(id="d", through=6, history=1, timestamp=NOW)])
    assert [m.n for m in (await log.load(space, KEY)).shown] == list(range(7, 16))
    await log.append(space, KEY, [Consolidated(id="e", through=11, history=2, timestamp=NOW)])
    session = await log.load(space, KEY)
    assert [m.n for m in session.shown] == [9, 12, 13, 14, 15]
    assert (session.rounds("t9"), session.last_consolidated, session.history) == (3, 11, 2)
    await log.append(space, KEY, [Consolidated(id="f", through=13, history=3, timestamp=NOW)])
    session = await log.load(space, KEY)
    assert [m.n for m in session.shown] == [9, 14, 15]
    assert session.rounds("t9") == 3


async def test_a_decision_that_is_not_carried_out_is_found(log: SessionLog, space: Space) -> None:
    """Also behind messages that came later."""
    decision = Consolidating(
        id="d", type="consolidation", first=1, through=2, history_entry="talk", memory_update="- tea"
    )
    await log.append(space, KEY, [user(1), assistant(2, end="answer"), decision, user(3, turn="t3")])
    session = await log.load(space, KEY)
    assert session.pending == decision
    assert [m.n for m in session.messages] == [1, 2, 3]
