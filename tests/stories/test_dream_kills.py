"""The process dies at every single write of a Dream or a restore, before it and after it, and is started again.

Over fakes; the real thing is killed for real in `tests/daemon`.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nanomem.memory.writer import MemoryWriter
from nanomem.records import AssistantMessage, Learnt, UserMessage
from nanomem.testing import FakeClock, FakeDiary, FakeSessionLog, FakeVersions, FakeWorkingFiles
from nanomem.tools.stillness import Stillness
from tests.stories.chat import Chat, Sleep, World, running
from tests.stories.test_consolidation import SPACE
from tests.stories.test_dream import Sleeper, facts_of, happened, world
from tests.stories.test_kills import Fuse, Fused, Killed, covers, is_empty
from tests.unit.strategies import assistant, user

pytestmark = pytest.mark.usefixtures("no_threads")

OLD = "- Likes tea\n"
WRITES = {
    "channel": ("place", "show", "say"),
    "inbox": ("take", "stamp", "park", "placed", "settle", "delivered"),
    "log": ("append",),
    "history": ("append", "set_dreamt"),
    "diary": ("set_due", "attempt", "give_back", "done", "pass_over", "note"),
}


class Kept:
    """A world with two entries, too large for one batch, and quiet talk; and what of it a test looks at."""

    def __init__(self, mind: Sleeper, **more: Any) -> None:
        self.mind = mind
        self.files = FakeWorkingFiles()
        self.files.files[SPACE.name]["memory/MEMORY.md"] = OLD
        self.world = world(mind, files=self.files, **more)
        assert isinstance(self.world.versions, FakeVersions) and isinstance(self.world.log, FakeSessionLog)
        assert isinstance(self.world.diary, FakeDiary)
        self.versions, self.log, self.diary = self.world.versions, self.world.log, self.world.diary

    async def fill(self) -> "Kept":
        """Something happened."""
        await happened(self.world, *[f"{'word ' * 20_000}\nfact: Likes tune {n}x." for n in range(2)], first=101)
        said: list[UserMessage | AssistantMessage] = [user(1, text="fact: Likes tune 2x."), assistant(2, end="answer")]
        self.log.records[SPACE.name, "fake:42"].extend(said)
        self.world.clock.pass_time(2 * 3600)
        return self

    def fused(self, fuse: Fuse) -> World:
        """The same world, reached through a fuse."""
        versions: Any = Fused(self.versions, fuse, ("commit", "set_placed"))
        working: Any = Fused(self.files, fuse, ("place", "compared"))
        memory = MemoryWriter(versions, working, self.world.clock, lambda space: None, Stillness())
        others: dict[str, Any] = {
            name: Fused(getattr(self.world, name), fuse, writes) for name, writes in WRITES.items()
        }
        return replace(self.world, versions=versions, memory=memory, **others)

    @property
    def kinds(self) -> list[str]:
        return [version.kind for version, _ in self.versions.kept[SPACE.name]]

    @property
    def memory(self) -> str:
        return self.files.files[SPACE.name]["memory/MEMORY.md"]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        for _ in iter(holds, True):
            await asyncio.sleep(0)


async def lives(kept: Kept, fuse: Fuse, story: Sequence[str]) -> bool:
    """Runs a process through the story, one message after the other; False if it died."""
    channel = kept.world.channel
    try:
        async with running(kept.fused(fuse)) as chat:
            for n, text in enumerate(story, 1):
                chat.number = n - 1
                await chat.says(text)
                await until(lambda n=n: fuse.dead or covers(channel, {f"{n}"}))  # type: ignore[misc]
            await until(lambda: fuse.dead or is_empty(kept.world))
            if not fuse.dead:
                await chat.settled()
    except Killed:
        return False
    return not fuse.dead


async def killed_everywhere(story: Sequence[str], after: bool, check: Callable[[Kept, int], Any]) -> None:
    for at in range(1, 200):
        kept = await Kept(Sleeper(facts_of)).fill()
        if await lives(kept, Fuse(at, after), story):
            assert at > 15, "the fuse must have burnt in many places before"
            return
        assert await lives(kept, Fuse(-1, after), story), f"the second life did not end, after a kill at {at}"
        asked = kept.mind.asked
        assert await lives(kept, Fuse(-1, after), [*story, "/dream"]), at
        assert (kept.world.channel.screen("fake:42")[-1], kept.mind.asked) == ("Nothing new to learn.", asked), at
        check(kept, at)
        await all_is_read(kept, at)
    raise AssertionError("the story never lived to its end")


async def all_is_read(kept: Kept, at: int) -> None:
    """The marks stand behind everything, nothing is passed over, and the files are the newest version."""
    assert await kept.world.history.dreamt(SPACE) == 2, at
    assert [record.through for record in kept.world.records() if isinstance(record, Learnt)] == [2], at
    assert all(any(f"tune {n}x" in batch for batch in kept.mind.batches) for n in range(3)), at
    assert (kept.diary.passed, max(kept.diary.begun.values(), default=0) <= 1) == ([], True), at
    newest, head = kept.versions.kept[SPACE.name][-1]
    assert (head.memory, kept.versions.noted[SPACE.name]) == (kept.memory, newest.id), at
    assert not kept.files.kept[SPACE.name], at


@pytest.mark.parametrize("after", [False, True])
async def test_a_dream_is_killed_at_every_write(after: bool) -> None:
    """Each fact is learnt once, in one version, nothing is left unread, and the person has the reply."""

    def check(kept: Kept, at: int) -> None:
        assert kept.kinds == ["manual", "Dream"], at
        assert sorted(kept.memory.splitlines()) == ["- Likes tea", *(f"- Likes tune {n}x." for n in range(3))], at
        screen = kept.world.channel.screen("fake:42")
        assert "Learned (version 2).\nMEMORY.md: 3 in" in screen, at

    await killed_everywhere(["/dream"], after, check)


@pytest.mark.parametrize("after", [False, True])
async def test_a_restore_is_killed_at_every_write(after: bool) -> None:
    """The files are as they were, in one version more; what was learnt is there to go back to, and not learnt again."""

    def check(kept: Kept, at: int) -> None:
        assert kept.kinds == ["manual", "Dream", "restore"], at
        assert kept.memory == OLD, at
        assert "Restored version 1 as version 3." in kept.world.channel.screen("fake:42"), at

    await killed_everywhere(["/dream", "/dream-restore --version 1"], after, check)


@pytest.mark.parametrize("after", [False, True])
async def test_a_dream_that_teaches_nothing_is_killed_at_every_write(after: bool) -> None:
    """There is no version that says how far it came: what has no mark yet is read again, and then no more."""
    for at in range(1, 100):
        kept = await Kept(Sleeper()).fill()
        if await lives(kept, Fuse(at, after), ["/dream"]):
            assert at > 8
            return
        assert await lives(kept, Fuse(-1, after), ["/dream"]), at
        asked = kept.mind.asked
        assert await lives(kept, Fuse(-1, after), ["/dream", "/dream"]), at
        assert kept.mind.asked == asked, at
        assert kept.kinds == ["manual"] and kept.memory == OLD, at
        await all_is_read(kept, at)
    raise AssertionError("the story never lived to its end")


async def calm(chat: Chat, fuse: Fuse) -> None:
    for _ in range(20):
        for _ in range(20):
            await asyncio.sleep(0)
        if not fuse.dead:
            await chat.background.idle()


async def sleeps(kept: Kept, fuse: Fuse) -> bool:
    """A daemon that is there when a run is due; False if it died."""
    assert isinstance(kept.world.clock, FakeClock)
    try:
        async with running(kept.fused(fuse)) as chat:
            for seconds in (0, 5, 3600):
                kept.world.clock.pass_time(seconds)
                await calm(chat, fuse)
    except Killed:
        return False
    return not fuse.dead


@pytest.mark.parametrize("after", [False, True])
async def test_a_scheduled_dream_is_killed_at_every_write(after: bool) -> None:
    """The run is made in the next life, soon after the start, and not once more."""
    for at in range(1, 100):
        kept = Kept(Sleeper(facts_of), dream=Sleep(schedule="0 4 * * *"))
        kept.world.clock = FakeClock(datetime(2026, 4, 10, 9, 15, tzinfo=UTC), rushing=False)
        kept.world.memory = MemoryWriter(kept.versions, kept.files, kept.world.clock, lambda space: None, Stillness())
        await kept.fill()
        kept.diary.moment = datetime(2026, 4, 9, 4, tzinfo=UTC)
        if await sleeps(kept, Fuse(at, after)):
            assert at > 8
            return
        assert await sleeps(kept, Fuse(-1, after)), at
        assert kept.diary.moment and kept.diary.moment.day == 10, at
        asked = kept.mind.asked
        assert await sleeps(kept, Fuse(-1, after)), at
        assert (kept.mind.asked, kept.kinds) == (asked, ["manual", "Dream"]), at
        assert sorted(kept.memory.splitlines()) == ["- Likes tea", *(f"- Likes tune {n}x." for n in range(3))], at
        await all_is_read(kept, at)
    raise AssertionError("the story never lived to its end")
