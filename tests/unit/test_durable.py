"""The only code that syncs: what is on disk afterwards, also when the disk takes no more."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanomem.errors import CannotStore
from nanomem.stores import durable

Environment = Callable[[Path], dict[str, str]]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_begins_with_its_header(tmp_path: Path) -> None:
    """It and its folders are its owner's alone."""
    path = tmp_path / "a" / "b" / "log.jsonl"
    durable.append(path, b"one\n", header=b"head\n")
    durable.append(path, b"two\n", header=b"head\n")
    assert path.read_bytes() == b"head\none\ntwo\n"
    assert [mode(path), mode(path.parent), mode(path.parent.parent)] == [0o600, 0o700, 0o700]


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    """One that a failed write left behind gets its header, too."""
    path = tmp_path / "log"
    path.touch()
    durable.append(path, b"one\n", header=b"head\n")
    assert path.read_bytes() == b"head\none\n"


def test_a_torn_line_is_ended_and_stays(tmp_path: Path) -> None:
    """It spoils nothing that comes after it."""
    path = tmp_path / "log"
    path.write_bytes(b"one\nto")
    durable.append(path, b"two\n")
    assert path.read_bytes() == b"one\nto\ntwo\n"


def test_behind_a_torn_line_the_header_comes_again(tmp_path: Path) -> None:
    """Else a file whose first write was cut short would never have one."""
    path = tmp_path / "log"
    path.write_bytes(b"he")
    durable.append(path, b"one\n", header=b"head\n")
    durable.append(path, b"two\n", header=b"head\n")
    assert path.read_bytes() == b"he\nhead\none\ntwo\n"


lines = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"") + b"\n"), max_size=4).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(written=st.lists(lines, min_size=1, max_size=4), torn=st.integers(0, 30))
def test_whatever_was_torn_the_rest_is_there(tmp_path: Path, written: list[bytes], torn: int) -> None:
    """Cut anywhere, what is appended afterwards is whole, and what stood before the cut too."""
    path = tmp_path / "log"
    path.unlink(missing_ok=True)
    for data in written:
        durable.append(path, data)
    whole = path.read_bytes()
    assert whole == b"".join(written)
    left = whole[: len(whole) - torn]
    path.write_bytes(left)
    durable.append(path, b"after\n")
    assert path.read_bytes().startswith(left) and path.read_bytes().endswith(b"after\n")
    assert path.read_bytes().splitlines()[-1] == b"after"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Nothing else is left in the folder; it is its owner's alone, whoever it was before."""
    path = tmp_path / "new" / "file"
    durable.replace(path, b"one")
    path.chmod(0o644)
    durable.replace(path, b"two" * 100_000)
    assert path.read_bytes() == b"two" * 100_000
    assert list(path.parent.iterdir()) == [path]
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder in its place, a file where its folder should be, a name that is too long: nothing changes."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    for path in (tmp_path / "folder", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        for write in (durable.append, durable.replace):
            with pytest.raises(CannotStore, match="Cannot write"):
                write(path, b"data\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept" and not list((tmp_path / "folder").iterdir())


def test_a_file_may_come_in_pieces(tmp_path: Path) -> None:
    """Where they end in an error nothing is in place, and no draft is left."""
    path = tmp_path / "file"
    durable.replace(path, (piece for piece in (b"one", b"", b"two" * 100_000)))
    assert path.read_bytes() == b"one" + b"two" * 100_000

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise CannotStore("no more")

    with pytest.raises(CannotStore, match="no more"):
        durable.replace(path, broken())
    assert path.stat().st_size == 300_003 and list(tmp_path.iterdir()) == [path]


def test_nothing_is_written_through_what_stands_under_the_drafts_name(tmp_path: Path) -> None:
    """Whoever can put a link there cannot have another file overwritten."""
    other = tmp_path / "other"
    for plant in (Path.symlink_to, Path.hardlink_to):
        other.write_bytes(b"kept")
        plant(tmp_path / ".file.draft", other)
        durable.replace(tmp_path / "file", b"new")
        assert other.read_bytes() == b"kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


def test_two_files_change_places(tmp_path: Path) -> None:
    """What was replaced is kept under the other name, in another folder perhaps; what is there already is not lost."""
    path, kept = tmp_path / "file", tmp_path / "folder" / ".file.new"
    assert durable.exchange(path, b"one", kept) is False
    assert durable.exchange(path, b"two", kept) is True
    assert (path.read_bytes(), kept.read_bytes()) == (b"two", b"one")
    with pytest.raises(CannotStore, match=r"still in .*\.file\.new"):
        durable.exchange(path, b"three", kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"two", b"one")
    durable.remove(kept)
    durable.remove(kept)
    assert list(kept.parent.iterdir()) == [] and mode(path) == 0o600


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second disk")
def test_on_another_disk_nothing_is_exchanged(tmp_path: Path) -> None:
    """The file stays as it was; nothing is left on either."""
    if os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second disk")
    path = tmp_path / "file"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        for before in (False, True):
            if before:
                path.write_bytes(b"one")
            with pytest.raises(CannotStore, match="cross-device"):
                durable.exchange(path, b"two", Path(other) / ".file.new")
            assert (path.read_bytes() if before else None) == (b"one" if before else None)
            assert not os.listdir(other) and path.exists() == before


FULL = """
import resource, sys
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.stores import durable

folder = Path(sys.argv[1])
log, file, new = folder / "log", folder / "file", folder / "new"
exchange = lambda path, data: durable.exchange(path, data, folder / ".file.new")
durable.append(log, b"one\\nto")
durable.replace(file, b"before")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
for write, path in ((durable.append, log), (durable.append, new), (durable.replace, file), (exchange, file)):
    try:
        write(path, b"x" * 1000 + b"\\n")
    except CannotStore as error:
        assert str(path) in error.text
    else:
        raise AssertionError(write)
assert log.read_bytes() == b"one\\nto"
assert file.read_bytes() == b"before"
assert new.read_bytes() == b""
assert sorted(path.name for path in folder.iterdir()) == ["file", "log", "new"]
durable.append(log, b"short\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
durable.append(log, b"x" * 1000 + b"\\n")
durable.append(new, b"first\\n", b"head\\n")
durable.replace(file, b"x" * 1000)
assert log.read_bytes() == b"one\\nto\\nshort\\n" + b"x" * 1000 + b"\\n"
assert new.read_bytes() == b"head\\nfirst\\n"
assert file.read_bytes() == b"x" * 1000
"""


def test_a_full_disk_leaves_the_files_as_they_were(tmp_path: Path, guarded_env: Environment) -> None:
    """Not a byte of what failed stays, no draft takes room, and it goes on when there is room again."""
    folder = tmp_path / "files"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)],
        env=guarded_env(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def test_a_write_is_finished_though_its_caller_is_cancelled() -> None:
    """The caller learns that it was cancelled, and only when the write is over."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop, done = asyncio.get_running_loop(), []

    def work(name: str) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        done.append(name)

    writing = asyncio.create_task(durable.finished(work, "it"))
    await begun.wait()
    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done() and done == []
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert done == ["it"]


FEW = """
import os, resource, sys
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.stores import durable

folder = Path(sys.argv[1])
log, file, new = folder / "log", folder / "file", folder / "new"
exchange = lambda path, data: durable.exchange(path, data, folder / ".file.new")
durable.append(log, b"one\\n")
durable.replace(file, b"before")
before = {path.name: path.read_bytes() for path in folder.iterdir()}
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
writes = [(durable.append, log), (durable.append, new), (durable.append, new / "below"), (durable.replace, file)]
for write, path in (*writes, (exchange, file), (lambda path, _: durable.remove(path), file)):
    for spare in range(3):
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, hard))
        try:
            write(path, b"two\\n")
            done = True
        except CannotStore as error:
            assert "Too many open files" in error.text, error
            done = False
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if done:
            break
        for name, data in before.items():
            assert (folder / name).read_bytes() == data, (write, name, spare)
        assert not new.is_file() or new.read_bytes() == b"", (write, spare)
        new.unlink(missing_ok=True) if new.is_file() else None
    else:
        continue
    for at in (*new.glob("*"), new):
        at.rmdir() if at.is_dir() else at.unlink(missing_ok=True)
    (folder / ".file.new").unlink(missing_ok=True)
    for name, data in before.items():
        (folder / name).write_bytes(data)
"""


def test_too_many_open_files_is_said_before_anything_is_done(tmp_path: Path, guarded_env: Environment) -> None:
    """However many more may be opened: it is done, or nothing has happened and the same may be tried again."""
    folder = tmp_path / "files"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FEW, str(folder)],
        env=guarded_env(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
