"""The in-process message bus: a lane for each session, served by one worker at a time.

What waits is on disk first; here are only wake-ups and order. Knows nothing of turns or networks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from nanomem.messages import Inbound
from nanomem.ports import Inbox, Queued, Update

Kind = Literal["message", "command", "urgent"]
"""How an inbound is served: with its neighbours in a turn, alone in its place, or at once."""


@dataclass(slots=True)
class Lane:
    """What waits in one session. `gate` is held by whoever may change the session now; `visitors` are urgent
    commands under way, which may be waiting for it."""

    address: str
    waiting: deque[Queued] = field(default_factory=deque)
    unsent: deque[str] = field(default_factory=deque)
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    active: bool = False
    visitors: int = 0
    stop: Callable[[], None] | None = None

    def take(self, kind: Callable[[Inbound], Kind], room: int) -> list[Queued]:
        """Removes and returns the next batch: a stamped one whole, a command alone, or all messages up
        to the next command, as far as their texts stay within `room` characters (at least one)."""
        batch: list[Queued] = []
        while self.waiting:
            row = self.waiting[0]
            if batch and (row.turn != batch[0].turn or (row.turn is None and kind(row.message) != "message")):
                break
            room -= len(row.message.text)
            if batch and row.turn is None and room < 0:
                break
            batch.append(self.waiting.popleft())
            if row.turn is None and kind(row.message) != "message":
                break
        return batch

    def put_back(self, batch: Iterable[Queued]) -> None:
        """Undoes `take`."""
        self.waiting.extendleft(reversed(list(batch)))


class Bus:
    """Takes what channels bring, and tells the loop which lane has work. Implements `ports.Taker`."""

    def __init__(self, inbox: Inbox, kind: Callable[[Inbound], Kind]) -> None:
        self.inbox = inbox
        self.kind = kind
        self.closed = False
        self._lanes: dict[str, Lane] = {}
        self._ready: asyncio.Queue[Lane | Queued | None] = asyncio.Queue()

    async def restore(self, channels: Sequence[str]) -> None:
        """Brings back what was waiting or not delivered when the process last ended, for these channels."""
        for outbound in await self.inbox.undelivered():
            if outbound.address.partition(":")[0] in channels:
                self.lane(outbound.address).unsent.append(outbound.id)
                self._wake(outbound.address)
        for row in await self.inbox.waiting():
            if row.message.channel in channels:
                self._put(row)

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None = None) -> None:
        """See `ports.Taker`."""
        for row in await self.inbox.take(channel, updates, offset):
            self._put(row)

    async def offset(self, channel: str) -> int | None:
        """See `ports.Taker`."""
        return await self.inbox.offset(channel)

    def arrived(self, address: str) -> None:
        """See `ports.Taker`."""
        self._wake(address)

    async def next(self) -> Lane | Queued | None:
        """A lane that has work and no worker, or an urgent row; None once the bus is closed."""
        return None if self.closed else await self._ready.get()

    def lane(self, address: str) -> Lane:
        """The lane of an address."""
        return self._lanes.setdefault(address, Lane(address))

    def rest(self, lane: Lane) -> None:
        """The lane's worker found nothing more to do; an empty lane is forgotten."""
        lane.active = False
        if not lane.waiting and not lane.unsent and not lane.visitors:
            self._lanes.pop(lane.address, None)

    def close(self) -> None:
        """No more work is given out; what waits stays on disk."""
        self.closed = True
        self._ready.put_nowait(None)

    def _put(self, row: Queued) -> None:
        if row.turn is None and self.kind(row.message) == "urgent":
            self._ready.put_nowait(row)
            return
        self.lane(row.message.address).waiting.append(row)
        self._wake(row.message.address)

    def _wake(self, address: str) -> None:
        lane = self.lane(address)
        if not lane.active:
            lane.active = True
            self._ready.put_nowait(lane)


def albums_joined(messages: Sequence[Inbound]) -> list[Inbound]:
    """The messages with those of one album made one: its texts joined, its attachments together."""
    joined: list[Inbound] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last and message.album and message.album == last.album:
            text = "\n".join(filter(None, (last.text, message.text)))
            joined[-1] = replace(last, text=text, attachments=last.attachments + message.attachments)
        else:
            joined.append(message)
    return joined
