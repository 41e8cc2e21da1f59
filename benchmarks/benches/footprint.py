"""How much memory a daemon and its processes hold, and how often they wake up while nothing happens."""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks import machine
from benchmarks.daemons import Daemon, running, with_model, with_telegram
from benchmarks.figures import Figure
from benchmarks.floor import Run
from tests.emulators import OpenAIServer, TelegramServer

NAME = "footprint"
LONGEST_S = 300.0

SETTLES_S = 2.0
IDLE_S = 5.0
ASKED, LEFT = "litellm and Telegram, after 5 answers", "litellm and Telegram, long idle"


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module. The quick one has each figure once, and no litellm."""
    offline, litellm = _Kinds(), _Kinds()
    for start in range(1 if run.quick else 3):
        at = folder / f"offline{start}"
        at.mkdir()
        async with running(at, {}) as daemon:
            await daemon.ready()
            await asyncio.sleep(SETTLES_S)
            await offline.rest("offline, idle", daemon, 0.5 if run.quick else IDLE_S)
            await _ask(daemon)
            offline.hold("offline, after 5 answers", daemon)
    figures = offline.figures({"offline, idle": 130})
    if run.quick:
        return figures
    at = folder / "litellm"
    at.mkdir()
    async with TelegramServer() as telegram, OpenAIServer() as model:
        model.script(lambda _: "Done.")
        for _ in range(2):
            async with running(at, with_model(model)) as daemon:
                await _ask(daemon)
                await litellm.rest("litellm, after 5 answers", daemon, IDLE_S)
            async with running(at, with_model(model) | with_telegram(telegram, 1)) as daemon:
                await _ask(daemon)
                await litellm.rest(ASKED, daemon, IDLE_S)
                _end_what_is_idle(daemon)
                await litellm.rest(LEFT, daemon, IDLE_S)
    return figures + litellm.figures({"litellm, after 5 answers": 330, ASKED: 330, LEFT: 184})


async def _ask(daemon: Daemon) -> None:
    await daemon.ready()
    for _ in range(5):
        await daemon.ask("hello")
    await asyncio.sleep(SETTLES_S)


def _end_what_is_idle(daemon: Daemon) -> None:
    """As the daemon does itself after `litellm_process.IDLE_S`, which nobody would wait for here."""
    for pid in machine.tree(daemon.pid):
        if pid != daemon.pid:
            os.kill(pid, signal.SIGKILL)


class _Kinds:
    """What was found in each situation, of several daemons."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[float]] = {}

    def hold(self, when: str, daemon: Daemon) -> None:
        """Their memory now."""
        self._add(when, "resident", "MB", daemon.uses(machine.resident))
        self._add(when, "proportional", "MB", daemon.uses(machine.proportional))
        self._add(when, "resident, the daemon alone", "MB", machine.resident(daemon.pid))
        self._add(when, "processes", "", len(machine.tree(daemon.pid)))

    async def rest(self, when: str, daemon: Daemon, idle_s: float) -> None:
        """Their memory, and what they do while nothing is asked of them."""
        self.hold(when, daemon)
        began, wakes, cpu = time.monotonic(), daemon.uses(machine.wake_ups), daemon.uses(machine.cpu_s)
        await asyncio.sleep(idle_s)
        took = time.monotonic() - began
        self._add(when, "wake-ups", "1/s", (daemon.uses(machine.wake_ups) - wakes) / took)
        self._add(when, "processor", "ms/s", (daemon.uses(machine.cpu_s) - cpu) * 1000 / took)

    def figures(self, most_resident: Mapping[str, float]) -> list[Figure]:
        return [
            Figure(f"{when}: {what}", unit, values, most_resident.get(when) if what == "resident" else None)
            for (when, what, unit), values in self._found.items()
        ]

    def _add(self, when: str, what: str, unit: str, value: float) -> None:
        self._found.setdefault((when, what, unit), []).append(value)
