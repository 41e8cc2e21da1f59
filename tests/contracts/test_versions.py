"""What every store of versions promises: one suite over the fake and the real one, then what git makes of it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanomem.errors import CannotStore
from nanomem.facts import MemoryFiles
from nanomem.ports import Versions
from nanomem.spaces import Space, Spaces
from nanomem.stores.repository import MAIN, drop_loose, ids, loose_objects, repositories
from nanomem.stores.versions import GitVersions
from nanomem.testing import FakeVersions
from nanomem.versions import message

Environment = Callable[[Path], dict[str, str]]
Git = Callable[..., str]
NOW = datetime(2026, 4, 10, 9, 15, 30, tzinfo=UTC)
FILES = MemoryFiles("Be kind.\n", "Name: Ann\n", "# Memory\n- likes tea\n")


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Spaces(tmp_path).named("owner")


@pytest.fixture(params=[FakeVersions, GitVersions])
def versions(request: pytest.FixtureRequest, tmp_path: Path) -> Versions:
    made: Versions = FakeVersions() if request.param is FakeVersions else GitVersions(tmp_path / "versions")
    return made


@pytest.fixture
def store(tmp_path: Path) -> GitVersions:
    return GitVersions(tmp_path / "versions")


@pytest.fixture
def git(tmp_path: Path, guarded_env: Environment) -> Git:
    """`git(folder, ...)`: what a person's git says; fails where it does."""

    def run(folder: Path, *arguments: str, data: bytes = b"") -> str:
        command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@localhost", "-C", str(folder), *arguments]
        done = subprocess.run(command, env=guarded_env(tmp_path), input=data, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode() + done.stderr.decode()

    return run


async def many(versions: Versions, space: Space, number: int) -> None:
    for n in range(1, number + 1):
        files = MemoryFiles("Be kind.\n", "", "".join(f"- fact {fact}\n" for fact in range(n)))
        text = message(f"[agent] fact {n}", [f"+ fact {n}"], {"Session": "terminal:a", "Id": f"c{n}"})
        await versions.commit(space, files, text, NOW + timedelta(minutes=n))


async def test_a_space_without_versions_has_none(versions: Versions, space: Space) -> None:
    """Asking for them makes nothing."""
    assert list(await versions.all(space)) == []
    assert await versions.placed(space) is None
    with pytest.raises(KeyError):
        await versions.read(space, "0" * 40)
    assert not (space.root.parent / "versions").exists()


async def test_versions_are_numbered_from_one(versions: Versions, space: Space) -> None:
    """Each says what it was given, in order, and is the same when it is read again."""
    await many(versions, space, 3)
    found = list(await versions.all(space))
    assert [version.number for version in found] == [1, 2, 3]
    assert [version.subject for version in found] == [f"[agent] fact {n}" for n in (1, 2, 3)]
    assert (found[1].kind, found[1].lines) == ("agent", ("+ fact 2",))
    assert found[1].trailers == {"Session": "terminal:a", "Id": "c2"}
    assert found[1].at == NOW + timedelta(minutes=2)
    last = await versions.commit(space, FILES, "[manual] By hand\n", NOW)
    assert list(await versions.all(space)) == [*found, last]


async def test_the_files_of_each_version_can_be_read(versions: Versions, space: Space) -> None:
    """By its id; of an id that is none, KeyError."""
    sequence = [FILES, MemoryFiles(), MemoryFiles(memory="\r\n- a\r\n"), FILES]
    made = [await versions.commit(space, files, "[agent] x\n", NOW) for files in sequence]
    assert len({version.id for version in made}) == 4
    assert [await versions.read(space, version.id) for version in made] == sequence
    for unknown in ("0" * 40, "HEAD", "", made[0].id[:10], "../../x"):
        with pytest.raises(KeyError):
            await versions.read(space, unknown)


async def test_times_are_kept_to_the_second_in_utc(versions: Versions, space: Space) -> None:
    """Whatever zone they were told in."""
    at = datetime(2026, 4, 10, 11, 15, 30, 999, tzinfo=timezone(timedelta(hours=2)))
    version = await versions.commit(space, FILES, "[agent] x\n", at)
    assert version.at == NOW and version.at.tzinfo is UTC
    assert list(await versions.all(space)) == [version]


async def test_spaces_are_apart(versions: Versions, tmp_path: Path) -> None:
    """Also those that differ only in case, or are no file names."""
    spaces = [Spaces(tmp_path).named(name) for name in ("owner", "x:a", "x:A", "telegram:-1001", "../../x", "x" * 999)]
    for number, space in enumerate(spaces):
        await many(versions, space, 1)
        await versions.commit(space, MemoryFiles(memory=f"- in {number}\n"), "[agent] x\n", NOW)
    for number, space in enumerate(spaces):
        last = (await versions.all(space))[-1]
        assert (last.number, (await versions.read(space, last.id)).memory) == (2, f"- in {number}\n")


async def test_what_is_placed_is_remembered(versions: Versions, space: Space) -> None:
    """It stays where it is while versions are added; a version that is none cannot be placed."""
    first = await versions.commit(space, FILES, "[agent] x\n", NOW)
    assert await versions.placed(space) is None
    await versions.set_placed(space, first.id)
    second = await versions.commit(space, FILES, "[agent] y\n", NOW)
    assert await versions.placed(space) == first.id
    for _ in range(2):
        await versions.set_placed(space, second.id)
        assert await versions.placed(space) == second.id
    with pytest.raises(KeyError):
        await versions.set_placed(space, "0" * 40)


# --- the real one only


raw = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(texts=st.tuples(raw, raw, st.sampled_from(["\ufeff- bom\r\n", "a\0b", "\udcff\n", "- no end"])))
async def test_every_byte_is_kept(store: GitVersions, space: Space, texts: tuple[str, str, str]) -> None:
    """Whatever encoding a person's editor has left."""
    files = MemoryFiles(*texts)
    version = await store.commit(space, files, "[manual] x\n", NOW)
    found = await GitVersions(store.path(space).parent).read(space, version.id)
    for before, after in zip(files.by_name.values(), found.by_name.values(), strict=True):
        assert before.encode("utf-8", "surrogateescape") == after.encode("utf-8", "surrogateescape")


async def test_what_no_file_can_hold_is_no_reason_to_fail(store: GitVersions, space: Space) -> None:
    """Half a character from a model's JSON, a zero in a message."""
    files = MemoryFiles(memory="- half \ud83d of one\n")
    version = await store.commit(space, files, "[agent] a\0b \ud83d\n", NOW)
    assert (await store.read(space, version.id)).memory == "- half \ufffd of one\n"
    assert await GitVersions(store.path(space).parent).all(space) == (version,)


async def test_any_git_client_can_clone_and_read_it(store: GitVersions, space: Space, tmp_path: Path, git: Git) -> None:
    """30 versions, complaints about none of them; others than the owner cannot get at a single file."""
    await many(store, space, 30)
    await store.set_placed(space, (await store.all(space))[-1].id)
    repository = store.path(space)
    assert repository == tmp_path / "versions" / "owner.git"
    assert git(repository, "fsck", "--strict", "--full") == ""
    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    clone = tmp_path / "clone"
    assert sorted(path.name for path in clone.iterdir()) == [".git", "SOUL.md", "memory"]
    assert (clone / "memory" / "MEMORY.md").read_text() == "".join(f"- fact {n}\n" for n in range(30))
    subjects = git(clone, "log", "--format=%s by %an <%ae> at %ct").splitlines()
    at = int((NOW + timedelta(minutes=30)).timestamp())
    assert len(subjects) == 30
    assert subjects[0] == f"[agent] fact 30 by nanomem <nanomem@localhost> at {at}"
    assert git(clone, "log", "-1", "--format=%(trailers:key=Id,valueonly)").strip() == "c30"
    modes = {path.stat().st_mode & 0o777 for path in repository.rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in (repository, *repository.rglob("*")) if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


async def test_a_person_may_commit_there_too(store: GitVersions, space: Space, tmp_path: Path, git: Git) -> None:
    """What they push is a version like all others, merges, odd messages and more files included."""
    await many(store, space, 2)
    before = await store.all(space)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(store.path(space)), "clone")
    git(clone, "checkout", "--quiet", "-b", "side", "HEAD~1")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "on the side")
    git(clone, "checkout", "--quiet", "main")
    git(clone, "merge", "--quiet", "--no-ff", "-m", "merged\n\nId: c1\n", "side")
    (clone / "more.txt").write_text("more\n")
    (clone / "USER.md").symlink_to("more.txt")
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--cleanup=verbatim", "--allow-empty-message", "-m", "")
    git(clone, "push", "--quiet")
    found = await store.all(space)
    assert found[:2] == before
    assert [(v.number, v.subject) for v in found[2:]] == [(3, "merged"), (4, "")]
    assert await GitVersions(tmp_path / "versions").all(space) == found
    assert (await store.read(space, found[-1].id)).user == ""
    assert (await store.commit(space, FILES, "[agent] on top\n", NOW)).number == 5
    assert git(store.path(space), "fsck", "--strict", "--connectivity-only") == ""


async def test_nothing_is_committed_over_what_somebody_else_has_just_done(
    store: GitVersions, space: Space, git: Git
) -> None:
    """Whoever writes reads it first, and then may write."""
    await many(store, space, 3)
    ids = [version.id for version in await store.all(space)]
    git(store.path(space), "update-ref", MAIN, ids[1])
    with pytest.raises(CannotStore, match="Somebody else"):
        await store.commit(space, FILES, "[agent] x\n", NOW)
    assert [version.id for version in await store.all(space)] == ids[:2]
    assert (await store.commit(space, FILES, "[agent] x\n", NOW)).number == 3


async def test_a_lock_of_git_is_respected(store: GitVersions, space: Space) -> None:
    """It is said which file to remove; one that a kill of ours has left is not waited for."""
    await many(store, space, 1)
    lock = store.path(space) / f"{MAIN}.lock"
    lock.touch()
    with pytest.raises(CannotStore, match=r"main\.lock is there"):
        await store.commit(space, FILES, "[agent] x\n", NOW)
    lock.unlink()
    lock.symlink_to("nanomem")
    assert (await store.commit(space, FILES, "[agent] x\n", NOW)).number == 2
    assert not os.path.lexists(lock)


async def test_packed_versions_are_as_good_as_others(
    store: GitVersions, space: Space, tmp_path: Path, git: Git
) -> None:
    """By git's own gc with packed refs, and by what the daemon does; commits go on top."""
    await many(store, space, 20)
    before, path = await store.all(space), store.path(space)
    git(path, "-c", "gc.packRefs=true", "gc", "--quiet", "--prune=now")
    assert not (path / MAIN).exists() and not loose_objects(path)
    for reader in (store, GitVersions(tmp_path / "versions")):
        assert await reader.all(space) == before
        assert (await reader.read(space, before[10].id)).memory.count("\n") == 11
    assert (len(ids(path)), ids(path)[0]) == (20, before[0].id)
    await many(store, space, 5)
    git(path, "repack", "-q", "-l")
    drop_loose(path)
    assert not loose_objects(path)
    await store.commit(space, FILES, "[agent] on top\n", NOW)
    assert [v.number for v in await GitVersions(tmp_path / "versions").all(space)] == list(range(1, 27))
    assert git(path, "fsck", "--strict") == ""
    assert {file.stat().st_mode & 0o077 for file in path.rglob("*")} == {0}


async def test_the_names_of_spaces_are_found_again(store: GitVersions, tmp_path: Path) -> None:
    """Those that do not fit into a file's name too, and those whose repository was put back from a clone."""
    names = ["owner", "telegram:-1001", "x:A", "x:" + "y" * 300]
    for name in names:
        await many(store, Spaces(tmp_path).named(name), 1)
    (tmp_path / "versions" / ".owner.git.new").mkdir()
    (tmp_path / "versions" / "telegram%3A-1001.git" / "description").write_text("Unnamed repository\n")
    assert store.names() == sorted(names)
    assert len(repositories(tmp_path / "versions")) == 4


def emptied(path: Path) -> None:
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()


def replaced(path: Path) -> None:
    emptied(path)
    path.rmdir()
    path.write_text("a file\n")


def folder_for_main(path: Path) -> None:
    (path / MAIN).unlink()
    (path / MAIN).mkdir()


def torn(path: Path, name: str) -> None:
    (path / "objects" / name[:2] / name[2:]).write_bytes(b"")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "an empty folder": emptied,
    "a file in its place": replaced,
    "HEAD is garbage": lambda path: (path / "HEAD").write_bytes(b"\0\1garbage"),
    "HEAD is gone": lambda path: (path / "HEAD").unlink(),
    "main is empty": lambda path: (path / MAIN).write_bytes(b""),
    "main is garbage": lambda path: (path / MAIN).write_bytes(b"\xff\n"),
    "main is gone": lambda path: (path / MAIN).unlink(),
    "main is a folder": folder_for_main,
    "an object is gone": lambda path: torn(path, (path / MAIN).read_text().strip()),
    "the objects are gone": lambda path: (path / "objects").rename(path / "elsewhere"),
    "an older commit is torn": lambda path: torn(path, ids(path)[0]),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_repository_is_never_an_empty_one(store: GitVersions, space: Space, damage: str) -> None:
    """It is said what to do, and nothing is written."""
    await many(store, space, 3)
    path = store.path(space)
    DAMAGE[damage](path)
    before = sorted(path.rglob("*"))
    fresh = GitVersions(path.parent)
    for _ in range(2):
        with pytest.raises(CannotStore, match=r"owner\.git.*Put the folder back"):
            await fresh.all(space)
        with pytest.raises(CannotStore):
            await fresh.commit(space, FILES, "[agent] x\n", NOW)
    with pytest.raises(CannotStore):
        ids(path)
    assert sorted(path.rglob("*")) == before


async def test_a_repository_that_vanishes_is_not_begun_anew(store: GitVersions, space: Space) -> None:
    """As long as the daemon runs that has seen it."""
    await many(store, space, 2)
    path = store.path(space)
    path.rename(path.with_name("elsewhere"))
    for attempt in (store.all(space), store.commit(space, FILES, "[agent] x\n", NOW)):
        with pytest.raises(CannotStore, match="gone"):
            await attempt
    path.with_name("elsewhere").rename(path)
    assert len(await store.all(space)) == 2


async def test_the_files_of_a_damaged_version_are_not_made_up(store: GitVersions, space: Space) -> None:
    """A missing blob is no empty file."""
    version = await store.commit(space, FILES, "[agent] x\n", NOW)
    path = store.path(space)
    for file in (path / "objects").glob("??/*"):
        if file.parent.name + file.name != version.id:
            file.unlink()
    with pytest.raises(CannotStore, match="missing or damaged"):
        await GitVersions(path.parent).read(space, version.id)


async def test_a_torn_object_is_written_anew(store: GitVersions, space: Space, git: Git) -> None:
    """One that a lost disk cache has left empty is not taken for the one that is committed again."""
    await many(store, space, 1)
    path = store.path(space)
    blob = git(path, "hash-object", "--stdin", data=FILES.memory.encode()).strip()
    (path / "objects" / blob[:2]).mkdir(exist_ok=True)
    torn(path, blob)
    version = await store.commit(space, FILES, "[agent] x\n", NOW)
    assert await GitVersions(path.parent).read(space, version.id) == FILES
    assert git(path, "fsck", "--strict") == ""


FULL = """
import asyncio, resource, sys
from datetime import datetime, UTC
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.facts import MemoryFiles
from nanomem.spaces import Spaces
from nanomem.stores.versions import GitVersions

home = Path(sys.argv[1])
store, space, now = GitVersions(home / "versions"), Spaces(home).named("owner"), datetime.now(UTC)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
room = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

async def fails(files, message):
    try:
        await store.commit(space, files, message, now)
    except CannotStore as error:
        assert "Cannot write" in error.text, error.text
    else:
        raise AssertionError("there was no room")

async def main():
    room(10)
    await fails(MemoryFiles("a"), "[manual] first")
    assert not await store.all(space) and not store.names()
    room(hard)
    first = await store.commit(space, MemoryFiles("a"), "[manual] first", now)
    for size in (0, 10, 30, 60):  # nothing, not a reference, not a tree, not a commit fits
        room(size)
        await fails(MemoryFiles("b"), "[agent] second")
        assert await store.all(space) == (first,)
    room(hard)
    second = await store.commit(space, MemoryFiles("b"), "[agent] second", now)
    assert await GitVersions(home / "versions").all(space) == (first, second)

asyncio.run(main())
"""


def test_a_full_disk_leaves_the_versions_as_they_were(tmp_path: Path, guarded_env: Environment, git: Git) -> None:
    """It goes on when there is room again."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        env=guarded_env(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "versions" / "owner.git", "fsck", "--strict", "--no-dangling") == ""


KILLED = """
import asyncio, os, signal, sys
from datetime import datetime, UTC
from pathlib import Path
from nanomem.facts import MemoryFiles
from nanomem.spaces import Spaces
from nanomem.stores.versions import GitVersions

home, steps = sys.argv[1], int(sys.argv[2])

def count_down(event, arguments):  # called before a file is opened, renamed, linked, removed, a folder made
    global steps
    if event in ("open", "os.rename", "os.symlink", "os.remove", "os.mkdir", "os.rmdir"):
        if home in map(str, arguments[:1]) or any(home + "/" in str(path) for path in arguments[:2]):
            steps -= 1
            if not steps:
                os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store, space = GitVersions(Path(home) / "versions"), Spaces(Path(home)).named("owner")
    number = len(await store.all(space))
    if number:
        await store.read(space, (await store.all(space))[-1].id)
    sys.addaudithook(count_down)
    for number in range(number + 1, number + 3):
        files = MemoryFiles("", f"Name: {number}\\n", f"- fact {number}\\n" * (number % 3 + 1))
        version = await store.commit(space, files, f"[agent] fact {number}", datetime.now(UTC))
        print(version.number, version.id, flush=True)
        await store.set_placed(space, version.id)

asyncio.run(main())
"""


async def test_no_kill_loses_a_version(tmp_path: Path, guarded_env: Environment, git: Git) -> None:
    """Killed before each step of the first commits, and of later ones: what was acknowledged is there, git is content,
    and the next process goes on by itself."""
    spaces, store, told = Spaces(tmp_path / "home"), GitVersions(tmp_path / "home" / "versions"), dict[int, str]()
    space, steps, ended = spaces.named("owner"), 0, False
    while not ended:
        steps += 1
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", KILLED, str(spaces.home), str(steps)),
            env=guarded_env(tmp_path),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)
        ended = process.returncode == 0
        told |= {int(number): name for number, name in map(str.split, said.decode().splitlines())}
        if told:
            found = await GitVersions(store.path(space).parent).all(space)
            assert len(found) <= max(told) + 1, "at most the one that was not acknowledged any more"
            assert all(found[number - 1].id == name for number, name in told.items())
            assert git(store.path(space), "fsck", "--strict", "--no-dangling") == ""
    assert steps > 40
    for number, name in told.items():
        assert (await store.read(space, name)).user == f"Name: {number}\n"
    assert await store.placed(space) == found[-1].id
