"""How many messages a second a daemon takes from many chats, keeps and answers, with a model that answers at once."""

import asyncio
import re
import time
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.daemons import running, with_model, with_telegram
from benchmarks.figures import Figure
from nanomem.home import Home
from nanomem.records import UserMessage
from nanomem.stores.session_log import read_all
from tests.emulators import OpenAIServer, TelegramServer
from tests.emulators.openai import Json

NAME = "throughput"

CHATS = 20
MESSAGES = 10


async def measure(folder: Path, quick: bool) -> list[Figure]:
    """See the module."""
    rounds = 1 if quick else 2
    paced, cpu, burst = [], [], []
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(_echoed_number)
        settings = with_telegram(telegram, CHATS) | with_model(model) | {"log.level": "warning"}
        async with running(folder, settings) as daemon:
            await daemon.ready()
            await _say_all(telegram, range(1), at_once=False)  # loads litellm, opens the sessions
            for first in range(1, 1 + rounds * MESSAGES, MESSAGES):
                used = machine.cpu_s(daemon.pid)
                paced.append(await _say_all(telegram, range(first, first + MESSAGES), at_once=False))
                cpu.append((machine.cpu_s(daemon.pid) - used) / (CHATS * MESSAGES) * 1000)
            for first in range(1 + rounds * MESSAGES, 1 + 2 * rounds * MESSAGES, MESSAGES):
                burst.append(await _say_all(telegram, range(first, first + MESSAGES), at_once=True))
    said = CHATS * (1 + 2 * rounds * MESSAGES)
    return [
        Figure("each chat waits for its answer", "messages/s", paced),
        Figure("each chat waits for its answer: processor", "ms a message", cpu),
        Figure("all at once", "messages/s", burst),
        Figure(f"missing in the session logs, of {said:,}", "messages", [said - _kept(daemon.home)], at_most=0),
    ]


async def _say_all(telegram: TelegramServer, numbers: range, at_once: bool) -> float:
    """Every chat says these; returns how many messages a second were answered."""

    async def converse(chat: int) -> None:
        for number in numbers:
            telegram.say(f"This is message {number}.", chat=chat)
            if not at_once or number == numbers[-1]:
                await telegram.wait_for(partial(_has_answer, telegram, chat, number), timeout=60)

    began = time.monotonic()
    await asyncio.gather(*(converse(chat) for chat in range(1, CHATS + 1)))
    return CHATS * len(numbers) / (time.monotonic() - began)


def _echoed_number(asked: Json) -> str:
    """An answer that shows to which message it belongs, the last one where several were answered together."""
    newest = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    return "Answer " + str(re.findall(r"message (\d+)", str(newest))[-1])


def _has_answer(telegram: TelegramServer, chat: int, number: int) -> bool:
    return f"Answer {number}" in telegram.visible(chat)


def _kept(home: Home) -> int:
    """The messages of people in all session logs."""
    logs = home.path.glob("**/sessions/*.jsonl")
    return sum(isinstance(record, UserMessage) for log in logs for record in read_all(log))
