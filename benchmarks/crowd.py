"""Many people who talk at once at Telegram, each in a chat of their own, and a model that shows to whom it answers."""

import asyncio
import re
import time
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


def echoed_number(asked: Json) -> str:
    """An answer that shows to which message it belongs, the last one where several were answered together."""
    newest = next(message["content"] for message in reversed(asked["messages"]) if message["role"] == "user")
    return "Answer " + str(re.findall(r"message (\d+)", str(newest))[-1])


def _has_answer(telegram: TelegramServer, chat: int, number: int) -> bool:
    return f"Answer {number}" in telegram.visible(chat)
