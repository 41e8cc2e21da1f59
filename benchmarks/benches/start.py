"""From the start of the process to a daemon that listens, a prompt at a terminal, a placeholder, an answer."""

import asyncio
import os
import pty
import select
import time
from pathlib import Path

from benchmarks.daemons import environment, running, started, with_model, with_telegram
from benchmarks.figures import Figure
from tests.emulators import OpenAIServer, TelegramServer

NAME = "start"


async def measure(folder: Path, quick: bool) -> list[Figure]:
    """See the module."""
    figures = await _offline(folder, 1 if quick else 5)
    return figures if quick else [*figures, *await _telegram(folder, 2)]


async def _offline(folder: Path, times: int) -> list[Figure]:
    new, ready, answer, prompt = [], [], [], []
    for time_ in range(times + 1):
        home = folder / f"offline{time_}"
        home.mkdir()
        async with running(home, {}) as daemon:
            new.append(await daemon.ready())
        async with running(home, {}) as daemon:
            ready.append(await daemon.ready())
            await daemon.ask("hello")
            answer.append(time.monotonic() - daemon.began)
        prompt.append(await asyncio.to_thread(_prompt_after, home))
    return [  # the first of each warmed the machine up
        Figure("offline: to a prompt at a terminal", "s", prompt[1:], at_most=0.6),
        Figure("offline: to ready", "s", ready[1:], at_most=0.6),
        Figure("offline, new home: to ready", "s", new[1:]),
        Figure("offline: to the first answer", "s", answer[1:]),
    ]


def _prompt_after(folder: Path) -> float:
    """Seconds until `nanomem run` shows its prompt, on a terminal that only listens."""
    ours, theirs = pty.openpty()
    began = time.monotonic()
    env = environment(folder, {}) | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = started(env, theirs, theirs)
    os.close(theirs)
    try:
        while select.select([ours], [], [], 10)[0]:
            if b">" in os.read(ours, 4096):
                return time.monotonic() - began
        raise TimeoutError("no prompt is shown")
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


async def _telegram(folder: Path, times: int) -> list[Figure]:
    ready, placeholder, answer, fresh = [], [], [], []
    for time_ in range(times + 1):
        home = folder / f"telegram{time_}"
        home.mkdir()
        async with TelegramServer() as telegram, OpenAIServer() as model:
            model.script(lambda _: "Done.")
            telegram.say("hello", chat=1)
            async with running(home, with_telegram(telegram, 2) | with_model(model)) as daemon:
                ready.append(await daemon.ready())
                first = await telegram.wait_for(lambda: telegram.messages(1), timeout=30)
                placeholder.append(first[0].sent_at - daemon.began)
                said = time.monotonic()
                telegram.say("hello", chat=2)
                second = await telegram.wait_for(lambda: telegram.messages(2), timeout=30)
                fresh.append(second[0].sent_at - said)
                await telegram.wait_for(lambda: "Done." in telegram.visible(1), timeout=30)
                answer.append(time.monotonic() - daemon.began)
    return [
        Figure("Telegram, litellm: to ready", "s", ready[1:]),
        Figure("Telegram, litellm: to the placeholder of a message that waits", "s", placeholder[1:]),
        Figure("Telegram, litellm: to its answer", "s", answer[1:]),
        Figure("Telegram: message to placeholder, litellm being imported", "s", fresh[1:], at_most=0.5),
    ]
