"""What goes wrong at the worst moment, and what a person sees of it."""

import asyncio
import errno
from dataclasses import replace

import pytest

from nanomem.agent.together import StopScope, beside
from nanomem.agent.turn import DISK
from nanomem.errors import CannotStore
from nanomem.messages import Attachment, Inbound
from nanomem.ports import Channel
from nanomem.records import AssistantMessage, UserMessage
from nanomem.session import Session
from nanomem.spaces import Space
from nanomem.testing import FakeChannel, FakeFiles, FakeModel, FakeSessionLog, FakeTool, calls, inbound, updates
from tests.stories.chat import World, running


async def test_a_cancellation_goes_before_an_error() -> None:
    """Whoever stops a turn that is just failing does not wait for ever."""
    ended = asyncio.Event()

    async def companion() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ended.wait()

    async def work() -> None:
        raise ValueError("a failure")

    task = asyncio.create_task(beside(companion(), work()))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stop_leaves_nothing_behind() -> None:
    """Also where the stretch ends in another error than the cancellation."""

    async def stretch(scope: StopScope) -> int:
        try:
            with scope:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise OSError("closing failed") from None
        except OSError:
            pass
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    scope = StopScope()
    task = asyncio.create_task(stretch(scope))
    await asyncio.sleep(0)
    scope.stop()
    assert await task == 0


async def test_an_answer_that_cannot_be_shown_does_not_end_the_chat() -> None:
    """A bug in a channel costs one answer on the screen; it stays in the log, and the next is answered."""

    class Fragile(FakeChannel):
        async def show(self, address: str, placed: str, part: str, final: bool) -> None:
            if part == "poison" or "went wrong" in part:
                raise ValueError("a bug in the channel")
            await super().show(address, placed, part, final)

    world = World(FakeModel("poison", "fine"), Fragile())
    async with running(world) as chat:
        await chat.says("one")
        await world.log_has("poison")
        await chat.says("two")
        await chat.until_answered()
        assert chat.hears[-1] == "fine"
    assert [r.content for r in world.records() if isinstance(r, AssistantMessage)] == ["poison", "fine"]


async def test_a_full_disk_costs_no_second_call() -> None:
    """The answer is held until the disk takes it; the person is told meanwhile."""
    log = FakeSessionLog()
    world = World(FakeModel(calls(("do", "{}")), "kept"), log=log)
    ran: list[str] = []

    def do() -> str:
        ran.append("do")
        log.fails = [CannotStore("full")] * 3
        return "done"

    world.tools = {"do": FakeTool("do", do)}
    async with running(world) as chat:
        await chat.says("go")
        await chat.until_answered()
        assert chat.hears == ["kept"]
    assert len(world.model.requests) == 2 and ran == ["do"]


async def test_too_many_open_files_are_waited_for() -> None:
    """Whatever could not be opened: it is no bug, and the message is answered once that is over."""

    class Exhausted(FakeFiles):
        times = 2

        async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
            if self.times:
                self.times -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return await super().receive(space, message, channel)

    world = World(FakeModel("fine"), files=Exhausted())
    async with running(world) as chat:
        await chat.says("one")
        await chat.until_answered()
        assert chat.hears == [DISK, "fine"] or chat.hears == ["fine", DISK]
    assert len(world.model.requests) == 1


async def test_new_overtakes_a_message_that_came_with_it() -> None:
    """It is in no turn yet, so it is answered in the new session."""
    gate = asyncio.Event()

    class Slow(FakeSessionLog):
        async def load(self, space: Space, key: str) -> Session:
            await gate.wait()
            return await super().load(space, key)

    world = World(FakeModel("after"), log=Slow())
    async with running(world) as chat:
        await chat.says("hello", "/new")
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()
        await chat.until_answered(2)
        assert chat.hears == ["New session started.", "after"]


async def test_what_is_unsent_comes_when_somebody_is_there_again() -> None:
    """Also when that is while the next answer is being written."""
    world = World(FakeModel("first", "second"))
    async with running(world) as chat:
        world.model.gate.clear()
        await chat.says("one")
        await chat.until_asked()
        world.channel.here = False
        world.model.gate.set()
        await world.log_has("first")
        world.model.gate.clear()
        await chat.says("two")
        await chat.until_asked()
        world.channel.here = True
        chat.bus.arrived(chat.address)
        world.model.gate.set()
        await chat.until_answered(2)
        assert {"first", "second"} <= set(chat.hears)


async def test_stop_ends_a_download() -> None:
    """It is not begun again; the log says that the file was not fetched."""
    begun: list[str] = []

    class Endless(FakeFiles):
        async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
            begun.append(message.id)
            await asyncio.Event().wait()
            return [], []

    world = World(files=Endless())
    async with running(world) as chat:
        sent = replace(inbound("look", 1), attachments=(Attachment("document", "big.pdf", "x/y", 1, "r"),))
        await chat.bus.take("fake", updates([sent]))
        while not begun:
            await world.clock.sleep(0)
        chat.number = 1
        await chat.says("/stop")
        await chat.until_answered(2)
        assert chat.hears[-1] == "Stopped."
    assert begun == ["1"]
    assert [r.content for r in world.records() if isinstance(r, UserMessage)] == ["look\n[big.pdf was not fetched]"]
