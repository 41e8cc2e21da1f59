"""What must hold of a home whenever nothing is under way in it: each function gives what does not, in words.

Knows files and their formats, and what a chat shows; nothing of daemons. What it is given it does not change.
"""

import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Json = dict[str, Any]

FILES = ("SOUL.md", "USER.md", "memory/MEMORY.md")
LEFTOVERS = re.compile(r"\.(draft|new|lock)$")
"""Names that something has only while it is being made.

Not git's `tmp_obj_...`: a kill can leave one of some hundred bytes, which git knows for what it is, and prunes.
"""


UNKNOWN = "The outcome is unknown"
"""What the result of a call says that was under way as the process died."""
_MADE = r"(?:ran|wrote)-\d+"


def records(path: Path) -> list[Json]:
    """What a file of JSON lines holds. A torn line is no record; one that lacks only its newline is: the program
    reads it so, and ends it before it adds another. See `files`."""
    return [json.loads(line) for line in _lines(path) if line.strip() and _is_json(line)]


def conversation(said: Sequence[Json], heard: Sequence[str], shown: Sequence[str], earlier: int = 0) -> list[str]:
    """A session's messages, all that was said to it, and the answers its chat shows, which come after `earlier` ones.

    Each message is in the log once and in order, in a turn with one end; each call of a tool has one result; each end
    is shown once, in one piece or in several.
    """
    found = []
    if (logged := [record["content"] for record in said if record["role"] == "user"]) != list(heard):
        found.append(f"told {list(heard)}, but the log has {logged}")
    if [record["n"] for record in said] != list(range(1, len(said) + 1)):
        found.append(f"the messages have the numbers {[record['n'] for record in said]}")
    order = list(dict.fromkeys(record["turn"] for record in said))
    if (turns := [record["turn"] for record in said]) != sorted(turns, key=order.index):
        found.append(f"a turn is torn: {turns}")
    for turn in order:
        records = [record for record in said if record["turn"] == turn]
        if [("end" in record) for record in records] != [False] * (len(records) - 1) + [True]:
            found.append(f"turn {turn} has not one end")
        calls = [call["id"] for record in records for call in record.get("tool_calls", ())]
        if sorted(record["tool_call_id"] for record in records if record["role"] == "tool") != sorted(calls):
            found.append(f"turn {turn} has not one result for each call")
    ends = [record["content"] for record in said if "end" in record][earlier:]
    if not fits(shown, ends):
        found.append(f"the chat shows {list(shown)} for the answers {ends}")
    return found


def fits(shown: Sequence[str], ends: Sequence[str]) -> bool:
    """Whether a chat shows just these answers, once each and in order; one may be split between words."""
    parts = iter(shown)
    for end in ends:
        words: list[str] = []
        while words != end.split():
            if (part := next(parts, None)) is None or end.split()[: len(words)] != words:
                return False
            words += part.split()
    return next(parts, None) is None


def effects(said: Sequence[Json], space: Path, wanted: int) -> list[str]:
    """What so many calls of tools in a session have done in the folder `space`, each to a file of its own: `ran-...`
    has an x more whenever it runs, `wrote-...` has one however often.

    Each ran once, or its result says that nobody knows and it did not run twice; and the log knows of all that ran.
    """
    results = {record["tool_call_id"]: record["content"] for record in said if record["role"] == "tool"}
    calls = [call for record in said for call in record.get("tool_calls", ())]
    named = [re.findall(_MADE, call["function"]["arguments"])[0] for call in calls]
    found = []
    if len(set(named)) != len(named) or len(named) != wanted:
        found.append(f"{wanted} calls of tools were wanted, there are {named}")
    for call, name in zip(calls, named, strict=True):
        times = (space / name).read_text().count("x") if (space / name).exists() else 0
        if times != 1 and not (times == 0 and UNKNOWN in results.get(call["id"], "")):
            found.append(f"{name} was made {times} times, but the log says: {results.get(call['id'])}")
    made = {path.name for path in space.iterdir() if re.fullmatch(_MADE, path.name)}
    return found + [f"{name} was made, and the log does not know" for name in sorted(made - {*named})]


def summarised(logs: Mapping[str, Sequence[Json]], entries: Sequence[Json]) -> list[str]:
    """The sessions of a space, which are all of it, and its history.

    Each message is in one entry or in what follows the last; each decision is carried out, once and in order.
    """
    found = []
    if [entry["cursor"] for entry in entries] != list(range(1, len(entries) + 1)):
        found.append(f"the entries have the numbers {[entry['cursor'] for entry in entries]}")
    if strangers := {entry["session"] for entry in entries} - set(logs):
        found.append(f"there are entries about {strangers}")
    for key, log in logs.items():
        decided = {record["id"]: (record["from"], record["through"]) for record in log if _is(record, "consolidating")}
        done = [record["id"] for record in log if _is(record, "consolidated")]
        if done != list(decided):
            found.append(f"{key}: {len(decided)} consolidations were decided, done were {done}")
        numbers = [record["n"] for record in log if "role" in record]
        covered = [n for first, through in decided.values() for n in range(first, through + 1)]
        if covered + [n for n in numbers if n > max(covered, default=0)] != numbers:
            found.append(f"{key}: the messages {numbers} were consolidated as {[*decided.values()]}")
        told = [tuple(entry["messages"]) for entry in entries if entry["session"] == key]
        if told != [*decided.values()]:
            found.append(f"{key}: what was consolidated is {[*decided.values()]}, the entries are about {told}")
    return found


def history(memory: Path, entries: Sequence[Json]) -> list[str]:
    """What people can read of the history, in the folder `memory`, fits it; so do the cursors."""
    found = [f"left behind: {path}" for path in memory.glob("*") if LEFTOVERS.search(path.name)]
    if (cursor := _number(memory / ".cursor")) != len(entries):
        found.append(f".cursor is {cursor}, there are {len(entries)} entries")
    if (cursor := _number(memory / ".dream_cursor") or 0) > len(entries):
        found.append(f".dream_cursor is {cursor}, there are {len(entries)} entries")
    view = memory / "HISTORY.md"
    blocks = (view.read_text() if view.exists() else "").strip().split("\n\n")
    if (shown := [block.partition("] ")[2].split() for block in blocks if block]) != [
        entry["summary"].split() for entry in entries
    ]:
        found.append(f"HISTORY.md has {shown}, history.jsonl {[entry['summary'] for entry in entries]}")
    return found


def versions(repository: Path, root: Path) -> list[str]:
    """The versions of a space, and its files below `root`: nothing is damaged, no decision is there twice, the files
    stand as in the newest version, what a Dream has read is noted, and each fact that ever came in is in them, or a
    later version says where it went.

    Where nothing is known yet there may be neither.
    """
    if not repository.exists():
        return [f"{name} has no version" for name in FILES if (root / name).exists()]
    found = [f"git fsck: {told}" for told in [_git(repository, "fsck", "--strict", "--no-dangling")] if told]
    placed, main = (_git(repository, "rev-parse", name) for name in ("refs/placed", "main"))
    if placed != main:
        found.append(f"refs/placed is {placed}, main is {main}")
    there = _git(repository, "ls-tree", "-r", "--name-only", "main").split()
    for name in FILES:
        stands = (root / name).read_text() if (root / name).exists() else None
        if stands != (_git(repository, "show", f"main:{name}") if name in there else None):
            found.append(f"{name} is not as in the newest version")
    bodies = _git(repository, "log", "--reverse", "--format=%B%x00", "main").split("\0")[:-1]
    ids = Counter(id for body in bodies for id in re.findall(r"(?m)^Id: (.+)$", body))
    if twice := [id for id, times in ids.items() if times > 1]:
        found.append(f"committed twice: {twice}")
    dreams = "\n".join(body for body in bodies if body.startswith("[Dream]"))
    read_through = max(map(int, re.findall(r"(?m)^History: \d+-(\d+)$", dreams)), default=0)
    if (cursor := _number(root / "memory" / ".dream_cursor") or 0) < read_through:
        found.append(f".dream_cursor is {cursor}, a Dream has read {read_through} entries")
    known = "\n".join((root / name).read_text() for name in FILES if (root / name).exists())
    lines = [line for body in bodies for line in body.split("\n") if re.match(r"[+~>=-] ", line)]
    for number, line in enumerate(lines):
        fact = line[2:]
        explained = any(later[2:].startswith(fact) for later in lines[number + 1 :] if later[0] != "+")
        if line[0] == "+" and fact not in known and not explained:
            found.append(f"lost without a word: {fact}")
    return found


def facts(wanted: Iterable[str], texts: Iterable[str], lines: Sequence[str]) -> list[str]:
    """Facts that somebody was promised: each stands once in one of the texts, and came in once by the versions'
    lines, unless one of these tells that it went.
    """
    everything = Counter(re.findall(r"(?m)^- (.+)$", "\n".join(texts)))
    gone = [line[2:] for line in lines if line[0] in "-~"]
    came = Counter(line[2:] for line in lines if line[0] == "+")
    return [
        f"known {everything[fact]} times, came in {came[fact]} times: {fact}"
        for fact in wanted
        if (everything[fact], came[fact]) != (1, 1) and not any(line.startswith(fact) for line in gone)
    ]


def in_flight(home: Path) -> list[str]:
    """Nothing waits for an answer, to be shown, or was set aside."""
    with _opened(home / "state" / "bus.db") as bus:
        states = dict(bus.execute("SELECT state, count(*) FROM inbound WHERE state <> 'done' GROUP BY state"))
        texts = bus.execute("SELECT count(*) FROM outbound").fetchone()[0]
    return [f"in flight: {states}, to be shown: {texts}"] if states or texts else []


def files(home: Path, torn: int = 0) -> list[str]:
    """All files below a home are legal, with `torn` lines at most that were cut off; nothing half made is left.

    Nobody else may read them, but what a tool has made in a workspace is as the tool made it.
    """
    found = [
        f"left behind: {path}" for path in _below(home) if LEFTOVERS.search(path) and not _is_taken_next(home / path)
    ]
    for name in _below(home):
        path = home / name
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode) or is_of_a_tool(name):
            continue
        wanted = 0o700 if path.is_dir() else 0o400 if "/objects/" in name else 0o600
        if (mode := stat.S_IMODE(about.st_mode)) not in (wanted, wanted | 0o200):
            found.append(f"{name} has mode {mode:o}")
        if name.endswith(".db"):
            found += [f"{name}: {told}" for told in [_integrity(path)] if told != "ok"]
    broken = [
        path for path in home.rglob("*.jsonl") for line in _lines(path) if not (_is_json(line) and line.endswith(b"\n"))
    ]
    if len(broken) > torn:
        found.append(f"broken lines in {[str(path.relative_to(home)) for path in broken]}")
    return found


def _is_taken_next(path: Path) -> bool:
    """Whether it is a lock on a ref that says it is ours: whoever writes that ref next takes it away."""
    return path.is_symlink() and os.readlink(path) == "nanomem" and path.suffix == ".lock"


def _integrity(path: Path) -> str:
    """What SQLite says of a database."""
    try:
        with _opened(path) as database:
            return str(database.execute("PRAGMA integrity_check").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return str(error)


def _below(home: Path) -> Iterator[str]:
    """All names, relative to it."""
    for folder, folders, names in os.walk(home):
        for name in (*folders, *names):
            yield os.path.relpath(os.path.join(folder, name), home)


def is_of_a_tool(name: str) -> bool:
    """Whether it is in a workspace and none of our own files."""
    parts = name.split("/")
    depth = 1 if parts[0] == "workspace" else 2 if parts[0] == "spaces" else len(parts)
    own = ("SOUL.md", "USER.md", "memory", "sessions", "skills", "prompts")
    return len(parts) > depth and parts[depth] not in own


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _is_json(line: bytes) -> bool:
    """A whole one, or the empty one that ends a torn one."""
    try:
        return not line.strip() or isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _is(record: Json, kind: str) -> bool:
    return record.get("_type") == kind


def _number(path: Path) -> int | None:
    """What such a file says; 0 before there is one."""
    if not path.exists():
        return 0
    text = path.read_text()
    return int(text) if re.fullmatch(r"\d+\n", text) else None


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}exit code {done.returncode}"


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that nobody else has open, with its write-ahead log; a copy, so that it is unchanged by being read."""
    with TemporaryDirectory() as folder:
        for name in (path.name, f"{path.name}-wal"):
            if path.with_name(name).exists():
                shutil.copyfile(path.with_name(name), Path(folder, name))
        with closing(sqlite3.connect(Path(folder, path.name))) as database:
            yield database
