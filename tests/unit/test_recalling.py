"""How the index is fed behind what is said, and asked meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import BegunAnew, CannotStore, Refused
from nanomem.memory.recalling import CALM_S, MOST_BEGINNINGS, RETRY_S, Recalling
from nanomem.recall.found import Sought
from nanomem.spaces import Space
from nanomem.testing import FakeClock, FakeRecallIndex

SPACE = Space("owner", Path("/nowhere"), Path("/nowhere"))
OTHER = Space("fake:7", Path("/nowhere/7"), Path("/nowhere"))
LOG = "fake%3A42.jsonl"


@dataclass
class Talk:
    """What is said and known, and who takes it in. Time stands still unless it is told to pass."""

    index: FakeRecallIndex = field(default_factory=FakeRecallIndex)
    clock: FakeClock = field(default_factory=lambda: FakeClock(rushing=False))
    known: dict[str, str | None] = field(default_factory=dict)
    fails: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recalling = Recalling(self.index, self._files, self.clock, UTC)

    async def _files(self, space: Space) -> Mapping[str, str | None]:
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)
        return dict(self.known)

    def says(self, *lines: str, space: Space = SPACE) -> None:
        self.index.said[space.name, LOG] += lines
        self.recalling.appended(space, LOG)

    async def finds(self, text: str, patience_s: float = 1.0, space: Space = SPACE) -> tuple[list[str], bool]:
        found, whole = await self.recalling.search(space, Sought(text, self.clock.now()), patience_s)
        return [hit.text for hit in found.hits], whole

    async def found_of_what_is_taken_in(self, text: str) -> list[str]:
        found = await self.index.find(SPACE, Sought(text, self.clock.now()))
        return [hit.text for hit in found.hits]

    async def rests(self, seconds: float = 0.01) -> None:
        """Until nothing is done any more, if time passes in small steps."""
        for _ in range(200):
            self.clock.pass_time(seconds / 200)
            for _ in range(4):
                await asyncio.sleep(0)


@asynccontextmanager
async def taking_in(talk: Talk) -> AsyncIterator[None]:
    task = asyncio.create_task(talk.recalling.run([SPACE]))
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_is_there_and_what_comes_is_taken_in() -> None:
    """Without anybody asking."""
    talk = Talk()
    talk.index.said["owner", LOG] += ["old dog", "old cat"]
    async with taking_in(talk):
        await talk.rests(1)
        talk.says("new dog")
        talk.says("dog of another", space=OTHER)
        await talk.rests(CALM_S / 2)
        assert await talk.found_of_what_is_taken_in("dog") == ["old dog"]
        await talk.rests(CALM_S)
        calls = len(talk.index.calls)
        assert await talk.finds("dog", patience_s=0) == (["new dog", "old dog"], True)
        assert await talk.finds("dog", patience_s=0, space=OTHER) == (["dog of another"], True)
        assert talk.index.calls[calls:] == ["find", "find"]


async def test_what_is_said_while_it_reads_is_not_missed() -> None:
    """Whenever it comes."""
    talk = Talk()
    async with taking_in(talk):
        for n in range(40):
            talk.says(f"dog {n}")
            for _ in range(n % 7):
                await asyncio.sleep(0)
            talk.clock.pass_time(0.001 * (n % 3))
        await talk.rests(1)
        assert talk.index.kept["owner"][LOG] == [f"dog {n}" for n in range(40)]


async def test_a_search_sees_what_was_just_said() -> None:
    """It takes in what is missing itself, and waits for a piece that is being taken in."""
    talk = Talk()
    talk.says("my dog", "my cat")
    assert await talk.finds("cat") == (["my cat"], True)
    async with taking_in(talk):
        await talk.rests()
        for n in range(20):
            talk.says(f"cat {n}")
            for _ in range(n % 5):
                await asyncio.sleep(0)
            found, whole = await talk.finds(f"cat {n}")
            assert found[0] == f"cat {n}" and whole


async def test_an_impatient_search_says_that_it_is_not_whole() -> None:
    """Years of talk are not waited for."""
    talk = Talk()
    talk.says("my dog")
    assert await talk.finds("dog", patience_s=0) == ([], False)
    assert "not everything was searched" not in await talk.recalling.answer(SPACE, "dog")
    assert await talk.finds("dog", patience_s=0) == (["my dog"], True)


async def test_facts_follow_what_is_known() -> None:
    """Each time it may have changed, also while they are taken in."""
    talk = Talk(known={"memory/MEMORY.md": "- likes tea\n", "memory/USER.md": None})
    assert (await talk.finds("tea"))[0] == ["- likes tea"]
    talk.known["memory/MEMORY.md"] = "- likes cake\n"
    assert (await talk.finds("cake tea"))[0] == ["- likes tea"]
    talk.recalling.changed(SPACE)
    async with taking_in(talk):
        for _ in range(5):
            await asyncio.sleep(0)
        talk.known["memory/MEMORY.md"] = "- likes pie\n"
        talk.recalling.changed(SPACE)
        await talk.rests(1)
        assert await talk.finds("cake tea pie", patience_s=0) == (["- likes pie"], True)


async def test_a_memory_file_that_cannot_be_read_stops_nothing() -> None:
    """What was said is taken in all the same; what was known before is found until the memory changes again."""
    talk = Talk(known={"memory/MEMORY.md": "- has a dog\n"})
    talk.index.said["owner", LOG] += ["old dog"]
    await talk.recalling.catch_up(SPACE)
    talk.fails.append(Refused("It is a folder."))
    with capture_logs() as told:
        async with taking_in(talk):
            talk.recalling.changed(SPACE)
            talk.says("new dog")
            await talk.rests(1)
    assert [line["reason"] for line in told] == ["It is a folder."]
    found, whole = await talk.finds("dog", patience_s=0)
    assert sorted(found) == ["- has a dog", "new dog", "old dog"] and whole


async def test_what_cannot_be_stored_is_tried_again_later_and_said_once() -> None:
    """A full disk is no end of it, nor a file of the memory that cannot be read."""
    talk = Talk()
    talk.index.fails += [CannotStore("No room left.")] * 3
    talk.fails.append(CannotStore("Cannot read."))
    talk.says("my dog")
    with capture_logs() as events:
        async with taking_in(talk):
            for _ in range(6):
                await talk.rests(RETRY_S + 1)
            assert await talk.finds("dog", patience_s=0) == (["my dog"], True)
    assert [event["reason"] for event in events] == ["No room left.", "Cannot read."]


async def test_a_search_on_a_full_disk_fails_and_the_next_does_not() -> None:
    """Nothing is forgotten over it."""
    talk = Talk()
    talk.says("my dog")
    for _ in range(4):
        talk.index.fails.append(CannotStore("No room left."))
        with pytest.raises(CannotStore, match="No room left"):
            await talk.finds("dog")
    assert await talk.finds("dog") == (["my dog"], True)


@pytest.mark.parametrize("at", range(6))
async def test_what_was_begun_anew_is_read_again(at: int) -> None:
    """At whichever call it turns out, also at the search itself; facts, too."""
    talk = Talk(known={"memory/MEMORY.md": "- has a dog\n"})
    talk.says("my dog", "no dog")
    assert len((await talk.finds("dog"))[0]) == 3
    talk.recalling.changed(SPACE)
    talk.says("new dog")
    talk.index.fails += [*[None] * at, BegunAnew("It was damaged.")]
    for _ in range(at + 1):
        found, whole = await talk.finds("dog")
    assert not talk.index.fails
    assert sorted(found) == ["- has a dog", "my dog", "new dog", "no dog"] and whole


async def test_an_impatient_search_in_an_index_begun_anew_finds_nothing_yet() -> None:
    """And says so."""
    talk = Talk()
    talk.says("my dog")
    await talk.finds("dog")
    talk.index.fails.append(BegunAnew("It was damaged."))
    assert await talk.finds("dog", patience_s=0) == ([], False)
    assert await talk.finds("dog") == (["my dog"], True)


async def test_an_index_that_is_damaged_again_and_again_is_given_up_for_now() -> None:
    """Neither the one who searches nor the one who takes in turns in circles."""
    talk = Talk()
    talk.says("my dog")
    talk.index.fails += [BegunAnew("It was damaged.")] * 50
    with pytest.raises(CannotStore, match="It was damaged"):
        await talk.finds("dog")
    with pytest.raises(CannotStore, match="It was damaged"):
        await talk.finds("dog", patience_s=0)
    with pytest.raises(CannotStore, match="It was damaged"):
        await talk.recalling.catch_up(SPACE)
    async with taking_in(talk):
        left = len(talk.index.fails)
        await talk.rests(1)
        assert left - len(talk.index.fails) <= MOST_BEGINNINGS + 1
        talk.index.fails.clear()
        await talk.rests(RETRY_S + 1)
        assert await talk.finds("dog", patience_s=0) == (["my dog"], True)


async def test_a_person_is_told_what_to_type() -> None:
    """And what was found, with the page."""
    talk = Talk()
    talk.says(*(f"dog {n}" for n in range(20)))
    await talk.recalling.catch_up(SPACE)
    with pytest.raises(Refused, match="Say what to look for"):
        await talk.recalling.answer(SPACE, "")
    assert (await talk.recalling.answer(SPACE, "dog")).splitlines()[-1] == "[there is more: --page 2]"
    assert "dog 0:" not in await talk.recalling.answer(SPACE, "dog --page 3")
    assert "Nothing" in await talk.recalling.answer(SPACE, "zebra")
