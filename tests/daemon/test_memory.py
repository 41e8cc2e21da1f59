"""A daemon that talks for a long time: what is said is made short, and what is known stays known.

`NANOMEM_MEMORY_TURNS` says how long the long conversation is, `NANOMEM_KILL_ROUNDS` how many kills there are in all.
"""

import asyncio
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nanomem.models.tokens import O200kTokenizer
from tests.daemon.running import OWNER, REPLIES, DaemonProcess, Person, World, a_world
from tests.emulators import Answer
from tests.emulators.openai import as_counted

MODEL = "openai/gpt-test"
TURNS = int(os.environ.get("NANOMEM_MEMORY_TURNS", "175"))
ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "8"))
BOT = "@nanomem_bot"
GROUP = -1001

Json = dict[str, Any]


def is_save(asked: Json) -> bool:
    """Whether a request is the forced call that makes a conversation short."""
    choice = asked.get("tool_choice")
    return isinstance(choice, dict) and choice["function"]["name"] == "save_memory"


def memory_in(asked: Json) -> str:
    """The memory that such a request shows."""
    shown = asked["messages"][-1]["content"].partition("## Current Long-term Memory\n")[2]
    memory: str = shown.partition("\n\n## Conversation to Process")[0]
    return "" if memory == "(empty)" else memory


def stretch_in(asked: Json) -> str:
    text: str = asked["messages"][-1]["content"]
    return text.partition("## Conversation to Process\n")[2]


def saving(asked: Json, fact: str, entry: str = "They talked.", **how: Any) -> Answer:
    """A careful model's save: all that is there, and one fact more, in the form that is asked for."""
    wanted = asked["tools"][0]["function"]["parameters"]["properties"]
    memory: Json = {"changes": [{"add": fact}]} if "changes" in wanted else {"memory_update": with_fact(asked, fact)}
    return Answer(tool_calls=[("save_memory", {"history_entry": entry, "key_facts": [fact], **memory})], **how)


def with_fact(asked: Json, fact: str) -> str:
    return f"{memory_in(asked)}\n- {fact}".strip()


def newest(asked: Json) -> str:
    """The last thing a person said, with what stands around it."""
    content = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    assert isinstance(content, str)
    return content


# --- a long conversation


class Scales:
    """Counts as nanomem does, for who cannot wait for it."""

    def __init__(self) -> None:
        self._tokenizer = O200kTokenizer()
        self._thread = ThreadPoolExecutor(1)
        self._last = ("", 0)

    def __call__(self, text: str) -> int:
        if text != self._last[0]:
            self._last = text, self._thread.submit(asyncio.run, self._tokenizer.count(text)).result()
        return self._last[1]


SENTENCES = (
    "Yesterday I walked along the river for an hour and met Dr. Osei, who asked about the choir.",
    "Kannst du mir bis Freitag eine Liste machen, was wir für den Umzug nach Lübeck noch brauchen?",
    "The train at 07:42 was late again, so I read forty pages of the book about lighthouses.",
    "我妹妹下个月要来看我,我想带她去博物馆和那家面馆。",
    "Wow! Really?? That is 3 times what I paid in 2019 :-)",
    'She said: "No, we never agreed to that", and then sent me a picture of the contract.',
    "Remind me what the doctor said about the tablets: two in the morning, or one?",
    "ok",
    "Here is the link, https://example.org/a/very/long/path?with=query&and=more#part, have a look.",
    "Le four est en panne depuis lundi; le technicien passera jeudi entre 14 et 16 heures.",
)


class Companion:
    """A model that answers, reaches for a tool now and then, and saves one fact of each stretch.

    While `may_hold`, what it saves arrives only once its Event is set, which waits in `held`.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self.count = count
        self.sizes: list[tuple[int, str]] = []
        self.answers: dict[int, str] = {}
        self.saved: list[str] = []
        self.held: list[asyncio.Event] = []
        self.may_hold = True
        self._asked = 0
        self._dice = random.Random(7)

    def decide(self, asked: Json) -> Answer:
        size = self.count(as_counted(asked))
        self.sizes.append((size, "save" if is_save(asked) else newest(asked)[:40]))
        if is_save(asked):
            return self._save(asked)
        self._asked = size
        turn = int(re.findall(r"#(\d+):", newest(asked))[0])
        if turn % 9 == 4 and asked["messages"][-1]["role"] != "tool":
            path = f"notes/{turn}.txt"
            text = "\n".join(self._dice.choices(SENTENCES, k=5))
            return Answer(tool_calls=[("write_file", {"path": path, "content": text}), ("list_dir", {"path": "."})])
        said = " ".join(self._dice.choices(SENTENCES, k=self._dice.randint(1, 4)))
        self.answers[turn] = f"To #{turn}: {said}"
        return Answer(self.answers[turn])

    def _save(self, asked: Json) -> Answer:
        last = re.findall(r"#(\d+):", stretch_in(asked))[-1]
        self.saved.append(f"In talk {len(self.saved) + 1} (up to message {last}) Ann told of the move to Lübeck")
        entry = f"Ann talked about the river, the move and her sister.\n\nIt was up to her message {last}."
        held = None
        if self.may_hold and self._asked < 5_200:  # what is said meanwhile shall fit
            held = asyncio.Event()
            self.held.append(held)
        return saving(asked, self.saved[-1], entry, held=held, delay_s=0.0 if held else 0.2)


def words(turn: int, dice: random.Random) -> str:
    """What Ann says: mostly little, sometimes much, and now and then a whole article."""
    count = 60 if turn % 40 == 25 else 8 if turn % 10 == 3 else dice.randint(1, 3)
    return f"#{turn}: " + " ".join(dice.choices(SENTENCES, k=count))


async def test_a_long_conversation_stays_within_its_window(tmp_path: Path) -> None:
    """Four hundred messages in 8,192 tokens: no request is over the budget, no message and no fact is lost, and
    nobody waits for a consolidation that there is still room for."""
    scales = Scales()
    async with a_world(tmp_path, scales) as world:
        ann = Companion(scales)
        world.model.script(ann.decide)
        small = {"agents__defaults__context_window_tokens": "8192", "agents__defaults__max_completion_tokens": "1024"}
        life = await (await world.daemon(MODEL, **small)).ready()
        dice, overtook, turn = random.Random(5), 0, 0

        async def says(text: str) -> None:
            number = int(text[1:].partition(":")[0])
            world.telegram.say(text)
            await world.until(lambda: ann.answers.get(number) in world.telegram.visible()[-1:], str, text)

        while turn < TURNS:
            turn += 1
            text = words(turn, dice)
            if ann.held:
                await says(text if len(text) < 1_000 else f"#{turn}: And what is new?")
                overtook += 1
                ann.held.pop().set()
            else:
                ann.may_hold = len(text) < 1_000
                await says(text)
                ann.may_hold = True
        ann.may_hold = False
        for held in ann.held:
            held.set()
        await life.stops()

        key = f"telegram:{OWNER}"
        assert len(world.said()) >= 2 * TURNS and len(world.heard()) == TURNS
        world.check(OWNER, world.heard())
        await world.check_memory([key])
        budget = 8192 - 1024 - 1024
        assert max(ann.sizes)[0] <= budget, sorted(ann.sizes)[-5:]
        spelled_out = [scales(json.dumps(asked, ensure_ascii=False)) for asked in world.model.requests]
        assert max(spelled_out) <= 8192 - 1024, "however it is counted, there is room for an answer"
        assert len(world.ranges(key)) == len(ann.saved) >= TURNS // 20
        assert world.facts() == Counter(ann.saved)
        assert overtook >= len(ann.saved) // 3
        assert not [line for line in world.lines if "prompt.shortened" in line or "consolidation.failed" in line]
        world.git("clone", "-q", ".", str(tmp_path / "clone"))
        assert (tmp_path / "clone" / "memory" / "MEMORY.md").read_text() == world.memory()
        print(
            f"{len(world.said())} messages, {len(ann.saved)} consolidations, {len(ann.sizes)} requests, the largest of "
            f"{max(ann.sizes)[0]} tokens (budget {budget}); {overtook} answers came before a save that ran"
        )


# --- a careless model


FACTS = [f"Fact number {n}: the box in room {n} holds {n * 7 + 100} letters from Ms. Nr{n}" for n in range(30)]
CARELESS: tuple[Callable[[str], str], ...] = (
    lambda memory: "",
    lambda memory: "\n".join(memory.splitlines()[::2]),
    lambda memory: "# 记忆\n\n- 用户喜欢聊天",
    lambda memory: "I have kept everything that matters and left out the rest.",
)


async def test_a_model_that_drops_facts_loses_none(world: World) -> None:
    """Thirty facts, and a model that leaves out all, half, or says something else instead, again and again: each fact
    is still there, once, and each version says what it put back. Where nothing but that is left there is no version.
    """
    (world.home / "workspace" / "memory").mkdir(parents=True)
    lines = ["# Memory", "", "## Boxes", "", *(f"- {fact}" for fact in FACTS), ""]
    (world.home / "workspace" / "memory" / "MEMORY.md").write_text("\n".join(lines))
    saves: list[int] = []

    def decide(asked: Json) -> Answer:
        if not is_save(asked):
            return Answer(f"Answer to {re.findall(r'turn [0-9]+', newest(asked))[0]}.")
        saves.append(len(saves))
        rewrite = CARELESS[saves[-1] % len(CARELESS)](memory_in(asked))
        if saves[-1] % 8 > 3:  # each of them with something new, and without
            rewrite += f"\n- Ann's new bike of week {saves[-1]} is {saves[-1]} years old"
        update = {"history_entry": f"Talk {saves[-1]}.", "memory_update": rewrite}
        return Answer(tool_calls=[("save_memory", update)])

    world.model.script(decide)
    awake = {"agents__dream__enabled": "false"}
    life = await (await world.daemon(MODEL, agents__defaults__memory_window="4", **awake)).ready()
    for turn in range(32):
        world.telegram.say(f"turn {turn}")
        await world.shows(f"Answer to turn {turn}.")
        if turn:
            await life.until("memory.consolidated", turn)
    world.telegram.say("/memory diff")
    await world.shows("put back")
    await life.stops()
    assert len(saves) == 31
    facts = world.facts()
    assert [(fact, facts[fact]) for fact in FACTS if facts[fact] != 1] == []
    assert facts["Ann's new bike of week 30 is 30 years old"] == 1
    versions = world.versions()
    told = [version for version in versions if any("+ Ann's new bike" in line for line in version.lines)]
    assert len(told) == sum(n % 8 > 3 for n in saves)
    emptied, halved = told[0], told[1]
    assert [fact for fact in FACTS if f"= {fact} put back" not in emptied.lines] == []
    assert 10 <= sum(line.endswith(" put back") for line in halved.lines) <= 20
    assert not [line for version in versions for line in version.lines if line.startswith("- ")]
    assert len(versions) == 1 + len(saves), "what was only put back is told, too"
    await world.check_memory([f"telegram:{OWNER}"])
    print(f"{len(saves)} consolidations, {len(versions)} versions, 0 of {len(FACTS)} facts lost")


# --- kill -9


class Household:
    """One home: two people who share a space, one who has another, commands, an editor, and a daemon that dies."""

    chats = (OWNER, 7, 8)
    shared = (OWNER, 7)

    def __init__(self, world: World, seed: int, model: str) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self._model = model
        self.told: dict[int, list[str]] = {chat: [] for chat in self.chats}
        self.kept: dict[int, list[str]] = {chat: [] for chat in self.chats}
        self.fresh, self.compacted = Counter[int](), Counter[int]()
        self.by_hand: list[str] = []
        self.deaths = self.saves = 0
        world.replies = (*REPLIES, "Saved (", "Already known: ", "Consolidated messages ", "Written by hand ")

    def decide(self, asked: Json) -> Answer:
        """The model: a little slow, and quick to learn."""
        if is_save(asked):
            self.saves += 1
            return saving(asked, f"Learnt fact {self.saves}", delay_s=self.dice.random() * 0.3)
        heard = ", ".join(re.findall(r"message \d+ of chat \d+", newest(asked)))
        return Answer(f"Answer to {heard}", chunk_delay_s=0.005)

    async def suffers(self, rounds: int) -> None:
        """Dies so often, in the midst of it all, and then does what was left undone."""
        self.world.model.script(self.decide)
        life = await self._life()
        await life.ready()
        calm = 0
        while self.deaths < rounds:
            self._act(life)
            await self._strike(life)
            if self.dice.random() < 0.3:
                self._edit(None)
            life = await self._life()
            if self.dice.random() < 0.3 and self.deaths - calm < 2:  # while it takes up what it left
                await life.dies_after(1 + 2 * self.dice.random())
                self.deaths += 1
                life = await self._life()
            if self.dice.random() < 0.5 or self.deaths - calm == 2:  # at the third a message would be set aside
                await self.world.until(self._is_settled, self._unsettled)
                calm = self.deaths
        await self.world.until(self._is_settled, self._unsettled)
        self._edit(life)
        self._say(OWNER, "/compact")
        for chat in self.chats:
            self._say(chat, "/compact")
        await self.world.until(self._is_settled, self._unsettled)
        self.world.telegram.say(f"/memory why {self.by_hand[-1]}")
        await self.world.shows(f"{self.by_hand[-1]} (MEMORY.md)")
        await life.stops()

    async def check(self) -> None:
        """That nothing of it is lost, and nothing done twice."""
        assert await self.world.messages_in_flight() == {"waiting": 0, "undelivered": 0, "set_aside": 0}
        for chat, texts in self.told.items():
            self.world.check(chat, texts)
        for space, chats in (("owner", self.shared), ("telegram:8", (8,))):
            await self.world.check_memory([f"telegram:{chat}" for chat in chats], space)
            facts, versions = self.world.facts(space), self.world.versions(space)
            new = Counter(line[2:] for version in versions for line in version.lines if line.startswith("+ "))
            kept = [fact for chat in chats for fact in self.kept[chat]]
            learnt = [fact for chat in chats for fact in self._learnt(chat)]
            wanted = [*kept, *learnt, *(self.by_hand if space == "owner" else ())]
            assert [(fact, facts[fact], new[fact]) for fact in wanted if (facts[fact], new[fact]) != (1, 1)] == []
            assert not [line for version in versions for line in version.lines if line.startswith("- Learnt")]
            for chat in chats:
                for number, fact in re.findall(r"(?m)^Saved \(version (\d+)\): (.+)$", self._seen(chat)):
                    assert f"+ {fact}" in versions[int(number) - 1].lines

    async def _life(self) -> DaemonProcess:
        both = f"{OWNER},7"
        return await self.world.daemon(
            self._model,
            channels__telegram__owner=both,
            agents__defaults__memory_window="6",
            agents__dream__enabled="false",
        )

    async def _strike(self, life: DaemonProcess) -> None:
        """After some calls of the networks, or while something is being saved."""
        goal = self.saves + self.dice.randint(1, 3)
        if self._model != "offline" and self.dice.random() < 0.7:
            await self.world.until_called(sys.maxsize, lambda: self.saves >= goal or self._is_settled())
        else:
            await self.world.until_called(self.dice.randint(1, 25), self._is_settled)
        if self.dice.random() < 0.4:
            self._edit(life)
        await life.dies_after(self.dice.choice([0.0, 0.01, 0.03, 0.4]) * self.dice.random())
        self.deaths += 1

    def _act(self, life: DaemonProcess) -> None:
        for chat in self.chats:
            for _ in range(self.dice.randint(1, 3)):
                self._say(chat, f"message {len(self.told[chat]) + 1} of chat {chat}")
            if self.dice.random() < 0.4:
                self._say(chat, f"/remember Chat {chat} told fact {len(self.kept[chat]) + 1}")
            if self.dice.random() < 0.3:
                self._say(chat, self.dice.choice(["/new", "/compact"]))
        if self.dice.random() < 0.5:
            self._edit(life)

    def _say(self, chat: int, text: str) -> None:
        command, _, argument = text.partition(" ")
        match command:
            case "/new":
                self.fresh[chat] += 1
            case "/compact":
                self.compacted[chat] += 1
            case "/remember":
                self.kept[chat].append(argument)
            case _:
                self.told[chat].append(text)
        self.world.telegram.say(text, chat)

    def _edit(self, life: DaemonProcess | None) -> None:
        """A person adds a fact with an editor, wherever the daemon is at that moment, or while there is none."""
        if life is not None:
            with life.halted():
                self._edit(None)
            return
        path = self.world.root() / "memory" / "MEMORY.md"
        self.by_hand.append(f"Written by hand {len(self.by_hand) + 1}")
        draft = self.world.home.parent / "draft.md"
        draft.write_text(f"{path.read_text().rstrip()}\n- {self.by_hand[-1]}\n")
        draft.replace(path)

    def _learnt(self, chat: int) -> list[str]:
        """What was to be added by the decisions about a chat."""
        decisions = [r for r in self.world.records(f"telegram:{chat}") if r.get("_type") == "consolidating"]
        return [fact for decision in decisions for fact in decision["key_facts"]]

    def _seen(self, chat: int) -> str:
        return "\n".join(self.world.answers(chat))

    def _is_settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> str:
        return "\n".join(filter(None, map(self._missing, self.chats)))

    def _missing(self, chat: int) -> str:
        seen = self._seen(chat)
        missing = [fact for fact in self.kept[chat] if not re.search(rf"(?m)^(Saved .*|Already known): {fact}$", seen)]
        if seen.count("New session started.") < self.fresh[chat]:
            missing.append("/new")
        if len(re.findall("(?m)^(?:Consolidated messages|Nothing to consolidate)", seen)) < self.compacted[chat]:
            missing.append("/compact")
        if not self.world.is_settled(chat, self.told[chat]):
            missing.append(f"answers in {self.world.said(f'telegram:{chat}')}")
        return f"{chat}: {missing}\nseen: {seen}\ntold: {self.told[chat]}" if missing else ""


async def test_nothing_is_lost_or_done_twice_over_kills(tmp_path: Path) -> None:
    """kill -9 amid consolidations, commands and edits by hand: each message is in the log once and in one entry at
    most, each decision is carried out once, and what was saved, said to be saved, or written by hand is there once."""

    async def home(number: int, model: str) -> None:
        async with a_world(tmp_path / f"{number}") as world:
            household = Household(world, number, model)
            await household.suffers(max(1, ROUNDS // 2))
            await household.check()
            print(
                f"home {number}: {household.deaths} kills, {sum(map(len, household.told.values()))} messages, "
                f"{household.saves} saves, {len(world.versions())} versions, {len(household.by_hand)} edits by hand"
            )

    async with asyncio.TaskGroup() as homes:
        for number, model in enumerate((MODEL, "offline")):
            homes.create_task(home(number, model))


# --- spaces


async def test_no_space_hears_of_another(world: World) -> None:
    """The owner, another person and a group where both speak: what is said in one is in no request made for another,
    also when it was consolidated, remembered, or came before /new."""
    tags = {OWNER: "amber", 7: "birch", GROUP: "cedar"}
    saved: list[str] = []

    def tags_in(text: str) -> set[str]:
        return set(re.findall("amber|birch|cedar", text))

    def decide(asked: Json) -> Answer:
        [tag] = tags_in(json.dumps(asked["messages"][-1]))
        if is_save(asked):
            saved.append(tag)
            return saving(asked, f"A {tag} fact, the {len(saved)}th", f"They talked about {tag}.")
        return Answer(f"You said {tag}.")

    world.model.script(decide)
    world.replies = (*REPLIES, "Saved (")
    life = await (await world.daemon(MODEL, agents__defaults__memory_window="4")).ready()
    for part in range(2):
        for turn in range(4):
            for chat, tag in tags.items():
                to, user = (f"{BOT} ", (OWNER, 7)[turn % 2]) if chat < 0 else ("", chat)
                world.telegram.say(f"{to}the {tag} secret {part}-{turn}", chat, user)
        for chat, tag in tags.items():
            to = BOT if chat < 0 else ""
            await world.settled(chat, *(f"the {tag} secret {part}-{turn}" for turn in range(4)))
            world.telegram.say(f"/remember{to} I like {tag} {part}", chat)
            await world.shows(f"I like {tag} {part}", chat)
            world.telegram.say(f"/new{to}", chat)
            await world.shows("New session started.", chat, part + 1)
    for chat, tag in tags.items():
        world.telegram.say(f"{BOT} and {tag}?" if chat < 0 else f"and {tag}?", chat, user=OWNER if chat < 0 else chat)
        await world.settled(chat, f"and {tag}?")
        assert f"I like {tag} 0" in world.model.requests[-1]["messages"][0]["content"]
    await life.stops()
    for asked in world.model.requests:
        assert len(tags_in(json.dumps(asked))) == 1, asked
    assert Counter(saved).keys() == set(tags.values())
    assert min(Counter(saved).values()) >= 2
    for chat, tag in tags.items():
        space = "owner" if chat == OWNER else f"telegram:{chat}"
        files = [path.read_text() for path in world.root(space).rglob("*") if path.is_file()]
        assert tags_in("\n".join([*files, world.git("log", "-p", space=space)])) == {tag}
        assert {f"I like {tag} 0", f"I like {tag} 1"} < world.facts(space).keys()
        await world.check_memory([f"telegram:{chat}"], space)


# --- what people ask of it


def learns(asked: Json) -> Answer:
    """Keeps as a fact whatever was said with "I moved"."""
    if not is_save(asked):
        return Answer("Fine.")
    moves = re.findall(r"I moved to (\w+) in (\d+)", stretch_in(asked))
    where, when = moves[-1] if moves else ("nowhere", "0")
    return saving(asked, f"Has lived in {where} since {when}", f"Ann told of her move to {where}.")


async def test_what_is_known_can_be_asked_explained_and_taken_back(world: World) -> None:
    """/remember, /memory, /compact and /undo, each answered as the help says, with the number of the version."""
    world.model.script(learns)
    life = await (await world.daemon(MODEL)).ready()
    ann = Person(world)
    assert await ann.asks("/remember Likes green tea") == "Saved (version 2): Likes green tea"
    assert await ann.asks("/remember Likes green tea") == "Already known: Likes green tea"
    assert await ann.asks("/remember") == "Say what: /remember TEXT."
    assert "Likes green tea" in await ann.asks("/memory")
    assert await ann.asks("/compact") == "Nothing to consolidate."
    for text in ("I moved to Ghent in 2019.", "What a rain!"):
        assert await ann.asks(text) == "Fine."
    assert await ann.asks("/compact") == "Consolidated messages 1-2 (history entry 1)."
    assert await ann.asks("/compact") == "Nothing to consolidate."
    assert "Has lived in Ghent since 2019" in world.facts()

    when = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    lines = (await ann.asks("/memory why Ghent")).split("\n")
    assert lines[0] == "Has lived in Ghent since 2019 (MEMORY.md)"
    assert re.fullmatch(rf"\s*version 3, {when}, consolidation", lines[1])
    assert re.fullmatch(rf"\s*history 1: \[{when}\] Ann told of her move to Ghent\.", lines[2])
    assert re.fullmatch(rf'\s*Ann, {when}: "I moved to Ghent in 2019\."', lines[3])
    why = await ann.asks("/memory why green tea")
    assert re.search(rf"(?m)^\s*version 2, {when}, /remember by Ann$", why)
    assert (await ann.asks("/memory why giraffes")).startswith("Nothing I know matches giraffes.")

    assert await ann.asks("/undo") == "Undone (version 4)."
    assert "Has lived in Ghent since 2019" not in world.facts()
    assert await ann.asks("/undo 2") == "Undone (version 5)."
    assert not [fact for fact in world.facts() if "green tea" in fact]
    assert await ann.asks("/undo") == "Nothing to undo."
    assert await ann.asks("/undo 5") == "Undone (version 6)."
    assert await ann.asks("/undo 99") == "Not undone: There is no version 99; the newest one is 6."
    assert world.facts()["Likes green tea"] == 1
    assert "+- Likes green tea" in await ann.asks("/memory diff 2")
    log = (await ann.asks("/memory log")).split("\n")
    assert [re.split(r"\s+", line)[0] for line in log] == ["6", "5", "4", "3", "2", "1"]
    assert re.fullmatch(rf"2\s+{when}\s+\[agent\] Likes green tea", log[4])

    path = world.root() / "memory" / "MEMORY.md"
    path.write_text(f"{path.read_text().rstrip()}\n- Plays the cello\n")
    assert "by hand" in await ann.asks("/memory why cello")
    assert await ann.asks("/new") == "New session started."
    assert await ann.asks("/new") == "New session started."
    assert [(entry["type"], entry["messages"]) for entry in world.entries()] == [
        ("consolidation", [1, 2]),
        ("archive", [3, 4]),
    ]
    asked = ("memory", "why", "green", "tea")
    with_daemon = await world.nanomem(*asked)
    await life.stops()
    assert with_daemon == await world.nanomem(*asked)
    assert with_daemon[0] == 0 and "/remember" in with_daemon[1]
    await world.check_memory([f"telegram:{OWNER}"])


async def test_who_may_ask(world: World) -> None:
    """Everybody in a space of their own, all in a group's, but only the owner takes back there."""
    life = await (await world.daemon("offline")).ready()
    bob, ann_there, bob_there = Person(world, 7), Person(world, GROUP, OWNER), Person(world, GROUP, 7)
    assert await bob.asks("/remember Likes coffee") == "Saved (version 2): Likes coffee"
    assert "Likes coffee" in await bob.asks("/memory")
    assert await bob.asks("/undo") == "Undone (version 3)."
    assert await bob_there.asks(f"/remember{BOT} We meet on Fridays") == "Saved (version 2): We meet on Fridays"
    assert await bob_there.asks(f"/undo{BOT}") == "Only the owner can do that."
    assert "We meet on Fridays" in await bob_there.asks(f"/memory{BOT}")
    assert await ann_there.asks(f"/undo{BOT}") == "Undone (version 3)."
    assert await Person(world).asks("/memory why Fridays coffee") == (
        "Nothing I know matches Fridays coffee. Try fewer words, or only a part of one."
    )
    await life.stops()


async def test_the_offline_model_remembers(world: World) -> None:
    """Sixty things told, and a new session: it quotes the one that is asked for, with the day it was told; what it is
    asked to remember is saved when it says so, and known in every later session."""
    life = await (await world.daemon("offline")).ready()
    ann = Person(world)
    things = [f"my {colour} {thing} is in box {n}" for n, (colour, thing) in enumerate(THINGS)]
    for thing in things:
        await ann.asks(thing)
    assert await ann.asks("/new") == "New session started."
    day = r"on \d{1,2} [A-Z][a-z]+"
    answer = await ann.asks("where is my amber kettle?")
    [wanted] = [thing for thing in things if "amber kettle" in thing]
    assert re.fullmatch(rf'(You|Ann) said {day}( \d{{4}})?: "{wanted}"', answer)
    assert await ann.asks("remember that my sister is called Marta") == "Saved (version 2): my sister is called Marta"
    assert await ann.asks("/new") == "New session started."
    known = await ann.asks("what is my sister called?")
    assert 'In your memory: "my sister is called Marta"' in known
    assert re.search(rf"(You|Ann) said {day}", known)
    why = await ann.asks("/memory why Marta")
    assert re.search(r'Ann, [\d-]{10} [\d:]{5}: "remember that my sister is called Marta"', why)
    await life.stops()
    assert [entry["messages"][1] for entry in world.entries() if entry["type"] == "archive"] == [120, 128]
    await world.check_memory([f"telegram:{OWNER}"])


COLOURS = ("amber", "blue", "crimson", "dun", "ebony", "fawn")
THINGS = [
    (colour, thing)
    for colour in COLOURS
    for thing in ("kettle", "ladder", "lamp", "violin", "tent", "sledge", "globe", "drill", "atlas", "anvil")
]
