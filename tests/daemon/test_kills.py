"""`kill -9` at random moments of a real daemon, and what is there after the next start.

`NANOMEM_KILL_ROUNDS` says how many times it dies in all; the seeds are fixed, the moments are the machine's.
"""

import asyncio
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.daemon.running import OTHERS, OWNER, DaemonProcess, World, a_world
from tests.emulators import Answer

ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "15"))
CHATS = (OWNER, *OTHERS[:2])
SIDE_BY_SIDE = 2
UNKNOWN = "The outcome is unknown"


class Chain:
    """One home whose daemon dies again and again while people go on talking."""

    def __init__(self, world: World, seed: int, model: str, **settings: str) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.told: dict[int, list[str]] = {chat: [] for chat in CHATS}
        self.fresh = Counter[int]()
        self.deaths = 0
        self._acts = model != "offline"
        self._model = model
        self._settings = settings

    async def suffers(self, rounds: int, commands: bool) -> None:
        """Dies so often, each time with messages in flight, and sometimes once more while it recovers."""
        while self.deaths < rounds:
            if self.dice.random() < 0.3:
                self._talk(commands)
            life = await self._life()
            if self.deaths and self.dice.random() < 0.3:
                await self._strike(life)
                life = await self._life()
            await self.world.until(self._is_settled, self._unsettled)
            self._talk(commands)
            amid_a_tool = self._acts and (not self.deaths or self.dice.random() < 0.5)
            await (self._strike_a_tool(life) if amid_a_tool else self._strike(life))
        life = await (await self._life()).ready()
        await self.world.until(self._is_settled, self._unsettled)
        await life.stops()
        assert await self.world.messages_in_flight() == {"waiting": 0, "undelivered": 0, "set_aside": 0}
        for chat, texts in self.told.items():
            self.world.check(chat, texts)
            assert self.world.answers(chat).count("New session started.") >= self.fresh[chat]

    async def _life(self) -> DaemonProcess:
        return await self.world.daemon(self._model, **self._settings)

    def _talk(self, commands: bool) -> None:
        for chat in CHATS:
            for _ in range(self.dice.randint(1, 3)):
                self.told[chat].append(f"message {len(self.told[chat]) + 1} of chat {chat}")
                self.world.telegram.say(self.told[chat][-1], chat)
                if commands and self.dice.random() < 0.1:
                    self.fresh[chat] += 1
                    self.world.telegram.say("/new", chat)

    async def _strike(self, life: DaemonProcess) -> None:
        await self.world.until_called(self.dice.randint(1, 16), self._is_settled)
        await life.dies_after(self.dice.choice([0.0, 0.0, 0.01, 0.03, 0.3]) * self.dice.random())
        self.deaths += 1

    async def _strike_a_tool(self, life: DaemonProcess) -> None:
        """While a tool runs, or just before or behind it; each chat's turn starts three."""
        await life.until("tool.started", len(life.events("tool.started")) + self.dice.randint(1, 9))
        await life.dies_after(self.dice.random() * 0.1)
        self.deaths += 1

    def _is_settled(self) -> bool:
        return all(self.world.is_settled(chat, texts) for chat, texts in self.told.items())

    def _unsettled(self) -> str:
        return "\n".join(
            f"{chat}: told {texts}\nlog {self.world.said(f'telegram:{chat}')}\nshown {self.world.answers(chat)}"
            for chat, texts in self.told.items()
            if not self.world.is_settled(chat, texts)
        )


async def test_nothing_is_lost_or_shown_twice(tmp_path: Path) -> None:
    """Each message is in exactly one turn, each turn has one end, and each end stands in its chat once, in order."""

    async def home(number: int) -> None:
        async with a_world(tmp_path / f"{number}") as world:
            await Chain(world, number, "offline").suffers(ROUNDS * 4 // 5 // SIDE_BY_SIDE, commands=True)

    async with asyncio.TaskGroup() as homes:
        for number in range(SIDE_BY_SIDE):
            homes.create_task(home(number))


async def test_no_tool_runs_twice_in_silence(tmp_path: Path) -> None:
    """A command whose result was lost is reported as of unknown outcome; it ran at most once, all others just once."""

    async def home(number: int) -> None:
        async with a_world(tmp_path / f"{number}") as world:
            world.model.script(Worker().decide)
            chain = Chain(world, number, "openai/gpt-test", tools__exec__sandbox="none")
            await chain.suffers(ROUNDS // 5 // SIDE_BY_SIDE, commands=False)
            for chat in CHATS:
                check_effects(world, chat)

    async with asyncio.TaskGroup() as homes:
        for number in range(SIDE_BY_SIDE):
            homes.create_task(home(number))


class Worker:
    """A model that acts twice before it answers, each time on a file that no other call has touched."""

    def __init__(self) -> None:
        self._number = 0

    def decide(self, asked: dict[str, Any]) -> Answer:
        newest = max(i for i, message in enumerate(asked["messages"]) if message["role"] == "user")
        self._number += 1
        command = ("exec", {"command": f"echo ran >> ran-{self._number}; sleep 0.1"})
        match sum(message["role"] == "tool" for message in asked["messages"][newest:]):
            case 0:
                return Answer(tool_calls=[("write_file", {"path": f"wrote-{self._number}", "content": "x"}), command])
            case 2:
                return Answer("One more.", tool_calls=[command])
        texts = re.findall(r"message \d+ of chat \d+", asked["messages"][newest]["content"])
        return Answer(f"Answer {self._number} to {', '.join(texts)}", chunk_delay_s=0.005)


def check_effects(world: World, chat: int) -> None:
    said = world.said(f"telegram:{chat}")
    log = world.log_of(f"telegram:{chat}")
    assert log is not None
    space = log.parent.parent
    results = {record["tool_call_id"]: record["content"] for record in said if record["role"] == "tool"}
    expected: set[str] = set()
    for call in (call for record in said for call in record.get("tool_calls", ())):
        [name] = re.findall(r"(?:ran|wrote)-\d+", call["function"]["arguments"])
        mark = "ran" if name.startswith("ran") else "x"
        times = (space / name).read_text().count(mark) if (space / name).exists() else 0
        unknown = UNKNOWN in results[call["id"]]
        assert times == 1 or (unknown and times == 0), (name, times, results[call["id"]])
        expected.add(name)
    assert {path.name for path in space.iterdir() if path.name[:3] in ("ran", "wro")} <= expected
