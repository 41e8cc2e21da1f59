"""Stories of when Dreams are run: as scheduled, once, whatever happens to the daemon; and what a day may cost."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nanomem.entries import Entry
from nanomem.messages import Usage
from nanomem.spaces import Space, Spaces
from nanomem.testing import FakeClock, FakeDiary, FakeHistory
from tests.stories.chat import Chat, Sleep, World, running
from tests.stories.test_consolidation import SPACE
from tests.stories.test_dream import COST, Sleeper, asks, facts_of, happened, tells, world

pytestmark = pytest.mark.usefixtures("no_threads")

DAILY = "0 4 * * *"
START = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)


def timed(mind: Sleeper, dream: Sleep, at: datetime = START, **more: Any) -> World:
    """A world whose time passes only when it is told to."""
    made = world(mind, dream=dream, **more)
    clock = FakeClock(at, rushing=False)
    made.clock = clock
    return made


async def calm(chat: Chat) -> None:
    """Returns once nothing goes on any more at this time of the day."""
    for _ in range(20):
        for _ in range(20):
            await asyncio.sleep(0)
        await chat.background.idle()


async def passes(chat: Chat, hours: float) -> None:
    """Time passes, ten minutes by ten minutes."""
    for _ in range(round(hours * 6)):
        chat.world.clock.pass_time(600)
        await calm(chat)


async def happens(agent: World, text: str, space: Space = SPACE) -> None:
    """One entry, now."""
    last = await agent.history.last(space)
    entry = Entry(
        timestamp=agent.clock.now(),
        type="consolidation",
        session="fake:42",
        first=last + 1,
        last=last + 1,
        summary=text,
    )
    await agent.history.append(space, [entry])


def times(agent: World) -> list[datetime]:
    assert isinstance(agent.diary, FakeDiary)
    return [run.at for run in reversed(agent.diary.kept)]


async def test_a_restart_every_hour_makes_no_run_more_or_less() -> None:
    """Over three days: one run a day, at its time, and each entry is read in exactly one of them."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(schedule=DAILY))
    for hour in range(72):
        await happens(agent, f"fact: Likes tune {hour}x.")
        async with running(agent) as chat:
            await passes(chat, 1)
    assert [(at.day, at.hour) for at in times(agent)] == [(11, 4), (12, 4), (13, 4)]
    read = "\n".join(mind.batches)
    newest = await agent.history.dreamt(SPACE)
    assert newest == 67
    assert [read.count(f"Likes tune {hour}x.") for hour in range(72)] == [1] * newest + [0] * (72 - newest)


async def test_a_daemon_that_is_never_stopped_does_the_same() -> None:
    """One run a day for as long as it runs."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(schedule=DAILY))
    async with running(agent) as chat:
        for day in range(3):
            await happens(agent, f"fact: Likes tune {day}x.")
            await passes(chat, 24)
    assert [(at.day, at.hour) for at in times(agent)] == [(11, 4), (12, 4), (13, 4)]


async def test_a_run_that_was_missed_is_made_once() -> None:
    """Soon after the start, however many were missed; the next one is at its time."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(schedule=DAILY))
    async with running(agent) as chat:
        await calm(chat)
        agent.clock.pass_time(5)
        await calm(chat)
    agent.clock.pass_time(5 * 24 * 3600)
    await happens(agent, "fact: Likes tune 1x.")
    start = agent.clock.now()
    async with running(agent) as chat:
        await calm(chat)
        assert times(agent) == []
        agent.clock.pass_time(5)
        await calm(chat)
        assert times(agent) == [start + timedelta(seconds=5)]
        await happens(agent, "fact: Likes tune 2x.")
        await passes(chat, 17)
        assert len(times(agent)) == 1
        await passes(chat, 3)
    assert [(at.day, at.hour) for at in times(agent)] == [(15, 9), (16, 4)]


async def test_a_first_start_learns_nothing_at_once() -> None:
    """The first run is the next that is due."""
    agent = timed(Sleeper(), Sleep(schedule=DAILY))
    await happens(agent, "They talked.")
    async with running(agent) as chat:
        await passes(chat, 18)
        assert times(agent) == []
        assert "next 2026-04-11 04:00" in await asks(chat, "/status")


async def test_an_idle_week_costs_nothing() -> None:
    """No call, no token, no version and no receipt, however often it is due."""
    mind = Sleeper()
    agent = timed(mind, Sleep(schedule="*/30 * * * *", threshold=1))
    async with running(agent) as chat:
        await passes(chat, 7 * 24)
        assert "last not yet" in await asks(chat, "/status")
    assert (mind.asked, agent.meter.days, times(agent)) == (0, {}, [])
    assert await agent.versions.all(SPACE) == ()


async def test_enough_that_waits_is_read_at_once() -> None:
    """Not one entry earlier; and what waits at the start is looked at, too."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(schedule=DAILY, threshold=3))
    await happens(agent, "fact: Likes tune 1x.")
    await happens(agent, "fact: Likes tune 2x.")
    async with running(agent) as chat:
        await passes(chat, 1)
        assert mind.asked == 0
        await tells(chat, "I like tune 3x")
        await asks(chat, "/new")
        await calm(chat)
        assert len(mind.batches) == 1 and await agent.history.dreamt(SPACE) == 3
    for n in range(4, 7):
        await happens(agent, f"fact: Likes tune {n}x.")
    async with running(agent) as chat:
        await passes(chat, 1)
    assert (len(mind.batches), await agent.history.dreamt(SPACE)) == (2, 6)


async def test_a_threshold_works_without_a_schedule() -> None:
    """Then no run is ever due, and `/status` says so."""
    agent = timed(Sleeper(facts_of), Sleep(threshold=1))
    await happens(agent, "fact: Likes tune 1x.")
    async with running(agent) as chat:
        await passes(chat, 1)
        assert await agent.history.dreamt(SPACE) == 1
        assert "next only when asked" in await asks(chat, "/status")


class Broken(FakeHistory):
    """Whose entries of one space cannot be read, for no reason that anybody knows of."""

    async def after(self, space: Space, cursor: int) -> list[Entry]:
        """See the port."""
        if space == SPACE:
            raise ZeroDivisionError
        return await super().after(space, cursor)


@pytest.mark.parametrize("dream", [Sleep(schedule=DAILY), Sleep(threshold=1)])
async def test_a_space_that_meets_a_bug_holds_up_no_other(dream: Sleep) -> None:
    """Those behind it are read all the same, and the bug is not met again until the next time."""
    mind = Sleeper(facts_of)
    dream.spaces = ("fake:42", "fake:43")
    agent = timed(mind, dream)
    agent.history = Broken()
    other = Spaces(SPACE.shared_root.parent).of("fake:43")
    await happens(agent, "fact: Likes tune 1x.")
    await happens(agent, "fact: Likes tune 2x.", other)
    async with running(agent) as chat:
        await passes(chat, 24)
    assert (len(mind.batches), await agent.history.dreamt(other)) == (1, 1)


# --- what a day may cost

TODAY = "Today's limit of 20,000 tokens for learning is reached; the rest waits."


def spending(mind: Sleeper, cost: int) -> Any:
    """The same model, whose calls to read cost so many tokens."""

    def answer(request: Any) -> Any:
        reply = mind(request)
        return type(reply)(reply.text, reply.tool_calls, Usage(cost, 0)) if request.forced else reply

    return answer


async def test_the_limit_of_a_day_holds_over_restarts_until_the_next() -> None:
    """It is said when it is reached, the cursor stays before what waits, and the next day goes on from there."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(tokens=20_000, schedule=DAILY))
    agent.model.answers = [spending(mind, 9_000)] * 99
    await happened(agent, *[f"{'word ' * 16_000}\nfact: Likes tune {n}x." for n in range(4)])
    async with running(agent) as chat:
        first = await asks(chat, "/dream")
        assert first.startswith("Learned (version 2).\nMEMORY.md: 1 in") and first.endswith(TODAY)
        assert TODAY in await asks(chat, "/status")
    async with running(agent) as chat:
        chat.number = 10
        asked = mind.asked
        assert await asks(chat, "/dream") == TODAY
        assert (mind.asked, await agent.history.dreamt(SPACE)) == (asked, 1)
        await passes(chat, 3 * 24)
    assert await agent.history.dreamt(SPACE) == 4
    assert [sum(f"tune {n}x" in batch for batch in mind.batches) for n in range(4)] == [1] * 4
    assert await agent.diary.passed_over() == []


async def test_what_is_larger_than_a_day_allows_is_read_all_the_same() -> None:
    """Alone, on a day on which nothing was spent: else it would wait for ever."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(tokens=5_000))
    agent.model.answers = [spending(mind, 9_000)] * 9
    await happened(agent, *[f"{'word ' * 16_000}\nfact: Likes tune {n}x." for n in range(2)])
    async with running(agent) as chat:
        assert (await asks(chat, "/dream")).startswith("Learned (version 2).")
        assert await agent.history.dreamt(SPACE) == 1
        agent.clock.pass_time(24 * 3600)
        assert await asks(chat, "/dream") == "Learned (version 3).\nMEMORY.md: 1 in"


async def test_talk_costs_nothing_of_what_learning_may() -> None:
    """The limit of Dreams counts what Dreams have cost."""
    mind = Sleeper(facts_of)
    agent = timed(mind, Sleep(tokens=20_000))
    await agent.meter.spend("2026-04-10", Usage(10**6, 10**6))
    await agent.meter.spend("2026-04-10", COST, "dream")
    await happened(agent, "fact: Likes tune 1x.")
    async with running(agent) as chat:
        assert await asks(chat, "/dream") == "Learned (version 2).\nMEMORY.md: 1 in"
    assert await agent.meter.spent("2026-04-10", "dream") == COST + COST + COST


# --- zones


@pytest.mark.parametrize("start", [datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 10, 23, 12, tzinfo=UTC)])
@pytest.mark.parametrize("schedule", [DAILY, "30 2 * * *"])
async def test_a_change_of_clocks_makes_no_run_more_or_less(start: datetime, schedule: str) -> None:
    """One each day of the zone, also at an hour that is not there that day, or there twice."""
    zone = ZoneInfo("Europe/Berlin")
    agent = timed(Sleeper(facts_of), Sleep(schedule=schedule, zone=zone), start)
    async with running(agent) as chat:
        for hour in range(4 * 24):
            await happens(agent, f"fact: Likes tune {hour}x.")
            await passes(chat, 1)
    days = [at.astimezone(zone).date() for at in times(agent)]
    assert len(days) == len({*days}) == 4
    if schedule == DAILY:
        assert [at.astimezone(zone).hour for at in times(agent)] == [4] * 4
