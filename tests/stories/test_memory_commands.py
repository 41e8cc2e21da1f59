"""What people ask of the memory in a chat, and what they are told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.agent.commands import DENIED, Call
from nanomem.bus import Lane
from nanomem.errors import CannotStore
from nanomem.memory.commands import LONGEST, MemoryCommands
from nanomem.memory.writer import MemoryWriter
from nanomem.messages import Sender
from nanomem.recall.typed import HOW
from nanomem.records import UserMessage
from nanomem.spaces import Space, Spaces
from nanomem.stores.recall_index import SqliteRecallIndex
from nanomem.stores.session_log import JsonlSessionLog
from nanomem.testing import (
    FakeChannel,
    FakeClock,
    FakeModel,
    FakeRecallIndex,
    FakeVersions,
    FakeWorkingFiles,
    inbound,
)
from nanomem.tools.stillness import Stillness
from tests.stories.chat import Chat, World, running

OWNERS = "terminal:local"
ANNS = "fake:42"
GROUP = "fake:-1001"


@pytest.fixture
def files() -> FakeWorkingFiles:
    return FakeWorkingFiles()


@pytest.fixture
def world(files: FakeWorkingFiles) -> World:
    versions, clock = FakeVersions(), FakeClock()
    memory = MemoryWriter(versions, files, clock, lambda space: None, Stillness())
    return World(memory=memory, versions=versions, clock=clock, channels=[FakeChannel("terminal")])


async def asks(chat: Chat, *texts: str, address: str = ANNS, owner: bool = True) -> list[str]:
    return await chat.asks(*texts, address=address, owner=owner)


async def test_a_fact_is_kept_and_found_again(world: World, files: FakeWorkingFiles) -> None:
    """Saved with its version, once; and it says where it is from."""
    async with running(world) as chat:
        saved, known, shown, why = await asks(
            chat, "/remember I like\ngreen tea", "/remember - I like green tea", "/memory", "/memory why green"
        )
    assert saved == "Saved (version 2): I like green tea"
    assert known == "Already known: I like green tea"
    assert "# USER.md\n\n(empty)\n\n# MEMORY.md\n\n- I like green tea" in shown
    assert why == "I like green tea (MEMORY.md)\n  version 2, 2026-04-10 09:15, /remember by Ann"
    assert "- I like green tea\n" in files.files[ANNS]["memory/MEMORY.md"]


async def test_what_is_known_is_not_saved_twice(world: World) -> None:
    """By whom and in which file it may be."""
    async with running(world) as chat:
        await asks(chat, "/remember Likes tea")
        assert await asks(chat, "/remember Likes  tea") == ["Already known: Likes tea"]


async def test_a_change_is_taken_back(world: World, files: FakeWorkingFiles) -> None:
    """The newest, or one alone; then there is nothing any more."""
    async with running(world) as chat:
        await asks(chat, "/remember Likes tea", "/remember Likes cake")
        assert await asks(chat, "/undo 2", "/undo", "/undo", "/undo 10") == [
            "Undone (version 4).",
            "Undone (version 5).",
            "Nothing to undo.",
            "Not undone: There is no version 10; the newest one is 5.",
        ]
        assert (await asks(chat, "/undo tea"))[0].startswith("Not undone: A number is needed")
    assert "Likes" not in files.files[ANNS]["memory/MEMORY.md"]


async def test_run_again_after_a_crash_they_repeat_their_reply(world: World) -> None:
    """What they did carries the id of the message that asked for it."""
    space = Spaces(Path("/nowhere")).of(ANNS)
    commands = MemoryCommands(world.parts, lambda address: space)
    remember = Call(inbound("/remember Likes tea", 1), "Likes tea", Lane(ANNS))
    undo = Call(inbound("/undo", 2), "", Lane(ANNS))
    assert [await commands.remember(remember) for _ in range(2)] == ["Saved (version 2): Likes tea"] * 2
    assert [await commands.undo(undo) for _ in range(2)] == ["Undone (version 3)."] * 2
    again = replace(undo, message=inbound("/undo", 3))
    assert await commands.undo(again) == "Nothing to undo."
    _, first, _ = await world.versions.all(space)
    assert first.trailers == {"Session": ANNS, "Inbound": f"{ANNS}#1", "By": "Ann", "Id": f"remember {ANNS}#1"}
    assert first.kind == "agent"


async def test_the_log_and_its_pages(world: World) -> None:
    """The newest first, twenty at a time."""
    async with running(world) as chat:
        assert await asks(chat, "/memory log", "/memory diff") == ["There are no versions yet."] * 2
        await asks(chat, *(f"/remember Fact number {n}" for n in range(1, 26)))
        first, second, third = await asks(chat, "/memory log", "/memory log 2", "/memory LOG 3")
    assert first.splitlines()[0].startswith("26  2026-04-10 09:15  [agent] ")
    assert first.splitlines()[-1] == "Older ones: /memory log 2"
    assert len(first.splitlines()) == 21
    assert [line.split()[0] for line in second.splitlines()] == ["6", "5", "4", "3", "2", "1"]
    assert third == "There is no page 3; the last one is 2."


async def test_what_a_version_changed(world: World, files: FakeWorkingFiles) -> None:
    """As code, with what it says of each fact, and what went in and out; fences in the files do no harm."""
    async with running(world) as chat:
        files.files[ANNS]["memory/MEMORY.md"] = "# Memory\n\n```\n- code\n```\n"
        await asks(chat, "/remember Likes tea")
        newest, first, wrong = await asks(chat, "/memory diff", "/memory diff 1", "/memory diff 3")
    lines = newest.splitlines()
    assert lines[0].startswith("2  2026-04-10 09:15  [agent] ")
    assert lines[1] == lines[-1] == "````"
    assert "+ Likes tea" in lines and "+++ b/memory/MEMORY.md" in lines and "+- Likes tea" in lines
    assert "First version" in first and "+# Memory" in first
    assert wrong == "There is no version 3; the newest one is 2."


async def test_who_says_too_little_is_told_more(world: World) -> None:
    """Each with what there is."""
    async with running(world) as chat:
        unknown, why, nothing, empty = await asks(chat, "/memory tea", "/memory why", "/remember", "/remember ---")
    assert unknown == "/memory knows no 'tea'. There is /memory, /memory why WORDS, /memory log and /memory diff N."
    assert why == "Say what to look for: some words of it."
    assert nothing == "Say what: /remember TEXT."
    assert empty == "Not saved: There is nothing in it to remember."


async def test_a_memory_for_an_editor_is_cut(world: World, files: FakeWorkingFiles) -> None:
    """A chat shows the beginning."""
    async with running(world) as chat:
        files.files[ANNS]["memory/MEMORY.md"] = "".join(f"- Fact number {n}\n" for n in range(5_000))
        [shown] = await asks(chat, "/memory")
    assert len(shown) < LONGEST + 200
    assert "characters more" in shown.splitlines()[-1]


async def test_a_full_disk_is_no_receipt(world: World) -> None:
    """What was not saved is not called so, and nothing is tried in secret; the log says it, too."""
    assert isinstance(world.versions, FakeVersions)
    with capture_logs() as logs:
        async with running(world) as chat:
            world.versions.fails.append(CannotStore("No room left on the disk."))
            assert await asks(chat, "/remember Likes tea") == ["Not saved: No room left on the disk."]
            assert await asks(chat, "/remember Likes tea") == ["Saved (version 2): Likes tea"]
    assert [entry["reason"] for entry in logs if entry["event"] == "command.cannot_store"] == [
        "No room left on the disk."
    ]


async def test_others_have_no_say_in_the_owners_space(world: World) -> None:
    """In their own space they have all of it."""
    async with running(world) as chat:
        for command in ("/memory", "/memory log", "/remember Evil", "/undo"):
            assert await asks(chat, command, address=OWNERS, owner=False) == [DENIED]
        assert await asks(chat, "/remember Likes tea", "/undo", owner=False) == [
            "Saved (version 2): Likes tea",
            "Undone (version 3).",
        ]
    assert not await world.versions.all(Space("owner", Path("/nowhere"), Path("/nowhere")))


async def test_in_a_group_only_the_owner_takes_back(world: World) -> None:
    """What members may do is about what the group knows."""
    async with running(world) as chat:
        await asks(chat, "/remember Owner's own", address=OWNERS)
        saved, denied = await asks(chat, "/remember Party on Friday", "/undo", address=GROUP, owner=False)
        [shown] = await asks(chat, "/memory", address=GROUP, owner=False)
        [undone] = await asks(chat, "/undo", address=GROUP)
    assert (saved, denied) == ("Saved (version 2): Party on Friday", DENIED)
    assert "Party" in shown and "Owner's own" not in shown and "SOUL.md" not in shown
    assert undone == "Undone (version 3)."


async def test_memory_answers_while_a_turn_runs_and_the_others_wait(world: World) -> None:
    """What changes something keeps its place."""
    world.model = FakeModel("answer")
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("hello", "/remember Likes tea", "/memory")
        await world.channel.until(lambda: len(world.channel.finished) == 1)
        assert "# MEMORY.md" in chat.hears[-1] and "tea" not in chat.hears[-1]
        world.model.gate.set()
        await chat.until_answered(3)
    assert chat.hears[-1] == "Saved (version 2): Likes tea"


async def test_help_lists_them_in_their_order(world: World) -> None:
    """Commands of the conversation first, then those of the memory, and help itself."""
    async with running(world) as chat:
        [text] = await asks(chat, "/help")
    names = [line.partition(":")[0] for line in text.splitlines()]
    assert names == [
        *("/new", "/compact", "/stop", "/retry", "/status", "/dream", "/dream-log", "/dream-restore"),
        *("/undo", "/memory", "/remember", "/recall", "/skills", "/help"),
    ]


async def recalled(place: Path) -> World:
    """A world whose logs are files, and indexed; with 20 messages of Ann's about her dog, and Bob's one about a cat."""
    log = JsonlSessionLog()
    index = SqliteRecallIndex(place / "state", UTC)
    world = World(log=log, index=index, home=place, channels=[FakeChannel("terminal")])
    space = Spaces(place).of(ANNS)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    said = [
        UserMessage(
            n=n,
            turn=f"t{n}",
            timestamp=first + timedelta(days=n),
            content=f"my dog, story {n}" if n < 21 else "my cat",
            tokens=1,
            sender=Sender("42", "Ann") if n < 21 else Sender("7", "Bob"),
        )
        for n in range(1, 22)
    ]
    await log.append(space, "fake:before", said)
    await world.recalling.catch_up(space)
    return world


async def test_what_was_said_is_searched(tmp_path: Path) -> None:
    """Page by page, by person and time, with what stood around; who types too little or wrong is told what to type."""
    world = await recalled(tmp_path)
    async with running(world) as chat:
        first, third, bobs, since, until, near = await asks(
            chat,
            "/recall dog",
            "/recall dog --page 3",
            "/recall —who bob",
            "/recall dog --since 2026-01-20",
            "/recall dog --until 2026-01-02",
            '/recall cat --who "Bob" --near 1',
        )
        how, unknown, wrong, nothing = await asks(
            chat, "/recall", "/recall dog --wo Ann", "/recall dog --since soon", "/recall zebra"
        )
    await close(world)
    assert first.splitlines()[0] == "[21 January 2026, 00:00] Ann: my dog, story 20 (fake:before, message 20)"
    assert len(first.splitlines()) == 9 and first.splitlines()[-1] == "[there is more: --page 2]"
    assert len(third.splitlines()) == 4 and "story 1 " in third
    assert [line.partition("] ")[2].partition(" (")[0] for line in bobs.splitlines()] == ["Bob: my cat"]
    assert [line.count("story") for line in since.splitlines()] == [1, 1]
    assert "story 1 " in until and len(until.splitlines()) == 1
    assert "my cat" in near
    assert how == HOW and unknown == f"There is no --wo. {HOW}"
    assert wrong == "A date is needed, like 2026-03-05, 2026-03 or 2026, not 'soon'."
    assert nothing == "Nothing was found for: zebra."


async def close(world: World) -> None:
    assert isinstance(world.index, SqliteRecallIndex)
    await world.index.close()


async def test_a_search_answers_while_a_turn_runs(tmp_path: Path) -> None:
    """At once, as all that only looks."""
    world = await recalled(tmp_path)
    world.model = FakeModel("answer")
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("hello", "/recall cat")
        await world.channel.until(lambda: len(world.channel.finished) == 1)
        assert any("Bob: my cat" in heard for heard in chat.hears)
        world.model.gate.set()
        await chat.until_answered(2)
    await close(world)


async def test_what_was_said_to_the_owner_is_the_owners_to_search(tmp_path: Path) -> None:
    """Others search what was said where they are, and find nothing of it."""
    world = await recalled(tmp_path)
    async with running(world) as chat:
        assert await asks(chat, "/recall dog", address=OWNERS, owner=False) == [DENIED]
        assert "Nothing was found" in (await asks(chat, "/recall dog", address=OWNERS))[0]
        assert "Nothing was found" in (await asks(chat, "/recall dog", address="fake:8", owner=False))[0]
        assert "my dog" in (await asks(chat, "/recall dog", owner=False))[0]
    await close(world)


async def test_a_search_that_cannot_be_made_says_why(world: World) -> None:
    """And the next one may be."""
    assert isinstance(world.index, FakeRecallIndex)
    world.index.fails.append(CannotStore("No room left on the disk."))
    async with running(world) as chat:
        assert (await asks(chat, "/recall tea"))[0] == "No room left on the disk."
        assert (await asks(chat, "/recall tea"))[0].startswith("Nothing was found")
