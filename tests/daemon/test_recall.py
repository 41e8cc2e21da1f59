"""What was said long ago is found again: by models and people, in their own space only, whatever befalls the index."""

import asyncio
import json
import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from nanomem.messages import Sender
from nanomem.records import AssistantMessage, Metadata, Record, Reset, UserMessage, to_json
from tests.daemon.learning import forced
from tests.daemon.running import OWNER, PLACEHOLDER, Person, World
from tests.emulators import Answer
from tests.emulators.openai import Scripted

MODEL = "openai/gpt-test"
BOT = "@nanomem_bot"
GROUP = -1001
BOB = 7
ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "4"))

Json = dict[str, Any]


def said_before(world: World, key: str, said: Sequence[tuple[datetime, str]], space: str = "owner") -> None:
    """A session of a while ago that `/new` has ended: what a person said, each time answered with a word."""
    records: list[Record] = [Metadata(key=key, created_at=said[0][0])]
    for i, (at, text) in enumerate(said):
        turn, sender = f"{key}#{i}", Sender(str(OWNER), "Ann")
        records.append(UserMessage(n=2 * i + 1, turn=turn, timestamp=at, content=text, tokens=9, sender=sender))
        answer = AssistantMessage(n=2 * i + 2, turn=turn, timestamp=at, content="I see.", tokens=2, end="answer")
        records.append(answer)
    records.append(Reset(through=2 * len(said), timestamp=said[-1][0]))
    path = world.root(space) / "sessions" / f"{quote(key, safe='')}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(to_json(record), ensure_ascii=False) + "\n" for record in records))


def last(month: int, day: int) -> datetime:
    """The last time it was that day, a month ago at least."""
    now = datetime.now(UTC)
    found = datetime(now.year, month, day, 9, 15, tzinfo=UTC)
    return found if found < now - timedelta(days=30) else found.replace(year=now.year - 1)


def years_of_talk(count: int) -> list[tuple[datetime, str]]:
    """So many things said, each with a word of its own."""
    now = datetime.now(UTC)
    return [
        (now - timedelta(minutes=10 * (count - i)), f"The train to Hamburg is late again, and so is wagon{i}.")
        for i in range(count)
    ]


def newest(asked: Json) -> str:
    """The last thing a person said, with what stands around it."""
    content = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    assert isinstance(content, str)
    return content


def result(asked: Json) -> str:
    """What the tool that was just called has said; nothing if none was."""
    message = asked["messages"][-1]
    return str(message["content"]) if message["role"] == "tool" else ""


def lines_with(text: str, words: str) -> list[str]:
    return [line for line in text.splitlines() if words in line]


def talking(answer: Callable[[Json], Scripted]) -> Callable[[Json], Scripted]:
    """A model that answers so, and keeps nothing but the bare fact of a conversation when `/new` ends it."""
    saved = {"history_entry": "They talked.", "key_facts": [], "changes": []}
    return lambda asked: [("save_memory", saved)] if forced(asked) else answer(asked)


async def begins_anew(person: Person, command: str = "/new") -> None:
    assert "New session started." in await person.asks(command)


def asking(query: str, answer: Callable[[str], str]) -> Callable[[Json], Scripted]:
    """A model that looks for that, and answers from what was found."""

    def decide(asked: Json) -> Scripted:
        return answer(result(asked)) if result(asked) else Answer(tool_calls=[("recall", {"query": query})])

    return decide


async def finds(ann: Person, words: str) -> str:
    """What `/recall` says once all was looked through."""
    for _ in range(100):
        if "[not everything was searched" not in (found := await ann.asks(f"/recall {words}")):
            return found
    raise AssertionError(f"not all is read in, and nobody knows why: {found}")


def indexed(world: World, space: str = "owner") -> Counter[int]:
    """How often each message of the talk is in the index, by its number."""
    path = world.home / "state" / "recall" / f"{quote(space, safe='')}.db"
    if not path.exists():
        return Counter()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        query = "SELECT n FROM said JOIN sources ON said.id >> 25 = sources.id WHERE kind = 'talk'"
        return Counter(n for (n,) in database.execute(query))


# --- asked about last spring

SPRING = (last(4, 12), "I dug over the garden today and sowed carrots and sweet peas along the fence.")
AUTUMN = (last(10, 9), "The garden is done for this year: I covered the beds with leaves.")
ASKED = "What did I say about the garden in spring?"


@pytest.mark.parametrize("model", [MODEL, "offline"])
async def test_what_was_said_in_spring_is_quoted_with_its_date(world: World, model: str) -> None:
    """By a model that asks for it, and by the one that knows only a few rules."""
    said_before(world, f"telegram:{OWNER}", sorted([SPRING, AUTUMN, (last(6, 1), "My sister has a new job.")]))
    world.model.script(asking(ASKED, lambda found: "You said: " + found.splitlines()[1]))
    await (await world.daemon(model)).ready()
    answer = await Person(world).asks(ASKED)
    assert "sowed carrots and sweet peas" in answer and f"{SPRING[0].day} {SPRING[0]:%B}" in answer
    if model == MODEL:
        [found] = [record["content"] for record in world.said() if record["role"] == "tool"]
        assert f"[{SPRING[0].day} {SPRING[0]:%B %Y}, 09:15] Ann: I dug over" in found
        assert not lines_with(found, ASKED), "the question itself is no answer"


async def test_a_person_finds_it_while_a_turn_runs(world: World) -> None:
    """`/recall` waits for nobody."""
    said_before(world, f"telegram:{OWNER}", [SPRING])
    held = asyncio.Event()
    world.model.script(lambda asked: Answer("At last.", held=held))
    await (await world.daemon(MODEL)).ready()
    world.telegram.say("Think hard.")
    await world.model.wait_for(lambda: world.model.requests, 30)
    found = await finds(Person(world), "carrots")
    assert len(lines_with(found, "sowed carrots")) == 1 and f"telegram:{OWNER}, message 1" in found
    assert PLACEHOLDER in world.telegram.visible()
    held.set()
    await world.shows("At last.")


# --- each space for itself

NUMBERS = {OWNER: "58213", BOB: "77341", GROUP: "90127"}
SPACES = {OWNER: "owner", BOB: f"telegram:{BOB}", GROUP: f"telegram:{GROUP}"}
QUESTION = "What is the number of the boat house lock?"


async def test_nothing_comes_back_in_another_space(world: World) -> None:
    """What the owner, somebody else and a group said: not by the tool, by /recall, at the shell, or unasked."""
    query = {"query": "number of the boat house lock", "near": 4}

    def decide(asked: Json) -> Scripted:
        if QUESTION not in newest(asked):
            return "I see."
        return "That is what I know." if result(asked) else Answer(tool_calls=[("recall", query)])

    world.model.script(talking(decide))
    await (await world.daemon(MODEL)).ready()
    people = {chat: Person(world, chat, OWNER if chat == GROUP else chat) for chat in NUMBERS}
    to = {chat: f"{BOT} " if chat == GROUP else "" for chat in NUMBERS}
    for chat, person in people.items():
        assert await person.asks(f"{to[chat]}The number of the boat house lock is {NUMBERS[chat]}.") == "I see."
        await begins_anew(person, f"/new{BOT if chat == GROUP else ''}")
    for chat, person in people.items():
        before, own = len(world.model.requests), NUMBERS[chat]
        assert await person.asks(f"{to[chat]}{QUESTION}") == "That is what I know."
        first, second = world.model.requests[before:]
        assert own in newest(first), "unasked"
        assert own in result(second), "by the tool"
        by_hand = await person.asks(f"/recall{BOT if chat == GROUP else ''} boat house lock --near 4")
        code, shell, err = await world.nanomem("memory", "search", "boat house lock", "--space", SPACES[chat])
        assert own in by_hand and own in shell and not code, (by_hand, err)
        for text in (str(world.model.requests[before:]), by_hand, shell):
            assert not [number for number in NUMBERS.values() if number != own and number in text]


# --- whatever befalls the index


async def until_there_are(world: World, messages: int) -> None:
    """In the index, seen from outside while it is written to."""
    for _ in range(2_000):
        with suppress(sqlite3.OperationalError):  # it is only just being made
            if len(indexed(world)) >= messages:
                return
        await asyncio.sleep(0.005)
    raise AssertionError(f"not {messages} messages are read in, and nobody knows why")


async def test_a_kill_while_it_is_made_loses_nothing(world: World) -> None:
    """At any moment: the next start goes on, and in the end all is there, once."""
    talk, dice = years_of_talk(2_500), random.Random(3)
    said_before(world, f"telegram:{OWNER}", talk)
    for number in range(ROUNDS):
        life = await (await world.daemon()).ready()
        await until_there_are(world, number * 2 * len(talk) // ROUNDS + 1)
        await life.dies_after(0.05 * dice.random())
        assert max(indexed(world).values()) == 1
    await (await world.daemon()).ready()
    ann = Person(world)
    for i in (0, 1_249, 2_499):
        assert len(lines_with(await finds(ann, f"wagon{i}"), f"wagon{i}.")) == 1
    assert indexed(world) == Counter(range(1, 2 * len(talk) + 1))


def spoilt(path: Path) -> None:
    """Random bytes where there were others."""
    dice = random.Random(5)
    with path.open("r+b") as file:
        for at in range(0, path.stat().st_size - 600, 3_000):
            file.seek(at + dice.randrange(500))
            file.write(dice.randbytes(90))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "overwritten": spoilt,
    "deleted": Path.unlink,
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "no database": lambda path: path.write_bytes(b"Not a database, but a letter to nobody.\n" * 200),
}
SEEN_AT_THE_START = ("overwritten", "truncated", "no database")


@pytest.mark.parametrize("while_running", [False, True], ids=["stopped", "running"])
async def test_a_damaged_index_is_made_anew(world: World, while_running: bool) -> None:
    """Nobody has to do anything: all is found again, nothing twice."""
    talk = years_of_talk(400)
    said_before(world, f"telegram:{OWNER}", talk)
    path = world.home / "state" / "recall" / "owner.db"
    ann = Person(world)
    life = await (await world.daemon()).ready()
    for name, damage in DAMAGES.items():
        assert len(lines_with(await finds(ann, "wagon399"), "wagon399.")) == 1, name
        if not while_running:
            await life.stops()
        damage(path)
        if not while_running:
            life = await (await world.daemon()).ready()
        for i in (3, 200, 399):
            assert len(lines_with(await finds(ann, f"wagon{i}"), f"wagon{i}.")) == 1, (name, i)
        if name in SEEN_AT_THE_START and not while_running:
            assert len(life.events("recall.damaged")) == 1, name
        if while_running:  # what was damaged and never looked at is seen by the next start
            await life.stops()
            life = await (await world.daemon()).ready()
            assert len(lines_with(await finds(ann, "wagon7"), "wagon7.")) == 1, name
        assert indexed(world) == Counter(range(1, 2 * len(talk) + 1)), name


async def test_a_home_without_an_index(world: World) -> None:
    """As an older version leaves it: the first message is answered at once, and what was said is found soon."""
    await (await (await world.daemon()).ready()).stops()
    talk = years_of_talk(5_000)
    said_before(world, f"telegram:{OWNER}", talk)
    shutil.rmtree(world.home / "state" / "recall", ignore_errors=True)
    await (await world.daemon()).ready()
    ann = Person(world)
    async with asyncio.timeout(3):
        assert "offline model" in await ann.asks("hello")
    assert len(lines_with(await finds(ann, "wagon4999"), "wagon4999.")) == 1
    assert set(indexed(world).values()) == {1} and len(indexed(world)) >= 2 * len(talk) + 2


# --- what is said again

CAKE = (last(5, 3), "Rosa had a lemon tart with raspberries for her birthday, baked by her uncle Miro.")


async def test_an_answer_that_repeats_it_is_not_found_beside_it(world: World) -> None:
    """Neither what the model quotes of what it found, nor of what it was reminded of."""
    said_before(world, f"telegram:{OWNER}", [CAKE])
    world.model.script(
        asking("Rosa birthday tart", lambda found: f'You told me: "{CAKE[1]}"' if CAKE[1] in found else "")
    )
    await (await world.daemon(MODEL)).ready()
    ann = Person(world)
    assert CAKE[1] in await ann.asks("What did Rosa have for her birthday?")
    world.model.script(talking(lambda asked: f"Yes: {CAKE[1]}"))
    assert CAKE[1] in await ann.asks("Remind me what the tart for Rosa was like?")
    await begins_anew(ann)
    for words in ("lemon tart raspberries", "What did Rosa have for her birthday?", "uncle Miro"):
        found = lines_with(await finds(ann, words), "lemon tart")
        assert len(found) == 1 and "Ann: Rosa had a lemon tart" in found[0], words


async def test_a_conversation_is_reminded_once(world: World) -> None:
    """Asked the same again, the line does not come twice; in the next conversation it comes again."""
    said_before(world, f"telegram:{OWNER}", [CAKE])
    world.model.script(talking(lambda asked: "I see."))
    await (await world.daemon(MODEL)).ready()
    ann = Person(world)
    await finds(ann, "tart")
    for text in ("lemon tart for the birthday?", "Miro, lemon tart with raspberries?"):
        before = len(world.model.requests)
        await ann.asks(text)
        await ann.asks(text)
        first, second = world.model.requests[before:]
        assert len(re.findall(r"(?m)^\W*said on .* by Ann: Rosa had a lemon tart", newest(first))) == 1
        assert "Rosa had" not in newest(second)
        assert str(second["messages"]).count("Rosa had") <= 1
        await begins_anew(ann)
