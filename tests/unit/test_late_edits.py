"""An edit of a growing answer that is under way when the answer is there."""

import asyncio

from nanomem.agent.delivery import Delivery
from nanomem.agent.way import Way
from nanomem.messages import Outbound
from nanomem.testing import FakeChannel, FakeClock, FakeInbox


class Slow(FakeChannel):
    """Takes its time over what is not final."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.order: list[str] = []

    async def show(self, address: str, placed: str, part: str, final: bool) -> None:
        if not final:
            self.begun.set()
            await asyncio.sleep(0.02)
        self.order.append(part)


async def test_it_never_stands_over_the_whole_answer() -> None:
    """It arrives first, even where nobody shows anything any more."""
    channel, clock = Slow(), FakeClock()
    delivery = Delivery(channel, Way(clock), FakeInbox(), clock, Outbound("fake:1#1", "fake:1"))
    await delivery.open()
    showing = asyncio.create_task(delivery.keep_showing())
    delivery.show("Half an")
    await channel.begun.wait()
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
    await delivery.finish("Half an answer, and the rest.")
    assert channel.order == ["Half an", "Half an answer, and the rest."]
