"""The process dies at every single write of the memory's writer, before it and after it, and is started again.

Deterministic and exhaustive over fakes; files and versions have contract tests of their own.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nanomem.facts import MemoryFiles, facts
from nanomem.memory.undoing import restore, undo
from nanomem.memory.writer import MemoryWriter
from nanomem.ports import Change
from nanomem.spaces import Space
from nanomem.testing import FakeClock, FakeVersions, FakeWorkingFiles
from nanomem.versions import Removal
from tests.stories.test_kills import Fuse, Fused, Killed

SOUL, USER, MEMORY = "SOUL.md", "USER.md", "memory/MEMORY.md"
SPACE = Space("owner", Path("workspace"), Path("workspace"))
BEFORE = {SOUL: "- Be kind.\n", USER: "Name: Ann\n", MEMORY: "- tea in the morning\n- two cats\n"}
EDITED = "- two cats\n- a red bicycle\n"


@dataclass
class Disk:
    """What outlives the process, and the process that works on it."""

    versions: FakeVersions = field(default_factory=FakeVersions)
    files: FakeWorkingFiles = field(default_factory=FakeWorkingFiles)

    def __post_init__(self) -> None:
        self.texts.update(BEFORE)
        self.start(Fuse(-1, False))

    @property
    def texts(self) -> dict[str, str]:
        """The files as a person sees and edits them."""
        return self.files.files[SPACE.name]

    def start(self, fuse: Fuse) -> None:
        """A new process, which the fuse may end."""
        self.writer = MemoryWriter(
            Fused(self.versions, fuse, ("commit", "set_placed")),
            Fused(self.files, fuse, ("place", "compared")),
            FakeClock(),
            lambda _space: None,
            lambda _space: nullcontext(),
        )

    async def lives(self, fuse: Fuse, story: Sequence["Step"]) -> int:
        """A process that goes through a story until the fuse ends it; how many steps it acknowledged."""
        self.start(fuse)
        for number, step in enumerate(story):
            try:
                await step(self)
            except Killed:
                return number
        return len(story)

    async def check(self) -> None:
        """A process that only looks finds or makes everything settled, and does so once."""
        await self.lives(Fuse(-1, False), [looks])
        known = await self.versions.all(SPACE)
        assert {**dict.fromkeys(BEFORE, ""), **self.texts} == (await self.versions.read(SPACE, known[-1].id)).by_name
        assert await self.versions.placed(SPACE) == known[-1].id
        assert await self.files.left(SPACE) == {}
        await self.lives(Fuse(-1, False), [looks])
        assert await self.versions.all(SPACE) == known

    async def kinds(self) -> Counter[str]:
        """How many versions there are of each kind."""
        return Counter(version.kind for version in await self.versions.all(SPACE))


Step = Callable[[Disk], Awaitable[object]]


async def looks(disk: Disk) -> None:
    await disk.writer.read(SPACE)


async def learns(disk: Disk) -> None:
    wish = Change(
        "consolidation",
        lambda files: MemoryFiles(f"{files.soul}- Be brief.\n", f"{files.user}Lives in: Bern\n", "- plays the cello\n"),
        removed=[Removal("- two cats", "they ran away")],
        trailers={"Id": "learnt"},
    )
    await disk.writer.change(SPACE, wish)


async def undoes(disk: Disk) -> None:
    await undo(disk.writer, disk.versions, SPACE, None, {"Id": "undone"})


async def restores(disk: Disk) -> None:
    await restore(disk.writer, disk.versions, SPACE, 1, {"Id": "restored"})


STORIES: Mapping[str, tuple[Step, ...]] = {
    "first version": (looks,),
    "change": (looks, learns),
    "undo": (looks, learns, undoes),
    "restore": (looks, learns, restores),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", list(STORIES))
async def test_killed_at_every_write(name: str, after: bool) -> None:
    """The next process has what was acknowledged; asked again, it has the same versions as if never killed."""
    story, whole = STORIES[name], Disk()
    await whole.lives(Fuse(-1, after), story)
    for at in range(1, 100):
        disk, fuse = Disk(), Fuse(at, after)
        done = await disk.lives(fuse, story)
        if not fuse.dead:
            assert at > len(story), "the fuse must have burnt in many places before"
            return
        await disk.check()
        acknowledged = {"learnt", "undone", "restored"} & {v.trailers.get("Id") for v in await disk.versions.all(SPACE)}
        assert len(acknowledged) >= done - 1, at
        assert await disk.lives(Fuse(-1, after), story) == len(story)
        await disk.check()
        assert await disk.versions.all(SPACE) == await whole.versions.all(SPACE), at
        assert disk.texts == whole.texts, at
    raise AssertionError("the story never lived to its end")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("when", ["before", "while", "between"])
async def test_killed_while_a_person_edits(when: str, after: bool) -> None:
    """Whether saved before a change, in the moment a file is replaced, or while no process runs: the edit and the
    change are both there, each once, and what either took away stays away."""
    for at in range(1, 100):
        disk, fuse = Disk(), Fuse(at, after)
        await disk.lives(Fuse(-1, after), [looks])
        if when == "before":
            disk.texts[MEMORY] = EDITED
        elif when == "while":
            disk.files.meanwhile = lambda disk=disk: disk.texts.update({MEMORY: EDITED})
        await disk.lives(fuse, [learns])
        if when == "between":
            disk.texts[MEMORY] = disk.texts[MEMORY].replace("- tea in the morning\n", "") + "- a red bicycle\n"
        await disk.check()
        await disk.lives(Fuse(-1, after), [learns])
        await disk.check()
        assert sorted(facts(disk.texts[MEMORY])) == ["- a red bicycle", "- plays the cello"], at
        assert (disk.texts[SOUL], disk.texts[USER]) == ("- Be kind.\n- Be brief.\n", "Name: Ann\nLives in: Bern\n"), at
        assert await disk.kinds() == {"manual": 2, "consolidation": 1}, at
        if not fuse.dead:
            assert at > 5
            return
    raise AssertionError("the story never lived to its end")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first", [False, True])
async def test_killed_while_an_edit_is_taken_in_and_edited_again(first: bool, after: bool) -> None:
    """The last word of the person holds: what was written and taken away again is away."""
    for at in range(1, 100):
        disk, fuse = Disk(), Fuse(at, after)
        if not first:
            await disk.lives(Fuse(-1, after), [looks])
            disk.texts[MEMORY] += "- a green boat\n"
        await disk.lives(fuse, [looks])
        disk.texts[MEMORY] = EDITED
        await disk.check()
        assert disk.texts == {**BEFORE, MEMORY: EDITED}, at
        if not fuse.dead:
            assert at > 2
            return
    raise AssertionError("the story never lived to its end")


async def test_a_draft_that_a_kill_left_behind_is_no_edit() -> None:
    """It is the version's own text, which had not come to be in place."""
    disk = Disk()
    await disk.lives(Fuse(-1, True), [looks])
    await disk.lives(Fuse(1, True), [learns])
    [*_, (_, newest)] = disk.versions.kept[SPACE.name]
    disk.files.kept[SPACE.name][MEMORY] = newest.memory
    assert disk.texts == BEFORE
    await disk.check()
    assert disk.texts == newest.by_name
    assert await disk.kinds() == {"manual": 1, "consolidation": 1}


async def test_a_missing_file_and_a_kill() -> None:
    """It is put back; also where it is missing since a write was not finished."""
    for at in range(1, 100):
        disk, fuse = Disk(), Fuse(at, True)
        await disk.lives(Fuse(-1, True), [looks])
        await disk.lives(fuse, [learns])
        disk.texts.pop(USER)
        await disk.check()
        assert disk.texts[USER] == "Name: Ann\nLives in: Bern\n"
        if not fuse.dead:
            return
