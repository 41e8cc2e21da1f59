"""The least agent there can be on python-telegram-bot and litellm: it polls, asks, and edits; it keeps nothing.

`python -m benchmarks.least TOKEN TELEGRAM_URL MODEL_URL`. Knows nothing of nanomem: it is what nanomem is compared
with. The model sees one message and nothing before it.
"""

import asyncio
import sys
from typing import Any

from telegram import Bot, Message
from telegram.request import HTTPXRequest

PLACEHOLDER = "…"


class Least:
    """An agent whose every message is a task of its own. litellm is imported when the first one has its placeholder."""

    def __init__(self, bot: Bot, model_url: str) -> None:
        self._bot = bot
        self._model_url = model_url
        self._library: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Takes what is said, for ever."""
        offset = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                for update in await self._bot.get_updates(offset, timeout=30):
                    offset = update.update_id + 1
                    if update.message:
                        tasks.create_task(self._answer(update.message))

    async def _answer(self, said: Message) -> None:
        placed = await self._bot.send_message(said.chat_id, PLACEHOLDER)
        if self._library is None:
            self._library = asyncio.create_task(asyncio.to_thread(_import))
        litellm = await asyncio.shield(self._library)
        stream = await litellm.acompletion(
            model="openai/test-model",
            api_base=self._model_url,
            api_key="sk-benchmark",
            messages=[{"role": "user", "content": said.text or ""}],
            max_tokens=8192,
            temperature=0.1,
            timeout=120,
            stream=True,
            stream_options={"include_usage": True},
            max_retries=0,
            num_retries=0,
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        await self._bot.edit_message_text(text, said.chat_id, placed.message_id)


def _import() -> Any:
    """litellm, as quiet and as cheap as nanomem has it."""
    import litellm

    vars(litellm).update(suppress_debug_info=True, telemetry=False, drop_params=True, disable_token_counter=True)
    return litellm


def main(token: str, telegram_url: str, model_url: str) -> None:
    bot = Bot(token, telegram_url, request=HTTPXRequest(32), get_updates_request=HTTPXRequest(1))
    asyncio.run(Least(bot, model_url).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
