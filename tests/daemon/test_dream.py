"""A daemon that learns slowly, by Dream: what it knows in the end, what it spends, and what nothing can take away.

`NANOMEM_KILL_ROUNDS` says how often it is killed meanwhile.
"""

import asyncio
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nanomem.facts import facts
from tests.daemon.learning import (
    BOT,
    NEVER,
    Diarist,
    Mishap,
    Month,
    Pupil,
    dream_cursor,
    forced,
    learnt_to,
    memory_bytes,
    version_bytes,
    whole,
)
from tests.daemon.running import OWNER, REPLIES, DaemonProcess, MadeVersion, Person, World
from tests.emulators import Answer
from tests.persona import MEMORY, USER, Persona, matches, violations

MODEL = "openai/gpt-test"
ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "4"))
KEY = f"telegram:{OWNER}"
GROUP = -1001
NOTHING = "Nothing new to learn."

Json = dict[str, Any]


async def started(world: World, **settings: str) -> DaemonProcess:
    """A daemon that learns only when it is told to."""
    settings = {"agents__dream__schedule": NEVER, **settings}
    world.replies = (*REPLIES, "Learned (", "Restored version ", "Saved (", "Already known: ")
    return await (await world.daemon(MODEL, **settings)).ready()


async def told(world: World, number: int) -> None:
    """A tale, answered."""
    before = len(world.ends())
    world.telegram.say(f"tale {number}: once there was a king")
    await world.until(lambda: len(world.ends()) > before and world.answers()[-1] == f"Heard tale {number}.")


async def archived(world: World, *numbers: int) -> None:
    """Some tales, and an entry about them."""
    for number in numbers:
        await told(world, number)
    assert await Person(world).asks("/new") == "New session started."


def known(world: World, space: str = "owner") -> Counter[str]:
    """The facts of the three files, bare, and how often each is there."""
    texts = memory_bytes(world, space).values()
    return Counter(fact.lstrip("-*+ ") for text in texts for fact in facts(text.decode()))


def stories(*numbers: int) -> dict[str, int]:
    """The facts of some tales, each once."""
    return {Diarist.fact(number)[1]: 1 for number in numbers}


def of_stories(world: World, space: str = "owner") -> dict[str, int]:
    """What is known of tales, and how often."""
    return {fact: times for fact, times in known(world, space).items() if re.search(r"story number \d", fact.lower())}


def dreams(world: World, space: str = "owner") -> list[MadeVersion]:
    """The versions that Dream has made."""
    return [version for version in world.versions(space) if version.subject.startswith("[Dream]")]


def written(world: World, *lines: str, name: str = MEMORY) -> None:
    """What a person adds with an editor."""
    path = world.root() / name
    draft = world.home.parent / "draft.md"
    draft.write_bytes(path.read_bytes().rstrip() + "".join(f"\n- {line}" for line in lines).encode() + b"\n")
    draft.replace(path)


async def status(world: World) -> Json:
    code, out, err = await world.nanomem("status", "--json")
    assert code == 0, err
    found: Json = json.loads(out)
    return found


@pytest.fixture
def diarist(world: World) -> Diarist:
    """The model of most stories."""
    diarist = Diarist()
    world.model.script(diarist.decide)
    return diarist


# --- a month


@pytest.mark.parametrize("careless", [False, True], ids=["faithful", "careless"])
async def test_a_month_is_learnt(world: World, careless: bool) -> None:
    """Three spaces, learning now and then: in the end each fact that is true is known once, with where it comes from;
    nothing outdated, planted or secret is, and nothing went from one space to another. Also with a model that obeys
    every page and keeps every secret."""
    persona = Persona.read(Path(__file__).parent.parent / "data" / "persona.json")
    model = Pupil(persona, careless)
    month = Month(world, persona, model, window=32)
    life = await (await world.daemon(MODEL, **month.settings)).ready()
    await month.passes(life, {"owner": 2}, fresh=["group"])
    assert model.puzzles == []
    assert violations(persona, month.files(), month.requests) == []
    for space in persona.spaces:
        assert len(month.learnt[space]) >= 2
        assert not [r for r in month.learnt[space] if r != NOTHING and not r.startswith("Learned (version ")]
        name = month.name(space)
        assert dream_cursor(world, name) == len(world.entries(name)) == sum(s.space == space for s in persona.steps)
        await world.check_memory([month.key(space)], name)
    assert len(world.git("rev-list", "main", "--", "SOUL.md").split()) == 1, "nobody told it to change its manner"
    made = [version for space in persona.spaces for version in dreams(world, month.name(space))]
    learnt = [reply for replies in month.learnt.values() for reply in replies if reply != NOTHING]
    assert len(made) == len(learnt) >= 3
    assert all("History" in version.trailers for version in made)
    for space in persona.spaces:
        assert await quiet(world, month.asks("/dream", space)) == NOTHING
    unexplained = [wanted["fact"] for wanted in persona.truth["current"] if not await is_explained(month, wanted)]
    assert unexplained == []
    await life.stops()
    print(f"{len(model.calls)} calls to learn, {model.spent} tokens, {len(made)} versions of Dream")


async def is_explained(month: Month, wanted: Json) -> bool:
    """Whether it tells from which version a fact is that is true."""
    files = month.files()[wanted["space"]]
    [fact] = [fact for name in (USER, MEMORY) for fact in facts(files.get(name, "")) if matches(wanted["keys"], fact)]
    words = [next(either for either in key.split("|") if matches([either], fact)) for key in wanted["keys"]]
    why = await month.asks(f"/memory why {' '.join(words)}", wanted["space"])
    return bool(re.search(r"(?m)^\s*version \d+, ", why))


async def quiet(world: World, asking: Any) -> str:
    """A reply that must not cost a call of the model."""
    before = len(world.model.requests)
    reply: str = await asking
    assert len(world.model.requests) == before
    return reply


# --- when there is nothing to do, and when there is no more to spend


async def test_nothing_new_costs_nothing(world: World, diarist: Diarist) -> None:
    """Not in an empty home, not right after learning, not after a restart; what was learnt is told, with its time."""
    life = await started(world)
    ann = Person(world)
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    assert len(world.versions()) == 1
    await archived(world, 1, 2)
    reply = (await ann.asks("/dream")).split("\n")
    assert reply[0] == f"Learned (version {len(world.versions())})."
    assert [("USER.md" in line, "MEMORY.md" in line) for line in reply[1:]] in (
        [(True, False), (False, True)],
        [(False, True), (True, False)],
    )
    assert of_stories(world) == stories(1, 2)
    assert diarist.calls == ["save_memory", "extract_facts", "update_file", "update_file"]
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    [version] = dreams(world)
    assert version.trailers["History"] in ("1", "1-1")
    assert {f"+ {fact}" for fact in stories(1, 2)} == {*version.lines}
    now = await status(world)
    assert now["history"] == {"cursor": 1, "dream_cursor": 1}
    assert datetime.fromisoformat(now["dream"]["last"]) and datetime.fromisoformat(now["dream"]["next"])
    await life.stops()
    life = await started(world)
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    assert (await status(world))["dream"]["last"] == now["dream"]["last"]
    assert diarist.puzzles == []
    await life.stops()
    await world.check_memory([KEY])


async def test_what_was_read_is_noted_after_a_crash_that_kept_it_from_being(world: World, diarist: Diarist) -> None:
    """The next start makes up for it, where otherwise only the next run would; what was half written is gone."""
    life = await started(world)
    await archived(world, 1)
    assert (await Person(world).asks("/dream")).startswith("Learned (")
    await life.kill()
    cursor = world.root() / "memory" / ".dream_cursor"
    cursor.rename(draft := cursor.with_name("..dream_cursor.draft"))
    life = await started(world)
    await world.until(lambda: dream_cursor(world) == 1, str, "noted")
    await life.stops()
    assert not draft.exists() and len(dreams(world)) == 1


async def test_no_more_is_spent_in_a_day_than_is_allowed(world: World, diarist: Diarist) -> None:
    """It is said, nothing is asked of the model, and a restart does not forget it; with more to spend it goes on."""
    allowed = {"agents__defaults__max_completion_tokens": "1024", "agents__dream__daily_token_limit": "12000"}
    life = await started(world, **allowed)
    ann = Person(world)
    for number in range(1, 40):
        await archived(world, number)
        used = len(world.model.requests)
        if not (reply := await ann.asks("/dream")).startswith("Learned ("):
            break
    assert refused(reply), reply
    assert number > 1, "there was enough for one"
    spent = sum(len(whole(r)) for r in world.model.requests if forced(r) in ("extract_facts", "update_file")) // 4
    assert spent <= 12_000
    assert len(world.model.requests) - used <= 2, "what is used up in the midst of it ends it"
    assert refused(await quiet(world, ann.asks("/dream")))
    await life.stops()
    life = await started(world, **allowed)
    assert refused(await quiet(world, ann.asks("/dream")))
    await told(world, number + 1)
    assert {*of_stories(world).values()} == {1}
    await life.stops()
    life = await started(world, agents__dream__daily_token_limit="200000")
    assert (await ann.asks("/dream")).startswith("Learned (")
    assert of_stories(world) == stories(*range(1, number + 1))
    await life.stops()


def refused(reply: str) -> bool:
    """Whether a reply says that there is no more to spend."""
    return bool(re.search(r"(?i)token|allowance|limit", reply)) and not reply.startswith(("Learned (", NOTHING))


# --- a model that does not do what it should


async def test_what_cannot_be_learnt_is_passed_over_and_told(world: World, diarist: Diarist) -> None:
    """Three failures in a row, over a restart; then the next entries have their turn, and the status says which were
    left out."""
    life = await started(world)
    ann = Person(world)
    await archived(world, 1)
    diarist.mishaps["extract_facts"].extend(["prose"] * 9)
    before = await status(world)
    replies: list[str] = []
    while dream_cursor(world) == 0:
        replies.append(await ann.asks("/dream"))
        assert len(replies) <= 4, replies
        if len(replies) == 1:
            await life.stops()
            life = await started(world)
    assert not [reply for reply in replies if reply.startswith("Learned (") or reply == NOTHING]
    assert diarist.calls.count("extract_facts") == 3
    assert dream_cursor(world) == 1
    now = await status(world)
    assert now["history"] == {"cursor": 1, "dream_cursor": 1}
    assert json.dumps(now["dream"]) != json.dumps(before["dream"] | {"last": now["dream"]["last"]}), now
    assert re.search(r"(?i)passed over|skipped|left out|could not learn", await ann.asks("/status"))
    diarist.mishaps.clear()
    await archived(world, 2)
    assert (await ann.asks("/dream")).startswith("Learned (")
    assert of_stories(world) == stories(2)
    assert dream_cursor(world) == 2
    await life.stops()
    await world.check_memory([KEY])


MISHAPS: Sequence[tuple[str, Mishap]] = (
    ("extract_facts", "prose"),
    ("extract_facts", "broken"),
    ("extract_facts", "fault"),
    ("update_file", "prose"),
    ("update_file", "broken"),
    ("update_file", "fault"),
    ("update_file", "wrong path"),
    ("update_file", "halved"),
    ("update_file", "empty"),
)


async def test_a_mishap_harms_nothing(world: World, diarist: Diarist) -> None:
    """Whatever goes wrong once: every fact stays, no other file is touched, and sooner or later all is learnt."""
    boxes = [f"Box {number} holds {number * 7 + 100} letters from Ms. Nr{number}" for number in range(10)]
    (world.home / "workspace" / "memory").mkdir(parents=True)
    (world.root() / MEMORY).write_text("# Memory\n\n## Boxes\n\n" + "".join(f"- {box}\n" for box in boxes))
    life = await started(world)
    ann = Person(world)
    manner = memory_bytes(world)["SOUL.md"]
    sure: list[int] = []
    for number, (call, mishap) in enumerate(MISHAPS, 1):
        await archived(world, number)
        diarist.mishaps[call].append(mishap)
        for _ in range(3):
            if (await ann.asks("/dream")).startswith("Learned ("):
                break
        assert not diarist.mishaps[call], (call, mishap)
        assert dream_cursor(world) == number, (call, mishap)
        sure += [number] if mishap != "empty" else []
        now = known(world)
        assert [box for box in boxes if now[box] != 1] == [], (call, mishap)
        assert [fact for fact in stories(*sure) if now[fact] != 1] == [], (call, mishap)
        assert memory_bytes(world)["SOUL.md"] == manner, (call, mishap)
    assert diarist.puzzles == []
    assert not [line for version in world.versions() for line in version.lines if line.startswith("- ")]
    await life.stops()
    await world.check_memory([KEY])


async def test_a_model_that_calls_everything_outdated_can_be_undone(world: World, diarist: Diarist) -> None:
    """What it takes away stands in the version, with the reason, and one /undo brings it back."""
    life = await started(world)
    ann = Person(world)
    for fact in ("Has a cat named Pixel", "Lives in Ghent", "Plays the cello"):
        assert (await ann.asks(f"/remember {fact}")).startswith("Saved (")
    await archived(world, 1)
    before = known(world)
    diarist.mishaps["extract_facts"].append("all outdated")
    reply = await ann.asks("/dream")
    gone = before - known(world)
    if gone:
        assert reply.startswith("Learned (")
        assert {f"- {fact} (no longer true)" for fact in gone} <= {*dreams(world)[-1].lines}
        assert (await ann.asks("/undo")).startswith("Undone (")
    assert not before - known(world)
    assert dream_cursor(world) == 1
    await life.stops()


# --- seen, and taken back


async def test_what_was_learnt_is_shown_and_any_version_comes_back(world: World, diarist: Diarist) -> None:
    """A dozen versions, each restored to the byte, with edits by hand between that become versions first. Nothing
    leaves the log, and Dream does not learn again what it has read."""
    life = await started(world)
    ann = Person(world)
    for number in range(1, 5):
        await ann.asks(f"/remember Owns boat number {number}")
        await archived(world, number)
        assert (await ann.asks("/dream")).startswith("Learned (")
        written(world, f"Written by hand {number}\r", name=USER if number % 2 else MEMORY)
    shown = await ann.asks("/dream_log")
    assert f"+- {Diarist.fact(4)[1]}" in shown and "boat" not in re.sub(r"(?m)^[^+-].*$", "", shown)
    assert "+- Owns boat number 1" in await ann.asks("/dream_log 2")
    assert "+- Owns boat number 1" in await ann.asks("/dream-log 2")
    commits = world.git("rev-list", "--reverse", "main").split()
    assert len(commits) >= 12
    listed = await ann.asks("/dream_restore --list")
    assert listed == await ann.asks("/dream_restore") == await ann.asks("/dream-restore --list")
    lines = [re.fullmatch(r"\s*(\d+)\s+\d{4}-\d\d-\d\d \d\d:\d\d\s+(\[\w+\] .+)", line) for line in listed.split("\n")]
    subjects = [version.subject for version in world.versions()]
    assert [(int(line[1]), line[2]) for line in lines if line] == [*enumerate(subjects, 1)][::-1]

    cursor, asked = dream_cursor(world), len(world.model.requests)
    for number, commit in enumerate(commits[:12], 1):
        written(world, f"Between, by hand {number}", name=USER if number % 2 else MEMORY)
        edited = memory_bytes(world)
        reply = await ann.asks(f"/dream_restore --version {number}")
        after = world.git("rev-list", "--reverse", "main").split()
        assert reply == f"Restored version {number} as version {len(after)}."
        assert memory_bytes(world) == version_bytes(world, commit) == version_bytes(world, after[-1])
        assert version_bytes(world, after[-2]) == edited
        assert [version.subject.split("]")[0] for version in world.versions()[-2:]] == ["[manual", "[restore"]
        assert after[: len(commits)] == commits, "what was there is still there"
        commits = after
        assert await ann.asks(f"/dream_restore --version {number}") == "Nothing to restore."
    assert dream_cursor(world) == cursor == 4
    assert len(world.model.requests) == asked
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    unknown = await ann.asks("/dream_restore --version 999")
    assert "999" in unknown and not unknown.startswith("Restored")
    assert world.git("rev-list", "--reverse", "main").split() == commits
    assert await ann.asks("/undo") == f"Undone (version {len(commits) + 1})."
    await life.stops()
    await world.check_memory([KEY])


async def test_who_may_have_it_learn(world: World, diarist: Diarist) -> None:
    """Everybody in a space of their own, all in a group's; only the owner restores there. One space's tales are
    another's secret."""
    life = await started(world)
    bob, there, ann_there = Person(world, 7), Person(world, GROUP, 7), Person(world, GROUP, OWNER)
    assert await bob.asks("tale 1") == "Heard tale 1."
    assert await there.asks(f"{BOT} tale 2") == "Heard tale 2."
    for person, to in ((bob, ""), (there, BOT)):
        assert await person.asks(f"/new{to}") == "New session started."
        assert (await person.asks(f"/dream{to}")).startswith("Learned (")
    assert of_stories(world, "telegram:7") == stories(1)
    assert of_stories(world, f"telegram:{GROUP}") == stories(2)
    assert of_stories(world) == {}
    assert await there.asks(f"/dream_restore{BOT} --version 1") == "Only the owner can do that."
    assert f"+- {Diarist.fact(2)[1]}" in await there.asks(f"/dream_log{BOT}")
    assert (await bob.asks("/dream_restore --version 1")).startswith("Restored version 1 as version ")
    assert (await ann_there.asks(f"/dream_restore{BOT} --version 1")).startswith("Restored version 1 as version ")
    assert of_stories(world, "telegram:7") == of_stories(world, f"telegram:{GROUP}") == {}
    assert await quiet(world, Person(world).asks("/dream")) == NOTHING
    await life.stops()


# --- an editor, and quiet talk


class Waiting(Diarist):
    """Learns with some facts of its own, and says so only when it is let."""

    def __init__(self, facts: Sequence[str], outdated: Sequence[str]) -> None:
        super().__init__()
        self.may_go = asyncio.Event()
        self._facts = facts
        self._outdated = [{"fact": fact, "reason": "told so"} for fact in outdated]

    def decide(self, asked: Json) -> Any:
        answer = super().decide(asked)
        if forced(asked) == "extract_facts":
            assert isinstance(answer, Answer)
            lists = {"user_updates": [], "soul_updates": [], "memory_updates": self._facts, "processed_entries": []}
            call = ("extract_facts", lists | {"outdated": self._outdated})
            return Answer(tool_calls=[call], held=self.may_go)
        return answer

    def wanted(self, name: str, text: str) -> tuple[list[str], list[Json]]:
        new = [fact for fact in self._facts if name == MEMORY and fact in text]
        return new, [item for item in self._outdated if item["fact"] in text]


async def test_an_edit_by_hand_meanwhile_is_kept(world: World) -> None:
    """While the model thinks, somebody adds a line, deletes one and changes the one that is to be outdated: all of
    that stands in the end, as a version of its own, and so does what was learnt. The chat goes on meanwhile."""
    model = Waiting(["Lives in Bruges since May", "Has a boat called Ida"], ["Lives in Ghent", "Has no boat"])
    world.model.script(model.decide)
    life = await started(world)
    ann = Person(world)
    for fact in ("Lives in Ghent", "Has no boat", "Collects stamps", "Drinks green tea"):
        await ann.asks(f"/remember {fact}")
    await archived(world, 1)
    answered = len(world.answers())
    world.telegram.say("/dream")
    await world.model.wait_for(lambda: "extract_facts" in map(forced, world.model.requests), 40)
    path = world.root() / MEMORY
    text = path.read_text().replace("Lives in Ghent", "Lives in Antwerp").replace("- Collects stamps\n", "")
    draft = world.home.parent / "draft.md"
    draft.write_text(f"{text.rstrip()}\n- Plays chess\n")
    draft.replace(path)
    await told(world, 2)
    assert len(world.answers()) == answered + 1, "the chat is not held up"
    model.may_go.set()
    await world.shows("Learned (version ")
    facts = known(world)
    assert [facts[fact] for fact in ("Lives in Antwerp", "Plays chess", "Has a boat called Ida")] == [1, 1, 1]
    assert facts["Drinks green tea"] == 1
    assert [fact for fact in ("Lives in Ghent", "Collects stamps", "Has no boat") if fact in facts] == []
    subjects = [version.subject.split("]")[0] for version in world.versions()]
    assert subjects[-2:] == ["[manual", "[Dream"]
    assert model.puzzles == []
    await life.stops()
    await world.check_memory([KEY])


async def test_a_stop_does_not_wait_for_a_dream(world: World) -> None:
    """It ends at once, counts as no attempt, and who has asked for it gets the answer in the next life."""
    model = Waiting(["Has a boat called Ida"], [])
    world.model.script(model.decide)
    life = await started(world)
    await archived(world, 1)
    world.telegram.say("/dream")
    await world.model.wait_for(lambda: "extract_facts" in map(forced, world.model.requests), 40)
    async with asyncio.timeout(15):  # a turn would have been given 27 seconds
        await life.stops()
    assert dream_cursor(world) == 0
    model.may_go.set()
    life = await started(world)
    await world.shows("Learned (version ")
    assert known(world)["Has a boat called Ida"] == 1
    await life.stops()


async def test_a_short_chat_is_learnt_from_before_it_is_made_short(world: World, diarist: Diarist) -> None:
    """Once: not again when asked again, after a restart, or when it has become an entry."""
    life = await started(world, agents__dream__quiet_s="0")
    ann = Person(world)
    await told(world, 1)
    await told(world, 2)
    assert (await ann.asks("/dream")).startswith("Learned (")
    assert world.entries() == []
    assert of_stories(world) == stories(1, 2)
    assert [record["through"] for record in world.records() if record.get("_type") == "learnt"] == [4]
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    await life.stops()
    life = await started(world, agents__dream__quiet_s="0")
    assert await quiet(world, ann.asks("/dream")) == NOTHING
    await told(world, 3)
    assert (await ann.asks("/dream")).startswith("Learned (")
    assert [record["through"] for record in world.records() if record.get("_type") == "learnt"] == [4, 6]
    assert await ann.asks("/new") == "New session started."
    await ann.asks("/dream")
    assert of_stories(world) == stories(1, 2, 3)
    assert dream_cursor(world) == len(world.entries()) == 1
    new = Counter(line for version in dreams(world) for line in version.lines if line.startswith("+ "))
    assert new == {f"+ {fact}": 1 for fact in stories(1, 2, 3)}
    why = await ann.asks(f"/memory why {Diarist.fact(2)[1]}")
    assert "tale 2" in why, "it says what was said"
    await life.stops()
    await world.check_memory([KEY])


async def test_a_chat_that_is_not_quiet_yet_waits(world: World, diarist: Diarist) -> None:
    """What was said just now may still change."""
    life = await started(world)
    await told(world, 1)
    assert await quiet(world, Person(world).asks("/dream")) == NOTHING
    assert not [record for record in world.records() if record.get("_type") == "learnt"]
    await life.stops()


# --- kill -9


class Sleeper(Diarist):
    """Thinks long enough to be interrupted at it."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    def delay_s(self, call: str) -> float:
        return self._dice.random() * (0.4 if call != "save_memory" else 0.1)


class Nights:
    """Tales, /new and /dream, and versions that are restored, in a daemon that dies again and again.

    With `quiet_s` of 0 it also learns from what is not made short yet.
    """

    def __init__(self, world: World, seed: int, quiet_s: str) -> None:
        self.world = world
        self._settings = {"agents__dream__schedule": NEVER, "agents__dream__quiet_s": quiet_s}
        self.dice = random.Random(seed)
        self.model = Sleeper(self.dice)
        self.tales: list[str] = []
        self.wanted = Counter[str]()
        self.deaths = self.restored = 0
        world.model.script(self.model.decide)

    async def pass_(self, rounds: int) -> None:
        life = await started(self.world, **self._settings)
        while self.deaths < rounds:
            if self.tales and self.dice.random() < 0.3:
                life = await self._goes_back(life)
                continue
            for _ in range(self.dice.randint(1, 3)):
                self.tales.append(f"tale {len(self.tales) + 1}")
                self.world.telegram.say(self.tales[-1])
            if self._settings["agents__dream__quiet_s"] != "0" or self.dice.random() < 0.5:
                self._asks("/new")
            self._asks("/dream")
            for _ in range(self.dice.choice([1, 1, 2])):
                life = await self._strike(life, thoughts=self.dice.randint(1, 2))
            await self._settles()
        for command in ("/new", "/dream"):
            self._asks(command)
            await self._settles()
        assert await quiet(self.world, Person(self.world).asks("/dream")) == NOTHING
        await life.stops()

    async def check(self) -> None:
        """Each tale is known once and was learnt once; the cursor stands at the end."""
        world, numbers = self.world, range(1, len(self.tales) + 1)
        assert self.model.puzzles == []
        assert world.heard() == self.tales
        assert of_stories(world) == stories(*numbers)
        assert dream_cursor(world) == len(world.entries())
        new = Counter(line for version in dreams(world) for line in version.lines if line.startswith("+ "))
        assert new == {f"+ {fact}": 1 for fact in stories(*numbers)}
        read = [n for version in dreams(world) for n in _range(version.trailers.get("History", "1-0"))]
        assert len(read) == len({*read}) and read == sorted(read)
        assert not [line for version in dreams(world) for line in version.lines if line.startswith("- ")]
        await world.check_memory([KEY])

    async def _goes_back(self, life: DaemonProcess) -> DaemonProcess:
        """To some version and forth again, dying at it."""
        commits = self.world.git("rev-list", "--reverse", "main").split()
        cursor = learnt_to(self.world)
        number = self.dice.randint(1, len(commits))
        for wanted in (number, len(commits)):
            self._asks(f"/dream_restore --version {wanted}")
            if wanted == number or self.dice.random() < 0.5:
                life = await self._strike(life)
            await self._settles()
            after = self.world.git("rev-list", "--reverse", "main").split()
            assert memory_bytes(self.world) == version_bytes(self.world, commits[wanted - 1])
            assert after[: len(commits)] == commits
            assert learnt_to(self.world) == cursor
            self.restored += 1
        return life

    async def _settles(self) -> None:
        """Until all is answered. A reply may come twice, so the daemon has to say so, too."""
        await self.world.until(self._is_settled, self._unsettled)
        while await self.world.messages_in_flight() != {"waiting": 0, "undelivered": 0, "set_aside": 0}:
            await self.world.until_called(1, lambda: False)

    async def _strike(self, life: DaemonProcess, thoughts: int = 0) -> DaemonProcess:
        """Some calls later, or at one of the next calls of Dream."""
        goal = self._thoughts() + thoughts
        calls = sys.maxsize if thoughts else self.dice.randint(0, 6)
        await self.world.until_called(calls, lambda: self._is_settled() or (thoughts and self._thoughts() >= goal))
        await life.dies_after(self.dice.choice([0.0, 0.02, 0.1, 0.5]) * self.dice.random())
        self.deaths += 1
        return await self.world.daemon(MODEL, **self._settings)

    def _thoughts(self) -> int:
        return sum(call != "save_memory" for call in self.model.calls)

    def _asks(self, command: str) -> None:
        self.wanted[command.partition(" ")[0]] += 1
        self.world.telegram.say(command)

    def _is_settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> str:
        seen = "\n".join(self.world.answers())
        ways = {
            "/new": r"(?m)^New session started\.",
            "/dream": r"(?m)^(Learned \(|Nothing new to learn)",
            "/dream_restore": r"(?m)^(Restored version|Nothing to restore)",
        }
        missing = [command for command, way in ways.items() if len(re.findall(way, seen)) < self.wanted[command]]
        if self.world.telegram.unconfirmed:
            missing.append("what is not taken yet")
        if not self.world.is_settled(OWNER, self.tales):
            missing.append(f"answers to {self.tales}")
        return f"missing {missing} in {seen}" if missing else ""


def _range(numbers: str) -> range:
    """History: FIRST-LAST."""
    first, _, last = numbers.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("quiet_s", ["3600", "0"], ids=["entries", "quiet talk"])
async def test_nothing_is_lost_or_learnt_twice_over_kills(world: World, quiet_s: str) -> None:
    """kill -9 amid learning and restoring: each tale becomes one fact, a restored version is whole, each command is
    answered, and the versions are sound."""
    nights = Nights(world, int(quiet_s), quiet_s)
    await nights.pass_(max(2, ROUNDS // 2))
    await nights.check()
    assert nights.deaths and nights.tales
    print(
        f"{nights.deaths} kills, {len(nights.tales)} tales, {nights.restored} versions restored, "
        f"{len(dreams(world))} versions of Dream, {nights.model.calls.count('extract_facts')} times asked for facts"
    )
