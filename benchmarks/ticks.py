"""How long a daemon's loop is held up: a question at its socket that costs it next to nothing, again and again.

`python -m benchmarks.ticks SOCKET`: a process of its own, so that what it waits for is the daemon alone and not the
networks that the benchmarks play. It says when it begins; when its stdin ends, it says what it found.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nanomem import chat as client

CHECKOUT = Path(__file__).parents[1]
TICK_S = 0.01
"""Between one question and the next, and from when each was due is what it took."""
_LONGEST = 2**24


@asynccontextmanager
async def ticking(socket: Path) -> AsyncIterator[list[float]]:
    """The seconds that each answer took, there when the block is done."""
    command = (sys.executable, "-m", "benchmarks.ticks", str(socket))
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, cwd=CHECKOUT, stdin=pipe, stdout=pipe, limit=_LONGEST)
    assert child.stdin and child.stdout
    lags: list[float] = []
    try:
        await child.stdout.readline()
        yield lags
        child.stdin.close()
        lags += json.loads(await child.stdout.readline())
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _tick(socket: Path) -> list[float]:
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await client.control(socket, "menu", {})
    print("ticking", flush=True)
    lags, due = list[float](), time.monotonic()
    while not over.done():
        await asyncio.sleep(due - time.monotonic())
        await client.control(socket, "menu", {})
        lags.append(time.monotonic() - due)
        due += TICK_S  # also where that is over: else all who would have asked in a long pause count as one
    return lags


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_tick(Path(sys.argv[1])))), flush=True)
