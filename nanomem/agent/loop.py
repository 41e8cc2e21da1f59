"""The agent loop: takes from the bus what waits in each lane, and sees it answered.

One worker a lane, side by side. The order of writes here is what survives a crash: read it before
changing it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from nanomem.agent.commands import Commands, done_again, retried
from nanomem.agent.conversation import Conversation, Conversations
from nanomem.agent.delivery import Deliveries, Delivery
from nanomem.agent.together import StopScope, beside, unwrapped
from nanomem.agent.turn import Runner, Turn
from nanomem.bus import Bus, Lane, albums_joined
from nanomem.errors import CannotStore, Refused, Stop, TellUser, TooLong, TryLater
from nanomem.messages import Image, Inbound, Outbound
from nanomem.ports import Clock, Files, Queued
from nanomem.records import AssistantMessage, UserMessage
from nanomem.session import UNKNOWN_OUTCOME, is_ended

log = structlog.get_logger()

ATTEMPTS = 3
ALBUM_WAIT_S = 0.7
"""Seconds to wait for the rest of an album, whose parts arrive as messages of their own."""
DISK_WAIT_S = 5.0

CANCELLED = "Cancelled: the person stopped this."
STOPPED_EARLY = "(stopped)"
BUG = "Something went wrong on my side; the log says what. Your message is kept: /retry tries again."
INTERRUPTED = "This was interrupted and could not be taken up again. /retry tries again."
SET_ASIDE = "I failed three times over this message and have set it aside. Please say it in another way."
DISK = "I cannot write to my disk right now. Your message is kept; I answer as soon as I can write again."

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AgentLoop:
    """Serves lanes until the bus is closed. Cancelled, it parks what runs: the next start goes on there."""

    bus: Bus
    conversations: Conversations
    commands: Commands
    runner: Runner
    deliveries: Deliveries
    files: Files
    clock: Clock

    async def run(self) -> None:
        """Returns once the bus is closed and what runs has ended. Raises Stop."""
        with unwrapped():
            async with asyncio.TaskGroup() as lanes:
                while (work := await self.bus.next()) is not None:
                    lanes.create_task(self._serve(work) if isinstance(work, Lane) else self._reply_at_once(work))

    async def _serve(self, lane: Lane) -> None:
        """A lane's worker: until nothing waits."""
        await self._guarded(lane, lambda: self._send_unsent(lane), lambda: self._send_unsent(lane))
        while lane.waiting and not self.bus.closed:
            async with lane.gate:
                if batch := await self._batch(lane):
                    await self._guarded(lane, partial(self._handle, lane, batch), partial(self._fail, lane, batch))
        self.bus.rest(lane)

    async def _reply_at_once(self, row: Queued) -> None:
        """An urgent command overtakes its lane."""
        lane = self.bus.lane(row.message.address)
        await self._guarded(lane, lambda: self._reply(lane, row), lambda: self._reply(lane, row, BUG))
        if not lane.active:
            self.bus.rest(lane)

    async def _guarded(self, lane: Lane, work: Work, give_up: Work) -> None:
        """Does the work, as soon as the disk lets it; a bug is logged and `give_up` ends the matter.

        Both may be called again after they failed half-way: what is done already, they find done.
        """
        told = False
        while True:
            try:
                return await work()
            except CannotStore as error:
                log.error("lane.cannot_store", address=lane.address, reason=error.text)
                told = told or await self._try_to_say(lane, DISK)
                await self.clock.sleep(DISK_WAIT_S)
            except Stop:
                raise
            except Exception:  # the one broad except: what fails in one chat never stops another
                log.exception("lane.bug", address=lane.address)
                if work is give_up:
                    await self.clock.sleep(DISK_WAIT_S)
                work = give_up

    async def _batch(self, lane: Lane) -> list[Queued]:
        """What waits now; an album that is still arriving is waited for."""
        newest = lane.waiting[-1] if lane.waiting else None
        if newest and newest.message.album and newest.turn is None:
            await self.clock.sleep(ALBUM_WAIT_S)
        return [] if self.bus.closed else lane.take(self.bus.kind, self.runner.prompter.limits.budget // 2)

    async def _handle(self, lane: Lane, batch: Sequence[Queued]) -> None:
        message = batch[0].message
        if self.bus.kind(message) == "message":
            return await self._answer(lane, batch)
        if self.commands.is_retry(message):
            conversation = await self.conversations.open(lane.address)
            if turn := retried(conversation, _turn_id(batch)):
                return await self._answer(lane, batch, retries=turn)
        await self._reply(lane, batch[0])

    async def _answer(self, lane: Lane, batch: Sequence[Queued], retries: str | None = None) -> None:
        """A turn, from its batch to the delivered answer."""
        turn = _turn_id(batch)
        conversation = await self.conversations.open(lane.address)
        await self._close_orphan(conversation, turn)
        if (attempts := _attempts(batch[0], conversation)) > ATTEMPTS:
            log.error("turn.set_aside", turn=turn, messages=len(batch))
            await conversation.close(turn, SET_ASIDE, "failed", UNKNOWN_OUTCOME)
            return await self._settle(lane, batch, aside=True)
        scope = StopScope()
        lane.stop = scope.stop
        try:
            await self.bus.inbox.stamp(turn, batch, _heard_n(batch, conversation, retries), attempts)
            delivery = await self.deliveries.begin(turn, lane.address)
            await delivery.open()
            with scope:
                if not scope.stopped:
                    await self._run(conversation, batch, delivery, retries)
            if scope.stopped:
                await conversation.refresh()
                await self._hear(conversation, batch, retries)
                await conversation.close(turn, delivery.shown.strip() or STOPPED_EARLY, "stopped", CANCELLED, retries)
        except asyncio.CancelledError:
            await self.bus.inbox.park(turn)
            raise
        finally:
            lane.stop = None
        await self._settle(lane, batch, delivery)

    async def _run(
        self, conversation: Conversation, batch: Sequence[Queued], delivery: Delivery, retries: str | None
    ) -> None:
        """The part of a turn that a person may stop."""
        turn = _turn_id(batch)
        started = self.clock.monotonic()
        try:
            await self._hear(conversation, batch, retries)
            if not is_ended(conversation.session.of_turn(turn)):
                own = done_again(conversation, retries) | {turn}
                tail = await self.runner.prompter.tail(conversation, own, await self._images(conversation, own))
                run = self.runner.run(Turn(turn, conversation, tail, delivery.show, retries))
                await beside(delivery.keep_showing(), run)
        except (TellUser, TooLong) as error:
            log.warning("turn.failed", turn=turn, reason=error.text)
            await conversation.close(turn, error.text, "failed", UNKNOWN_OUTCOME, retries)
        log.info("turn.finished", turn=turn, messages=len(batch), seconds=round(self.clock.monotonic() - started, 3))

    async def _hear(self, conversation: Conversation, batch: Sequence[Queued], retries: str | None) -> None:
        """One `user` record per message, unless they are in the log already."""
        turn = _turn_id(batch)
        if retries or conversation.session.of_turn(turn):
            return
        heard: list[Inbound] = []
        paths: list[list[str]] = []
        for message in albums_joined([row.message for row in batch]):
            received, notes = await self.files.receive(
                conversation.space, message, self.deliveries.channel(message.address)
            )
            heard.append(replace(message, text="\n".join(filter(None, (message.text, *notes)))))
            paths.append(received)
        await conversation.heard(turn, heard, paths)

    async def _images(self, conversation: Conversation, own: frozenset[str]) -> dict[str, Image]:
        """The pictures that came with these turns."""
        paths = [
            path
            for message in conversation.session.messages
            if message.turn in own and isinstance(message, UserMessage)
            for path in message.files
        ]
        found = {path: await self.files.image(conversation.space, path) for path in paths}
        return {path: image for path, image in found.items() if image}

    async def _fail(self, lane: Lane, batch: Sequence[Queued]) -> None:
        """Ends a turn or a command that met a bug."""
        if self.bus.kind(batch[0].message) != "message" and not self.commands.is_retry(batch[0].message):
            return await self._reply(lane, batch[0], BUG)
        conversation = await self.conversations.open(lane.address)
        turn = _turn_id(batch)
        if not conversation.session.of_turn(turn) and self.bus.kind(batch[0].message) == "message":
            messages = [row.message for row in batch]
            await conversation.heard(turn, messages, [() for _ in messages])
        await conversation.close(turn, BUG, "failed", UNKNOWN_OUTCOME, retried(conversation, turn))
        await self._settle(lane, batch)

    async def _close_orphan(self, conversation: Conversation, turn: str) -> None:
        """A turn without an end that the bus knows nothing of any more has failed."""
        records = conversation.session.last_turn()
        if records and records[0].turn not in ("", turn) and not is_ended(records):
            await conversation.close(records[0].turn, INTERRUPTED, "failed", UNKNOWN_OUTCOME)

    async def _settle(
        self, lane: Lane, batch: Sequence[Queued], delivery: Delivery | None = None, aside: bool = False
    ) -> None:
        """The turn's last words go to the outbox as its messages leave the inbox; then they are sent."""
        turn = _turn_id(batch)
        conversation = await self.conversations.open(lane.address)
        last = conversation.session.of_turn(turn)[-1]
        end = last.end if isinstance(last, AssistantMessage) else None
        answers = tuple(row.message.id for row in batch)
        outbound = Outbound(turn, lane.address, last.content, end or "failed", answers=answers)
        await self.bus.inbox.settle(outbound, batch, aside)
        await self._send(lane, turn, delivery)

    async def _reply(self, lane: Lane, row: Queued, text: str | None = None) -> None:
        """Answers a command, outside the conversation."""
        text = text or await self.commands.run(row.message, lane)
        reply = Outbound(_turn_id([row]), lane.address, text, answers=(row.message.id,))
        await self.bus.inbox.settle(reply, [row])
        await self._send(lane, reply.id)

    async def _send(self, lane: Lane, outbound_id: str, delivery: Delivery | None = None) -> None:
        if not await self.deliveries.send(outbound_id, delivery):
            lane.unsent.append(outbound_id)

    async def _send_unsent(self, lane: Lane) -> None:
        while lane.unsent and await self.deliveries.send(lane.unsent[0]):
            lane.unsent.popleft()

    async def _try_to_say(self, lane: Lane, text: str) -> bool:
        """Says something that is not kept, if that works at once."""
        try:
            await self.deliveries.channel(lane.address).say(lane.address, text)
        except (TryLater, Refused):
            return False
        return True


def _turn_id(batch: Sequence[Queued]) -> str:
    return batch[0].turn or f"{batch[0].message.address}#{batch[0].message.id}"


def _heard_n(batch: Sequence[Queued], conversation: Conversation, retries: str | None) -> int:
    """The session's last `n` once the batch stands in the log: what comes after it is progress."""
    session = conversation.session
    if retries or session.of_turn(_turn_id(batch)):
        return session.last_n
    return session.last_n + len(albums_joined([row.message for row in batch]))


def _attempts(first: Queued, conversation: Conversation) -> int:
    """The number of this start of the turn; one that added records does not count."""
    return 1 if conversation.session.last_n > first.log_n else first.attempts + 1
