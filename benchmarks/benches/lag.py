"""How long the daemon's loop is held up while many answers stream at once."""

import asyncio
import re
from functools import partial
from pathlib import Path

from benchmarks.daemons import running, with_model, with_telegram
from benchmarks.figures import Figure
from benchmarks.floor import Run
from benchmarks.ticks import ticking
from tests.emulators import Answer, OpenAIServer, TelegramServer

NAME = "lag"
LONGEST_S = 300.0

STREAMS = 10
PIECES = 200
PIECE_DELAY_S = 0.01
WORDS = "The train to Hamburg leaves at ten from platform seven and arrives a little before one ."


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module. Half of the answers are shown at Telegram, half at a terminal."""
    words = re.findall(r"\S+\s*", WORDS)
    pieces = [words[at % len(words)] for at in range(20 if run.quick else PIECES)]
    quiet, streaming = list[float](), list[float]()
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(lambda _: Answer("Done."))
        async with running(folder, with_model(model) | with_telegram(telegram, STREAMS)) as daemon:
            await daemon.ready()
            for _ in range(3):
                await daemon.ask("hello")
            for _ in range(1 if run.quick else 3):
                async with ticking(daemon.home.socket) as lags:
                    await asyncio.sleep(0.2 if run.quick else 2)
                quiet += lags
                model.script(lambda _: Answer(chunks=pieces, chunk_delay_s=PIECE_DELAY_S))
                async with ticking(daemon.home.socket) as lags:
                    await asyncio.gather(
                        *(_answered(telegram, chat, "".join(pieces)) for chat in range(1, 1 + STREAMS // 2)),
                        *(daemon.ask("hello", f"terminal:{at}") for at in range(STREAMS - STREAMS // 2)),
                    )
                streaming += lags
    return [
        Figure("a question, nothing else going on", "ms", [s * 1000 for s in quiet]),
        Figure(f"a question while {STREAMS} answers stream", "ms", [s * 1000 for s in streaming], p95_at_most=50),
    ]


async def _answered(telegram: TelegramServer, chat: int, whole: str) -> None:
    before = len(telegram.messages(chat))
    telegram.say("hello", chat=chat)
    await telegram.wait_for(partial(_stands, telegram, chat, before, whole.strip()), timeout=180)


def _stands(telegram: TelegramServer, chat: int, before: int, text: str) -> bool:
    return telegram.visible(chat)[before:] == [text]
