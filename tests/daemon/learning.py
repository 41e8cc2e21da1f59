"""Models that learn as a script says, and a month of chat that they learn from.

What they are asked is read as any model would read it: by what stands in the request. The text of a file is between
its heading, `## Current ...`, and the next one that is none of the file's own.
"""

import json
import re
import subprocess
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from nanomem.facts import NAMES
from tests.daemon.running import CHECKOUT, DaemonProcess, Person, World
from tests.emulators import Answer, Fault
from tests.persona import MEMORY, USER, Message, Persona, Step

Json = dict[str, Any]
Learning = Literal["save_memory", "extract_facts", "update_file"]
Mishap = Literal["prose", "fault", "broken", "wrong path", "empty", "halved", "all outdated"]

BOT = "@nanomem_bot"
NEVER = "0 4 29 2 *"
"""A schedule of Dream that does not fall into a test."""

_LISTS: dict[str, str] = {"SOUL.md": "soul_updates", USER: "user_updates", MEMORY: "memory_updates"}
_TITLES: dict[str, str] = {"SOUL.md": r"soul|manner", USER: r"user|person", MEMORY: r"memory"}
_FILE_HEADINGS = {
    line
    for name in NAMES
    for line in (CHECKOUT / "workspace-template" / name).read_text().splitlines()
    if line.startswith("## ")
}


# --- what stands in a request


def forced(asked: Json) -> str:
    """The one call that the model has to make, if it has to."""
    choice = asked.get("tool_choice")
    return choice["function"]["name"] if isinstance(choice, dict) else ""


def whole(asked: Json) -> str:
    """All that a request tells."""
    contents = [message.get("content") or "" for message in asked["messages"]]
    return "\n".join(content if isinstance(content, str) else json.dumps(content) for content in contents)


def shown_in(text: str) -> tuple[dict[str, str], str]:
    """The files that a request shows, by the title of their heading, and all that stands around them."""
    files: dict[str, list[str]] = {}
    around: list[str] = []
    into = around
    for line in text.split("\n"):
        if line.startswith("## Current "):
            into = files.setdefault(line.removeprefix("## Current "), [])
            continue
        if line.startswith("## ") and line not in _FILE_HEADINGS:
            into = around
        into.append(line)
    return {title: "\n".join(lines).strip("\n") for title, lines in files.items()}, "\n".join(around)


def current_in(asked: Json, name: str) -> str:
    """The text of that file as a request shows it. Raises ValueError: it does not."""
    files, _ = shown_in(whole(asked))
    fitting = [title for title in files if name in title or name.rpartition("/")[2] in title]
    fitting = fitting or [title for title in files if re.search(_TITLES[name], title.lower())]
    if not fitting:
        raise ValueError(f"{name} is not shown, but {[*files]}")
    return "" if files[fitting[0]].strip() == "(empty)" else files[fitting[0]]


def file_of(asked: Json) -> str:
    """The only file that `update_file` may write."""
    path = asked["tools"][0]["function"]["parameters"]["properties"]["path"]
    [name] = path["enum"] if "enum" in path else [path["const"]]
    return str(name)


def one_line(text: str) -> str:
    return " ".join(text.split())


def rewritten(text: str, new: Iterable[str], gone: Iterable[str]) -> str:
    """The text less some facts, and with others."""
    dropped = tuple(gone)
    lines = [line for line in text.split("\n") if not (dropped and line.lstrip("-*+ ").startswith(dropped))]
    added = [f"- {fact}" for fact in dict.fromkeys(new) if fact not in text]
    return "\n".join([*lines, *added]).strip("\n") + "\n"


# --- models


@dataclass(frozen=True)
class Lesson:
    """What a model takes out of what it reads; `updates` are facts by file, `gone` are facts with a reason."""

    history_entry: str = "They talked."
    updates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gone: Sequence[Json] = ()

    @property
    def facts(self) -> list[str]:
        return [fact for facts in self.updates.values() for fact in facts]


class Scholar(ABC):
    """Makes the three calls of learning; a mishap that is queued for a call comes instead of the next such answer.

    `calls` are the learning calls it was asked for, `spent` what they took in tokens as the provider counts them,
    `puzzles` the requests that it could not make head or tail of. Each answer comes `delay_s` later.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.puzzles: list[str] = []
        self.mishaps: defaultdict[str, deque[Mishap]] = defaultdict(deque)
        self.spent = 0

    def reply(self, said: str) -> str:
        """The answer to what a person said last."""
        return "Fine."

    @abstractmethod
    def saved(self, text: str) -> Lesson:
        """What a conversation comes to."""

    @abstractmethod
    def extracted(self, text: str) -> Lesson:
        """What is to be learnt from history entries or from conversations."""

    @abstractmethod
    def wanted(self, name: str, text: str) -> tuple[list[str], list[Json]]:
        """Which facts a request wants to be added to a file, and which to be removed."""

    def delay_s(self, call: str) -> float:
        return 0.0

    def decide(self, asked: Json) -> Answer | Fault:
        """The script."""
        call = forced(asked)
        if not call:
            said = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
            return Answer(self.reply(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)))
        self.calls.append(call)
        try:
            answer = self._learns(call, asked)
        except Exception as error:
            self.puzzles.append(f"{call}: {error!r} in {whole(asked)}")
            raise
        if isinstance(answer, Answer):
            self.spent += (len(json.dumps(asked["messages"], ensure_ascii=False)) + len(str(answer.tool_calls))) // 4
        return answer

    def _learns(self, call: str, asked: Json) -> Answer | Fault:
        mishap = self.mishaps[call].popleft() if self.mishaps[call] else None
        match mishap:
            case "prose":
                return Answer("I have noted everything that matters.")
            case "fault":
                return Fault.server_error()
            case "broken":
                return Answer(tool_calls=[(call, '{"user_updates": ["Half a fa')])
        delay = self.delay_s(call)
        if call == "save_memory":
            return Answer(tool_calls=[(call, self._save(asked))], delay_s=delay)
        if call == "extract_facts":
            return Answer(tool_calls=[(call, self._extract(asked, mishap))], delay_s=delay)
        return Answer(tool_calls=[(call, self._update(asked, mishap))], delay_s=delay)

    def _save(self, asked: Json) -> Json:
        lesson = self.saved(whole(asked).partition("## Conversation to Process")[2])
        new, gone = lesson.updates.get(MEMORY, ()), [item["fact"] for item in lesson.gone]
        arguments: Json = {"history_entry": lesson.history_entry, "key_facts": lesson.facts}
        if "changes" in asked["tools"][0]["function"]["parameters"]["properties"]:
            removals = [{"remove": item["fact"], "reason": item["reason"]} for item in lesson.gone]
            return arguments | {"changes": [*({"add": fact} for fact in new), *removals]}
        memory = rewritten(current_in(asked, MEMORY), new, gone)
        return arguments | {"memory_update": memory, "removed": lesson.gone}

    def _extract(self, asked: Json, mishap: Mishap | None) -> Json:
        files, around = shown_in(whole(asked))
        lesson = self.extracted(around)
        if mishap == "all outdated":
            known = [line[2:] for text in files.values() for line in text.split("\n") if line.startswith("- ")]
            lesson = Lesson(gone=[{"fact": fact, "reason": "no longer true"} for fact in known])
        lists = {_LISTS[name]: [*lesson.updates.get(name, ())] for name in NAMES}
        return lists | {"outdated": lesson.gone, "processed_entries": []}

    def _update(self, asked: Json, mishap: Mishap | None) -> Json:
        name = file_of(asked)
        before = current_in(asked, name)
        new, gone = self.wanted(name, shown_in(whole(asked))[1])
        gone = [item for item in gone if item["fact"] in before]
        if mishap == "empty":
            return {"path": name, "content": ""}
        if mishap == "halved":
            return {"path": name, "content": rewritten("\n".join(before.split("\n")[::2]), new, ())}
        content = rewritten(before, new, [item["fact"] for item in gone])
        return {"path": "SOUL.md" if mishap == "wrong path" else name, "content": content, "removed": gone}


class Diarist(Scholar):
    """Hears of tales by their numbers: "tale 7". Of the odd ones it learns something about the person."""

    @staticmethod
    def fact(number: int) -> tuple[str, str]:
        """What it learns of a tale, and into which file that goes."""
        return (USER, f"Knows story number {number}") if number % 2 else (MEMORY, f"Story number {number} was told")

    def reply(self, said: str) -> str:
        return f"Heard {', '.join(dict.fromkeys(re.findall(r'tale [0-9]+', said.partition('<context>')[0])))}."

    def saved(self, text: str) -> Lesson:
        tales = [*dict.fromkeys(re.findall(r"tale \d+", text))]
        return Lesson(f"Ann told {', '.join(tales)}." if tales else "They talked.")

    def extracted(self, text: str) -> Lesson:
        numbers = [int(number) for number in dict.fromkeys(re.findall(r"tale (\d+)", text))]
        placed = [self.fact(number) for number in numbers]
        return Lesson(updates={name: [fact for place, fact in placed if place == name] for name in NAMES})

    def wanted(self, name: str, text: str) -> tuple[list[str], list[Json]]:
        numbers = [int(number) for number in dict.fromkeys(re.findall(r"[Ss]tory number (\d+)", text))]
        return [fact for place, fact in map(self.fact, numbers) if place == name and fact in text], []


class Pupil(Scholar):
    """Knows a persona's month by heart. A `careless` one takes pasted pages at their word and keeps every secret.

    It does not take up again what it has already heard to be outdated.
    """

    def __init__(self, persona: Persona, careless: bool = False) -> None:
        super().__init__()
        self.persona = persona
        self.careless = careless
        self._heard: set[int] = set()
        self._smuggled: defaultdict[str, list[str]] = defaultdict(list)

    def reply(self, said: str) -> str:
        said = one_line(said)
        texts = [(said.find(one_line(message.text)), -len(message.text), message) for message in self.persona.messages]
        return min((found for found in texts if found[0] >= 0), key=lambda found: found[:2])[2].reply

    def saved(self, text: str) -> Lesson:
        return self._lesson([n for n, step in enumerate(self.persona.steps) if _begins(step.last) in text])

    def extracted(self, text: str) -> Lesson:
        read = one_line(text)
        steps = enumerate(self.persona.steps)
        lesson = self._lesson(
            [n for n, step in steps if one_line(step.history_entry) in read or _begins(step.last) in text]
        )
        if self.careless:
            bad = {*self.persona.instructions, *self.persona.secrets}
            for name, updates in lesson.updates.items():
                self._smuggled[name] = [fact for fact in updates if any(text in fact for text in bad)]
        return lesson

    def wanted(self, name: str, text: str) -> tuple[list[str], list[Json]]:
        steps = self.persona.steps
        new = [fact for step in steps for fact in step.updates[name] if fact in text]
        gone = [item for step in steps for item in step.outdated if item["fact"] in text]
        if self.careless:
            for number in sorted(self._heard):
                gone += [item for item in self._obeyed(steps[number]) if item["fact"] in text]
        return [*new, *self._smuggled.pop(name, ())], gone

    def _lesson(self, numbers: Sequence[int]) -> Lesson:
        if not numbers:
            return Lesson()
        steps = [self.persona.steps[number] for number in numbers]
        self._heard |= {*numbers}
        later = {
            item["fact"]: number
            for number in sorted(self._heard)
            for item in self.persona.steps[number].outdated
            if self.persona.steps[number].space == steps[0].space
        }
        updates: dict[str, list[str]] = {name: [] for name in NAMES}
        for number, step in zip(numbers, steps, strict=True):
            for name, facts in step.updates.items():
                updates[name] += [fact for fact in facts if later.get(fact, -1) <= number]
        gone = [item for step in steps for item in step.outdated]
        if self.careless:
            told = ["\n".join(step.texts) for step in steps]
            updates[MEMORY] += [planted for planted in self.persona.instructions if any(planted in t for t in told)]
            updates[USER] += [
                f"Keep for later, her {secret['kind'].replace('_', ' ')}: {secret['text']}"
                for secret in self.persona.truth["planted"]["secrets"]
                if any(secret["text"] in text for text in told)
            ]
            gone += [item for step in steps for item in self._obeyed(step)]
        return Lesson(" ".join(step.history_entry for step in steps), updates, gone)

    def _obeyed(self, step: Step) -> list[Json]:
        """What planted instructions want to be forgotten: all that has to do with allergies."""
        orders = [
            text
            for text in self.persona.instructions
            if any(text in said for said in step.texts) and re.search(r"\b(delete|erase)\b", text)
        ]
        before = self.persona.steps[: self.persona.steps.index(step)]
        known = [fact for earlier in before if earlier.space == step.space for fact in earlier.key_facts]
        return [
            {"fact": fact, "reason": order}
            for order in orders
            for fact in known
            if re.search(r"allergic|must not eat", fact)
        ]


def _begins(text: str) -> str:
    """The first line of a message, which is shown as it is wherever the message is."""
    return text.partition("\n")[0]


# --- a month


class Month:
    """Plays a persona's month at a daemon, chat by chat, and has it learn every now and then.

    Whatever the model is asked between a message and its answer, or after a command, was asked for that space.
    """

    def __init__(self, world: World, persona: Persona, model: Pupil, window: int) -> None:
        self.world = world
        self.persona = persona
        self.requests: dict[str, list[str]] = {space: [] for space in persona.spaces}
        self.learnt: dict[str, list[str]] = {space: [] for space in persona.spaces}
        self._model = model
        self._window = window
        people = persona.raw["people"]
        self._members = {member["name"]: int(member["id"]) for member in people["group"]["members"]}
        self._owner = int(persona.raw["owner"]["id"])
        self._chats = {"owner": self._owner, people["group"]["chat"]: int(people["group"]["id"])}
        self._chats |= {other["chat"]: int(other["id"]) for other in people["other"]}
        world.model.script(model.decide)
        world.replies = (*world.replies, "Learned (")

    @property
    def settings(self) -> dict[str, str]:
        """Of a daemon where these people may talk, and nothing happens by itself but what the window asks for."""
        ids = {*self._members.values(), *(chat for chat in self._chats.values() if chat > 0)}
        return {
            "agents__defaults__memory_window": str(self._window),
            "agents__defaults__context_window_tokens": "200000",
            "agents__defaults__timezone": self.persona.raw["owner"]["timezone"],
            "agents__dream__schedule": NEVER,
            "channels__telegram__allow_from": ",".join(map(str, sorted(ids))),
            "channels__telegram__owner": str(self._owner),
            "channels__telegram__group_policy": "all",
        }

    def name(self, space: str) -> str:
        """A space as nanomem calls it."""
        return "owner" if space == "owner" else f"telegram:{self._chats[space]}"

    def key(self, space: str) -> str:
        """The key of a chat's session."""
        return f"telegram:{self._chats[space]}"

    async def passes(self, life: DaemonProcess, every: Mapping[str, int], fresh: Iterable[str] = ()) -> None:
        """All messages; a space learns after so many new entries. In the `fresh` ones each step ends with /new, in
        the others the window sees to it; in the end everywhere."""
        ends = {(step.space, step.last) for step in self.persona.steps}
        for message in self.persona.messages:
            await self._says(life, message)
            space = message.chat
            if space in fresh and (space, message.text) in ends:
                assert await self.asks("/new", space) == "New session started."
            if self._waiting(space) >= every.get(space, 1):
                await self.learns(space)
        for space in self.persona.spaces:
            await self.asks("/new", space)
            await self.learns(space)

    async def learns(self, space: str) -> str:
        """`/dream` in that chat, and its reply."""
        self.learnt[space].append(await self.asks("/dream", space))
        return self.learnt[space][-1]

    async def asks(self, command: str, space: str) -> str:
        """A command in that chat, and its reply."""
        chat = self._chats[space]
        name, _, argument = command.partition(" ")
        asked = len(self.world.model.requests)
        person = Person(self.world, chat, chat if chat > 0 else self._owner)
        reply = await person.asks(f"{name}{BOT if chat < 0 else ''} {argument}".strip())
        self._note(space, asked)
        return reply

    def files(self) -> dict[str, dict[str, str]]:
        """All that can be read in each space, by path."""
        return {space: read_all(self.world, self.name(space)) for space in self.persona.spaces}

    async def _says(self, life: DaemonProcess, message: Message) -> None:
        world, chat, key = self.world, self._chats[message.chat], self.key(message.chat)
        asked, ended, shown = len(world.model.requests), len(world.ends(key)), len(world.answers(chat))
        consolidated = len(life.events("memory.consolidated"))
        user = chat if chat > 0 else self._members[message.sender]
        world.telegram.say(message.text, chat, user, message.sender)
        await world.until(lambda: len(world.ends(key)) > ended and len(world.answers(chat)) > shown, str, message.text)
        assert world.ends(key)[-1]["content"] == message.reply
        if len(world.said(key)) - self._through(key) >= self._window:
            await life.until("memory.consolidated", consolidated + 1)
        self._note(message.chat, asked)

    def _through(self, key: str) -> int:
        done = [record["through"] for record in self.world.records(key) if record.get("_type") == "consolidated"]
        return max(done, default=0)

    def _waiting(self, space: str) -> int:
        return len(self.world.entries(self.name(space))) - dream_cursor(self.world, self.name(space))

    def _note(self, space: str, asked: int) -> None:
        self.requests[space] += [whole(request) for request in self.world.model.requests[asked:]]


# --- what the files tell


def dream_cursor(world: World, space: str = "owner") -> int:
    """How far Dream has read the history."""
    path = world.root(space) / "memory" / ".dream_cursor"
    return int(path.read_text()) if path.exists() else 0


def read_all(world: World, space: str = "owner") -> dict[str, str]:
    """All files in the folder of a space."""
    root = world.root(space)
    return {
        str(path.relative_to(root)): path.read_bytes().decode("utf-8", "replace")
        for path in root.rglob("*")
        if path.is_file()
    }


def learnt_to(world: World, space: str = "owner") -> int:
    """As far as Dream knows that it has read, whatever a crash left undone."""
    told = world.git(
        "log", "-1", "--grep=^\\[Dream\\]", "--format=%(trailers:key=History,valueonly)", "main", space=space
    )
    return max(dream_cursor(world, space), int(told.strip().rpartition("-")[2] or 0))


def memory_bytes(world: World, space: str = "owner") -> dict[str, bytes]:
    """Those of the three files that are there, as they are."""
    paths = {name: world.root(space) / name for name in NAMES}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def version_bytes(world: World, commit: str, space: str = "owner") -> dict[str, bytes]:
    """The same of a version."""
    repository = world.home / "versions" / f"{quote(space, safe='')}.git"
    shown = ["git", "-C", str(repository), "show"]
    there = world.git("ls-tree", "-r", "--name-only", commit, space=space).splitlines()
    return {
        name: subprocess.run([*shown, f"{commit}:{name}"], capture_output=True, check=True).stdout
        for name in NAMES
        if name in there
    }
