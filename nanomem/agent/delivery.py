"""Getting one answer to its person: a placeholder, edits while it grows, and at last the whole text.

Placeholder, keep its id, edit: so that an answer interrupted by a crash is completed in place.
Knows the channel port and the outbox, nothing of turns.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from nanomem.agent.patience import patiently
from nanomem.agent.together import to_its_end
from nanomem.agent.way import Way
from nanomem.errors import CannotStore, Gone, NotHere, Refused, TryLater
from nanomem.messages import Outbound
from nanomem.ports import Channel, Clock, Inbox

log = structlog.get_logger()

BETWEEN_EDITS_S = 1.0
LATE_EDIT_S = 2.0
"""Seconds that the last edit of a growing answer may take to arrive before the whole answer is sent after it."""


class Delivery:
    """One outbound message on its way. `shown` is the newest text a growing answer has."""

    def __init__(self, channel: Channel, way: Way, inbox: Inbox, clock: Clock, outbound: Outbound) -> None:
        self.shown = ""
        self._channel = channel
        self._way = way
        self._inbox = inbox
        self._clock = clock
        self._id = outbound.id
        self._address = outbound.address
        self._placed = list(outbound.placed)
        self._grown = asyncio.Event()
        self._not_before = 0.0

    async def open(self) -> None:
        """Puts the placeholder up, if the network lets us now; if not, `finish` will."""
        if self._placed:
            return
        try:
            await self._place()
        except (TryLater, Refused, CannotStore) as error:
            if isinstance(error, TryLater):
                self._heed(error)
            log.info("delivery.no_placeholder", address=self._address, reason=error.text)

    def show(self, text: str) -> None:
        """The answer has grown to this; it is shown when there is time."""
        self.shown = text
        self._grown.set()

    async def keep_showing(self) -> None:
        """Edits the placeholder as the answer grows, best effort, until cancelled."""
        while self._placed:
            await self._grown.wait()
            await self._clock.sleep(max(BETWEEN_EDITS_S, self._wait()))
            self._grown.clear()
            if self.shown.strip():
                await self._show_first_part()

    async def _show_first_part(self) -> None:
        part = self._channel.parts(self.shown)[0]
        edit = self._channel.show(self._address, self._placed[0], part, final=False)
        try:
            await to_its_end(edit, LATE_EDIT_S)  # one that comes later than the whole answer would stand over it
        except TryLater as error:
            self._heed(error)
        except Refused as error:  # the final text is what counts: `finish` replaces what cannot be edited
            log.debug("delivery.not_shown", address=self._address, reason=error.text)

    def _heed(self, error: TryLater) -> None:
        """The network wants nothing for so long."""
        self._not_before = self._clock.monotonic() + (error.after_s or 0.0)

    def _wait(self) -> float:
        return max(0.0, self._not_before - self._clock.monotonic())

    async def finish(self, text: str) -> None:
        """Delivers the whole text. Raises NotHere: nobody is there, it stays in the outbox.

        Waits for as long as the network is away; what it refuses for good is logged and given up.
        """
        if wait := self._wait():
            await self._clock.sleep(wait)
        try:
            for index, part in enumerate(self._channel.parts(text)):
                await self._deliver(index, part)
        except Refused as error:
            log.error("delivery.refused", address=self._address, outbound=self._id, reason=error.text)

    async def _deliver(self, index: int, part: str) -> None:
        for last_chance in (False, True):
            try:
                async for attempt in patiently(self._clock, "delivery"):
                    with attempt:
                        await self._way.attempt(partial(self._put, index, part))
                return
            except Gone:
                if last_chance:
                    raise
                del self._placed[index:]

    async def _put(self, index: int, part: str) -> None:
        if index >= len(self._placed):
            await self._place()
        await self._channel.show(self._address, self._placed[index], part, final=True)

    async def _place(self) -> None:
        self._placed.append(await self._channel.place(self._address))
        await self._inbox.placed(self._id, self._placed)


class Deliveries:
    """The way out, for answers and for replies to commands."""

    def __init__(self, channels: Sequence[Channel], inbox: Inbox, clock: Clock) -> None:
        self._channels = {channel.name: channel for channel in channels}
        self._ways = {name: Way(clock) for name in self._channels}
        self._inbox = inbox
        self._clock = clock

    def channel(self, address: str) -> Channel:
        """The channel of an address."""
        return self._channels[address.partition(":")[0]]

    async def begin(self, outbound_id: str, address: str) -> Delivery:
        """A delivery for an answer about to be written; where a crash has left one begun, that one."""
        outbound = await self._inbox.outbound(outbound_id) or Outbound(outbound_id, address)
        return self._delivery(outbound)

    async def send(self, outbound_id: str, delivery: Delivery | None = None) -> bool:
        """Delivers what waits in the outbox under that id; False if nobody is there to take it."""
        outbound = await self._inbox.outbound(outbound_id)
        if outbound is None or outbound.text is None:
            return True
        channel = self.channel(outbound.address)
        try:
            if outbound.end is None:
                await self._reply(channel, outbound.address, outbound.text)
            else:
                await (delivery or self._delivery(outbound)).finish(outbound.text)
        except NotHere:
            return False
        await channel.done(outbound)
        await self._inbox.delivered(outbound_id)
        return True

    def _delivery(self, outbound: Outbound) -> Delivery:
        channel = self.channel(outbound.address)
        return Delivery(channel, self._ways[channel.name], self._inbox, self._clock, outbound)

    async def _reply(self, channel: Channel, address: str, text: str) -> None:
        try:
            async for attempt in patiently(self._clock, "delivery"):
                with attempt:
                    await self._ways[channel.name].attempt(partial(channel.say, address, text))
        except Refused as error:
            log.error("delivery.refused", address=address, reason=error.text)
