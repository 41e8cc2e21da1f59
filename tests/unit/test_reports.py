"""What the owner sees of a home from outside: its status, its conversations."""

import json
import os
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanomem import __version__
from nanomem.errors import Misuse
from nanomem.home import Home
from nanomem.messages import Sender, ToolCall, Usage
from nanomem.records import AssistantMessage, Record, Reset, UserMessage
from nanomem.spaces import Spaces
from nanomem.status import channel_state, compose
from nanomem.stores.session_log import JsonlSessionLog
from nanomem.testing import FakeChannel
from nanomem.transcripts import export, list_sessions, show
from tests.unit.strategies import NOW, assistant, result, user

BERN = ZoneInfo("Europe/Zurich")


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    """A home with an owner who has two sessions, and a group."""
    spaces, log = Spaces(tmp_path, frozenset({"telegram:42"})), JsonlSessionLog()
    called = AssistantMessage(
        n=2, turn="t1", timestamp=NOW, content="", tokens=1, tool_calls=(ToolCall("c", "look", "{}"),)
    )
    talks: dict[str, list[Record]] = {
        "telegram:42": [user(1, text="hello"), called, result(3, "c"), assistant(4, text="hi", end="answer")],
        "terminal:Work": [user(1), assistant(2), Reset(through=2, timestamp=NOW), user(1_000, text="later")],
        "telegram:-1001": [
            UserMessage(n=1, turn="t", timestamp=NOW, content="from bob", tokens=1, sender=Sender("7", "Bob"))
        ],
    }
    for key, records in talks.items():
        await log.append(spaces.of(key), key, records)
    for space, entries in ((spaces.of("telegram:42"), 12), (spaces.of("telegram:-1001"), 3)):
        (space.root / "memory").mkdir()
        (space.root / "memory" / "MEMORY.md").write_text("# Memory\n- a fact\n- another\n")
        lines = [json.dumps({"cursor": n, "summary": "x" * 50}) for n in range(1, entries + 1)]
        (space.root / "memory" / "history.jsonl").write_text("\n".join(lines) + "\n")
        (space.root / "memory" / ".dream_cursor").write_text("2\n")
    (spaces.of("telegram:42").root / "USER.md").write_text("Name: Ann\n")
    return Home(tmp_path)


async def test_the_status_of_a_home(home: Home) -> None:
    """Counts over all spaces, in the documented form."""
    counts = {"waiting": 1, "undelivered": 2, "set_aside": 3}
    found = compose(home.path, "fake", 77, {"telegram": channel_state(False, None)}, counts, Usage(1, 2, 3, 0.5))
    assert json.loads(json.dumps(found)) == {
        "version": __version__,
        "running": True,
        "pid": 77,
        "model": "fake",
        "channels": {"telegram": {"enabled": False, "ok": False, "error": None}},
        "spaces": 2,
        "sessions": 3,
        "messages": counts,
        "memory": {"facts": 5, "versions": 0},
        "history": {"cursor": 15, "dream_cursor": 4},
        "dream": {"last": None, "next": None, "runs": [], "passed_over": []},
        "today": {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5},
    }


def test_the_status_of_nothing(tmp_path: Path) -> None:
    """No daemon, no home: all is nought."""
    found = compose(tmp_path / "none", "offline", None, {})
    assert (found["running"], found["pid"], found["spaces"], found["sessions"]) == (False, None, 0, 0)
    assert found["messages"] == {"waiting": 0, "undelivered": 0, "set_aside": 0}


@pytest.mark.parametrize(
    "end",
    [
        "",
        '{"cursor": 13, "summ',
        "no json\n",
        '{"cursor": null}\n',
        "[]\n\n",
        '{"cursor": Infinity}\n',
        f'{{"cursor": {"9" * 4_000}}}\n',
    ],
)
async def test_the_status_over_damaged_files(home: Home, end: str) -> None:
    """What is whole counts."""
    memory = home.workspace / "memory"
    with (memory / "history.jsonl").open("a") as file:
        file.write(end)
    (memory / ".dream_cursor").write_text("two")
    (memory / "MEMORY.md").write_bytes(b"- caf\xe9\n")
    found = compose(home.path, "fake", None, {})
    assert found["history"] == {"cursor": 15, "dream_cursor": 2}
    assert found["memory"]["facts"] == 4


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 19, "-1", ""])
async def test_the_status_over_an_odd_number(home: Home, number: str) -> None:
    """One that no daemon ever wrote counts as none."""
    (home.workspace / "memory" / ".dream_cursor").write_text(number)
    assert compose(home.path, "fake", None, {})["history"] == {"cursor": 15, "dream_cursor": 2}


async def test_the_status_waits_for_no_pipe(home: Home) -> None:
    """Nobody writes to those that stand in the files' places."""
    for name in ("MEMORY.md", "history.jsonl", ".dream_cursor"):
        (home.workspace / "memory" / name).unlink()
        os.mkfifo(home.workspace / "memory" / name)
    found = compose(home.path, "fake", None, {})
    assert (found["history"], found["memory"]["facts"]) == ({"cursor": 3, "dream_cursor": 2}, 3)


async def test_the_status_over_odd_spaces(home: Home) -> None:
    """A link that leads to itself, a file, a space without anything: the others count as before."""
    (home.spaces / "loop").symlink_to(home.spaces / "loop")
    (home.spaces / "file").write_text("x")
    (home.spaces / "empty" / "memory").mkdir(parents=True)
    (home.spaces / "empty" / "sessions").symlink_to("sessions")
    found = compose(home.path, "fake", None, {})
    assert (found["spaces"], found["sessions"], found["history"]["cursor"]) == (3, 3, 15)
    home.spaces.rename(home.path / "old")
    home.spaces.write_text("no folder")
    assert compose(home.path, "fake", None, {})["spaces"] == 1


def test_how_a_channel_is() -> None:
    """Well, with a complaint, or not there."""
    channel = FakeChannel()
    assert channel_state(True, channel) == {"enabled": True, "ok": True, "error": None}
    channel.error = "no network"
    assert channel_state(True, channel) == {"enabled": True, "ok": False, "error": "no network"}


async def test_sessions_are_listed_newest_first(home: Home) -> None:
    """With their space, what was said in all, and when last, in the owner's time zone."""
    found = list_sessions(home, BERN)
    assert [(s.key, s.space, s.messages, s.updated_at) for s in found] == [
        ("terminal:Work", "owner", 1_000, "2026-04-11 03:55"),
        ("telegram:42", "owner", 4, "2026-04-10 11:19"),
        ("telegram:-1001", "telegram%3A-1001", 1, "2026-04-10 11:15"),
    ]


async def test_a_session_is_shown_for_people(home: Home) -> None:
    """Who said what and when, the tools, and where it started afresh."""
    assert list(show(home, "telegram:42", UTC)) == [
        "[2026-04-10 09:16] USER (Ann): hello",
        "[2026-04-10 09:15] ASSISTANT [tools: look]: ",
        "[2026-04-10 09:18] TOOL (look): seen",
        "[2026-04-10 09:19] ASSISTANT: hi",
    ]
    assert "[2026-04-10 09:15] --- new session ---" in list(show(home, "terminal:Work", UTC))
    assert list(show(home, "telegram:-1001", UTC)) == ["[2026-04-10 09:15] USER (Bob): from bob"]


async def test_a_session_is_exported_byte_for_byte(home: Home, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Damage included: it is the owner's."""
    path = home.workspace / "sessions" / "telegram%3A42.jsonl"
    with path.open("ab") as file:
        file.write(b'{"torn": "\xff')
    export(home, "telegram:42")
    assert capfdbinary.readouterr().out == path.read_bytes()
    assert len(list(show(home, "telegram:42", UTC))) == 4


async def test_a_session_that_is_not_there(home: Home) -> None:
    """Says how to find the others; no name leads out of the folder."""
    for key in ("telegram:43", "terminal:work", "../../config", ""):
        with pytest.raises(Misuse, match="nanomem sessions list"):
            list(show(home, key, UTC))
        with pytest.raises(Misuse, match="nanomem sessions list"):
            export(home, key)
