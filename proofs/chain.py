"""A home whose daemon dies again and again, at random moments, while people go on talking.

Knows nothing of the inside; when it dies is by seed, as far as the machine keeps time.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from proofs import invariants
from tests.daemon.running import OWNER, DaemonProcess, World
from tests.emulators import Answer


class Chain:
    """One home, what was said in its chats, and how often it died. `model` is what answers there."""

    def __init__(self, world: World, seed: int, chats: Sequence[int], model: str = "offline", **settings: str) -> None:
        self.world = world
        self.dice = random.Random(seed)
        self.told: dict[int, list[str]] = {chat: [] for chat in chats}
        self.fresh = Counter[int]()
        self.deaths = 0
        self.deaths_amid_work = 0
        """Of these, with messages that were not answered yet."""
        self._acts = model != "offline"
        self._model = model
        self._settings = settings

    async def suffers(self, rounds: int, commands: bool) -> None:
        """Dies so often, each time with messages in flight, and sometimes once more while it recovers.

        In the end it does what was left undone, and stops.
        """
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
        for chat in self.told:
            await self.world.catches_up(*_room(chat))
        await life.stops()

    def violations(self) -> list[str]:
        """What does not hold though it should, once it has stopped."""
        world, found = self.world, invariants.in_flight(self.world.home)
        for chat, texts in self.told.items():
            found += invariants.conversation(*world.talk(chat, texts))
            found += world.memory_violations(*_room(chat))
            if (times := world.answers(chat).count("New session started.")) < self.fresh[chat]:
                found.append(f"{chat}: {self.fresh[chat]} times /new, {times} replies")
        return found + invariants.files(world.home)

    async def _life(self) -> DaemonProcess:
        return await self.world.daemon(self._model, **self._settings)

    def _talk(self, commands: bool) -> None:
        for chat, texts in self.told.items():
            for _ in range(self.dice.randint(1, 3)):
                texts.append(f"message {len(texts) + 1} of chat {chat}")
                self.world.telegram.say(texts[-1], chat)
                if commands and self.dice.random() < 0.1:
                    self.fresh[chat] += 1
                    self.world.telegram.say("/new", chat)

    async def _strike(self, life: DaemonProcess) -> None:
        await self.world.until_called(self.dice.randint(1, 16), self._is_settled)
        await self._kill(life, self.dice.choice([0.0, 0.0, 0.01, 0.03, 0.3]) * self.dice.random())

    async def _strike_a_tool(self, life: DaemonProcess) -> None:
        """While a tool runs, or just before or behind it; each chat's turn starts three."""
        await life.until("tool.started", len(life.events("tool.started")) + self.dice.randint(1, 9))
        await self._kill(life, self.dice.random() * 0.1)

    async def _kill(self, life: DaemonProcess, after_s: float) -> None:
        await life.dies_after(after_s)
        self.deaths += 1
        self.deaths_amid_work += not self._is_settled()

    def _is_settled(self) -> bool:
        return all(self.world.is_settled(chat, texts) for chat, texts in self.told.items())

    def _unsettled(self) -> str:
        return "\n".join(
            f"{chat}: told {texts}\nlog {self.world.said(f'telegram:{chat}')}\nshown {self.world.answers(chat)}"
            for chat, texts in self.told.items()
            if not self.world.is_settled(chat, texts)
        )


def _room(chat: int) -> tuple[list[str], str]:
    """The sessions of the space that a chat is in, and that space: all live alone here."""
    return [f"telegram:{chat}"], "owner" if chat == OWNER else f"telegram:{chat}"


class Worker:
    """A model that acts twice before it answers, each time on a file that no other call has touched."""

    def __init__(self) -> None:
        self._number = 0

    def decide(self, asked: dict[str, Any]) -> Answer:
        newest = max(i for i, message in enumerate(asked["messages"]) if message["role"] == "user")
        self._number += 1
        command = ("exec", {"command": f"echo x >> ran-{self._number}; sleep 0.1"})
        match sum(message["role"] == "tool" for message in asked["messages"][newest:]):
            case 0:
                return Answer(tool_calls=[("write_file", {"path": f"wrote-{self._number}", "content": "x"}), command])
            case 2:
                return Answer("One more.", tool_calls=[command])
        texts = re.findall(r"message \d+ of chat \d+", asked["messages"][newest]["content"])
        return Answer(f"Answer {self._number} to {', '.join(texts)}", chunk_delay_s=0.005)
