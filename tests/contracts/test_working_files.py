"""What every set of working files promises: one suite over the fake and the real one, and a person with an editor."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TextIO

import pytest

from nanomem.errors import CannotStore, Refused
from nanomem.facts import NAMES
from nanomem.ports import LARGEST_FILE, WorkingFiles
from nanomem.spaces import Space
from nanomem.stores import durable
from nanomem.stores.memory_files import PlainWorkingFiles
from nanomem.testing import FakeWorkingFiles

Environment = Callable[[Path], dict[str, str]]
Edit = Callable[[Space, str, str], None]
USER, MEMORY = NAMES[1:]


@pytest.fixture
def space(tmp_path: Path) -> Space:
    space = Space("owner", tmp_path / "workspace", tmp_path / "workspace")
    (space.root / "memory").mkdir(parents=True)
    return space


@pytest.fixture(params=[FakeWorkingFiles, PlainWorkingFiles])
def files(request: pytest.FixtureRequest) -> WorkingFiles:
    make: Callable[[], WorkingFiles] = request.param
    return make()


@pytest.fixture
def edit(files: WorkingFiles) -> Edit:
    """A person writes a file."""

    def fake(space: Space, name: str, text: str) -> None:
        assert isinstance(files, FakeWorkingFiles)
        files.files[space.name][name] = text

    def real(space: Space, name: str, text: str) -> None:
        path = space.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    return fake if isinstance(files, FakeWorkingFiles) else real


# --- both


async def test_files_by_their_names(files: WorkingFiles, edit: Edit, space: Space) -> None:
    """One that is missing is None, an empty one is empty."""
    assert await files.read(space) == dict.fromkeys(NAMES)
    edit(space, USER, "Name: Ann\n")
    edit(space, MEMORY, "")
    assert await files.read(space) == {"SOUL.md": None, USER: "Name: Ann\n", MEMORY: ""}


async def test_the_manner_is_in_the_owners_space_only(
    files: WorkingFiles, edit: Edit, space: Space, tmp_path: Path
) -> None:
    """Others have two files, and their own."""
    other = Space("telegram:7", tmp_path / "spaces" / "telegram%3A7", space.root)
    edit(space, "SOUL.md", "Be kind.")
    edit(other, USER, "Name: Bob")
    assert await files.read(other) == {USER: "Name: Bob", MEMORY: None}
    assert await files.place(other, MEMORY, "- tea\n") is None
    assert (await files.read(space))[MEMORY] is None and (await files.read(other))[MEMORY] == "- tea\n"


async def test_what_is_replaced_is_kept_until_it_is_compared(files: WorkingFiles, edit: Edit, space: Space) -> None:
    """Each name for itself; a new file replaces nothing."""
    edit(space, USER, "one")
    assert await files.place(space, USER, "two") == "one"
    assert await files.place(space, MEMORY, "new") is None
    assert await files.read(space) == {"SOUL.md": None, USER: "two", MEMORY: "new"}
    assert await files.left(space) == {USER: "one"}
    await files.compared(space, USER)
    assert await files.left(space) == {}
    assert await files.place(space, USER, "three") == "two"
    assert await files.place(space, MEMORY, "newer") == "new"
    assert await files.left(space) == {USER: "two", MEMORY: "new"}
    await files.compared(space, MEMORY)
    await files.compared(space, MEMORY)
    assert await files.left(space) == {USER: "two"}


async def test_nothing_is_put_in_the_place_of_what_is_not_compared(
    files: WorkingFiles, edit: Edit, space: Space
) -> None:
    """It would be lost."""
    edit(space, USER, "one")
    await files.place(space, USER, "two")
    with pytest.raises(CannotStore):
        await files.place(space, USER, "three")
    assert (await files.read(space))[USER] == "two" and await files.left(space) == {USER: "one"}
    await files.compared(space, USER)
    assert await files.place(space, USER, "three") == "two"


async def test_what_a_person_writes_between_is_returned(files: WorkingFiles, edit: Edit, space: Space) -> None:
    """Whoever places learns what it was that he replaced."""
    edit(space, USER, "one")
    assert (await files.read(space))[USER] == "one"
    if isinstance(files, FakeWorkingFiles):
        files.meanwhile = lambda: edit(space, USER, "by hand")
    else:
        edit(space, USER, "by hand")
    assert await files.place(space, USER, "two") == "by hand"


@pytest.mark.parametrize(
    "text", ["", "no end", "a\r\nb\r\n", "\ufeff- with a mark\n", "nul\0in it", "caf\udce9 \udcff", "für 🙂\u2028\x85"]
)
async def test_texts_come_and_go_byte_for_byte(files: WorkingFiles, edit: Edit, space: Space, text: str) -> None:
    """Line ends of another system, marks, NULs, and what is no UTF-8."""
    edit(space, USER, text)
    assert (await files.read(space))[USER] == text
    assert await files.place(space, USER, f"{text}!") == text
    assert (await files.read(space))[USER] == f"{text}!"
    assert await files.left(space) == {USER: text}


# --- the real one only


def bytes_read() -> int:
    """By system calls, by the whole process."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what is read")
async def test_a_file_that_is_as_it_was_is_not_read_again(space: Space) -> None:
    """Once it has been so for a moment; a change of any kind is seen at once."""
    now = [0]
    files = PlainWorkingFiles(lambda: now[0])
    path = space.root / USER
    path.write_text("x" * 500_000)
    for later, is_read in ((0, True), (10**9, True), (10**10, True), (10**10, False)):
        now[0] = path.stat().st_ctime_ns + later
        before = bytes_read()
        assert (await files.read(space))[USER] == "x" * 500_000
        assert (bytes_read() - before > 400_000) == is_read
    was = path.stat()
    path.write_text("y" * 500_000)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (await files.read(space))[USER] == "y" * 500_000
    path.unlink()
    assert (await files.read(space))[USER] is None


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (Path.mkdir, "it is no file"),
        (os.mkfifo, "it is no file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is no file"),
        (lambda path: path.symlink_to(path.parent), "it is no file"),
        (lambda path: path.symlink_to(path), "Too many levels"),
        (lambda path: path.symlink_to("gone/USER.md"), "leads nowhere"),
        (lambda path: path.write_bytes(b"x" * (LARGEST_FILE + 1)), "larger than 1024 kB"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 50 * 1024 * 1024), "larger than 1024 kB"),
    ],
)
@pytest.mark.parametrize("name", [USER, MEMORY])
async def test_what_cannot_be_used_is_refused(space: Space, name: str, spoil: Callable[[Path], None], why: str) -> None:
    """It is said which file, why and what to do; nothing is written in its place."""
    path = space.root / name
    spoil(path)
    was = os.lstat(path)
    with pytest.raises(Refused, match=rf"{name} cannot be used: .*{why}.* Mend it"):
        await PlainWorkingFiles().read(space)
    if "larger" not in why:
        with pytest.raises(CannotStore, match="Cannot write"):
            await PlainWorkingFiles().place(space, name, "text")
        assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == (was.st_ino, was.st_mode)
    assert await PlainWorkingFiles().left(space) == {}
    assert not list((space.root / "memory").glob(".*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_is_refused(space: Space) -> None:
    """It is not taken for a missing one."""
    (space.root / USER).touch(mode=0)
    with pytest.raises(Refused, match="Permission denied"):
        await PlainWorkingFiles().read(space)


async def test_a_link_to_a_file_elsewhere_is_followed(space: Space, tmp_path: Path) -> None:
    """The file it leads to is what is replaced; the link stays, and nothing is left beside the file."""
    files, elsewhere = PlainWorkingFiles(), tmp_path / "dotfiles"
    elsewhere.mkdir()
    (elsewhere / "me.md").write_text("one")
    (space.root / USER).symlink_to("../dotfiles/me.md")
    assert (await files.read(space))[USER] == "one"
    assert await files.place(space, USER, "two") == "one"
    assert (space.root / USER).is_symlink() and (elsewhere / "me.md").read_text() == "two"
    assert await files.left(space) == {USER: "one"} and os.listdir(elsewhere) == ["me.md"]


async def test_who_could_read_a_file_still_can(space: Space) -> None:
    """Its mode stays, and its owner where that is ours to give; a new one is private."""
    files, path = PlainWorkingFiles(), space.root / USER
    path.write_text("one")
    path.chmod(0o640)
    with suppress(PermissionError):
        os.chown(path, 1234, 1234)
    was = path.stat()
    await files.place(space, USER, "two")
    await files.place(space, MEMORY, "new")
    now = path.stat()
    assert (now.st_mode, now.st_uid, now.st_gid) == (was.st_mode, was.st_uid, was.st_gid)
    assert stat.S_IMODE((space.root / MEMORY).stat().st_mode) == 0o600


async def test_folders_are_made(tmp_path: Path) -> None:
    """A space begins with its first file."""
    space = Space("telegram:7", tmp_path / "spaces" / "telegram%3A7", tmp_path / "workspace")
    files = PlainWorkingFiles()
    assert await files.left(space) == {}
    await files.compared(space, USER)
    assert not space.root.exists()
    assert await files.place(space, USER, "one") is None
    assert os.listdir(space.root / "memory") == []
    assert stat.S_IMODE(space.root.stat().st_mode) == 0o700


async def test_a_file_of_another_name_is_no_memory_file(space: Space) -> None:
    """Neither outside, nor the manner in the space of somebody else."""
    other = Space("telegram:7", space.root, space.root)
    for where, name in ((space, "../x.md"), (space, "notes.md"), (other, "SOUL.md")):
        with pytest.raises(ValueError, match="no memory file"):
            await PlainWorkingFiles().place(where, name, "text")


async def test_what_is_kept_is_out_of_the_tools_reach(space: Space) -> None:
    """In the folder that they cannot write to: what stands there counts as a person's own words."""
    files = PlainWorkingFiles()
    for name in NAMES:
        (space.root / name).write_text("one")
        (space.root / f".{Path(name).name}.new").write_text("planted")
        (space.root / f".{Path(name).name}.draft").write_text("planted")
    assert await files.left(space) == {}
    for name in NAMES:
        await files.place(space, name, "two")
    assert await files.left(space) == dict.fromkeys(NAMES, "one")
    assert {path.name for path in (space.root / "memory").glob(".*")} == {
        ".SOUL.md.new",
        ".USER.md.new",
        ".MEMORY.md.new",
    }


async def test_a_torn_draft_is_never_read(space: Space) -> None:
    """It goes at the next chance; where a link stands under its name, nothing is written through it."""
    files, memory = PlainWorkingFiles(), space.root / "memory"
    (memory / ".USER.md.draft").write_text("hal")
    assert await files.left(space) == {} and not list(memory.iterdir())
    (space.root / "other").write_text("kept")
    (memory / ".USER.md.draft").symlink_to(space.root / "other")
    (space.root / USER).write_text("one")
    assert await files.place(space, USER, "two") == "one"
    assert (space.root / "other").read_text() == "kept" and os.listdir(memory) == [".USER.md.new"]


async def test_what_cannot_be_written_changes_nothing(space: Space) -> None:
    """Something is in the way of the draft."""
    (space.root / USER).write_text("one")
    (space.root / "memory" / ".USER.md.draft").mkdir()
    with pytest.raises(CannotStore, match=r"USER\.md"):
        await PlainWorkingFiles().place(space, USER, "two")
    assert await PlainWorkingFiles().read(space) == {"SOUL.md": None, USER: "one", MEMORY: None}


async def test_what_is_replaced_and_cannot_be_read_is_kept(space: Space) -> None:
    """It is said where it is; nothing more is put in place until somebody has looked."""
    files, kept = PlainWorkingFiles(), space.root / "memory" / ".USER.md.new"
    (space.root / USER).write_bytes(b"x" * (LARGEST_FILE + 1))
    for ask in (files.place(space, USER, "two"), files.left(space)):
        with pytest.raises(Refused, match=r"\.USER\.md\.new cannot be used: it is larger"):
            await ask
    with pytest.raises(CannotStore, match=r"still in .*\.USER\.md\.new"):
        await files.place(space, USER, "three")
    assert kept.stat().st_size == LARGEST_FILE + 1 and (space.root / USER).read_text() == "two"


async def test_where_names_cannot_be_exchanged(space: Space) -> None:
    """In two steps, and what somebody writes between them stays where it is."""
    path, draft, kept = space.root / USER, space.root / "draft", space.root / "kept"
    path.write_text("one")
    draft.write_text("two")
    durable.set_aside(draft, path, kept)
    assert (path.read_text(), kept.read_text(), draft.exists()) == ("two", "one", False)
    draft.write_text("three")
    assert durable.move_in(draft, path) is False
    assert (path.read_text(), draft.read_text()) == ("two", "three")


# --- a person with an editor


async def test_who_has_the_file_open_is_waited_for(space: Space) -> None:
    """A save that is half done is no edit: neither when it is read nor when it is replaced."""
    files, path, kept = PlainWorkingFiles(), space.root / USER, space.root / "memory" / ".USER.md.new"

    def finish(editor: TextIO, wait_for: Path) -> None:
        while not wait_for.exists():
            pass
        with editor:
            editor.write("one, by hand")

    path.write_text("one")
    found, _ = await asyncio.gather(files.read(space), asyncio.to_thread(finish, path.open("w"), path))
    assert found[USER] == "one, by hand"
    path.write_text("one")
    replaced, _ = await asyncio.gather(files.place(space, USER, "two"), asyncio.to_thread(finish, path.open("w"), kept))
    assert replaced == "one, by hand" and path.read_text() == "two"


async def test_what_is_written_after_it_was_returned_is_returned_again(space: Space) -> None:
    """By whoever had the file open before."""
    files, path = PlainWorkingFiles(), space.root / USER
    path.write_text("one")
    assert await files.place(space, USER, "two") == "one"
    with (space.root / "memory" / ".USER.md.new").open("a") as editor:
        editor.write(", and more")
    await files.compared(space, USER)
    assert await files.left(space) == {USER: "one, and more"}
    await files.compared(space, USER)
    assert await files.left(space) == {}


class Person:
    """Writes texts one after the other into a file, in a thread, until told to stop."""

    def __init__(self, save: Callable[[Path, str], None], path: Path, name: str) -> None:
        self.texts: list[str] = []
        self._stop = threading.Event()
        self._save, self._path, self._name = save, path, name
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Person":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.is_set():
            text = f"{self._name} {len(self.texts)} " + "words " * 500
            self._save(self._path, text)
            self.texts.append(text)


def replaces(path: Path, text: str) -> None:
    """As most editors save. A text that another one replaces is one that its person has given up."""
    draft = path.with_name("editor~")
    draft.write_text(text)
    os.replace(draft, path)


def rewrites(path: Path, text: str) -> None:
    """As some do: the file is empty for a moment."""
    with path.open("w") as file:
        file.write(text)


@pytest.fixture
def quick_threads() -> Iterator[None]:
    """Threads that take turns often meet at more places."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_threads")
@pytest.mark.parametrize(
    "save",
    [
        replaces,
        pytest.param(rewrites, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell")),
    ],
)
async def test_somebody_who_saves_all_the_time_loses_nothing(space: Space, save: Callable[[Path, str], None]) -> None:
    """Every text of theirs that ours takes the place of is returned, whole and once; the last one stands, too."""
    files, path = PlainWorkingFiles(), space.root / USER
    save(path, "first")
    placed, seen = "first", list[str]()
    with Person(save, path, "by hand") as person:
        for number in count():
            if number > 300 and len(person.texts) > 300:
                break
            replaced = await files.place(space, USER, f"ours {number}")
            await files.compared(space, USER)
            assert replaced is not None and await files.left(space) == {}
            if replaced != placed:
                seen.append(replaced)
            placed = f"ours {number}"
    if (stands := path.read_text()) != placed:
        seen.append(stands)
    order = {text: number for number, text in enumerate(person.texts)}
    assert len(seen) > 10 and set(seen) <= set(order), "no text is half of one, and none of ours comes back"
    assert [order[text] for text in seen] == sorted({order[text] for text in seen}), "each is found once"
    assert person.texts[-1] in seen, "what was written last stands, or was returned"


KILLED = """
import asyncio, sys
from pathlib import Path
from nanomem.spaces import Space
from nanomem.stores.memory_files import PlainWorkingFiles

async def main():
    root, n = Path(sys.argv[1]), int(sys.argv[2])
    space, files = Space("owner", root, root), PlainWorkingFiles()
    for name in await files.left(space):
        await files.compared(space, name)
    while True:
        n += 1
        await files.place(space, "USER.md", f"{n} " + "words " * 2_000)
        print(n, flush=True)
        await files.compared(space, "USER.md")

asyncio.run(main())
"""


async def test_killed_while_placing_there_is_always_a_whole_file(space: Space, guarded_env: Environment) -> None:
    """The old text or the new one is in place, and what is left is whole, too."""
    (space.root / USER).write_text("0 " + "words " * 2_000)
    placed = 0
    for patience in range(12):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", KILLED, str(space.root), str(placed)),
            env=guarded_env(space.root),
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        for _ in range(1 + patience % 4):
            placed = int(await child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        told = (await child.stdout.read()).split(b"\n")[:-1]
        await child.wait()
        placed = int(told[-1]) if told else placed
        files = PlainWorkingFiles()
        texts = [(await files.read(space))[USER], *(await files.left(space)).values()]
        assert all(text and text.endswith(" " + "words " * 2_000) for text in texts)
        number = int((texts[0] or "").split()[0])
        assert number in (placed, placed + 1)
        assert len(texts) == 1 or int((texts[1] or "").split()[0]) in (number - 1, number + 1)
