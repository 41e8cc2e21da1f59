"""Stories of slow learning: what Dream reads, what it makes of it, and what it leaves alone."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from nanomem.entries import Entry
from nanomem.facts import MemoryFiles
from nanomem.messages import Reply, Request, Usage
from nanomem.records import Learnt
from nanomem.testing import calls
from tests.stories.chat import Chat, World, running
from tests.stories.test_consolidation import SPACE, memory_in, saving
from tests.stories.test_consolidation import world as awake

COST = Usage(100, 10)


class Sleeper:
    """A model that learns what `teaches` says, file by file, and writes files as a careful one does.

    `teaches` is given the batch; `writes` the file's name, its text, what to take in and what is outdated.
    """

    def __init__(
        self,
        teaches: Callable[[str], dict[str, Any]] | dict[str, Any] | None = None,
        writes: Callable[[str, str, Sequence[str], Sequence[str]], str] | None = None,
    ) -> None:
        self.teaches = teaches or {}
        self.writes = writes or carefully
        self.batches: list[str] = []
        self.files: list[str] = []
        self.asked = 0

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        text = request.messages[-1].text
        match request.forced:
            case "extract_facts":
                self.batches.append(text.partition("## New Since the Last Time\n")[2])
                taught = self.teaches if isinstance(self.teaches, dict) else self.teaches(self.batches[-1])
                nothing: dict[str, Any] = {"user_updates": [], "memory_updates": [], "soul_updates": [], "outdated": []}
                return Reply("", calls(("extract_facts", json.dumps(nothing | taught))).tool_calls, COST)
            case "update_file":
                [path] = request.tools[0].parameters["properties"]["path"]["enum"]
                self.files.append(path)
                current = text.partition("\n")[2].partition("\n\n## To Take In")[0]
                facts = section(text, "To Take In")
                content = self.writes(path, "" if current == "(empty)" else current, facts, section(text, "Outdated"))
                given = {"path": path, "content": content, "removed": []}
                return Reply("", calls(("update_file", json.dumps(given))).tool_calls, COST)
            case "save_memory":
                return saving(history_entry="They talked.", memory_update=memory_in(request))
        return Reply(f"answer {self.asked}")


def section(text: str, title: str) -> list[str]:
    lines = text.partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines()
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def carefully(path: str, text: str, facts: Sequence[str], outdated: Sequence[str]) -> str:
    """Every line that is not outdated, and each new fact."""
    gone = [fact.rpartition(" (")[0] for fact in outdated]
    lines = [line for line in text.splitlines() if line.removeprefix("- ") not in gone]
    return "\n".join([*lines, *(f"- {fact}" for fact in facts)]) + "\n"


def world(mind: Sleeper, **more: Any) -> World:
    made = awake(mind, 40_000, **more)  # type: ignore[arg-type]  # it answers requests as a Mind does
    return made


async def happened(world: World, *summaries: str, first: int = 1, **more: Any) -> None:
    """History entries of an hour ago, twenty messages each."""
    at = world.clock.now() - timedelta(hours=1)
    ranges = range(first, first + 20 * len(summaries), 20)
    entries = [
        Entry(timestamp=at, type="consolidation", session="fake:42", first=n, last=n + 19, summary=summary, **more)
        for n, summary in zip(ranges, summaries, strict=True)
    ]
    await world.history.append(SPACE, entries)


async def asks(chat: Chat, text: str) -> str:
    """The reply to a command."""
    done = len(chat.world.channel.finished)
    await chat.says(text)
    await chat.until_answered(done + 1)
    return chat.hears[-1]


async def files(world: World) -> MemoryFiles:
    return await world.memory.read(SPACE)


async def test_what_history_tells_is_learnt_as_one_version() -> None:
    """`/dream` reads the new entries, makes one version of them and says which files have changed."""
    mind = Sleeper({"user_updates": ["Ann binds books."], "memory_updates": ["The cat is called Marbles."]})
    agent = world(mind)
    await happened(agent, "Ann told of her work.", "She has a cat.", key_facts=("The cat is called Marbles.",))
    async with running(agent) as chat:
        assert await asks(chat, "/dream") == "Learned (version 2).\nUSER.md: 1 in\nMEMORY.md: 1 in"
        assert await asks(chat, "/dream") == "Nothing new to learn."
    assert await files(agent) == MemoryFiles(user="- Ann binds books.\n", memory="- The cat is called Marbles.\n")
    assert len(mind.batches) == 1 and "Ann told of her work." in mind.batches[0] and "- The cat" in mind.batches[0]
    assert mind.files == ["USER.md", "memory/MEMORY.md"]
    [_, version] = await agent.versions.all(SPACE)
    assert version.subject == "[Dream] Ann binds books.; 1 more new"
    assert version.trailers["History"] == "1-2"
    assert await agent.history.dreamt(SPACE) == 2
    [run] = await agent.diary.runs(SPACE.name)
    assert (run.entries, run.new, run.version, run.usage) == (2, 2, 2, COST + COST + COST)


async def test_nothing_new_costs_nothing() -> None:
    """No entry and nobody who has spoken: no call, no version, no receipt."""
    mind = Sleeper()
    agent = world(mind)
    async with running(agent) as chat:
        assert await asks(chat, "/dream") == "Nothing new to learn."
    assert (mind.asked, [*await agent.versions.all(SPACE)], await agent.diary.runs()) == (0, [], [])


async def test_short_chats_are_learnt_from_too() -> None:
    """What was said in a session that is quiet by now, and is in no entry yet, is read word by word, once."""
    mind = Sleeper({"memory_updates": ["Ann lives in Leipzig."]})
    agent = world(mind)
    async with running(agent) as chat:
        await chat.says("I live in Leipzig")
        await chat.until_answered()
        assert await asks(chat, "/dream") == "Nothing new to learn."
        agent.clock.pass_time(3600)
        assert await asks(chat, "/dream") == "Learned (version 2).\nMEMORY.md: 1 in"
        assert await asks(chat, "/dream") == "Nothing new to learn."
    assert len(mind.batches) == 1 and "USER (Ann): I live in Leipzig" in mind.batches[0]
    assert [record.through for record in agent.records() if isinstance(record, Learnt)] == [2]
    [_, version] = await agent.versions.all(SPACE)
    assert (version.trailers["Session"], version.trailers["Messages"]) == ("fake:42", "1-2")
