"""A daemon of its own process on a home of its own, as a person would start it.

Nothing of the caller's environment gets in but PATH and PYTHONPATH. Time is `time.monotonic()`, as with the emulators.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from nanomem import chat as client
from nanomem.home import Home
from nanomem.spaces import OWNER
from tests.emulators import OpenAIServer, TelegramServer

COMMAND = (sys.executable, "-m", "nanomem", "run")
CHECKOUT = Path(__file__).parents[1]
ENDS_WITHIN_S = 10.0
LOOKS_S = 1.0
"""The pause between two searches."""
_STILL_READ = "[not everything was searched"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One that was started; `began` is when."""

    home: Home
    process: subprocess.Popen[bytes]
    began: float

    @property
    def pid(self) -> int:
        return self.process.pid

    def uses(self, measure: Callable[[int], float]) -> float:
        """What is measured of it and of all the processes that it has started, together."""
        return machine.of_all(measure, self.pid)

    async def ready(self) -> float:
        """Waits until it answers at its socket; returns the seconds since the start."""
        while True:
            try:
                await client.control(self.home.socket, "menu", {})
                return time.monotonic() - self.began
            except (FileNotFoundError, ConnectionRefusedError):
                if self.process.poll() is not None:
                    log = (self.home.path.parent / "daemon.log").read_text()
                    raise RuntimeError(f"the daemon ended with {self.process.returncode}:\n{log}") from None
                await asyncio.sleep(0.002)

    async def ask(self, text: str, session: str = "terminal:local") -> float:
        """Says something and waits for the answer; returns the seconds it took."""
        began = time.monotonic()
        answer, end = await client.ask(self.home.socket, session, text)
        if end != "answer":
            raise RuntimeError(f"no answer but: {answer}")
        return time.monotonic() - began

    async def tasks(self) -> int:
        """How many it has of asyncio."""
        return int((await client.control(self.home.socket, "tasks", {}))["tasks"])

    async def all_found(self) -> None:
        """Waits until all that stands in the owner's logs is taken in, which goes on behind the answers."""
        asked = {"what": "search", "argument": "hello", "space": OWNER}
        while _STILL_READ in str(await client.control(self.home.socket, "memory", asked)):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOKS_S)  # seldom: a search takes in what it can itself


@asynccontextmanager
async def running(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Daemon]:
    """A daemon on `folder/home`, which is made where it is missing; stopped at the end, if need be by force."""
    async with process(COMMAND, environment(folder, settings), folder / "daemon.log") as (child, began):
        yield Daemon(Home(folder / "home"), child, began)


@asynccontextmanager
async def process(
    command: Sequence[str], env: Mapping[str, str], log: Path
) -> AsyncIterator[tuple[subprocess.Popen[bytes], float]]:
    """It and when it was begun; what it says is in `log`."""
    with log.open("wb") as out:
        began = time.monotonic()
        child = started(env, subprocess.DEVNULL, out.fileno(), command)
        try:
            yield child, began
        finally:
            child.terminate()
            try:
                await asyncio.to_thread(child.wait, ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def started(env: Mapping[str, str], source: int, out: int, command: Sequence[str] = COMMAND) -> subprocess.Popen[bytes]:
    """`nanomem run`, or another command, with these file descriptors."""
    return subprocess.Popen(command, cwd=CHECKOUT, env=env, stdin=source, stdout=out, stderr=out)


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """All a daemon's process sees; `settings` by their dotted names."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    own = {"NANOMEM__" + key.upper().replace(".", "__"): value for key, value in settings.items()}
    return {**kept, "HOME": str(folder), "LANG": "C.UTF-8", "NANOMEM_HOME": str(folder / "home"), **own}


def with_model(model: OpenAIServer) -> dict[str, str]:
    """Settings of a daemon that asks this one, through litellm."""
    return {
        "agents.defaults.model": "openai/test-model",
        "providers.openai.api_key": "sk-benchmark",
        "providers.openai.api_base": model.base_url,
    }


def with_telegram(telegram: TelegramServer, users: int) -> dict[str, str]:
    """Settings of a daemon that serves this network, where the users 1, 2, ... may talk."""
    return {
        "channels.telegram.enabled": "true",
        "channels.telegram.token": telegram.token,
        "channels.telegram.base_url": telegram.base_url,
        "channels.telegram.base_file_url": telegram.base_file_url,
        "channels.telegram.allow_from": ",".join(str(user) for user in range(1, users + 1)),
        "channels.telegram.owner": "1",
    }
