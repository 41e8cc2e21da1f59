"""What every history promises: one suite over the fake and the real one, and what only files can go through."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from nanomem.entries import Entry, to_json
from nanomem.errors import CannotStore
from nanomem.ports import History
from nanomem.spaces import Space
from nanomem.stores.history import LONGEST_LINE, JsonlHistory, path_of
from nanomem.testing import FakeHistory

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
Environment = Callable[[Path], dict[str, str]]


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("owner", tmp_path / "workspace", tmp_path / "workspace")


@pytest.fixture(params=[FakeHistory, lambda: JsonlHistory(UTC)], ids=["fake", "real"])
def history(request: pytest.FixtureRequest) -> History:
    make: Callable[[], History] = request.param
    return make()


def entry(text: str, at: datetime = NOW, **more: object) -> Entry:
    fields = {"type": "consolidation", "session": "telegram:42", "first": 1, "last": 36, **more}
    return Entry(timestamp=at, summary=text, **fields)  # type: ignore[arg-type]


def line(cursor: int, text: str = "") -> str:
    """A line of history.jsonl as another hand may have written it."""
    return json.dumps(to_json(entry(text or f"text {cursor}", cursor=cursor))) + "\n"


def written(space: Space, *lines: str | bytes) -> Path:
    path = path_of(space)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(found if isinstance(found, bytes) else found.encode() for found in lines))
    return path


def view(space: Space) -> str:
    return (space.root / "memory" / "HISTORY.md").read_bytes().decode()


def expected(space: Space, texts: list[str]) -> str:
    return "\n".join(f"[2026-04-10 09:15] {text}\n" for text in texts)


# --- both


async def test_what_is_appended_is_numbered_and_found(history: History, space: Space) -> None:
    """Cursors count from 1; every field comes back; what comes after a cursor is in order."""
    first = entry("They met.", key_facts=("likes tea", "für Ümläute 🙂"))
    added = await history.append(space, [first, entry("They talked.", type="archive")])
    added += await history.append(space, [entry("[RAW] 1 messages\n[2026-04-10 09:15] USER: hi", type="raw")])
    assert [e.cursor for e in added] == [1, 2, 3]
    assert added[0] == replace(first, cursor=1)
    assert await history.last(space) == 3
    for e in added:
        assert await history.entry(space, e.cursor) == e
    assert await history.after(space, 0) == added
    assert await history.after(space, 2) == added[2:]
    assert await history.after(space, 3) == [] == await history.after(space, 99)


async def test_an_empty_history(history: History, space: Space) -> None:
    """Asking it changes nothing; nor does appending nothing."""
    assert await history.append(space, []) == []
    assert await history.last(space) == 0
    assert await history.entry(space, 1) is None
    assert await history.after(space, 0) == []
    assert await history.repair(space) is False
    assert not space.root.exists()


async def test_no_entry_of_that_number(history: History, space: Space) -> None:
    """Before the first, behind the last."""
    await history.append(space, [entry("a"), entry("b")])
    assert [await history.entry(space, cursor) for cursor in (-1, 0, 3, 10**30)] == [None] * 4


async def test_spaces_are_apart(history: History, space: Space, tmp_path: Path) -> None:
    """Each counts for itself."""
    other = Space("telegram:7", tmp_path / "other", space.root)
    await history.append(space, [entry("ours"), entry("ours, too")])
    [theirs] = await history.append(other, [entry("theirs")])
    assert (theirs.cursor, await history.last(space)) == (1, 2)
    assert [e.summary for e in await history.after(other, 0)] == ["theirs"]


async def test_many_at_once_are_one_after_the_other(history: History, space: Space) -> None:
    """No number is given twice, and those appended together stay together."""
    async with asyncio.TaskGroup() as group:
        for name in "abcdefghij":
            group.create_task(history.append(space, [entry(name), entry(name)]))
    entries = await history.after(space, 0)
    assert [e.cursor for e in entries] == list(range(1, 21))
    assert all(one.summary == two.summary for one, two in zip(entries[::2], entries[1::2], strict=True))


async def test_a_file_that_fits_needs_no_repair(history: History, space: Space) -> None:
    """Not after one append, and not after several."""
    for text in ("a", "b\n\n\nc"):
        await history.append(space, [entry(text), entry(text)])
        assert await history.repair(space) is False


async def test_how_far_dream_has_read(history: History, space: Space, tmp_path: Path) -> None:
    """Nothing at first, and asking writes nothing; then what was noted last, in each space its own."""
    other = Space("telegram:7", tmp_path / "other", space.root)
    assert await history.dreamt(space) == 0 and not space.root.exists()
    await history.set_dreamt(space, 2)
    assert await history.dreamt(space) == 2, "it does not ask whether there are so many"
    await history.append(space, [entry("a"), entry("b"), entry("c")])
    assert await history.dreamt(space) == 2 and await history.last(space) == 3
    await history.set_dreamt(space, 3)
    await history.set_dreamt(space, 1)
    await history.repair(space)
    assert (await history.dreamt(space), await history.dreamt(other)) == (1, 0)
    assert [e.summary for e in await history.after(space, await history.dreamt(space))] == ["b", "c"]


# --- the real one only


async def test_dreams_cursor_is_a_number_in_a_file(space: Space) -> None:
    """To the byte, for nobody else to read, and there after a restart."""
    await JsonlHistory(UTC).set_dreamt(space, 12)
    path = space.root / "memory" / ".dream_cursor"
    assert path.read_bytes() == b"12\n" and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [".dream_cursor"]
    assert await JsonlHistory(UTC).dreamt(space) == 12
    path.write_bytes(b" 007")
    assert await JsonlHistory(UTC).dreamt(space) == 7, "as another hand may have written it"


BAD_CURSORS = ["", "\n", "two\n", "-1\n", "+1", "1.5", "2\n2\n", "1_0", "٢\n", "0x10", f"{2**63}\n", f"{10**30}\n"]


@pytest.mark.parametrize("cursor", [*map(str.encode, BAD_CURSORS), b"\xff\n", b"1" * 100_000, b"\0\0"])
async def test_a_bad_dream_cursor_counts_as_none(space: Space, cursor: bytes) -> None:
    """It is read again from the start, and written over at the next note."""
    history, path = JsonlHistory(UTC), space.root / "memory" / ".dream_cursor"
    await history.append(space, [entry("a")])
    path.write_bytes(cursor)
    assert await history.dreamt(space) == 0
    await history.set_dreamt(space, 1)
    assert await history.dreamt(space) == 1


@pytest.mark.parametrize("instead", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
async def test_something_else_in_the_place_of_dreams_cursor(space: Space, instead: Callable[[Path], None]) -> None:
    """It counts as none and is not waited for; a folder cannot be written over, which is said."""
    history, path = JsonlHistory(UTC), space.root / "memory" / ".dream_cursor"
    await history.append(space, [entry("a")])
    instead(path)
    assert await history.dreamt(space) == 0
    if path.is_dir():
        with pytest.raises(CannotStore, match="dream_cursor"):
            await history.set_dreamt(space, 1)
        path.rmdir()
    await history.set_dreamt(space, 1)
    assert await history.dreamt(space) == 1 and path.is_file() and not path.is_symlink()


async def test_the_files_read_as_the_format_says(space: Space) -> None:
    """To the byte; modes that keep others out."""
    await JsonlHistory(timezone(timedelta(hours=2))).append(
        space,
        [
            entry("Ann planned the garden.\r\r  She wants roses. \r\n", key_facts=("wants roses",)),
            entry(
                "[RAW] 2 messages\n[2026-04-10 11:15] USER: hi\n[2026-04-10 11:15] ASSISTANT: hé", type="raw", last=2
            ),
        ],
    )
    memory = space.root / "memory"
    assert path_of(space).read_text() == (
        '{"cursor": 1, "timestamp": "2026-04-10T09:15:00+00:00", "type": "consolidation", "session": "telegram:42", '
        '"messages": [1, 36], "summary": "Ann planned the garden.\\r\\r  She wants roses. \\r\\n", '
        '"key_facts": ["wants roses"]}\n'
        '{"cursor": 2, "timestamp": "2026-04-10T09:15:00+00:00", "type": "raw", "session": "telegram:42", '
        '"messages": [1, 2], "summary": "[RAW] 2 messages\\n[2026-04-10 11:15] USER: hi\\n'
        '[2026-04-10 11:15] ASSISTANT: hé", "key_facts": []}\n'
    )
    assert view(space) == (
        "[2026-04-10 11:15] Ann planned the garden.\n  She wants roses.\n"
        "\n"
        "[2026-04-10 11:15] [RAW] 2 messages\n[2026-04-10 11:15] USER: hi\n[2026-04-10 11:15] ASSISTANT: hé\n"
    )
    assert (memory / ".cursor").read_bytes() == b"2\n"
    assert sorted(os.listdir(memory)) == [".cursor", "HISTORY.md", "history.jsonl"]
    assert {path.stat().st_mode & 0o777 for path in memory.iterdir()} == {0o600}


async def test_people_read_their_own_time(space: Space) -> None:
    """Summer and winter; when the zone of the settings changes, HISTORY.md follows, and what it was is kept."""
    at = [datetime(2026, 1, 10, 23, 30, tzinfo=UTC), datetime(2026, 7, 10, 23, 30, tzinfo=UTC)]
    await JsonlHistory(ZoneInfo("Europe/Zurich")).append(space, [entry("winter", at[0]), entry("summer", at[1])])
    before = view(space)
    assert before == "[2026-01-11 00:30] winter\n\n[2026-07-11 01:30] summer\n"
    tokyo = JsonlHistory(ZoneInfo("Asia/Tokyo"))
    assert await tokyo.repair(space) is True
    assert view(space) == "[2026-01-11 08:30] winter\n\n[2026-07-11 08:30] summer\n"
    assert (space.root / "memory" / "HISTORY.md.before").read_text() == before


async def test_a_torn_last_line_stays_and_spoils_nothing(space: Space) -> None:
    """It is said with its number, ended at the next append, and its number is given again."""
    path = written(space, line(1), line(2)[:40])
    history = JsonlHistory(UTC)
    with capture_logs() as logs:
        assert await history.last(space) == 1
        assert [e.cursor for e in await history.after(space, 0)] == [1]
    assert [(e["event"], e["line"], e["reason"]) for e in logs] == [("history.bad_line", 2, "torn")]
    [added] = await history.append(space, [entry("again")])
    assert added.cursor == 2
    assert path.read_text().startswith(line(1) + line(2)[:40] + "\n")
    assert [e.summary for e in await JsonlHistory(UTC).after(space, 0)] == ["text 1", "again"]


async def test_a_last_line_that_lacks_only_its_break_counts(space: Space) -> None:
    """It is whole."""
    written(space, line(1), line(2).rstrip("\n"))
    history = JsonlHistory(UTC)
    assert await history.last(space) == 2
    assert [e.cursor for e in await history.append(space, [entry("c")])] == [3]
    assert [e.cursor for e in await history.after(space, 0)] == [1, 2, 3]
    assert view(space) == expected(space, ["text 1", "text 2", "c"])


@pytest.mark.parametrize(
    "damage",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b"\n",
        b"[1]\n",
        b"null\n",
        b'"text"\n',
        b"[" * 100_000 + b"\n",
        b"1" * 5_000 + b"\n",
        b"NaN\n",
        line(2).replace('"cursor": 2', '"cursor": -2').encode(),
        line(2).replace('"cursor": 2', '"cursor": "2"').encode(),
        line(2).replace('"cursor": 2', '"cursor": 2e3').encode(),
        line(2).replace('"cursor": 2', f'"cursor": {10**30}').encode(),
        line(2).replace("[1, 36]", "[1]").encode(),
        line(2).replace("[1, 36]", "7").encode(),
        line(2).replace("2026-", "9999-").encode(),
        line(2).replace("2026-04-10", "yesterday").encode(),
        line(2).replace("consolidation", "gossip").encode(),
    ],
)
async def test_a_bad_line_is_passed_over(space: Space, damage: bytes) -> None:
    """What stands around it is found, and counting goes on; the file is left as it is."""
    path = written(space, line(1), damage, line(3), damage)
    before, history = path.read_bytes(), JsonlHistory(UTC)
    with capture_logs() as logs:
        assert await history.last(space) == 3
        assert [e.cursor for e in await history.after(space, 0)] == [1, 3]
        assert [(await history.entry(space, n)) is not None for n in (1, 2, 3)] == [True, False, True]
        assert await history.repair(space) is True
    assert sorted(e["line"] for e in logs if e["event"] == "history.bad_line") == [2, 4], "each is said once"
    assert path.read_bytes() == before
    assert view(space) == expected(space, ["text 1", "text 3"])
    assert [e.cursor for e in await history.append(space, [entry("d")])] == [4]
    assert path.read_bytes().startswith(before)
    assert view(space) == expected(space, ["text 1", "text 3", "d"])


async def test_a_history_of_nothing_but_damage(space: Space) -> None:
    """Every line is said by its number; new entries go behind it."""
    written(space, *["bad\n"] * 1_000)
    history = JsonlHistory(UTC)
    with capture_logs() as logs:
        assert await history.last(space) == 0
    assert [e["line"] for e in logs] == list(range(1, 1_001))
    assert await history.entry(space, 1) is None
    assert [e.cursor for e in await history.append(space, [entry("a")])] == [1]
    assert [await history.entry(space, n) for n in (0, 2)] == [None, None]
    assert (await history.after(space, 0))[0].summary == "a"


async def test_a_line_of_100_mb_is_stepped_over(space: Space) -> None:
    """Without ever being held in memory."""
    path = written(space, line(1), line(2))
    with path.open("ab") as file:
        file.truncate(100 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line(4).encode())
    history = JsonlHistory(UTC)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with capture_logs() as logs:
        assert [e.cursor for e in await history.after(space, 0)] == [1, 2, 4]
        assert [(await history.entry(space, n)) is not None for n in (1, 2, 3, 4)] == [True, True, False, True]
        assert await history.repair(space) is True
        assert [e.cursor for e in await history.append(space, [entry("e")])] == [5]
    assert [(e["line"], e["reason"]) for e in logs if "line" in e] == [(3, "longer than any entry")]
    assert view(space) == expected(space, ["text 1", "text 2", "text 4", "e"])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    assert grown * (1 if sys.platform == "darwin" else 1024) < LONGEST_LINE


async def test_a_history_that_cannot_be_read_is_no_empty_one(space: Space) -> None:
    """A folder in its place, a pipe, a file where its folder should be: nothing is written, the views stay."""
    history = JsonlHistory(UTC)
    await history.append(space, [entry("a")])
    path = path_of(space)
    path.unlink()
    spoils: tuple[Callable[[Path], None], ...] = (Path.mkdir, os.mkfifo)
    for spoil in spoils:
        spoil(path)
        for ask in (
            history.append(space, [entry("b")]),
            history.last(space),
            history.entry(space, 1),
            history.after(space, 0),
            history.repair(space),
        ):
            with pytest.raises(CannotStore, match=r"Cannot read .*history\.jsonl"):
                await ask
        assert view(space) == expected(space, ["a"])
        path.rmdir() if path.is_dir() else path.unlink()
    other = Space("telegram:7", space.root / "other", space.root)
    other.root.mkdir()
    (other.root / "memory").write_text("")
    with pytest.raises(CannotStore, match=r"history\.jsonl"):
        await history.append(other, [entry("a")])


# --- the views


@pytest.mark.parametrize("left", ["", "[2026-04-10 09:15] a\n", "[2026-04-10 09:15] a\n\n[2026-04-", None])
async def test_a_view_that_is_behind_is_completed(space: Space, left: str | None) -> None:
    """By repair, or by the next append; nothing of anybody is in it, so nothing is kept."""
    history, memory = JsonlHistory(UTC), space.root / "memory"
    for by_repair in (True, False):
        await history.append(space, [entry("a"), entry("b")])
        texts = ["a", "b"] * (1 if by_repair else 2)
        (memory / "HISTORY.md").write_text(left) if left is not None else (memory / "HISTORY.md").unlink()
        (memory / ".cursor").unlink()
        if by_repair:
            assert await history.repair(space) is True
        else:
            await history.append(space, [entry("c")])
            texts.append("c")
        assert view(space) == expected(space, texts)
        assert (memory / ".cursor").read_text() == f"{len(texts)}\n"
        assert not list(memory.glob("*.before*")) and await history.repair(space) is False


@pytest.mark.parametrize("spoil", [lambda text: "My note.\n" + text, lambda text: text + "My note.\n", str.upper])
async def test_what_a_person_wrote_into_the_view_is_kept_beside_it(space: Space, spoil: Callable[[str], str]) -> None:
    """And said; a second time it does not take the place of the first."""
    history, memory = JsonlHistory(UTC), space.root / "memory"
    await history.append(space, [entry("a"), entry("b")])
    for name in ("HISTORY.md.before", "HISTORY.md.before-2", "HISTORY.md.before-3"):
        edited = spoil(view(space))
        (memory / "HISTORY.md").write_text(edited)
        with capture_logs() as logs:
            assert await history.repair(space) is True
        assert [(e["event"], e["kept"]) for e in logs] == [("history.view_replaced", str(memory / name))]
        assert (memory / name).read_text() == edited
        assert view(space) == expected(space, ["a", "b"])
        assert await history.repair(space) is False


@pytest.mark.parametrize("cursor", ["", "1\n", "2", "two\n", "2\n2\n", "٢\n"])
async def test_the_cursor_is_a_view_too(space: Space, cursor: str) -> None:
    """Whatever stands in it, counting goes by the entries, and it is put right."""
    history, path = JsonlHistory(UTC), space.root / "memory" / ".cursor"
    await history.append(space, [entry("a"), entry("b")])
    path.write_text(cursor)
    assert await history.last(space) == 2
    assert await history.repair(space) is True
    assert path.read_bytes() == b"2\n" and await history.repair(space) is False


async def test_an_empty_view_without_entries_is_none_to_repair(space: Space) -> None:
    """As in a new workspace; a text from elsewhere is set aside."""
    history, memory = JsonlHistory(UTC), space.root / "memory"
    memory.mkdir(parents=True)
    (memory / "HISTORY.md").touch()
    assert await history.repair(space) is False and os.listdir(memory) == ["HISTORY.md"]
    (memory / "HISTORY.md").write_text("- from another program\n")
    assert await history.repair(space) is True
    assert view(space) == "" and (memory / "HISTORY.md.before").read_text() == "- from another program\n"
    await history.append(space, [entry("a")])
    assert view(space) == expected(space, ["a"])


async def test_a_view_that_cannot_be_written_fails_nothing(space: Space) -> None:
    """The entries are there, the log says what is behind, and it is put right when the cause is gone."""
    history, memory = JsonlHistory(UTC), space.root / "memory"
    await history.append(space, [entry("a")])
    (memory / ".cursor").unlink()
    (memory / ".cursor").mkdir()
    (memory / ".HISTORY.md.draft").mkdir()
    (memory / "HISTORY.md").unlink()
    with capture_logs() as logs:
        assert [e.cursor for e in await history.append(space, [entry("b")])] == [2]
        assert await history.repair(space) is False
    assert [e["event"] for e in logs if e["log_level"] == "warning"] == ["history.view_behind"] * 2
    (memory / ".HISTORY.md.draft").rmdir()
    with capture_logs() as logs:
        assert [e.cursor for e in await history.append(space, [entry("c")])] == [3]
    assert ".cursor" in logs[-1]["reason"]
    (memory / ".cursor").rmdir()
    assert await history.repair(space) is True
    assert view(space) == expected(space, ["a", "b", "c"]) and (memory / ".cursor").read_text() == "3\n"


@pytest.mark.parametrize("instead", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
async def test_something_else_in_the_place_of_the_view(space: Space, instead: Callable[[Path], None]) -> None:
    """Is set aside, too, and not waited for."""
    history, path = JsonlHistory(UTC), space.root / "memory" / "HISTORY.md"
    await history.append(space, [entry("a")])
    path.unlink()
    instead(path)
    await history.append(space, [entry("b")])
    assert await history.repair(space) is False
    assert path.is_file() and not path.is_symlink() and view(space) == expected(space, ["a", "b"])


async def test_half_of_a_surrogate_pair_is_stored_as_a_question_mark(space: Space) -> None:
    """It is no text; what was appended is given back as it is on disk, and the view fits it."""
    history = JsonlHistory(UTC)
    [added] = await history.append(space, [entry("a \ud800 b\0\x1b[31m\u2028c")])
    assert added.summary == "a ? b\0\x1b[31m\u2028c" and await history.entry(space, 1) == added
    written(space, line(1), line(2).replace("text 2", "\\ud800"))
    assert await history.repair(space) is True and await history.repair(space) is False


async def test_another_hand_is_noticed(space: Space) -> None:
    """What is known of the file does not outlive it."""
    history = JsonlHistory(UTC)
    await history.append(space, [entry("a")])
    with path_of(space).open("a") as file:
        file.write(line(7))
    assert await history.last(space) == 7
    assert [e.cursor for e in await history.append(space, [entry("b")])] == [8]
    path_of(space).unlink()
    assert await history.last(space) == 0 and await history.entry(space, 7) is None


# --- many entries, and a sudden end


def bytes_read() -> int:
    """By system calls, by the whole process."""
    return int(Path("/proc/self/io").read_text().split()[1])


def bytes_written() -> int:
    return int(Path("/proc/self/io").read_text().split()[3])


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Space:
    """100,000 entries, 60 MB, a number left out and a damaged line here and there."""
    root = tmp_path_factory.mktemp("long")
    space = Space("owner", root, root)
    head, tail = line(1, "x" * 400).split('"cursor": 1,')
    lines = [f'{head}"cursor": {n},{tail}' for n in range(1, 100_001)]
    for n in range(500, 100_001, 1_000):
        lines[n - 1] = "damaged\n" if n % 3 else ""
    written(space, *lines)
    return space


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what is read")
async def test_among_100_000_entries_one_is_found_by_halving(long: Space) -> None:
    """Of 60 MB half a megabyte is read at most; of the newest ones little more than themselves."""
    history = JsonlHistory(UTC)
    assert path_of(long).stat().st_size > 50_000_000
    for cursor in (1, 2, 499, 501, 33_333, 50_000, 99_999, 100_000):
        before = bytes_read()
        found = await history.entry(long, cursor)
        assert found is not None and found.cursor == cursor
        assert bytes_read() - before < 500_000
    for missing in (0, 500, 1_500, 100_001):
        before = bytes_read()
        assert await history.entry(long, missing) is None
        assert bytes_read() - before < 500_000
    before = bytes_read()
    assert [e.cursor for e in await history.after(long, 99_990)] == list(range(99_991, 100_001))
    assert await history.last(long) == 100_000
    assert bytes_read() - before < 100_000


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what is read")
async def test_appending_costs_the_same_however_long_it_is(long: Space) -> None:
    """Neither the truth nor the view is read or written again."""
    history = JsonlHistory(UTC)
    assert await history.repair(long) is True
    for _ in range(3):
        was_read, was_written = bytes_read(), bytes_written()
        await history.append(long, [entry("y" * 1_000)])
        assert bytes_read() - was_read < 100_000 and bytes_written() - was_written < 10_000
    assert await history.repair(long) is False


KILLED = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from nanomem.entries import Entry
from nanomem.spaces import Space
from nanomem.stores.history import JsonlHistory

async def main():
    root = Path(sys.argv[1])
    space, history, n = Space("owner", root, root), JsonlHistory(UTC), int(sys.argv[2])
    while True:
        some = [Entry(timestamp=datetime(2026, 4, 10, 9, 15, tzinfo=UTC), type="raw", session="s", first=1, last=2,
                      summary=f"{n} {i} " + "long text " * 3_000) for i in range(3)]
        added = await history.append(space, some)
        print(n, *(e.cursor for e in added), flush=True)
        n += 1

asyncio.run(main())
"""


def test_killed_while_appending_nothing_that_was_told_is_lost(space: Space, guarded_env: Environment) -> None:
    """After each kill the numbers are without a gap, all that was told is there, and repair makes the views fit."""
    told: dict[int, str] = {}
    space.root.mkdir(parents=True)
    for start in range(0, 10_000, 1_000):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(space.root), str(start)],
            env=guarded_env(space.root),
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            for _ in range(1 + start // 1_000 % 4):
                number, *cursors = child.stdout.readline().split()
                told |= {int(cursor): f"{number} {i}" for i, cursor in enumerate(cursors)}
            child.send_signal(signal.SIGKILL)
            for found in child.stdout:
                if found.endswith("\n"):
                    number, *cursors = found.split()
                    told |= {int(cursor): f"{number} {i}" for i, cursor in enumerate(cursors)}
        history = JsonlHistory(UTC)
        asyncio.run(history.repair(space))
        entries = {e.cursor: e.summary for e in asyncio.run(history.after(space, 0))}
        assert sorted(entries) == list(range(1, len(entries) + 1))
        assert all(entries[cursor].startswith(f"{text} ") for cursor, text in told.items())
        assert view(space) == expected(space, [text.rstrip() for text in entries.values()])
        assert (space.root / "memory" / ".cursor").read_text() == f"{len(entries)}\n"
        assert not list((space.root / "memory").glob("*.before*")), "a view cut short holds nobody's words"
