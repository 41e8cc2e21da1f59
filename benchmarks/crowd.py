"""Many people who talk at once at Telegram, each in a chat of their own, and a model that shows to whom it answers."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.emulators import TelegramServer
from tests.emulators.openai import Json

CHATS = 20
MESSAGES = 10


async def say_all(telegram: TelegramServer, numbers: range, at_once: bool) -> float:
    """Every chat says these; returns how many messages a second were answered."""

    async def converse(chat: int) -> None:
        for number in numbers:
            telegram.say(f"This is message {number}.", chat=chat)
            if not at_once:
                await telegram.wait_for(partial(_has_answer, telegram, chat, number), timeout=180)
        await telegram.wait_for(partial(_has_answer, telegram, chat, numbers[-1]), timeout=180)

    began = time.monotonic()
    await asyncio.gather(*(converse(chat) for chat in range(1, CHATS + 1)))
    return CHATS * len(numbers) / (time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class Served:
    """What rounds of the crowd found: messages a second where each waits for its answer, milliseconds of processor for
    one of these, and messages a second where all is said at once."""

    paced: list[float]
    cpu_ms: list[float]
    burst: list[float]


async def served(telegram: TelegramServer, cpu_s: Callable[[], float], rounds: int) -> Served:
    """So many rounds of both kinds, behind a message of each that warms up; `cpu_s` is what was used until now."""
    found = Served([], [], [])
    await say_all(telegram, range(1), at_once=False)
    for first in range(1, 1 + rounds * MESSAGES, MESSAGES):
        used = cpu_s()
        found.paced.append(await say_all(telegram, range(first, first + MESSAGES), at_once=False))
        found.cpu_ms.append((cpu_s() - used) / (CHATS * MESSAGES) * 1000)
    for first in range(1 + rounds * MESSAGES, 1 + 2 * rounds * MESSAGES, MESSAGES):
        found.burst.append(await say_all(telegram, range(first, first + MESSAGES), at_once=True))
    return found


def echoed_number(asked: Json) -> str:
    """An answer that shows to which message it belongs, the last one where several were answered together."""
    newest = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    return "Answer " + str(re.findall(r"message (\d+)", str(newest))[-1])


def _has_answer(telegram: TelegramServer, chat: int, number: int) -> bool:
    return f"Answer {number}" in telegram.visible(chat)
