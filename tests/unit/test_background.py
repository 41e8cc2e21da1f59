"""Work beside the conversations: it has an owner, fails alone, and is drained."""

import asyncio

import pytest
from structlog.testing import capture_logs

from nanomem.agent.background import Background
from nanomem.errors import Stop, TellUser


async def fails(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (TellUser("no"), "background.failed"),
        (OSError(24, "Too many open files"), "background.failed"),
        (KeyError("x"), "background.bug"),
    ],
)
async def test_what_fails_fails_alone(error: Exception, event: str) -> None:
    """It is logged, and the rest goes on."""
    background, done = Background(), asyncio.Event()

    async def works() -> None:
        await asyncio.sleep(0)
        done.set()

    with capture_logs() as events:
        running = asyncio.create_task(background.run())
        await asyncio.sleep(0)
        background.start("one", fails(error))
        background.start("two", works())
        await background.idle()
        background.close()
        await running
    assert done.is_set()
    assert [(e["event"], e["what"]) for e in events] == [(event, "one")]


async def test_stop_ends_all() -> None:
    """It is raised as itself to whoever owns the work."""
    background = Background()
    running = asyncio.create_task(background.run())
    await asyncio.sleep(0)
    background.start("one", fails(Stop("the disk is gone")))
    background.start("two", asyncio.sleep(1_000))
    with pytest.raises(Stop):
        await running


async def test_nothing_begins_while_all_ends() -> None:
    """What is still to be heard of is the Stop, not that somebody came too late."""
    background, slow = Background(), asyncio.Event()

    async def ends_slowly() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            await slow.wait()

    running = asyncio.create_task(background.run())
    await asyncio.sleep(0)
    background.start("slow", ends_slowly())
    stopped = background.start("one", fails(Stop("the disk is gone")))
    assert stopped
    await asyncio.wait([stopped])
    await asyncio.sleep(0)
    assert background.start("late", asyncio.sleep(0)) is None
    slow.set()
    with pytest.raises(Stop):
        await running


async def test_closing_waits_for_what_runs_and_begins_nothing_more() -> None:
    """Drained, not cut off."""
    background, free, done = Background(), asyncio.Event(), []

    async def works() -> None:
        await free.wait()
        done.append(1)

    running = asyncio.create_task(background.run())
    await asyncio.sleep(0)
    background.start("one", works())
    background.close()
    assert background.start("two", works()) is None
    await asyncio.sleep(0)
    assert not running.done()
    free.set()
    await running
    assert done == [1]


async def test_before_it_runs_nothing_begins() -> None:
    """There is no owner yet."""
    assert Background().start("one", asyncio.sleep(0)) is None
