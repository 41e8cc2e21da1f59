"""The agent loop: takes from the bus what waits in each lane, and sees it answered.

One worker a lane, side by side. Knows which batch is whose and what to do when all else fails; what
an answer is, `answering.py` knows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from nanomem.agent.answering import BUG, Answering, turn_id
from nanomem.agent.commands import Commands
from nanomem.agent.delivery import Deliveries
from nanomem.agent.together import StopScope, unwrapped
from nanomem.agent.traffic import Traffic
from nanomem.agent.turn import DISK
from nanomem.bus import Bus, Lane
from nanomem.errors import CannotStore, Refused, Stop, TryLater, passes
from nanomem.messages import Outbound
from nanomem.ports import Clock, Queued

log = structlog.get_logger()

ALBUM_WAIT_S = 0.7
"""Seconds to wait for the rest of an album, whose parts arrive as messages of their own."""
DISK_WAIT_S = 5.0

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AgentLoop:
    """Serves lanes until the bus is closed. Cancelled, it parks what runs: the next start goes on there.

    `batch_room` is how many characters of text one turn takes on at once; `traffic` is told who is being served.
    """

    bus: Bus
    commands: Commands
    answering: Answering
    deliveries: Deliveries
    clock: Clock
    batch_room: int
    traffic: Traffic

    async def run(self) -> None:
        """Returns once the bus is closed and what runs has ended. Raises Stop."""
        with unwrapped():
            async with asyncio.TaskGroup() as lanes:
                while (work := await self.bus.next()) is not None:
                    lanes.create_task(self._serve(work) if isinstance(work, Lane) else self._reply_at_once(work))

    async def _serve(self, lane: Lane) -> None:
        """A lane's worker: until nothing waits."""
        while True:
            async with lane.gate:
                await self._send_unsent(lane)
                if not lane.waiting or self.bus.closed:
                    break
                await self._serve_next(lane)
        self.bus.rest(lane)

    async def _serve_next(self, lane: Lane) -> None:
        scope = StopScope()
        lane.stop = scope.stop
        try:
            if batch := await self._batch(lane):
                work, give_up = partial(self._handle, lane, batch, scope), partial(self._fail, lane, batch)
                with self.traffic.serving():
                    await self._guarded(lane, turn_id(batch), work, give_up)
        finally:
            lane.stop = None

    async def _reply_at_once(self, row: Queued) -> None:
        """An urgent command overtakes its lane."""
        lane = self.bus.lane(row.message.address)
        lane.visitors += 1
        await self._guarded(lane, turn_id([row]), partial(self._reply, lane, row), partial(self._reply, lane, row, BUG))
        lane.visitors -= 1
        if not lane.active:
            self.bus.rest(lane)

    async def _guarded(self, lane: Lane, outbound_id: str, work: Work, give_up: Work) -> None:
        """Does the work, as soon as the disk lets it; a bug is logged and `give_up` ends the matter.

        Both may be called again after they failed half-way: what is done already, they find done. Where
        `give_up` meets a bug too, the message is left in the log, and its row for the next start.
        """
        tell, told = False, False
        while True:
            try:
                if tell and not told:
                    told = await self._try_to_say(lane, DISK)
                return await work()
            except Stop:
                raise
            except Exception as error:  # the one broad except: what fails in one chat never stops another
                if isinstance(error, CannotStore) or passes(error):
                    log.error("lane.cannot_store", address=lane.address, reason=str(error))
                    tell = True
                else:
                    log.exception("lane.bug", address=lane.address)
                    if work is give_up:
                        give_up = partial(self._abandon, lane, outbound_id)
                    work = give_up
                    continue
            await self.clock.sleep(DISK_WAIT_S)

    async def _abandon(self, lane: Lane, outbound_id: str) -> None:
        log.error("lane.given_up", address=lane.address, outbound=outbound_id)
        await self.bus.inbox.delivered(outbound_id)
        if outbound_id in lane.unsent:
            lane.unsent.remove(outbound_id)

    async def _batch(self, lane: Lane) -> list[Queued]:
        """What waits now; an album that is still arriving is waited for."""
        newest = lane.waiting[-1] if lane.waiting else None
        if newest and newest.message.album and newest.turn is None:
            await self.clock.sleep(ALBUM_WAIT_S)
        return [] if self.bus.closed else lane.take(self.bus.kind, self.batch_room)

    async def _handle(self, lane: Lane, batch: Sequence[Queued], scope: StopScope) -> None:
        if self.bus.kind(batch[0].message) == "message":
            self._note(lane, batch, await self.answering.answer(lane, batch, scope))
        elif self.commands.is_retry(batch[0].message) and (turn := await self.answering.to_retry(lane, batch)):
            self._note(lane, batch, await self.answering.answer(lane, batch, scope, retries=turn))
        else:
            await self._reply(lane, batch[0])

    async def _fail(self, lane: Lane, batch: Sequence[Queued]) -> None:
        """Ends what met a bug."""
        is_retry = self.commands.is_retry(batch[0].message)
        if is_retry or self.bus.kind(batch[0].message) == "message":
            self._note(lane, batch, await self.answering.fail(lane, batch, is_retry))
        else:
            await self._reply(lane, batch[0], BUG)

    async def _reply(self, lane: Lane, row: Queued, text: str | None = None) -> None:
        """Answers a command, outside the conversation."""
        text = text or await self.commands.run(row.message, lane)
        reply = Outbound(turn_id([row]), lane.address, text, answers=(row.message.id,))
        await self.bus.inbox.settle(reply, [row])
        self._note(lane, [row], await self.deliveries.send(reply.id))

    def _note(self, lane: Lane, batch: Sequence[Queued], delivered: bool) -> None:
        """What nobody was there for is sent when somebody arrives."""
        if not delivered:
            lane.unsent.append(turn_id(batch))

    async def _send_unsent(self, lane: Lane) -> None:
        """What nobody was there for, in its order, until nobody is there again."""
        while lane.unsent:
            first = lane.unsent[0]
            work = partial(self._send_first, lane)
            await self._guarded(lane, first, work, work)
            if lane.unsent and lane.unsent[0] == first:
                return

    async def _send_first(self, lane: Lane) -> None:
        if await self.deliveries.send(lane.unsent[0]):
            lane.unsent.popleft()

    async def _try_to_say(self, lane: Lane, text: str) -> bool:
        """Says something that is not kept, if that works at once."""
        try:
            await self.deliveries.channel(lane.address).say(lane.address, text)
        except (TryLater, Refused):
            return False
        return True
