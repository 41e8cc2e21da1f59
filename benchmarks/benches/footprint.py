"""How much memory a daemon holds, and how often it wakes up while nothing happens."""

import asyncio
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.daemons import Daemon, running, with_model, with_telegram
from benchmarks.figures import Figure
from tests.emulators import OpenAIServer, TelegramServer

NAME = "footprint"

SETTLES_S = 2.0
IDLE_S = 5.0


async def measure(folder: Path, quick: bool) -> list[Figure]:
    """See the module."""
    idle_s = 0.5 if quick else IDLE_S
    (folder / "offline").mkdir()
    async with running(folder / "offline", {}) as daemon:
        await daemon.ready()
        await asyncio.sleep(SETTLES_S)
        figures = await _resting("offline, idle", daemon, idle_s, at_most=130)
        for _ in range(5):
            await daemon.ask("hello")
        figures += _held("offline, after 5 answers", daemon)
    if quick:
        return figures
    (folder / "litellm").mkdir()
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(lambda _: "Done.")
        settings = with_model(model)
        async with running(folder / "litellm", settings) as daemon:
            for _ in range(5):
                await _patiently_ask(daemon)
            await asyncio.sleep(SETTLES_S)
            figures += await _resting("litellm, after 5 answers", daemon, idle_s, at_most=320)
        async with running(folder / "litellm", settings | with_telegram(telegram, 1)) as daemon:
            for _ in range(5):
                await _patiently_ask(daemon)
            await asyncio.sleep(SETTLES_S)
            figures += await _resting("litellm and Telegram, after 5 answers", daemon, idle_s)
    return figures


async def _patiently_ask(daemon: Daemon) -> None:
    await daemon.ready()
    await daemon.ask("hello")


def _held(when: str, daemon: Daemon, at_most: float | None = None) -> list[Figure]:
    return [
        Figure(f"{when}: resident", "MB", [machine.resident(daemon.pid)], at_most),
        Figure(f"{when}: proportional", "MB", [machine.proportional(daemon.pid)]),
    ]


async def _resting(when: str, daemon: Daemon, idle_s: float, at_most: float | None = None) -> list[Figure]:
    began, before, cpu = time.monotonic(), machine.wake_ups(daemon.pid), machine.cpu_s(daemon.pid)
    await asyncio.sleep(idle_s)
    took = time.monotonic() - began
    return [
        *_held(when, daemon, at_most),
        Figure(f"{when}: wake-ups", "1/s", [(machine.wake_ups(daemon.pid) - before) / took]),
        Figure(f"{when}: processor", "ms/s", [(machine.cpu_s(daemon.pid) - cpu) * 1000 / took]),
    ]
