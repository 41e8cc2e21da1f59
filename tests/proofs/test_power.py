"""Power cuts: a sample of them, and what a life that ended badly leaves to the next one."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from proofs import tracer
from proofs.claim import Effort
from proofs.claims import power
from proofs.disk import Disk, State
from proofs.record import Event, events

CHECKOUT = Path(__file__).parents[2]
REFUSED = tracer.why_not()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)

LIFE = """
import os, sys
from pathlib import Path
from nanomem.home import Home, Lock, make

home = Home(Path(sys.argv[1]))
make(home)
with Lock(home):
    if sys.argv[2] != "looks":
        home.state.joinpath("said").write_text(sys.argv[2])
    if sys.argv[2] == "killed":
        os._exit(9)
"""


def test_what_a_killed_process_has_written_is_certain_before_the_next_one_acts_on_it(tmp_path: Path) -> None:
    """It had no time to sync; the next one takes what it reads for decided, so a power cut must not take it back."""
    home = tmp_path / "home"
    disk = Disk(State())
    lived(home, disk, "killed")
    assert None in {state.files.get("state/said") for state in disk.states()}
    lived(home, disk, "looks")
    assert {state.files.get("state/said") for state in disk.states()} == {b"killed"}


def test_a_process_that_ended_in_order_leaves_nothing_to_sync(tmp_path: Path) -> None:
    """It has synced what it promised; the next one starts without the wait."""
    home = tmp_path / "home"
    disk = Disk(State())
    lived(home, disk, "ends")
    assert "syncfs" in {event.call for event in seen(home)}
    lived(home, disk, "looks")
    assert "syncfs" not in {event.call for event in seen(home)}


def test_a_log_that_began_on_a_full_disk_keeps_its_name(tmp_path: Path) -> None:
    """The first line could not be written, the next one could: what it is in is there after a power cut, too."""
    code = """
import sys
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.stores import durable

log = Path(sys.argv[1]) / "log"
try:
    durable.append(log, b"first\\n", b"head\\n")
except CannotStore:
    durable.append(log, b"second\\n", b"head\\n")
"""
    full = ("--fail", "ENOSPC", "--calls", "write", "--under", "log", "--at", "1", "--times", "1")
    disk = Disk(State())
    runs(tmp_path, disk, code, under=full)
    assert [state.files for state in disk.states()] == [{"log": b"head\nsecond\n"}]


def test_a_space_that_begins_with_a_file_keeps_its_name(tmp_path: Path) -> None:
    """What somebody new sends first is a document: all folders above it are synced, not only its own."""
    code = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from nanomem.messages import Attachment
from nanomem.spaces import Space
from nanomem.stores.received import ReceivedFiles
from nanomem.testing import FakeChannel, inbound

home, channel = Path(sys.argv[1]), FakeChannel()
channel.files["r"] = b"content"
message = replace(inbound("see"), attachments=(Attachment("document", "a.txt", "text/plain", 7, "r"),))
root = home / "spaces" / "telegram:7"
asyncio.run(ReceivedFiles(home / "incoming").receive(Space("telegram:7", root, root), message, channel))
"""
    disk = Disk(State())
    runs(tmp_path, disk, code)
    assert {state.files.get("spaces/telegram:7/files/1-1-a.txt") for state in disk.states()} == {b"content"}


def lived(home: Path, disk: Disk, how: str) -> None:
    runs(home.parent, disk, LIFE, how)


def runs(folder: Path, disk: Disk, code: str, *arguments: str, under: Sequence[str] = ()) -> None:
    """A program that is given a home below `folder`; the disk is told what it does there."""
    home, record = folder / "home", folder / "record"
    home.mkdir(exist_ok=True)
    watched = (sys.executable, "-m", "proofs.tracer", "--home", str(home), "--record", str(record), *under, "--")
    subprocess.run([*watched, sys.executable, "-c", code, str(home), *arguments], cwd=CHECKOUT, check=False)
    for event in seen(home):
        disk.see(event)


def seen(home: Path) -> list[Event]:
    """What the last life did."""
    with home.parent.joinpath("record").open() as lines:
        return list(events(lines))


async def test_what_was_acknowledged_outlives_a_power_cut(tmp_path: Path) -> None:
    """A sample of `scripts/prove power`."""
    report = await power.prove(tmp_path, Effort(quick=True))
    assert not report.violations, "\n".join(report.violations)
    assert {name.partition(": ")[2] for name in report.tried} > {"states looked at", "states recovered from"}


def test_what_the_tracer_did_not_see_is_found() -> None:
    """A model of a disk that was told too little would find nothing wrong. The search index does not count."""
    start = State({"a": b"1"}, frozenset({"state", "state/recall"}))
    written = [Event(1, "write", "a", 1, data=b"2")]
    power.unseen(start, written, State({"a": b"2", "state/recall/x": b"?"}, start.folders))
    for there in (State({"a": b"1"}, start.folders), State({"a": b"2", "b": b""}, start.folders), State({"a": b"2"})):
        with pytest.raises(AssertionError, match="not recorded"):
            power.unseen(start, written, there)
