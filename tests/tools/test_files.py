"""The file tools: what they do, and that nothing leads out of the space or into the truth."""

import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nanomem.errors import ShowModel
from nanomem.spaces import Space
from nanomem.tools import contained

Use = Callable[..., Awaitable[str]]

WAYS_OUT = [
    "../secret",
    "../config.toml",
    "../workspace-evil/secret",
    "/etc/passwd",
    "/proc/self/environ",
    "/workspace/../config.toml",
    "/workspacex",
    "notes/../../config.toml",
    "out/secret",
    "secret-link",
    "absolute-link",
    "magic/environ",
]
UNUSABLE = ["", "a\0b", "x" * 256, "d/" * 2_001 + "x"]


@pytest.fixture
def traps(space: Space) -> Space:
    """A space with every kind of thing that should not be followed."""
    root = space.root
    (root / "notes").mkdir()
    (root / "notes" / "a.txt").write_text("alpha\nbeta\ngamma\n")
    (root / "out").symlink_to("../workspace-evil")
    (root / "secret-link").symlink_to("../config.toml")
    (root / "absolute-link").symlink_to(root.parent / "config.toml")
    (root / "magic").symlink_to("/proc/self")
    (root / "loop").symlink_to("loop2")
    (root / "loop2").symlink_to("loop")
    (root / "inner").symlink_to("notes/a.txt")
    (root / "circle").symlink_to(".")
    os.mkfifo(root / "fifo")
    return space


@pytest.mark.parametrize("path", [*WAYS_OUT, *UNUSABLE, "loop", "fifo", ".", "..", "notes", "missing", "notes/a.txt/x"])
async def test_reading_what_is_no_file_of_the_space_is_refused(traps: Space, use: Use, path: str) -> None:
    """With a clear word, at once, and without the secret in it."""
    for tool, arguments in (("read_file", {}), ("edit_file", {"old": "CANARY", "new": "x"})):
        with pytest.raises(ShowModel) as caught:
            await use(tool, path=path, **arguments)
        assert "CANARY" not in caught.value.text
    assert (traps.root.parent / "config.toml").read_text() == "token = 'CANARY-SECRET'"


@pytest.mark.parametrize("path", [*WAYS_OUT, *UNUSABLE, "loop", "fifo", ".", "..", "notes", "notes/", "inner", "a/.."])
async def test_writing_what_is_no_file_of_the_space_is_refused(traps: Space, use: Use, path: str) -> None:
    """Nothing changes anywhere, and no temporary file is left."""
    before = sorted(str(p) for p in traps.root.parent.rglob("*"))
    with pytest.raises(ShowModel):
        await use("write_file", path=path, content="evil")
    after = sorted(str(p) for p in traps.root.parent.rglob("*") if p != traps.root / "a")
    assert after == before
    assert (traps.root / "notes" / "a.txt").read_text() == "alpha\nbeta\ngamma\n"


@pytest.mark.parametrize("path", ["..", "out", "/etc", "magic", "loop", "fifo", "", "/proc/self/fd", "notes/a.txt"])
async def test_listing_what_is_no_folder_of_the_space_is_refused(traps: Space, use: Use, path: str) -> None:
    """The same bounds hold for folders."""
    with pytest.raises(ShowModel):
        await use("list_dir", path=path)


@pytest.mark.parametrize("path", ["..", "out", "/etc/passwd", "secret-link", "loop", "fifo"])
async def test_searching_outside_is_refused(traps: Space, use: Use, path: str) -> None:
    """And for searches."""
    with pytest.raises(ShowModel):
        await use("grep", pattern=".", path=path)


async def test_the_same_file_by_all_its_names(traps: Space, use: Use) -> None:
    """Relative, absolute inside the root, and as commands see it; a link is named as what it is."""
    for path in ("notes/a.txt", "./notes//a.txt", "notes/../notes/a.txt"):
        assert await use("read_file", path=path) == "alpha\nbeta\ngamma\n"
    assert await use("read_file", path=str(traps.root / "notes" / "a.txt")) == "alpha\nbeta\ngamma\n"
    assert await use("read_file", path="/workspace/notes/a.txt") == "alpha\nbeta\ngamma\n"
    for path in ("inner", "circle/notes/a.txt"):
        with pytest.raises(ShowModel, match="symbolic link"):
            await use("read_file", path=path)


async def test_a_tilde_is_a_plain_name(traps: Space, use: Use) -> None:
    """`~/.ssh/id_rsa` is a file in a folder called `~`."""
    await use("write_file", path="~/.ssh/id_rsa", content="mine")
    assert (traps.root / "~" / ".ssh" / "id_rsa").read_text() == "mine"


async def test_files_are_private_and_keep_their_permissions(space: Space, use: Use) -> None:
    """0600 and 0700 for new ones; a program stays one."""
    await use("write_file", path="a/b/new.txt", content="x")
    assert (space.root / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (space.root / "a/b/new.txt").stat().st_mode & 0o777 == 0o600
    (space.root / "run.sh").write_text("old")
    (space.root / "run.sh").chmod(0o755)
    await use("edit_file", path="run.sh", old="old", new="new")
    assert (space.root / "run.sh").stat().st_mode & 0o777 == 0o755


MEMORY = ["SOUL.md", "USER.md", "memory/MEMORY.md", "soul.MD", "MEMORY/memory.md", "./memory/../USER.md"]
KEPT = [
    "memory/history.jsonl",
    "memory/.cursor",
    "sessions/x.jsonl",
    "skills/a/SKILL.md",
    "prompts/turn.j2",
    "Prompts/x/y",
    "SOUL.md/x",
    "s/new/SKILL.md",
    "circle/skills/x",
    "m/MEMORY.md",
]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("path", [*MEMORY, *KEPT])
async def test_the_truth_cannot_be_written(space: Space, use: Use, path: str, is_there: bool) -> None:
    """By any spelling, also through links, whether it exists yet or not; memory says what to tell the person."""
    if is_there:
        for folder in ("memory", "sessions", "skills", "prompts"):
            (space.root / folder).mkdir()
        (space.root / "memory" / "MEMORY.md").write_text("fact")
        (space.root / "USER.md").write_text("fact")
    (space.root / "m").symlink_to("memory")
    (space.root / "s").symlink_to("skills")
    (space.root / "circle").symlink_to(".")
    before = sorted(space.root.rglob("*"))
    with pytest.raises(ShowModel) as caught:
        await use("write_file", path=path, content="evil")
    if path in MEMORY:
        assert "not saved" in caught.value.text
    assert sorted(space.root.rglob("*")) == before


async def test_memory_can_be_read_and_not_edited(space: Space, use: Use) -> None:
    """Reading is free; an edit says that it is not saved."""
    (space.root / "memory").mkdir()
    (space.root / "memory" / "MEMORY.md").write_text("- Ann has a dog\n")
    assert "dog" in await use("read_file", path="memory/MEMORY.md")
    with pytest.raises(ShowModel, match="not saved"):
        await use("edit_file", path="memory/MEMORY.md", old="dog", new="cat")
    assert (space.root / "memory" / "MEMORY.md").read_text() == "- Ann has a dog\n"


async def test_conversations_are_not_for_reading(space: Space, use: Use) -> None:
    """Neither directly nor through a link, nor in a search or a list."""
    (space.root / "sessions").mkdir()
    (space.root / "sessions" / "x.jsonl").write_text("private words")
    (space.root / "s").symlink_to("sessions")
    (space.root / "open.txt").write_text("public words")
    for folder, word in (("sessions", "recall"), ("s", "symbolic link")):
        with pytest.raises(ShowModel, match=word):
            await use("read_file", path=f"{folder}/x.jsonl")
        with pytest.raises(ShowModel, match=word):
            await use("list_dir", path=folder)
        with pytest.raises(ShowModel, match=word):
            await use("grep", pattern="words", path=folder)
    assert await use("grep", pattern="words") == "open.txt:1: public words"
    assert "sessions/" not in await use("list_dir", path=".")


def test_a_race_with_a_link_never_leads_out(traps: Space) -> None:
    """A folder that is exchanged with a link to the outside all the time: the secret is never read."""
    inside, link, swapped = traps.root / "swap", traps.root / "to-evil", threading.Event()
    inside.mkdir()
    (inside / "secret").write_text("harmless")
    link.symlink_to("../workspace-evil")

    def swap() -> None:
        spare = traps.root / "spare"
        while not swapped.is_set():
            inside.rename(spare)
            link.rename(inside)
            inside.rename(link)
            spare.rename(inside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(3_000):
            with suppress(ShowModel), contained.opened_file(traps, "swap/secret") as file:
                assert file.read() == b"harmless"
    finally:
        swapped.set()
        thread.join()


async def test_a_long_file_is_read_in_stretches(space: Space, use: Use) -> None:
    """Each says where to go on, and together they are the file."""
    text = "".join(f"line {n} with some words\n" for n in range(1, 5_001))
    (space.root / "long.txt").write_text(text)
    read, offset = "", 1
    while offset:
        shown = await use("read_file", path="long.txt", offset=offset)
        assert len(shown) < 20_200
        body, _, note = shown.rpartition("\n[more lines follow: go on with offset=")
        read += body if note and body else shown
        offset = int(note.rstrip("]")) if body else 0
    assert read == text
    assert (await use("read_file", path="long.txt", offset="7", limit=2)).startswith("line 7 with some words\nline 8")


async def test_one_giant_line_is_cut(space: Space, use: Use) -> None:
    """A gigabyte without a line break would not fit; the next line is still reached."""
    (space.root / "giant.txt").write_text("ü" * 3_000_000 + "\nlast\n")
    shown = await use("read_file", path="giant.txt")
    assert len(shown) < 20_300
    assert "line 1 is too long" in shown and "offset=2" in shown
    assert await use("read_file", path="giant.txt", offset=2) == "last\n"


async def test_odd_files_are_told(space: Space, use: Use) -> None:
    """Binary, invalid UTF-8, empty, past the end, with a byte order mark."""
    (space.root / "binary").write_bytes(b"\x7fELF\0\0")
    (space.root / "latin").write_bytes(b"caf\xe9\n")
    (space.root / "empty").write_bytes(b"")
    (space.root / "bom").write_bytes(b"\xef\xbb\xbfhello\r\n")
    with pytest.raises(ShowModel, match="binary"):
        await use("read_file", path="binary")
    assert await use("read_file", path="latin") == "caf\ufffd\n"
    assert await use("read_file", path="empty") == "\n[the file is empty]"
    assert "fewer than 9 lines" in await use("read_file", path="latin", offset=9)
    assert await use("read_file", path="bom") == "hello\r\n"
    with pytest.raises(ShowModel, match="not valid UTF-8"):
        await use("edit_file", path="latin", old="caf", new="tea")


async def test_an_edit_needs_exactly_one_match(space: Space, use: Use) -> None:
    """None or several change nothing; line breaks stay as they are."""
    (space.root / "a.txt").write_bytes(b"one\r\ntwo\r\ntwo\r\n")
    for old, word in (("three", "is not in"), ("two", "2 times"), ("", "empty")):
        with pytest.raises(ShowModel, match=word):
            await use("edit_file", path="a.txt", old=old, new="x")
    await use("edit_file", path="a.txt", old="one", new="1")
    assert (space.root / "a.txt").read_bytes() == b"1\r\ntwo\r\ntwo\r\n"


async def test_a_failed_write_leaves_the_old_file(space: Space, use: Use) -> None:
    """A file takes the place of another as a whole or not at all."""
    (space.root / "a.txt").write_text("old")
    with pytest.raises(ShowModel):
        await use("write_file", path="a.txt/b", content="new")
    assert [p.name for p in space.root.iterdir()] == ["a.txt"]
    assert (space.root / "a.txt").read_text() == "old"


async def test_a_list_is_bounded_and_shows_odd_names(space: Space, use: Use) -> None:
    """Folders, sizes and links; a name with a line break cannot fake an entry."""
    (space.root / "sub").mkdir()
    (space.root / "a.txt").write_text("12345")
    (space.root / "link").symlink_to("a.txt")
    (space.root / "x\nfake").mkdir()
    assert await use("list_dir", path=".") == "'x\\nfake'/\na.txt (5 bytes)\nlink (symbolic link)\nsub/"
    assert await use("list_dir", path="sub") == "(empty)"
    for n in range(700):
        (space.root / "sub" / f"{n:04}").touch()
    listed = (await use("list_dir", path="sub")).splitlines()
    assert len(listed) == 501 and "700 entries" in listed[-1]


async def test_a_search_finds_lines(traps: Space, use: Use) -> None:
    """Path, number and line; links are not followed, so nothing comes twice and no cycle ends it."""
    (traps.root / "binary").write_bytes(b"beta\0")
    (traps.root / "latin").write_bytes(b"\xff beta\n")
    Path(os.fsdecode(os.fsencode(traps.root) + b"/\xff")).write_text("omega")
    assert await use("grep", pattern="^(be|ga)") == "notes/a.txt:2: beta\nnotes/a.txt:3: gamma"
    assert await use("grep", pattern="(?i)ALPHA", path="notes/a.txt") == "notes/a.txt:1: alpha"
    assert await use("grep", pattern="omega") == "?:1: omega"
    assert await use("grep", pattern="zeta") == "No line matches."
    for pattern in ("(", "a" * 1_001, "(" * 900 + ")" * 900):
        with pytest.raises(ShowModel, match="pattern cannot be used"):
            await use("grep", pattern=pattern)


async def test_many_matches_are_cut(space: Space, use: Use) -> None:
    """A hundred are enough, and a long line is shown around its match."""
    (space.root / "many.txt").write_text("hit\n" * 10_000)
    (space.root / "wide.txt").write_text("x" * 100_000 + "needle" + "y" * 100_000)
    found = (await use("grep", pattern="hit")).splitlines()
    assert len(found) == 101 and "first 100" in found[-1]
    wide = await use("grep", pattern="needle")
    assert "needle" in wide and len(wide) < 400


async def test_an_expression_that_explodes_is_stopped(space: Space, use: Use, longest_lag: Callable[[], float]) -> None:
    """Within seconds, and the loop stays free meanwhile."""
    (space.root / "a.txt").write_text("a" * 5_000 + "!")
    with pytest.raises(ShowModel, match="too long"):
        await use("grep", pattern="(a+)+$")
    assert longest_lag() < 0.5


async def test_a_search_over_very_many_files_is_bounded(space: Space, use: Use) -> None:
    """A folder with more entries than are looked at ends in time, and so does one of great depth."""
    deep = space.root
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    many = space.root / "many"
    many.mkdir()
    first = many / "0"
    first.touch()
    for n in range(1, 21_000):
        os.link(first, many / str(n))
    started = time.monotonic()
    assert "No line matches." in await use("grep", pattern="x")
    assert time.monotonic() - started < 11


def test_nothing_is_taken_from_the_path_of_a_space_that_is_not_there_yet(tmp_path: Path) -> None:
    """A new person's space is made at the first use, private."""
    root = tmp_path / "spaces" / "telegram%3A42"
    contained.write(Space("telegram:42", root, tmp_path), "a.txt", b"x")
    assert root.stat().st_mode & 0o777 == 0o700
