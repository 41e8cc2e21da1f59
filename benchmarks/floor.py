"""The floor: what an agent on the same libraries has to spend at least, measured as nanomem is, in the same run.

It is asked one message at a time, without a system prompt, tools, memory or anything that was said before.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import machine
from benchmarks.crowd import echoed_number, served
from benchmarks.daemons import CHECKOUT, environment, process
from benchmarks.figures import quantile
from benchmarks.instant import InstantModel
from tests.emulators import OpenAIServer, TelegramServer

ALONE = 500
"""The chat of one who talks alone."""
LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
"""What nanomem has in the environment before it imports litellm."""
_IMPORT = "import litellm, os; print(flush=True); os._exit(0)"


@dataclass(frozen=True, slots=True)
class Floor:
    """What it took each time: of starts, of turns one after another, of rounds of many chats; and memory in the end."""

    import_s: list[float] = field(default_factory=list)
    placeholder_s: list[float] = field(default_factory=list)
    answer_s: list[float] = field(default_factory=list)
    latency_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)
    paced_cpu_ms: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    proportional: list[float] = field(default_factory=list)


class Run:
    """One run of the benchmarks: whether it is only to see that they work, and the floor all are compared with.

    `turns` is for what is as long as one likes; None leaves it to the benchmark.
    """

    def __init__(self, quick: bool, turns: int | None = None) -> None:
        self.quick = quick
        self.turns = turns
        self._floor: Floor | None = None

    async def floor(self) -> Floor:
        """Measured when it is first asked for."""
        if self._floor is None:
            with tempfile.TemporaryDirectory(prefix="nanomem-floor-") as folder:
                self._floor = await measured(Path(folder), self.quick)
        return self._floor


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


async def measured(folder: Path, quick: bool) -> Floor:
    """All of it, with the agent that was started last; the first start only warms the machine up."""
    floor, starts, rounds = Floor(), 1 if quick else 4, 1 if quick else 3
    for start in range(starts):
        took = Floor() if start < starts - 3 else floor
        took.import_s.append(await import_s(folder))
        async with TelegramServer() as telegram, InstantModel() as model:
            telegram.say("hello", chat=1)
            async with least(folder, telegram, model) as (child, began):
                await telegram.wait_for(lambda: "Done." in telegram.visible(1), timeout=180)
                took.answer_s.append(time.monotonic() - began)
                took.placeholder_s.append(telegram.messages(1)[0].sent_at - began)
                if start == starts - 1:
                    await _talk(telegram, model, child.pid, Floor(), 1, 3)
                    await _talk(telegram, model, child.pid, floor, rounds, 10)
                    model.script(echoed_number)
                    crowd = await served(telegram, partial(machine.of_all, machine.cpu_s, child.pid), rounds)
                    floor.paced.extend(crowd.paced)
                    floor.paced_cpu_ms.extend(crowd.cpu_ms)
                    floor.burst.extend(crowd.burst)
                    floor.resident.append(machine.of_all(machine.resident, child.pid))
                    floor.proportional.append(machine.of_all(machine.proportional, child.pid))
    return floor


@asynccontextmanager
async def least(
    folder: Path, telegram: TelegramServer, model: OpenAIServer
) -> AsyncIterator[tuple[subprocess.Popen[bytes], float]]:
    """The least agent, between the same two networks as a daemon; when it was begun."""
    command = (sys.executable, "-m", "benchmarks.least", telegram.token, telegram.base_url, model.base_url)
    async with process(command, environment(folder, {}) | LITELLM, folder / "least.log") as found:
        yield found


async def import_s(folder: Path) -> float:
    """Seconds that a new process needs to have litellm and nothing else."""
    env, began = environment(folder, {}) | LITELLM, time.monotonic()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _IMPORT), cwd=CHECKOUT, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout
    line = await child.stdout.readline()
    took = time.monotonic() - began
    if await child.wait() or not line:
        raise RuntimeError("litellm cannot be imported")
    return took


async def _talk(telegram: TelegramServer, model: InstantModel, pid: int, floor: Floor, blocks: int, turns: int) -> None:
    for _ in range(blocks):
        cpu = machine.of_all(machine.cpu_s, pid)
        for _ in range(turns):
            floor.latency_ms.append(await said(telegram, model, ALONE) * 1000)
        floor.cpu_ms.append((machine.of_all(machine.cpu_s, pid) - cpu) / turns * 1000)


async def said(telegram: TelegramServer, model: InstantModel, chat: int) -> float:
    """One turn at Telegram; seconds from what is said to the answer in the chat, less those of the model."""
    before, model_s, began = len(telegram.messages(chat)), model.own_s, time.monotonic()
    telegram.say("hello", chat=chat)
    await telegram.wait_for(lambda: telegram.visible(chat)[before:] == ["Done."], timeout=180)
    return time.monotonic() - began - (model.own_s - model_s)
