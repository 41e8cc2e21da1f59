"""The checks of the proofs can fail: a home that is in order, and what they say once something in it is not."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proofs import invariants

Json = dict[str, Any]
KEY = "telegram:42"
CALL = {"id": "c", "function": {"name": "exec", "arguments": "{}"}}
SAID: list[Json] = [
    {"n": 1, "role": "user", "content": "Hello", "turn": "a"},
    {"n": 2, "role": "assistant", "content": "", "turn": "a", "tool_calls": [CALL]},
    {"n": 3, "role": "tool", "content": "done", "turn": "a", "tool_call_id": "c"},
    {"n": 4, "role": "assistant", "content": "Hello, Ann", "turn": "a", "end": "answer"},
    {"n": 5, "role": "user", "content": "Bye", "turn": "b"},
    {"n": 6, "role": "assistant", "content": "Bye, Ann", "turn": "b", "end": "answer"},
]
SHOWN = ["Hello,", "Ann", "Bye, Ann"]


def changed(number: int, **fields: Any) -> list[Json]:
    return [record | fields if record["n"] == number else record for record in SAID]


def test_a_conversation_that_is_in_order() -> None:
    """Also where an answer came in parts, and where some were shown long ago."""
    assert invariants.conversation(SAID, ["Hello", "Bye"], SHOWN) == []
    assert invariants.conversation(SAID, ["Hello", "Bye"], ["Bye, Ann"], earlier=1) == []


@pytest.mark.parametrize(
    ("said", "heard", "shown"),
    [
        (SAID, ["Hello", "Bye", "Hello?"], SHOWN),
        (SAID, ["Bye", "Hello"], SHOWN),
        (changed(5, n=7), ["Hello", "Bye"], SHOWN),
        (changed(3, turn="b"), ["Hello", "Bye"], SHOWN),
        (changed(1, end="answer"), ["Hello", "Bye"], ["Hello", *SHOWN]),
        (SAID[:5], ["Hello", "Bye"], SHOWN[:2]),
        (changed(3, tool_call_id="other"), ["Hello", "Bye"], SHOWN),
        (SAID, ["Hello", "Bye"], [*SHOWN, "Bye, Ann"]),
        (SAID, ["Hello", "Bye"], ["Hello,", "Hello,", *SHOWN[1:]]),
        (SAID, ["Hello", "Bye"], SHOWN[1:]),
        (SAID, ["Hello", "Bye"], SHOWN[:2]),
        (SAID, ["Hello", "Bye"], [SHOWN[2], *SHOWN[:2]]),
    ],
    ids=[
        "lost",
        "order",
        "numbers",
        "torn",
        "two ends",
        "no end",
        "result",
        "twice",
        "part twice",
        "part",
        "no",
        "late",
    ],
)
def test_a_conversation_that_is_not(said: list[Json], heard: list[str], shown: list[str]) -> None:
    """Each way to be wrong is seen."""
    assert invariants.conversation(said, heard, shown)


def acted(**results: str) -> list[Json]:
    """A turn whose calls have these results."""
    calls = [{"id": id, "function": {"arguments": f"echo x >> ran-{number}"}} for number, id in enumerate(results)]
    said: list[Json] = [{"role": "assistant", "tool_calls": calls}]
    return said + [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results.items()]


@pytest.mark.parametrize(
    ("made", "said", "is_well"),
    [
        ({"ran-0": "x"}, acted(a="done"), True),
        ({}, acted(a=f"It was interrupted. {invariants.UNKNOWN}."), True),
        ({"ran-0": "x"}, acted(a=f"It was interrupted. {invariants.UNKNOWN}."), True),
        ({"ran-0": "x\nx"}, acted(a=f"It was interrupted. {invariants.UNKNOWN}."), False),
        ({"ran-0": "x\nx"}, acted(a="done"), False),
        ({}, acted(a="done"), False),
        ({}, [], False),
        ({"ran-0": "x", "ran-1": "x"}, acted(a="done"), False),
        ({"ran-0": "x", "ran-1": "x"}, acted(a="done", b="done"), False),
    ],
    ids=["once", "not", "perhaps", "twice, unknown", "twice", "not, but said", "no call", "no word", "one too many"],
)
def test_what_tools_did(tmp_path: Path, made: dict[str, str], said: list[Json], is_well: bool) -> None:
    """A tool that ran twice, or in silence, or never, is seen."""
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    assert (invariants.effects(said, tmp_path, 1) == []) == is_well


LOG = [
    *SAID,
    {"_type": "consolidating", "id": "x", "from": 1, "through": 4},
    {"_type": "consolidated", "id": "x"},
]
ENTRY = {"cursor": 1, "session": KEY, "messages": [1, 4], "summary": "They met."}


def test_what_is_a_record(tmp_path: Path) -> None:
    """Not what a cut has left half of; but where it took the newline alone, all that was said is there."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"n": 1}\n{"n": 2, "ro\n\n{"n": 3}')
    assert invariants.records(log) == [{"n": 1}, {"n": 3}]
    assert "broken lines" in str(invariants.files(tmp_path, torn=1))
    assert "broken lines" not in str(invariants.files(tmp_path, torn=2))


def test_a_history_that_is_in_order() -> None:
    """What is not summarised yet is still there."""
    assert invariants.summarised({KEY: LOG}, [ENTRY]) == []


@pytest.mark.parametrize(
    ("log", "entries"),
    [
        (LOG, []),
        (LOG, [ENTRY, ENTRY | {"cursor": 2}]),
        (LOG, [ENTRY | {"cursor": 2}]),
        (LOG, [ENTRY | {"messages": [1, 3]}]),
        (LOG, [ENTRY, ENTRY | {"cursor": 2, "session": "telegram:7"}]),
        (LOG[:-1], [ENTRY]),
        ([*LOG[:-2], LOG[-2] | {"from": 2}, LOG[-1]], [ENTRY | {"messages": [2, 4]}]),
    ],
    ids=["no entry", "twice", "cursor", "other range", "stranger", "not carried out", "gap"],
)
def test_a_history_that_is_not(log: list[Json], entries: list[Json]) -> None:
    """Each way to be wrong is seen."""
    assert invariants.summarised({KEY: log}, entries)


FACTS = "# Memory\n\n- The boat is called Petrel\n- The cat is called Miso\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A small home, as nanomem would leave it."""
    home = tmp_path / "home"
    memory = home / "workspace" / "memory"
    memory.mkdir(parents=True)
    (home / "state").mkdir()
    (home / "workspace/SOUL.md").write_text("Be kind.\n")
    (home / "workspace/USER.md").write_text("- Is called Ann\n")
    (memory / "MEMORY.md").write_text(FACTS)
    (memory / "history.jsonl").write_text(json.dumps(ENTRY) + "\n")
    (memory / "HISTORY.md").write_text("[2026-11-22 10:00] They met.\n")
    (memory / ".cursor").write_text("1\n")
    (memory / ".dream_cursor").write_text("1\n")
    body = "[agent] Two facts\n\n+ The boat is called Petrel\n+ The cat is called Miso\n\nId: 1\n"
    commit(home, body, "--allow-empty")
    with sqlite3.connect(home / "state" / "bus.db") as bus:
        bus.execute("CREATE TABLE inbound (state TEXT)")
        bus.execute("CREATE TABLE outbound (text TEXT)")
        bus.execute("CREATE INDEX inbound_state ON inbound (state)")
    bus.close()
    for folder, folders, names in os.walk(home):
        for name in folders:
            os.chmod(os.path.join(folder, name), 0o700)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o600)
    return home


def commit(home: Path, body: str, *options: str) -> None:
    """A version of the files as they are."""
    bare = home / "versions" / "owner.git"
    git = ["git", "--git-dir", str(bare), "--work-tree", str(home / "workspace"), "-c", "user.name=n"]
    git += ["-c", "user.email=n@localhost", "-c", "core.bare=false"]
    if not bare.exists():
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", "--template=", str(bare)], check=True)
    subprocess.run([*git, "add", "SOUL.md", "USER.md", "memory/MEMORY.md"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", body, *options], check=True)
    subprocess.run([*git, "update-ref", "refs/placed", "main"], check=True)


def wrong(home: Path) -> list[str]:
    root = home / "workspace"
    return [
        *invariants.history(root / "memory", [ENTRY]),
        *invariants.versions(home / "versions" / "owner.git", root),
        *invariants.in_flight(home),
        *invariants.files(home),
    ]


def test_a_home_that_is_in_order(home: Path) -> None:
    """Nothing is found; what a tool made in the workspace is nobody's business."""
    (home / "workspace" / "notes.txt").write_text("x")
    (home / "workspace" / "notes.txt").chmod(0o644)
    assert wrong(home) == []


def unplaced(home: Path) -> None:
    before = subprocess.run(["git", "-C", str(home / "versions/owner.git"), "rev-parse", "main"], capture_output=True)
    commit(home, "[agent] Nothing", "--allow-empty")
    (home / "versions/owner.git/refs/placed").write_bytes(before.stdout)


def test_a_database_is_looked_at_with_its_log(tmp_path: Path) -> None:
    """A kill amid a checkpoint leaves a file that is whole only with the log beside it; both stay as they are."""
    path = tmp_path / "state" / "index.db"
    path.parent.mkdir(0o700)
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE notes (text TEXT UNIQUE);")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("INSERT INTO notes VALUES ('one')")
    files = {name: path.with_name(name).read_bytes() for name in ("index.db", "index.db-wal")}
    database.close()  # into the file, of which only the first half of the table's page shall be
    page = 4096
    files["index.db"] = files["index.db"][:page] + path.read_bytes()[page : 2 * page] + files["index.db"][2 * page :]
    for name, data in files.items():
        path.with_name(name).write_bytes(data)
        path.with_name(name).chmod(0o600)
    assert invariants.files(tmp_path) == []
    assert {name: path.with_name(name).read_bytes() for name in files} == files
    path.with_name("index.db-wal").unlink()
    assert any("index.db" in found for found in invariants.files(tmp_path))


def dropped(home: Path, *lines: str) -> None:
    (home / "workspace/memory/MEMORY.md").write_text(FACTS.replace("- The cat is called Miso\n", ""))
    commit(home, "\n".join(["[Dream] Less", "", *lines]))


def damaged(home: Path) -> None:
    path = home / "state" / "bus.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(4096) + whole[8192:])


def waiting(home: Path) -> None:
    with sqlite3.connect(home / "state" / "bus.db") as bus:
        bus.execute("INSERT INTO inbound VALUES ('waiting')")
    bus.close()


def objects(home: Path) -> None:
    for path in (home / "versions/owner.git/objects").glob("??"):
        shutil.rmtree(path)
        return


@pytest.mark.parametrize(
    "spoil",
    [
        lambda home: (home / "workspace/memory/.cursor").write_text("2\n"),
        lambda home: (home / "workspace/memory/.cursor").write_text(""),
        lambda home: (home / "workspace/memory/.dream_cursor").write_text("2\n"),
        lambda home: (home / "workspace/memory/HISTORY.md").write_text(""),
        lambda home: (home / "workspace/USER.md").write_text(""),
        lambda home: (home / "workspace/USER.md").unlink(),
        unplaced,
        dropped,
        lambda home: commit(home, "[agent] Again\n\nId: 1", "--allow-empty"),
        lambda home: commit(home, "[Dream] More\n\nHistory: 1-2\nId: 2", "--allow-empty"),
        objects,
        lambda home: shutil.rmtree(home / "versions/owner.git"),
        waiting,
        damaged,
        lambda home: (home / "workspace/memory/.MEMORY.md.draft").touch(0o600),
        lambda home: (home / "versions/.owner.git.new").mkdir(0o700),
        lambda home: (home / "versions/owner.git/refs/placed.lock").touch(0o600),
        lambda home: (home / "workspace/USER.md").chmod(0o644),
        lambda home: (home / "state").chmod(0o755),
        lambda home: (home / "workspace/memory/history.jsonl").write_text(json.dumps(ENTRY) + '\n{"cur'),
        lambda home: (home / "workspace/memory/history.jsonl").write_text('{"cur\n' + json.dumps(ENTRY) + "\n"),
    ],
)
def test_a_home_that_is_not(home: Path, spoil: Callable[[Path], object]) -> None:
    """Each way to be wrong is seen."""
    spoil(home)
    assert wrong(home)


def test_a_fact_may_go_with_a_word(home: Path) -> None:
    """What a version explains is not lost."""
    dropped(home, "- The cat is called Miso (no longer true)")
    assert [found for found in wrong(home) if "lost" in found] == []


def test_facts_that_were_promised() -> None:
    """Each is there once, and came once, unless it is told to be gone."""
    lines = ["+ The boat is called Petrel", "+ The cat is called Miso", "- The cat is called Miso (moved out)"]
    boat, cat = "The boat is called Petrel", "The cat is called Miso"
    assert invariants.facts([boat, cat], [f"- {boat}\n"], lines) == []
    assert invariants.facts([boat], [""], lines)
    assert invariants.facts([boat], [f"- {boat}\n- {boat}\n"], lines)
    assert invariants.facts([boat], [f"- {boat}\n"], [*lines, lines[0]])
