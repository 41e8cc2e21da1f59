"""The process dies at every single write of what changes the memory, before it and after it, and is started again.

Over fakes; the real thing is killed for real in `tests/daemon`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nanomem.memory.consolidate import When
from nanomem.memory.writer import MemoryWriter
from nanomem.messages import Reply, Request
from nanomem.records import AssistantMessage, Consolidated, UserMessage
from nanomem.session import replay
from nanomem.testing import FakeHistory, FakeModel, FakeVersions, FakeWorkingFiles
from nanomem.tools.stillness import Stillness
from tests.stories.chat import World, running
from tests.stories.test_consolidation import SPACE, assert_nothing_lost, memory_in, saving, world
from tests.stories.test_kills import Fuse, Fused, Killed, covers, is_empty

pytestmark = pytest.mark.usefixtures("no_threads")

OLD = "- Likes tea\n- Lives in Rome\n"


def learnt(request: Request) -> Reply:
    """Each save adds the fact that fits the number of facts there are."""
    known = memory_in(request)
    return saving(history_entry="They talked.", memory_update=f"{known}\n- Learnt fact {known.count('Learnt')}")


class Mind:
    """Says how many messages it saw."""

    def __call__(self, request: Request) -> Reply:
        if any(tool.name == "save_memory" for tool in request.tools):
            return learnt(request)
        return Reply(f"answer to {len(request.messages)}")


def begun(when: When) -> tuple[World, FakeVersions, FakeWorkingFiles]:
    files = FakeWorkingFiles()
    files.files[SPACE.name]["memory/MEMORY.md"] = OLD
    made = world(Mind(), budget=60_000, when=when, files=files)  # type: ignore[arg-type]
    assert isinstance(made.versions, FakeVersions)
    return made, made.versions, files


def fused(made: World, files: FakeWorkingFiles, fuse: Fuse) -> World:
    """The same world, reached through a fuse."""
    versions: Any = Fused(made.versions, fuse, ("commit", "set_placed"))
    working: Any = Fused(files, fuse, ("place", "compared"))
    others: dict[str, Any] = {
        "channel": Fused(made.channel, fuse, ("place", "show", "say")),
        "inbox": Fused(made.inbox, fuse, ("take", "stamp", "park", "placed", "settle", "delivered")),
        "log": Fused(made.log, fuse, ("append",)),
        "history": Fused(made.history, fuse, ("append",)),
        "memory": MemoryWriter(versions, working, made.clock, lambda space: None, Stillness()),
        "model": FakeModel(*[Mind()] * 500),
    }
    return replace(made, versions=versions, **others)


async def lives(made: World, files: FakeWorkingFiles, fuse: Fuse, story: Sequence[str], before: Any = None) -> bool:
    """Runs a process through the story; False if it died."""
    try:
        async with running(fused(made, files, fuse)) as chat:
            taken = {f"{n}" for n in range(1, len(story) + 1)}
            for n, text in enumerate(story, 1):
                chat.number = n - 1
                await chat.says(text)
                for _ in range(2_000):
                    if fuse.dead or covers(made.channel, {f"{n}"}):
                        break
                    await chat.loop.clock.sleep(0)
                if before and n == 2:
                    before()
            for _ in range(3_000):
                if fuse.dead or (covers(made.channel, taken) and is_empty(made)):
                    break
                await chat.loop.clock.sleep(0)
            else:
                raise AssertionError(f"still going: {made.inbox}, {made.channel.finished}")
            if not fuse.dead:
                await chat.settled()
    except Killed:
        return False
    return not fuse.dead


STORIES = {
    "consolidation": (["one", "two", "three", "four"], When(memory_window=4)),
    "new": (["one", "two", "/new", "three"], When(memory_window=0)),
    "compact": (["one", "two", "/compact", "three"], When(memory_window=0)),
}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", STORIES)
async def test_killed_at_every_write(name: str, after: bool) -> None:
    """Each message is in one place, each entry and each change is there once, and the files are the newest version."""
    story, when = STORIES[name]
    for at in range(1, 300):
        made, versions, files = begun(when)
        if await lives(made, files, Fuse(at, after), story):
            assert at > 20, "the fuse must have burnt in many places before"
            return
        assert await lives(made, files, Fuse(-1, after), story), f"the second life did not end, after a kill at {at}"
        check(made, versions, files, story, at)
    raise AssertionError("the story never lived to its end")


def check(made: World, versions: FakeVersions, files: FakeWorkingFiles, story: Sequence[str], at: int) -> None:
    records = made.records()
    heard = Counter(r.content for r in records if isinstance(r, UserMessage))
    assert heard == Counter(text for text in story if not text.startswith("/")), at
    for turn in {r.turn for r in records if isinstance(r, UserMessage)}:
        ends = [r for r in records if isinstance(r, AssistantMessage) and r.turn == turn and r.end]
        assert len(ends) == 1, (at, turn)
    assert_nothing_lost(made)
    session = replay(records)
    assert session.pending is None, at
    done = [r for r in records if isinstance(r, Consolidated)]
    assert len({r.id for r in done}) == len(done) > 0, at
    kept = versions.kept[SPACE.name]
    ids = [version.trailers["Id"] for version, _ in kept if "Id" in version.trailers]
    assert sorted(ids) == sorted({r.id for r in done}), at
    text = files.files[SPACE.name]["memory/MEMORY.md"]
    for n in range(len(done)):
        assert text.count(f"- Learnt fact {n}\n") + text.endswith(f"- Learnt fact {n}") == 1, (at, text)
    assert "- Likes tea\n" in text and "- Lives in Rome\n" in text
    assert kept[-1][1].memory == text, at
    assert versions.noted[SPACE.name] == kept[-1][0].id, at
    assert not files.kept[SPACE.name], at
    assert isinstance(made.history, FakeHistory)
    assert [e.cursor for e in made.history.entries[SPACE.name]] == list(range(1, len(done) + 1)), at


@pytest.mark.parametrize("after", [False, True])
async def test_a_manual_edit_survives_every_kill(after: bool) -> None:
    """What a person writes amid it all is there in the end, once, and is a version by hand."""
    story, when = STORIES["consolidation"]
    for at in range(1, 300):
        made, versions, files = begun(when)

        def edit(files: FakeWorkingFiles = files) -> None:
            files.files[SPACE.name]["memory/MEMORY.md"] += "\n- Has a cat\n"

        if await lives(made, files, Fuse(at, after), story, edit):
            return
        assert await lives(made, files, Fuse(-1, after), story, edit if at < 1 else None)
        text = files.files[SPACE.name]["memory/MEMORY.md"]
        assert text.count("- Has a cat") <= 1, (at, text)
        if "cat" in text:
            assert sum("+ Has a cat" in version.lines for version, _ in versions.kept[SPACE.name]) == 1, at
        else:
            assert not any("+ Has a cat" in version.lines for version, _ in versions.kept[SPACE.name]), at
    raise AssertionError("the story never lived to its end")
