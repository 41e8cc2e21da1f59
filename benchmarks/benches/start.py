"""From the start of the process to a daemon that listens, a prompt at a terminal, a placeholder, an answer."""

import asyncio
import os
import pty
import select
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.daemons import environment, running, started, with_model, with_telegram
from benchmarks.figures import Figure
from benchmarks.floor import Floor, Run, import_s, median
from tests.emulators import OpenAIServer, TelegramServer

NAME = "start"
LONGEST_S = 300.0


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    offline = await _offline(folder, 1 if run.quick else 5)
    if run.quick:
        return offline.figures(None)
    floor = await run.floor()
    return offline.figures(floor) + await _telegram(folder, 4, floor)


@dataclass(frozen=True, slots=True)
class Offline:
    """Seconds of each start with the embedded model; the first of each only warmed the machine up."""

    new: list[float]
    ready: list[float]
    answer: list[float]
    prompt: list[float]

    def figures(self, floor: Floor | None) -> list[Figure]:
        """With the floor where it was measured: it is the start to the least agent's placeholder, or to its answer."""
        placed, answered = (median(floor.placeholder_s), median(floor.answer_s)) if floor else (None, None)
        return [
            Figure("offline: to a prompt at a terminal", "s", self.prompt[1:], at_most=0.6, floor=placed),
            Figure("offline: to ready", "s", self.ready[1:], at_most=0.6, floor=placed),
            Figure("offline, new home: to ready", "s", self.new[1:], floor=placed),
            Figure("offline: to the first answer", "s", self.answer[1:], floor=answered),
        ]


async def _offline(folder: Path, times: int) -> Offline:
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
    return Offline(new, ready, answer, prompt)


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


async def _telegram(folder: Path, times: int, floor: Floor) -> list[Figure]:
    """Starts on a home that is there already, when a message has come meanwhile; the first only warms up."""
    library, ready, placeholder, answer, fresh = [], [], [], [], []
    home = folder / "telegram"
    home.mkdir()
    async with running(home, {}) as daemon:
        await daemon.ready()
    for start in range(times + 1):
        library.append(await import_s(home))
        async with TelegramServer(first_update_id=1000 * (start + 1)) as telegram, OpenAIServer() as model:
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
                await telegram.wait_for(lambda: "Done." in telegram.visible(1), timeout=180)
                answer.append(time.monotonic() - daemon.began)
    placed, answered = median(floor.placeholder_s), median(floor.answer_s)
    above = [whole - own for whole, own in zip(answer, library, strict=True)]
    return [
        Figure("litellm imported, and nothing else", "s", library[1:]),
        Figure("Telegram, litellm: to ready", "s", ready[1:], floor=placed),
        Figure("to the placeholder of a message that waits", "s", placeholder[1:], at_most=0.6, floor=placed),
        Figure("to its answer", "s", answer[1:], floor=answered),
        Figure("to its answer, above the import of litellm just before", "s", above[1:], at_most=0.6),
        Figure("message to placeholder, litellm being imported", "s", fresh[1:], at_most=0.5),
    ]
