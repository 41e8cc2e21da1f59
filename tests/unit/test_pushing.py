"""Versions on their way to a remote: a real git, a real bare repository on this disk."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanomem.doctor import Finding, examine
from nanomem.errors import CannotStore, Misuse, TryLater
from nanomem.facts import MemoryFiles
from nanomem.home import Home, make
from nanomem.memory.pushing import LONGEST_WAIT_S, Pusher
from nanomem.settings import load, set_value
from nanomem.spaces import Space, Spaces
from nanomem.status import compose
from nanomem.stores.remote import Remote, behind, branch, checked, masked, trouble
from nanomem.stores.repository import loose_objects, read_ref
from nanomem.stores.versions import PUSHED, GitVersions
from nanomem.testing import FakeClock

Environment = Callable[[Path], dict[str, str]]
NOW = datetime(2026, 4, 10, 9, 15, 30, tzinfo=UTC)


class Backup:
    """A home with versions, and a place they may be pushed to, which is not there at first."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.home = Home(folder / "home")
        make(self.home)
        self.at = folder / "backup.git"
        self.environ = environ
        self.versions = GitVersions(self.home.versions)
        self.space = Spaces(self.home.path).named("owner")

    async def learn(self, fact: str, space: Space | None = None) -> None:
        files = MemoryFiles(memory=f"- {fact}\n")
        await self.versions.commit(space or self.space, files, f"[agent] {fact}", NOW)

    def appear(self) -> None:
        self.git("init", "--quiet", "--bare", str(self.at))

    def subjects(self, of: str = "main") -> list[str]:
        return self.git("-C", str(self.at), "log", "--format=%s", of).splitlines()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], env=self.environ, capture_output=True, text=True, check=True)
        return done.stdout

    def remote(self, url: str | None = None) -> Remote:
        return Remote(str(self.at) if url is None else url, self.versions, self.environ)

    async def finding(self, about: str) -> Finding:
        found = await examine(self.home, load(self.home.config, {}), {})
        return next(finding for finding in found if finding.what.startswith(about))


@pytest.fixture
def backup(tmp_path: Path, guarded_env: Environment) -> Backup:
    return Backup(tmp_path, guarded_env(tmp_path / "home"))


async def until(predicate: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not predicate():  # noqa: ASYNC110  # another process does it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(pusher: Pusher) -> AsyncIterator[None]:
    """Until the end of the block; then it is cancelled, and gone."""
    task = asyncio.create_task(pusher.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_what_has_changed_is_pushed(backup: Backup) -> None:
    """Each space to its branch, and each of them once."""
    backup.appear()
    group = Spaces(backup.home.path).named("telegram:-1001")
    pusher = Pusher(backup.remote().push, FakeClock())
    async with running(pusher):
        for n in range(3):
            await backup.learn(f"fact {n}")
            await backup.learn(f"of the group {n}", group)
            pusher.changed(backup.space)
            pusher.changed(group)
        paths = [backup.versions.path(space) for space in (backup.space, group)]
        await until(lambda: not any(behind(path, str(backup.at)) for path in paths))
    assert backup.subjects() == ["[agent] fact 2", "[agent] fact 1", "[agent] fact 0"]
    assert backup.subjects("telegram%3A-1001")[0] == "[agent] of the group 2"
    assert read_ref(backup.versions.path(backup.space), PUSHED) == (await backup.versions.all(backup.space))[-1].id


async def test_a_remote_that_is_away_is_tried_again(backup: Backup) -> None:
    """What is wrong is noted, and the note goes once all is pushed; the others are pushed meanwhile."""
    clock, path = FakeClock(rushing=False), backup.versions.path(backup.space)
    pusher = Pusher(backup.remote().push, clock)
    await backup.learn("a fact")
    async with running(pusher):
        pusher.changed(backup.space)
        await until(lambda: bool(clock.slept))
        assert "does not appear to be a git repository" in trouble(path)
        for wait in (1.0, 2.0, 4.0):
            assert clock.slept[-1] == wait
            count = len(clock.slept)
            clock.pass_time(wait)
            await until(lambda count=count: len(clock.slept) > count)  # type: ignore[misc]
        backup.appear()
        clock.pass_time(8.0)
        await until(lambda: not trouble(path))
    assert backup.subjects() == ["[agent] a fact"]
    assert sorted(path.name for path in path.iterdir() if "push" in path.name) == ["pushed-to"]


async def test_one_that_fails_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """It is tried again by itself, less and less often; what is no failure of the network ends it all."""
    spaces, tried = Spaces(tmp_path), list[str]()
    clock = FakeClock()

    async def push(space: Space) -> None:
        tried.append(space.name)
        if space.name == "x:1" and len(tried) < 2000:
            raise TryLater("away") if len(tried) % 2 else CannotStore("damaged")
        if len(tried) > 2000:
            raise RuntimeError("a bug")

    pusher = Pusher(push, clock)
    pusher.changed(spaces.named("x:1"))
    pusher.changed(spaces.named("x:2"))
    task = asyncio.create_task(pusher.run())
    await until(lambda: len(tried) == 2000)  # after 83 days
    assert tried == ["x:1", "x:2", *["x:1"] * 1998]
    assert clock.slept[:3] == [1.0, 2.0, 4.0] and max(clock.slept) == LONGEST_WAIT_S
    pusher.changed(spaces.named("x:3"))
    with pytest.raises(RuntimeError):
        await task


async def test_nothing_is_forced(backup: Backup) -> None:
    """Where the remote has something else, that stays, and the owner is told."""
    backup.appear()
    await backup.learn("a fact")
    await backup.remote().push(backup.space)
    tree = backup.git("-C", str(backup.at), "rev-parse", "main^{tree}").strip()
    person = ("-c", "user.name=Ann", "-c", "user.email=a@b", "-C", str(backup.at))
    other = backup.git(*person, "commit-tree", tree, "-m", "other").strip()
    backup.git("-C", str(backup.at), "update-ref", "refs/heads/main", other)
    await backup.learn("another")
    with pytest.raises(TryLater, match="rejected"):
        await backup.remote().push(backup.space)
    assert backup.subjects() == ["other"]
    assert "rejected" in trouble(backup.versions.path(backup.space))


async def test_without_a_remote_nothing_is_pushed(backup: Backup) -> None:
    """And git is not even started."""
    await backup.learn("a fact")
    backup.environ["PATH"] = ""
    await backup.remote("").push(backup.space)
    with pytest.raises(TryLater, match="cannot be started"):
        await backup.remote().push(backup.space)


async def test_what_is_pushed_already_is_not_pushed_again(backup: Backup) -> None:
    """Nor a space that has no versions; but another remote gets everything."""
    backup.appear()
    await backup.remote().push(Spaces(backup.home.path).named("x:1"))
    await backup.learn("a fact")
    await backup.remote().push(backup.space)
    backup.at.rename(backup.at.with_name("elsewhere.git"))
    await backup.remote().push(backup.space)
    with pytest.raises(TryLater):
        await backup.remote(str(backup.at) + "/").push(backup.space)


@pytest.mark.parametrize("url", ["--receive-pack=touch x", "-x", "ext::sh -c touch% x", "fd::3", "a\nb", "::x"])
async def test_a_remote_that_runs_commands_is_refused(backup: Backup, url: str) -> None:
    """Before git sees it."""
    with pytest.raises(Misuse, match=r"memory\.remote"):
        backup.remote(url)


def test_other_addresses_are_taken() -> None:
    """Whatever git knows by itself."""
    for url in ("", "/srv/backup.git", "../b.git", "https://h/x", "ssh://[::1]/x", "git@h:x.git", "a b"):
        assert checked(url) == url


def test_secrets_of_an_address_are_masked() -> None:
    """In whatever git says."""
    url = "https://ann:pa:ss@word@host/x.git"
    said = f"fatal: unable to access '{url}/': user ann:pa:ss@word"
    assert masked(said, url) == "fatal: unable to access 'https://***@host/x.git/': user ann:pa:***"
    assert masked("ssh://git@host/x and https://host/y") == "ssh://***@host/x and https://host/y"


def test_every_space_has_a_branch_of_its_own(tmp_path: Path) -> None:
    """With a name that git takes."""
    names = ["owner", "telegram:42", "x:A", "x:a..b", "x:~", "x:b.lock", "x:" + "y" * 300]
    branches = [branch(Spaces(tmp_path).named(name)) for name in names]
    assert branches[:2] == ["refs/heads/main", "refs/heads/telegram%3A42"]
    assert len(set(branches)) == len(names)
    for name in branches:
        subprocess.run(["git", "check-ref-format", name], check=True)


async def test_git_ends_with_the_daemon(backup: Backup, tmp_path: Path) -> None:
    """Itself and what it has started; the same where it takes too long."""
    tools, begun = tmp_path / "tools", tmp_path / "begun"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\nsleep 1000 & echo $! $$ >{begun}.new; mv {begun}.new {begun}; wait\n")
    (tools / "git").chmod(0o755)
    backup.environ["PATH"] = f"{tools}{os.pathsep}{backup.environ['PATH']}"
    await backup.learn("a fact")
    pusher = Pusher(backup.remote().push, FakeClock())
    async with running(pusher):
        pusher.changed(backup.space)
        await until(begun.exists)
    for pid in begun.read_text().split():
        await until(lambda pid=pid: is_gone(int(pid)))  # type: ignore[misc]


def is_gone(pid: int) -> bool:
    """Ended, whether or not its parent has noticed."""
    try:
        return sys.platform == "linux" and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_git_runs_no_hook_and_asks_nobody(backup: Backup, tmp_path: Path) -> None:
    """Nothing that somebody has put into the repository, or set for his own git, runs."""
    backup.appear()
    await backup.learn("a fact")
    hook = backup.versions.path(backup.space) / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    backup.environ["GIT_DIR"] = "/nowhere"
    await backup.remote().push(backup.space)
    assert not (tmp_path / "ran").exists()


async def test_many_objects_are_packed(backup: Backup) -> None:
    """Beside commits, which go on; all versions can be read, and git is content."""
    path, remote = backup.versions.path(backup.space), Remote("", backup.versions, backup.environ, most_loose=60)
    for n in range(20):
        await backup.learn(f"fact {n}")
    async with asyncio.TaskGroup() as group:
        group.create_task(remote.push(backup.space))
        for n in range(20, 40):
            await backup.learn(f"fact {n}")
    assert len(loose_objects(path)) < 100
    found = await GitVersions(path.parent).all(backup.space)
    assert [version.subject for version in found] == [f"[agent] fact {n}" for n in range(40)]
    for n, version in enumerate(found):
        assert (await GitVersions(path.parent).read(backup.space, version.id)).memory == f"- fact {n}\n"
    assert backup.git("-C", str(path), "fsck", "--strict") == ""
    assert {file.stat().st_mode & 0o077 for file in path.rglob("*")} == {0}


async def test_the_doctor_and_the_status_know(backup: Backup) -> None:
    """How many versions there are, whether they are elsewhere too, and why not."""
    assert (await backup.finding("remote: none")).state == "ok"
    assert (await backup.finding("versions: 0")).state == "ok"
    for n in range(3):
        await backup.learn(f"fact {n}")
    assert (await backup.finding("versions: 3")).state == "ok"
    set_value(backup.home.config, "memory.remote", str(backup.at))
    found = await backup.finding("remote: 3 versions are not pushed")
    assert found.state == "warn" and "daemon" in found.what
    with pytest.raises(TryLater):
        await backup.remote().push(backup.space)
    assert "does not appear" in (await backup.finding("remote: 3 versions are not pushed")).what
    backup.appear()
    await backup.remote().push(backup.space)
    assert (await backup.finding("remote: pushed up to version 3")).state == "ok"
    set_value(backup.home.config, "memory.remote", "ext::sh")
    assert (await backup.finding("remote: memory.remote")).state == "fail"
    status = compose(backup.home.path, "offline", None, {})
    assert status["memory"]["versions"] == 3
    (backup.versions.path(backup.space) / "HEAD").unlink()
    found = await backup.finding("versions: Cannot use")
    assert found.state == "fail" and "Put the folder back" in found.what
    assert compose(backup.home.path, "offline", None, {})["memory"]["versions"] == 0


async def test_no_room_for_what_git_says_ends_nothing(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is tried again, like a remote that is away."""
    backup.appear()
    await backup.learn("a fact")
    with monkeypatch.context() as full:
        full.setattr(tempfile, "tempdir", "/nowhere")
        with pytest.raises(TryLater, match="git cannot be started"):
            await backup.remote().push(backup.space)
    await backup.remote().push(backup.space)
    assert backup.subjects() == ["[agent] a fact"]


async def test_the_doctor_names_the_branch_of_a_space(backup: Backup) -> None:
    """By hand, too, the versions of one space go to no other's."""
    await backup.learn("a fact", Spaces(backup.home.path).named("telegram:42"))
    set_value(backup.home.config, "memory.remote", str(backup.at))
    found = await backup.finding("remote")
    assert found.todo.endswith("telegram%3A42.git push URL main:refs/heads/telegram%3A42")
