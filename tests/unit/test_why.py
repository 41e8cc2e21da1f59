"""Where a fact comes from, told from what the versions, the history and the session logs say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanomem.entries import Entry
from nanomem.facts import MemoryFiles
from nanomem.memory.why import MOST_FACTS, Why, as_text
from nanomem.messages import Sender
from nanomem.records import UserMessage
from nanomem.spaces import Space
from nanomem.testing import FakeHistory, FakeMemory, FakeSessionLog, FakeVersions
from nanomem.versions import message

NOW = datetime(2026, 4, 1, 8, tzinfo=UTC)
OWNER = Space("owner", Path("/nowhere"), Path("/nowhere"))
ANNS = Space("telegram:7", Path("/nowhere/7"), Path("/nowhere"))
KEY = "telegram:42"


@dataclass
class Told:
    """A space's past, told version by version."""

    memory: FakeMemory = field(default_factory=FakeMemory)
    versions: FakeVersions = field(default_factory=FakeVersions)
    history: FakeHistory = field(default_factory=FakeHistory)
    log: FakeSessionLog = field(default_factory=FakeSessionLog)

    async def version(
        self, kind: str, memory: str, *lines: str, space: Space = OWNER, trailers: Mapping[str, str] | None = None
    ) -> None:
        """One day later the file is this, and these lines say why."""
        self.memory.files = MemoryFiles(soul="- Be kind to Bob\n", memory=memory)
        files = MemoryFiles(soul=self.memory.files.soul if space.is_owners else "", memory=memory)
        at = NOW + timedelta(days=len(await self.versions.all(space)))
        await self.versions.commit(space, files, message(f"[{kind}] x", lines, trailers or {}), at)

    async def says(self, *texts: str) -> None:
        """Ann says these, a minute apart."""
        first = len(self.log.records[OWNER.name, KEY]) + 1
        for n, text in enumerate(texts, first):
            at, ann = NOW + timedelta(minutes=n), Sender("42", "Ann")
            record = UserMessage(n=n, turn="t", timestamp=at, content=text, tokens=1, sender=ann)
            await self.log.append(OWNER, KEY, [record])

    async def entry(self, first: int, last: int, summary: str) -> None:
        """A stretch of the conversation is summed up."""
        at = NOW + timedelta(minutes=last)
        entry = Entry(timestamp=at, type="consolidation", session=KEY, first=first, last=last, summary=summary)
        await self.history.append(OWNER, [entry])

    async def why(self, words: str, space: Space = OWNER, zone: str = "UTC") -> list[str]:
        """The answer, line by line."""
        why = Why(self.memory, self.versions, self.history, self.log.messages)
        return as_text(await why.explain(space, words), words, ZoneInfo(zone)).splitlines()


@pytest.fixture
def told() -> Told:
    return Told()


async def test_from_the_version_over_the_summary_to_the_words(told: Told) -> None:
    """With what happened to it since, in the time zone of people."""
    await told.says("hello", "I only drink green tea these days", "bye")
    await told.entry(1, 3, "Talked about tea.")
    await told.version("manual", "- Ann has a cat\n", "+ Ann has a cat")
    trailers = {"Session": KEY, "Messages": "1-3", "History": "1-1"}
    await told.version("consolidation", "- Drinks green tea\n", "+ Drinks green tea", trailers=trailers)
    await told.version("Dream", "- Likes green tea\n", "~ Drinks green tea -> Likes green tea")
    assert await told.why("green tea", zone="Europe/Vienna") == [
        "Likes green tea (MEMORY.md)",
        "  version 2, 2026-04-02 10:00, consolidation; reworded in version 3",
        "  at first: Drinks green tea",
        "  history 1: [2026-04-01 10:03] Talked about tea.",
        '  Ann, 2026-04-01 10:02: "I only drink green tea these days"',
    ]


async def test_what_a_person_wrote_is_by_hand(told: Told) -> None:
    """In a version, or just now; also where the first version says nothing of it."""
    await told.version("manual", "- Likes tea\n- Old\n", "+ Likes tea")
    await told.version("agent", "- Likes tea\n- Old\n- Likes cake\n", "+ Likes cake", trailers={"Id": "remember a#1"})
    assert await told.why("tea") == ["Likes tea (MEMORY.md)", "  version 1, 2026-04-01 08:00, by hand"]
    assert await told.why("old") == ["Old (MEMORY.md)", "  version 1, 2026-04-01 08:00, by hand"]
    assert await told.why("cake") == ["Likes cake (MEMORY.md)", "  version 2, 2026-04-02 08:00, /remember"]
    told.memory.files = MemoryFiles(memory="- Likes beer\n")
    assert await told.why("beer") == ["Likes beer (MEMORY.md)", "  by hand, since the newest version"]


async def test_what_was_saved_first_and_summed_up_later(told: Told) -> None:
    """The entry that covers the message by now is found, among many; one that does not is not named."""
    trailers = {"Session": KEY, "Messages": "30-30", "Id": "a turn/c1", "By": ""}
    await told.says(*(f"word {n}" for n in range(1, 30)), "remember that Minka is a cat", *("later",) * 30)
    await told.version("agent", "- Minka is a cat\n", "+ Minka is a cat", trailers=trailers)
    assert not any("history" in line for line in await told.why("Minka"))
    for first in range(1, 61, 2):
        await told.entry(first, first + 1, f"Of {first}.")
    assert "  history 15: [2026-04-01 08:30] Of 29." in await told.why("Minka")


async def test_what_nobody_says_is_not_made_up(told: Told) -> None:
    """A commit of somebody else, without a line."""
    await told.version("agent", "- Tea\n", "+ Tea")
    await told.version("agent", "- Cake\n")
    assert await told.why("cake") == ["Cake (MEMORY.md)", "  no version says where it comes from"]


async def test_learnt_facts_are_found_through_the_entry_they_are_from(told: Told) -> None:
    """Of the entries that were read, that with most of the words; its messages are the source."""
    await told.says("I like tea", "My cat is called Tom", "so long")
    await told.entry(1, 1, "Ann likes tea.")
    await told.entry(2, 3, "Ann's cat is called Tom.")
    await told.version("Dream", "- Cat: Tom\n", "+ Cat: Tom", trailers={"History": "1-2"})
    assert await told.why("tom") == [
        "Cat: Tom (MEMORY.md)",
        "  version 1, 2026-04-01 08:00, Dream",
        "  history 2: [2026-04-01 08:03] Ann's cat is called Tom.",
        '  Ann, 2026-04-01 08:02: "My cat is called Tom"',
    ]


async def test_all_origins_of_a_merged_fact(told: Told) -> None:
    """One below the other."""
    await told.version("agent", "- Likes tea\n", "+ Likes tea")
    await told.version("agent", "- Likes tea\n- Likes cake\n", "+ Likes cake")
    both = ["~ Likes tea -> Likes tea and cake", "~ Likes cake -> Likes tea and cake"]
    await told.version("Dream", "- Likes tea and cake\n", *both)
    assert await told.why("cake") == [
        "Likes tea and cake (MEMORY.md)",
        "  version 2, 2026-04-02 08:00, agent; reworded in version 3",
        "  at first: Likes cake",
        "  version 1, 2026-04-01 08:00, agent; reworded in version 3",
        "  at first: Likes tea",
    ]


async def test_many_facts_and_long_stories_are_cut(told: Told) -> None:
    """And say so."""
    everything = "".join(f"- Tea number {n}\n" for n in range(13))
    await told.version("agent", everything, *(f"+ Tea number {n}" for n in range(13)))
    for _ in range(8):
        await told.version("consolidation", everything, "= Tea number 0 put back")
    answer = await told.why("tea")
    assert answer[-1] == "3 more match: give more words."
    assert sum(line.startswith("Tea") for line in answer) == MOST_FACTS
    assert answer[1].endswith("agent; put back in versions 2, 3, 4, 5, ... and 9")


async def test_no_match_says_what_to_try(told: Told) -> None:
    """Also in a space without anything in it."""
    [line] = await told.why("coffee")
    assert line.startswith("Nothing I know matches coffee. ")


async def test_others_are_told_of_their_own_space_only(told: Told) -> None:
    """The owner's manner is no fact about them."""
    await told.version("agent", "- Bob likes tea\n", "+ Bob likes tea", space=ANNS)
    assert [line for line in await told.why("bob", ANNS) if not line.startswith(" ")] == ["Bob likes tea (MEMORY.md)"]
