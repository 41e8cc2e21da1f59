"""The life of a message, told over fakes."""

from dataclasses import replace
from datetime import UTC, timedelta, timezone, tzinfo

import pytest

from nanomem.agent.asking import Asker, DailyLimits
from nanomem.errors import TellUser, TooLong, TryLater
from nanomem.messages import PromptMessage, Reply, Request, Usage
from nanomem.records import AssistantMessage, ToolMessage, UserMessage, to_json
from nanomem.testing import FakeChannel, FakeClock, FakeMeter, FakeModel, FakeTool, calls
from tests.stories.chat import World, running


async def test_a_message_is_answered_in_the_placeholder() -> None:
    """The person sees one message, which becomes the answer."""
    world = World(FakeModel("hello Ann"))
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        assert chat.hears == ["hello Ann"]


async def test_the_log_holds_the_turn_with_its_end() -> None:
    """One user record per message, numbered, and one last record that carries the end."""
    world = World(FakeModel("hi"))
    async with running(world) as chat:
        await chat.says("one", "two")
        await chat.until_answered()
    said = [record for record in world.records() if isinstance(record, UserMessage | AssistantMessage)]
    assert [(r.n, r.content, r.turn) for r in said] == [
        (1, "one", "fake:42#1"),
        (2, "two", "fake:42#1"),
        (3, "hi", "fake:42#1"),
    ]
    assert to_json(said[-1])["end"] == "answer"


async def test_messages_during_a_turn_are_answered_together_in_the_next() -> None:
    """They wait, and then form one batch."""
    world = World(FakeModel("first", "second"))
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("a")
        await chat.until_asked()
        await chat.says("b")
        await chat.says("c")
        world.model.gate.set()
        await chat.until_answered(2)
        assert chat.hears == ["first", "second"]
    assert [r.turn for r in world.records() if isinstance(r, UserMessage)] == ["fake:42#1", "fake:42#2", "fake:42#2"]


async def test_tools_are_run_and_their_results_kept() -> None:
    """Ask, act, repeat; side by side where the tool allows it."""
    tools = {"look": FakeTool("look", lambda: "seen", parallel=True), "do": FakeTool("do", lambda: "done")}
    world = World(FakeModel(calls(("look", "{}"), ("look", "{}"), ("do", "{}"), ("fly", "{}")), "ready"), tools=tools)
    async with running(world) as chat:
        await chat.says("go")
        await chat.until_answered()
        assert chat.hears == ["ready"]
    results = {r.tool_call_id: r.content for r in world.records() if isinstance(r, ToolMessage)}
    assert results["c1"] == results["c2"] == "seen"
    assert results["c3"] == "done"
    assert "no tool 'fly'" in results["c4"]


async def test_a_model_that_never_stops_calling_is_brought_to_an_answer() -> None:
    """After the last round it is asked without tools, and the turn ends with `limit`."""
    again = calls(("do", "{}"))
    world = World(FakeModel(*[again] * 3, "enough"), tools={"do": FakeTool("do", lambda: "done")}, rounds=3)
    async with running(world) as chat:
        await chat.says("go")
        await chat.until_answered()
        assert chat.hears == ["enough"]
    assert world.model.requests[-1].forced == ""
    assert "limit: rounds=3" in str(world.model.requests[-1].messages)
    assert to_json(world.records()[-1])["end"] == "limit"


async def test_stop_keeps_what_was_written_so_far() -> None:
    """The placeholder becomes it, and then comes `Stopped.`"""
    world = World(FakeModel("a long answer"))
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("talk")
        await chat.until_asked()
        await chat.says("/stop")
        await chat.until_answered(2)
        assert chat.hears == ["a long", "Stopped."]
        world.model.gate.set()
        await chat.says("and now?")
        await chat.until_answered(3)
        assert "and now?" in "".join(chat.hears)
    ends = [r.end for r in world.records() if isinstance(r, AssistantMessage)]
    assert ends == ["stopped", "answer"]


async def test_stop_without_a_turn() -> None:
    """There is nothing to stop."""
    async with running(World()) as chat:
        await chat.says("/stop")
        await chat.until_answered()
        assert chat.hears == ["Nothing is running."]


async def test_new_stops_the_turn_and_starts_afresh() -> None:
    """What waited is answered in the new session, which knows nothing of the old one."""
    world = World(FakeModel("old answer", "new answer"))
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("the secret word is blue")
        await chat.until_asked()
        await chat.says("what is the word?")
        world.model.answers = [calls(("save_memory", '{"history_entry": "a word", "memory_update": ""}')), "new answer"]
        await chat.says("/new")
        world.model.gate.set()
        await chat.until_answered(3)
        assert "New session started." in chat.hears
        assert chat.hears[-1] == "new answer"
    prompt = world.model.requests[-1]
    assert "blue" not in str(prompt.messages)
    assert "what is the word?" in str(prompt.messages)


@pytest.mark.parametrize("failure", [TellUser("the key is wrong"), TooLong("too long")])
async def test_a_failed_turn_says_why_and_can_be_retried(failure: Exception) -> None:
    """The message stays, and `/retry` answers it without writing it again."""
    world = World(FakeModel(failure, failure, "better now"))
    if isinstance(failure, TellUser):
        world.model.answers.pop()
        world.model.answers[1:] = ["better now"]
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        assert chat.hears == [str(failure)]
        await chat.says("/retry")
        await chat.until_answered(2)
        assert chat.hears[-1] == "better now"
        await chat.says("/retry")
        await chat.until_answered(3)
        assert chat.hears[-1] == "Nothing to retry."
    assert sum(isinstance(record, UserMessage) for record in world.records()) == 1
    assert str(failure) not in str(world.model.requests[-1].messages)


async def test_a_busy_provider_is_asked_again_after_its_hint() -> None:
    """Waiting is the answer to a rate limit."""
    world = World(FakeModel(TryLater("busy", 7.0), "there"))
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        assert chat.hears == ["there"]
    assert 7.0 in world.clock.slept


async def test_a_provider_that_is_down_is_told_to_the_person() -> None:
    """After a few tries the person hears it, and the message is kept."""
    world = World(FakeModel(*[TryLater("no answer")] * 9))
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        assert "no answer" in chat.hears[0] and "/retry" in chat.hears[0]


async def test_one_chat_that_hangs_does_not_block_another() -> None:
    """Lanes run side by side."""
    world = World(FakeModel("never mind", "quick"))
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("slow")
        await chat.until_asked()
        world.model.gate.set()
        world.model.answers.clear()
        other = replace(chat, address="fake:7", number=100)
        await other.says("fast")
        await other.until_answered(2)
        assert "fast" in other.hears[0]


async def test_a_bug_in_one_turn_is_told_and_passes() -> None:
    """The one broad except: the turn ends as failed, the next message is answered."""
    world = World(FakeModel(ValueError("a bug"), "fine again"))
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        assert "went wrong" in chat.hears[0]
        await chat.says("again")
        await chat.until_answered(2)
        assert chat.hears[-1] == "fine again"


async def test_a_repeated_update_is_handled_once() -> None:
    """A network id is taken once, however often it is delivered."""
    world = World()
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_answered()
        chat.number = 0
        await chat.says("hello")
        await chat.says("other")
        await chat.until_answered(2)
    assert [r.content for r in world.records() if isinstance(r, UserMessage)] == ["hello", "other"]


async def test_an_answer_in_parts_is_delivered_whole() -> None:
    """Each further part begins as its own placeholder."""
    text = "x" * 250
    async with running(World(FakeModel(text))) as chat:
        await chat.says("much")
        await chat.until_answered()
        assert "".join(chat.hears) == text and len(chat.hears) == 3


async def test_the_daily_limit_refuses_with_a_clear_word() -> None:
    """What was spent is counted, and over the limit nothing is asked."""
    world = World(FakeModel(Reply("dear", usage=Usage(900, 200))), daily=DailyLimits(tokens=1000))
    async with running(world) as chat:
        await chat.says("one")
        await chat.until_answered()
        await chat.says("two")
        await chat.until_answered(2)
        assert "limit of 1,000 tokens" in chat.hears[-1]
    assert len(world.model.requests) == 1


ASKED = Request("", (PromptMessage("user", "hello"),))


def purses(
    model: FakeModel, talk: DailyLimits, dream: DailyLimits, zone: tzinfo = UTC
) -> tuple[Asker, Asker, FakeClock]:
    """One model asked for talk and in Dreams, on one meter and by one clock."""
    meter, clock = FakeMeter(), FakeClock()
    return Asker(model, meter, clock, zone, talk), Asker(model, meter, clock, zone, dream), clock


async def test_what_dreams_take_is_not_taken_from_talk() -> None:
    """Each purpose has its own tokens, those in and those out together, and so every day."""
    model = FakeModel(*[Reply("ok", usage=Usage(600, 100, 500))] * 9)
    talk, dream, clock = purses(model, DailyLimits(1_000), DailyLimits(1_500, purpose="dream"))
    for _ in range(3):
        await dream.ask(ASKED)
    with pytest.raises(TellUser, match="limit of 1,500 tokens"):
        await dream.ask(ASKED)
    assert await talk.spent_today("talk") == Usage()
    for _ in range(2):
        await talk.ask(ASKED)
    with pytest.raises(TellUser, match="limit of 1,000 tokens"):
        await talk.ask(ASKED)
    assert len(model.requests) == 5
    assert await talk.spent_today("dream") == await dream.spent_today("dream") == Usage(1_800, 300, 1_500)
    assert await talk.spent_today() == await dream.spent_today() == Usage(3_000, 500, 2_500)
    clock.pass_time(24 * 3600)
    await talk.ask(ASKED)
    await dream.ask(ASKED)
    assert await talk.spent_today() == Usage(1_200, 200, 1_000)


async def test_what_dreams_cost_counts_for_talk_and_the_other_way_round() -> None:
    """The dollars of a day are one purse, whoever takes them; without a limit of tokens any number is taken."""
    model = FakeModel(*[Reply("ok", usage=Usage(10**9, 10, 0, 0.75))] * 9)
    talk, dream, _ = purses(model, DailyLimits(cost_usd=2.0), DailyLimits(cost_usd=1.0, purpose="dream"))
    await dream.ask(ASKED)
    await talk.ask(ASKED)
    with pytest.raises(TellUser, match=r"limit of \$1\.00"):
        await dream.ask(ASKED)
    await talk.ask(ASKED)
    with pytest.raises(TellUser, match=r"limit of \$2\.00"):
        await talk.ask(ASKED)
    assert len(model.requests) == 3


async def test_the_day_of_a_limit_ends_at_midnight_of_the_zone() -> None:
    """Not at that of Greenwich: where it is 22:15 at 09:15 there, the day ends within two hours."""
    model = FakeModel(*[Reply("ok", usage=Usage(1_000))] * 2)
    talk, _, clock = purses(model, DailyLimits(1_000), DailyLimits(), timezone(timedelta(hours=13)))
    await talk.ask(ASKED)
    clock.pass_time(3600)
    with pytest.raises(TellUser, match="midnight"):
        await talk.ask(ASKED)
    clock.pass_time(3600)
    await talk.ask(ASKED)


async def test_an_answer_nobody_was_there_for_is_delivered_later() -> None:
    """It stays in the outbox until somebody arrives."""
    channel = FakeChannel()
    world = World(FakeModel("here it is"), channel)
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.says("hello")
        await chat.until_asked()
        channel.here = False
        world.model.gate.set()
        await chat.bus.lane("fake:42").gate.acquire()
        chat.bus.lane("fake:42").gate.release()
        assert channel.finished == []
        channel.here = True
        chat.bus.arrived("fake:42")
        await chat.until_answered()
        assert chat.hears[-1] == "here it is"


async def test_commands_suggest_the_nearest() -> None:
    """A typo is answered, a path is text."""
    async with running(World(FakeModel("a path"))) as chat:
        await chat.says("/statsu")
        await chat.until_answered()
        assert chat.hears[-1] == "Unknown command /statsu. Did you mean /status? /help lists all."
        await chat.says("/qqqqqq")
        await chat.until_answered(2)
        assert chat.hears[-1] == "Unknown command /qqqqqq. /help lists all."
        await chat.says("/etc/hosts is a file")
        await chat.until_answered(3)
        assert chat.hears[-1] == "a path"
