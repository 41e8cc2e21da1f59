"""What a power cut may leave: properties of the model, a slow twin of it, and a real folder beside it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.disk import SECTOR, Disk, State
from proofs.record import EXCHANGE, Event

START = State({"old": b"o", "d/kept": b"k"}, frozenset({"d"}))
PLACES = ("old", "a", "b", "d/a", "d/kept")
ALL = 1_000_000

CALLS = {"create": "openat", "write": "pwrite64", "truncate": "ftruncate", "sync": "fdatasync", "exchange": "renameat2"}


@dataclass(frozen=True)
class Do:
    """Something done to files, in the words of this page."""

    call: str
    path: str
    to: str = ""
    offset: int = 0
    data: bytes = b""
    size: int = 0

    @property
    def event(self) -> Event:
        flags = {"create": os.O_CREAT, "exchange": EXCHANGE}.get(self.call, 0)
        return Event(
            1, CALLS.get(self.call, self.call), self.path, 0, self.to, self.offset, self.data, self.size, flags
        )


def plainly(events: Sequence[Do], start: State = START) -> dict[str, bytes]:
    """What a folder holds after all that."""
    held = dict(start.files)
    for event in events:
        match event.call:
            case "create":
                held[event.path] = b""
            case "write":
                old = held[event.path].ljust(event.offset, b"\0")
                held[event.path] = old[: event.offset] + event.data + old[event.offset + len(event.data) :]
            case "truncate":
                held[event.path] = held[event.path][: event.size].ljust(event.size, b"\0")
            case "rename":
                held[event.to] = held.pop(event.path)
            case "exchange":
                held[event.to], held[event.path] = held[event.path], held[event.to]
            case "unlink":
                del held[event.path]
    return held


@st.composite
def doings(draw: st.DrawFn, most: int = 12) -> list[Do]:
    """What programs may do one after the other, all of it possible."""
    events: list[Do] = []
    for _ in range(draw(st.integers(0, most))):
        held = plainly(events)
        kinds = ["create", "write", "truncate", "rename", "exchange", "unlink", "sync", "sync folder"]
        kind = draw(st.sampled_from(kinds))
        path = draw(st.sampled_from(sorted(held) or ["a"]))
        other = draw(st.sampled_from(PLACES))
        if kind == "sync folder":
            events.append(Do("sync", draw(st.sampled_from([".", "d"]))))
        elif kind == "create" and other not in held:
            events.append(Do(kind, other))
        elif path in held and path != other and (kind == "rename" or (kind == "exchange" and other in held)):
            events.append(Do(kind, path, other))
        elif kind == "write" and path in held:
            letter = bytes([ord("A") + len(events)])
            events.append(Do(kind, path, offset=draw(st.integers(0, len(held[path]))), data=letter))
        elif kind in ("truncate", "unlink", "sync") and path in held:
            events.append(Do(kind, path, size=draw(st.integers(0, 2)) if kind == "truncate" else 0))
    return events


def disk_after(events: Sequence[Do], start: State = START) -> Disk:
    disk = Disk(start)
    for event in events:
        disk.see(event.event)
    return disk


def key(state: State) -> tuple[object, ...]:
    return tuple(sorted(state.files.items())), state.folders


@given(doings())
def test_all_that_was_done_is_a_state(events: list[Do]) -> None:
    """The cut may come after everything has reached the disk."""
    states = list(disk_after(events).states(most=8))
    assert states[0].files == plainly(events)
    assert states[0].folders == {"d"}


@given(doings())
def test_all_synced_leaves_one_state(events: list[Do]) -> None:
    """Each file and each folder was synced last: nothing is open, and nothing can be lost."""
    disk = disk_after(events)
    for path in [*plainly(events), ".", "d"]:
        disk.see(Do("sync", path).event)
    assert [state.files for state in disk.states()] == [plainly(events)]


@given(doings(), doings(most=6))
def test_what_was_synced_and_left_alone_is_in_every_state(before: list[Do], after: list[Do]) -> None:
    """Whatever else is done, and lost."""
    disk = disk_after(before)
    for path in [*plainly(before), ".", "d"]:
        disk.see(Do("sync", path).event)
    disk.see(Do("create", "safe").event)
    disk.see(Do("write", "safe", data=b"said").event)
    disk.see(Do("sync", "safe").event)
    disk.see(Do("sync", ".").event)
    for event in legal_after(before, after):
        disk.see(event.event)
    for state in disk.states(most=40):
        assert state.files["safe"] == b"said"


def legal_after(before: Sequence[Do], events: Sequence[Do]) -> Iterator[Do]:
    """Those of `events` that are possible where others came first."""
    done = list(before)
    for event in events:
        held = {*plainly(done), ".", "d"}
        needed = {event.to} if event.call == "exchange" else set()
        if needed <= held and (event.path in held) == (event.call != "create"):
            done.append(event)
            yield event


@given(doings(most=7))
def test_the_states_are_those_of_a_slow_twin(events: list[Do]) -> None:
    """Said a second time in another way: each effect is judged by itself, each choice of open ones is looked at."""
    found = {key(state) for state in disk_after(events).states(most=ALL)}
    assert found == {key(state) for state in twin(events)}


def twin(events: Sequence[Do]) -> Iterator[State]:
    """Every state, the slow way: files are known by the number of the event that made them."""
    born: dict[str, str] = {path: path for path in START.files}
    named: list[tuple[int, dict[str, str | None]]] = []
    filled: list[tuple[int, str, Do]] = []
    synced: list[tuple[int, str]] = []
    for number, event in enumerate(events):
        change: dict[str, str | None] = {}
        match event.call:
            case "create":
                change = {event.path: f"#{number}"}
            case "unlink":
                change = {event.path: None}
            case "rename":
                change = {event.path: None, event.to: born[event.path]}
            case "exchange":
                change = {event.path: born[event.to], event.to: born[event.path]}
            case "sync":
                synced.append((number, event.path if event.path in (".", "d") else born[event.path]))
            case _:
                filled.append((number, born[event.path], event))
        if change:
            named.append((number, change))
        born = {path: file for path, file in (born | change).items() if file is not None}

    def is_certain(number: int, places: set[str]) -> bool:
        return any(at > number and what in places for at, what in synced)

    def lasting(number: int, change: dict[str, str | None]) -> bool:
        later = [other for other in named if other[0] > number and other[1].keys() & change.keys()]
        folders = {"d" if path.startswith("d/") else "." for path in change}
        return is_certain(number, folders) or any(lasting(*other) for other in later)

    name_kinds = [[True] if lasting(*one) else [False, True] for one in named]
    data_kinds: list[list[str]] = []
    for number, file, event in filled:
        ways = ["whole", "lost", "zeros"] if event.call == "write" else ["whole", "lost"]
        data_kinds.append(["whole"] if is_certain(number, {file}) else ways)
    for survives in product(*name_kinds):
        kept = [change for (_, change), there in zip(named, survives, strict=True) if there]
        lost = [(number, change) for (number, change), there in zip(named, survives, strict=True) if not there]
        if any(
            number < other and change.keys() & later.keys()
            for number, change in lost
            for (other, later), there in zip(named, survives, strict=True)
            if there
        ):
            continue
        names: dict[str, str | None] = {path: path for path in START.files}
        for change in kept:
            names |= change
        for ways_taken in product(*data_kinds):
            content = dict(START.files) | {f"#{number}": b"" for number, _ in enumerate(events)}
            for (_, file, event), way in zip(filled, ways_taken, strict=True):
                if way == "whole":
                    content[file] = plainly(
                        [Do(event.call, "x", "", event.offset, event.data, event.size)], State({"x": content[file]})
                    )["x"]
                elif way == "zeros":
                    content[file] = content[file].ljust(event.offset + 1, b"\0")
            yield State({path: content[file] for path, file in names.items() if file is not None}, START.folders)


@given(doings())
def test_a_real_folder_agrees_on_what_programs_see(tmp_path_factory: pytest.TempPathFactory, events: list[Do]) -> None:
    """The same calls, made for real."""
    root = tmp_path_factory.mktemp("disk")
    (root / "d").mkdir()
    for path, data in START.files.items():
        (root / path).write_bytes(data)
    for event in events:
        really(root, event)
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert found == disk_after(events).seen().files


def really(root: Path, event: Do) -> None:
    path, to = root / event.path, root / event.to
    match event.call:
        case "create":
            path.touch()
        case "write":
            with path.open("r+b") as file:
                file.seek(event.offset)
                file.write(event.data)
        case "truncate":
            os.truncate(path, event.size)
        case "rename":
            path.rename(to)
        case "exchange":
            between = root / "between"
            path.rename(between)
            to.rename(path)
            between.rename(to)
        case "unlink":
            path.unlink()


def test_a_file_put_in_place_without_a_sync_may_be_empty() -> None:
    """The classic: the name has changed, and what it names has never reached the disk."""
    put = [Do("create", "new"), Do("write", "new", data=b"text"), Do("rename", "new", "old")]
    found = [state.files.get("old") for state in disk_after(put).states(most=ALL)]
    assert {b"o", b"", b"text", b"\0\0\0\0", b"te"} <= set(found)
    put.insert(2, Do("sync", "new"))
    found = [state.files.get("old") for state in disk_after(put).states(most=ALL)]
    assert set(found) == {b"o", b"text"}


def test_a_new_file_is_certain_only_with_its_folder() -> None:
    """Its own sync keeps what is in it, not its name."""
    made = [Do("create", "d/new"), Do("write", "d/new", data=b"text"), Do("sync", "d/new")]
    assert {state.files.get("d/new") for state in disk_after(made).states()} == {None, b"text"}
    assert {state.files.get("d/new") for state in disk_after([*made, Do("sync", ".")]).states()} == {None, b"text"}
    assert {state.files.get("d/new") for state in disk_after([*made, Do("sync", "d")]).states()} == {b"text"}


def test_what_is_in_a_folder_goes_with_it() -> None:
    """A synced file in a synced folder, whose own name nobody has synced."""
    made = [Do("mkdir", "e"), Do("create", "e/new"), Do("sync", "e/new"), Do("sync", "e")]
    assert {"e/new" in state.files for state in disk_after(made).states()} == {True, False}
    assert {"e/new" in state.files for state in disk_after([*made, Do("sync", ".")]).states()} == {True}


def test_a_move_to_another_folder_is_all_or_nothing() -> None:
    """The file is in one of the two, and once either was synced, in the new one."""
    moved = [Do("rename", "old", "d/old")]
    both = {("old" in state.files, "d/old" in state.files) for state in disk_after(moved).states()}
    assert both == {(True, False), (False, True)}
    for synced in (".", "d"):
        [state] = disk_after([*moved, Do("sync", synced)]).states()
        assert sorted(state.files) == ["d/kept", "d/old"]


def test_a_link_and_a_folder_are_names_like_all_others() -> None:
    """There or not; a second name of a file keeps what is in it."""
    done = [Do("symlink", "lock", "ours"), Do("mkdir", "e"), Do("link", "old", "e/second"), Do("unlink", "old")]
    found = disk_after(done)
    assert found.seen() == State({"d/kept": b"k", "e/second": b"o"}, frozenset({"d", "e"}), {"lock": "ours"})
    everything = list(found.states(most=ALL))
    assert {tuple(state.links) for state in everything} == {(), ("lock",)}
    assert {(*sorted(state.files), "e" in state.folders) for state in everything} == {
        ("d/kept", "old", False),
        ("d/kept", False),
        ("d/kept", "old", True),
        ("d/kept", True),
        ("d/kept", "e/second", "old", True),
        ("d/kept", "e/second", True),
    }
    again = disk_after([*done, Do("unlink", "lock"), Do("sync", ".")])
    assert {tuple(state.links) for state in again.states()} == {()}


def test_a_long_write_tears_at_sectors_and_between() -> None:
    """A prefix, a suffix behind zeros, or nothing but the length."""
    text = bytes(range(1, 200)) * 10
    found = {state.files["old"] for state in disk_after([Do("write", "old", offset=1, data=text)]).states(most=ALL)}
    first = SECTOR - 1
    assert {b"o", b"o" + text, b"o" + text[:first], b"o" + text[:1], b"o" + bytes(len(text))} <= found
    assert b"o" + bytes(first) + text[first:] in found


def test_many_open_effects_are_sampled_from_both_ends_and_the_same_for_the_same_dice() -> None:
    """As many as were asked for, all different, with all of it and none of it first."""
    events = [Do("create", f"f{n}") for n in range(20)] + [Do("write", f"f{n}", data=b"x") for n in range(20)]
    states = [state.digest() for state in disk_after(events).states(most=50)]
    assert len(states) == len(set(states)) == 50
    assert states == [state.digest() for state in disk_after(events).states(most=50)]
    assert [len(state.files) for state in list(disk_after(events).states(most=2))] == [22, 2]


def test_what_nothing_is_promised_of_makes_no_difference() -> None:
    """It is torn like all else, without using up the states that are asked for."""
    views = [Do("create", f"view{n}") for n in range(20)]
    disk = disk_after([*views, Do("write", "old", data=b"x")])
    found = list(disk.states(aside=lambda path: path.startswith("view")))
    assert {state.files["old"] for state in found} == {b"o", b"x"}
    assert len(found) == 2 and len({len(state.files) for state in found}) == 2


def test_a_call_that_the_model_does_not_know_is_loud() -> None:
    """Nothing is passed over in silence."""
    with pytest.raises(ValueError, match="no disk knows mmap"):
        Disk(START).see(Event(1, "mmap", "old", 0))
