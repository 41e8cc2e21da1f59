"""Who waits for an answer goes first, as long as patience lasts."""

import asyncio

from nanomem.agent.traffic import PATIENCE_S, Traffic
from nanomem.testing import FakeClock


async def test_nobody_there_nobody_waited_for() -> None:
    """It is calm at once."""
    clock = FakeClock()
    await Traffic(clock).calm()
    assert clock.slept == []


async def test_it_is_calm_when_the_last_one_has_been_served() -> None:
    """Not before."""
    clock = FakeClock(rushing=False)
    traffic = Traffic(clock)
    with traffic.serving():
        with traffic.serving():
            waiting = asyncio.create_task(traffic.calm())
            await asyncio.sleep(0)
        clock.pass_time(1)
        await asyncio.sleep(0)
        assert not waiting.done()
    clock.pass_time(1)
    await asyncio.wait([waiting], timeout=10)
    assert waiting.done()


async def test_patience_has_an_end() -> None:
    """A tool may run for hours."""
    clock = FakeClock()
    traffic = Traffic(clock)
    with traffic.serving():
        await traffic.calm()
    assert sum(clock.slept) == PATIENCE_S
