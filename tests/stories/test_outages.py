"""A network that is away for an hour: how often it is tried, what is logged, and how soon all is well after."""

import asyncio
from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from nanomem.agent.patience import LONGEST_S, patiently
from nanomem.agent.way import BETWEEN_S, Way
from nanomem.errors import NotHere, Refused, TryLater
from nanomem.testing import FakeChannel, FakeClock, FakeModel, inbound, updates
from tests.stories.chat import Chat, World, running

pytestmark = pytest.mark.usefixtures("no_threads")

HOUR_S = 3600


class Away(FakeChannel):
    """A network that nobody reaches before a time of the clock, nor ever the chats in `never`. `tried` is when it was
    tried, beside the placeholders that come with each new turn.
    """

    def __init__(self, clock: FakeClock, until_s: float) -> None:
        super().__init__()
        self.tried: list[float] = []
        self.never: set[str] = set()
        self._clock = clock
        self._until_s = until_s

    async def place(self, address: str) -> str:
        self._reach(address)
        return await super().place(address)

    async def say(self, address: str, text: str) -> None:
        self._reach(address)
        await super().say(address, text)

    def _reach(self, address: str) -> None:
        self.tried.append(self._clock.monotonic())
        if self.tried[-1] < self._until_s or address in self.never:
            raise TryLater("no network")


async def time_passes(clock: FakeClock, seconds: float, step_s: float = 0.5) -> None:
    """And whoever has slept long enough does what comes next."""
    for _ in range(int(seconds / step_s)):
        clock.pass_time(step_s)
        for _ in range(30):
            await asyncio.sleep(0)


async def asked(chat: Chat, says: Mapping[str, str]) -> None:
    """All of them at once, and as far as it goes without time."""
    messages = [inbound(text, n, address) for n, (address, text) in enumerate(says.items(), chat.number + 1)]
    chat.number += len(says)
    await chat.bus.take("fake", updates(messages))
    for _ in range(2000):
        await asyncio.sleep(0)


@pytest.mark.parametrize("chats", [1, 30])
async def test_an_hour_without_a_network(chats: int) -> None:
    """However many answers wait, it is tried once a second at most and logged seldom; then all come at once."""
    clock = FakeClock(rushing=False)
    channel = Away(clock, HOUR_S)
    world = World(FakeModel(*["late"] * chats, *["soon"] * chats), channel, clock=clock)
    addresses = [f"fake:{n}" for n in range(chats)]
    with capture_logs() as logged:
        async with running(world) as chat:
            await asked(chat, {address: "hello" for address in addresses})
            await time_passes(clock, HOUR_S - 10)
            assert all(channel.screen(address) == [] for address in addresses)
            assert HOUR_S / 4 < len(channel.tried) < HOUR_S / BETWEEN_S + 3 * chats
            await time_passes(clock, 10 + BETWEEN_S + LONGEST_S)
            assert [channel.screen(address) for address in addresses] == [["late"]] * chats
            await asked(chat, {address: "and now?" for address in addresses})
            await time_passes(clock, BETWEEN_S)
            assert all(channel.screen(address)[1:] == ["soon"] for address in addresses)
    waits = [entry for entry in logged if entry["event"] == "delivery.waits"]
    assert 8 <= len(waits) <= chats * (8 + 2 * 60)


async def test_a_chat_that_fails_for_ever_holds_up_no_other() -> None:
    """Its answer is tried in its turn; those of all others come."""
    clock = FakeClock(rushing=False)
    channel = Away(clock, 0)
    channel.never = {"fake:1"}
    async with running(World(FakeModel(*["hello"] * 20), channel, clock=clock)) as chat:
        await asked(chat, {"fake:1": "hello"})
        for n in range(2, 20):
            await asked(chat, {f"fake:{n}": "hello"})
            await time_passes(clock, 2 * BETWEEN_S)
            assert channel.screen(f"fake:{n}") == ["hello"]
        assert channel.screen("fake:1") == []


@pytest.mark.parametrize("error", [TryLater("too much", 60.0), NotHere("nobody"), Refused("never")])
async def test_what_concerns_one_chat_leaves_the_way_open(error: Exception) -> None:
    """The next is tried at once."""
    clock = FakeClock(rushing=False)
    way = Way(clock)

    async def fails() -> None:
        raise error

    async def works() -> None:
        done.append(True)

    done: list[bool] = []
    with pytest.raises(type(error)):
        await way.attempt(fails)
    await way.attempt(works)
    assert done == [True] and clock.slept == []


async def test_a_long_attempt_has_waited_already() -> None:
    """Where a connection hangs before it fails, what comes next is not put off by as much again."""
    clock = FakeClock()
    with pytest.raises(TryLater):
        async for attempt in patiently(clock, "test", attempts=4):
            with attempt:
                clock.pass_time(5 if len(clock.slept) == 2 else 0)
                raise TryLater("no answer")
    assert clock.slept == [1.0, 2.0, 0.0]


async def test_it_is_tried_however_often_it_takes() -> None:
    """A day without a network is no reason to give an answer up."""
    clock = FakeClock()
    async for attempt in patiently(clock, "test"):
        with attempt:
            if len(clock.slept) < 24 * HOUR_S / LONGEST_S:
                raise TryLater("no network")
    assert clock.monotonic() == pytest.approx(24 * HOUR_S, abs=LONGEST_S)
