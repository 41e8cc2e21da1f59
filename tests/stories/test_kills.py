"""The process dies at every single write of a turn, before it and after it, and is started again.

Deterministic and exhaustive over fakes; the real thing is killed for real in `tests/daemon`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import UNKNOWN_OUTCOME, Said
from nanomem.testing import FakeChannel, FakeInbox, FakeModel, FakeTool, calls
from tests.stories.chat import World, running


class Killed(BaseException):
    """The process is no more."""


class Fuse:
    """Burns through at the n-th effect, just before or just after it; afterwards nothing has any."""

    def __init__(self, at: int, after: bool) -> None:
        self.left = at
        self.after = after
        self.dead = False

    async def effect(self, work: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        self.left -= 1
        if self.left == 0 and not self.after:
            self.dead = True
            raise Killed
        result = await work()
        if self.left == 0:
            self.dead = True
            raise Killed
        return result


class Fused:
    """A port behind a fuse: every method of it that changes something outside the process."""

    def __init__(self, inner: Any, fuse: Fuse, methods: Sequence[str]) -> None:
        self._inner, self._fuse, self._methods = inner, fuse, methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._methods:
            return found
        return lambda *a, **k: self._fuse.effect(lambda: found(*a, **k))


def fused(world: World, fuse: Fuse) -> World:
    """The same world, reached through a fuse."""
    return World(
        model=world.model,
        channel=Fused(world.channel, fuse, ("place", "show", "say")),  # type: ignore[arg-type]
        inbox=Fused(world.inbox, fuse, ("take", "stamp", "park", "placed", "settle", "delivered")),
        log=Fused(world.log, fuse, ("append",)),
        tools=world.tools,
    )


async def lives(world: World, fuse: Fuse, story: Sequence[str]) -> bool:
    """Runs a process through the story; False if it died."""
    try:
        async with running(fused(world, fuse)) as chat:
            taken = {f"{n}" for n in range(1, len(story) + 1)}
            for n, text in enumerate(story, 1):
                chat.number = n - 1
                await chat.says(text)
            for look in range(4000):
                if fuse.dead or (covers(world.channel, taken) and is_empty(world)):
                    break
                await (chat.loop.clock.sleep(0) if look < 2000 else asyncio.sleep(0.005))  # a thread may be at work
            else:
                raise AssertionError(f"still going: {world.inbox}, {world.channel.finished}")
    except Killed:
        return False
    return not fuse.dead


def covers(channel: FakeChannel, ids: set[str]) -> bool:
    return ids <= {answered for sent in channel.finished for answered in sent.answers}


def is_empty(world: World) -> bool:
    assert isinstance(world.inbox, FakeInbox)
    return not world.inbox.rows and not world.inbox.sending


def scripted() -> World:
    ran: Counter[str] = Counter()

    def do() -> str:
        ran["do"] += 1
        return "done"

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        return calls(("do", "{}")) if last.role == "user" else f"answer to {len(request.messages)}"

    world = World(FakeModel(*[answer] * 50), tools={"do": FakeTool("do", do)})
    world.ran = ran  # type: ignore[attr-defined]
    return world


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("story", [["one"], ["one", "two"], ["one", "/status"], ["one", "/new", "two"]])
async def test_killed_at_every_write(story: list[str], after: bool) -> None:
    """Every message is answered exactly once in the log, nothing is shown twice, no tool runs twice in silence."""
    for at in range(1, 200):
        world = scripted()
        if await lives(world, Fuse(at, after), story):
            assert at > 8, "the fuse must have burnt in many places before"
            return
        assert await lives(world, Fuse(-1, after), story), f"the second life did not end, after a kill at {at}"
        check(world, story, at)
    raise AssertionError("the story never lived to its end")


def check(world: World, story: Sequence[str], at: int) -> None:
    said: list[Said] = [r for r in world.records() if isinstance(r, UserMessage | AssistantMessage | ToolMessage)]
    heard = Counter(r.content for r in said if isinstance(r, UserMessage))
    assert heard == Counter(text for text in story if not text.startswith("/")), at
    assert [r.n for r in said] == list(range(1, len(said) + 1)), at
    for turn in {r.turn for r in said}:
        ends = [r.end for r in said if r.turn == turn and isinstance(r, AssistantMessage) and r.end]
        assert len(ends) == 1, (at, turn)
    lost = sum(r.content == UNKNOWN_OUTCOME for r in said)
    asked = sum(len(r.tool_calls) for r in said if isinstance(r, AssistantMessage))
    assert world.ran["do"] <= asked, at  # type: ignore[attr-defined]
    assert world.ran["do"] >= asked - lost - 1, at  # type: ignore[attr-defined]
    assert sum(isinstance(r, ToolMessage) for r in said) == asked, at
    answers = [r.content for r in said if isinstance(r, AssistantMessage) and r.end]
    shown = Counter(world.channel.screen("fake:42"))
    for answer in answers:
        assert shown[answer] == answers.count(answer), (at, answer, shown)


async def test_a_message_that_kills_is_set_aside() -> None:
    """After the third death the turn is closed as failed and its sender told once; others are answered."""
    world = World(FakeModel(*[Killed()] * 9))
    for _ in range(3):
        with pytest.raises(Killed):
            async with running(world) as chat:
                await chat.says("deadly")
                await chat.until_dead()
    world.model.answers = ["fine"]
    async with running(world) as chat:
        await chat.until_answered()
        assert "set it aside" in chat.hears[-1]
        chat.number = 1
        await chat.says("another")
        await chat.until_answered(2)
        assert chat.hears[-1] == "fine"
    assert (await world.inbox.counts())["set_aside"] == 1
