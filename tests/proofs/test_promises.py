"""What people were promised: a home that keeps it, and what is said of one that does not."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proofs.promises import Promise, broken
from tests.daemon.running import OWNER, TOKEN, World
from tests.emulators import OpenAIServer, TelegramServer

TURNS = [("Hello", "Hello!"), ("Hello", "Hello!")]
TAKEN, SHOWN = Promise(3, 12, "Hello"), Promise(5, 0, "Hello!")
SAVED = Promise(5, 0, "Saved (version 1): The boat is called Petrel")


def a_world(folder: Path, turns: list[tuple[str, str]], state: str | None = "done") -> World:
    """Of two turns the first is of an earlier life; `state` is what the bus says of update 12."""
    world = World(folder / "home", TelegramServer(TOKEN), OpenAIServer(), earlier=Counter({OWNER: 1}))
    log = world.root() / "sessions" / f"telegram%3A{OWNER}.jsonl"
    log.parent.mkdir(parents=True)
    records: list[dict[str, Any]] = []
    for asked, answered in turns:
        records += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered, "end": "answer"}]
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    (world.home / "state").mkdir()
    with sqlite3.connect(world.home / "state" / "bus.db") as bus:
        bus.execute("CREATE TABLE inbound (id TEXT, state TEXT, message TEXT, raw TEXT)")
        if state:
            bus.execute("INSERT INTO inbound VALUES ('12', ?, 'Hello', NULL)", (state,))
    bus.close()
    return world


def test_what_is_kept(tmp_path: Path) -> None:
    """Said and answered again, in the words of before."""
    assert broken([TAKEN, SHOWN], a_world(tmp_path, TURNS)) == []


def test_what_waits_is_kept(tmp_path: Path) -> None:
    """It will be answered."""
    assert broken([TAKEN], a_world(tmp_path, TURNS[:1], "waiting")) == []


@pytest.mark.parametrize(
    ("promise", "turns", "state"),
    [
        (TAKEN, TURNS[:1], "done"),
        (TAKEN, TURNS, None),
        (TAKEN, [], "done"),
        (SHOWN, TURNS[:1], "done"),
        (SHOWN, [*TURNS[:1], ("Hello", "Hm")], "done"),
        (SAVED, TURNS, "done"),
    ],
    ids=["only the one before", "no row", "no log", "only the answer before", "another answer", "no version"],
)
def test_what_is_broken(tmp_path: Path, promise: Promise, turns: list[tuple[str, str]], state: str | None) -> None:
    """What was said before in the same words does not stand for it."""
    [found] = broken([promise], a_world(tmp_path, turns, state))
    assert promise.text in found
