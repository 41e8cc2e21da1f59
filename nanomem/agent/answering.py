"""Answering one batch of messages: the turn's life from the stamp in the inbox to the outbox.

The order of writes here is what survives a crash: read it before changing it. Each step finds what of
it is done already, so that a turn cut short anywhere goes on when it is begun again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import structlog

from nanomem.agent.conversation import Conversation, Conversations
from nanomem.agent.delivery import Deliveries, Delivery
from nanomem.agent.together import StopScope, beside
from nanomem.agent.turn import Runner, Turn
from nanomem.bus import Lane, albums_joined
from nanomem.errors import Misuse, TellUser, TooLong
from nanomem.messages import Image, Inbound, Outbound
from nanomem.ports import Clock, Files, Inbox, Queued
from nanomem.records import AssistantMessage, UserMessage
from nanomem.session import UNKNOWN_OUTCOME, is_ended

log = structlog.get_logger()

ATTEMPTS = 3

CANCELLED = "Cancelled: the person stopped this."
STOPPED_EARLY = "(stopped)"
BUG = "Something went wrong on my side; the log says what. Your message is kept: /retry tries again."
INTERRUPTED = "This was interrupted and could not be taken up again. /retry tries again."
SET_ASIDE = "I failed three times over this message and have set it aside. Please say it in another way."


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers batches. For a lane's worker alone, who holds its gate. `after_turn` is told once all is sent."""

    inbox: Inbox
    conversations: Conversations
    runner: Runner
    deliveries: Deliveries
    files: Files
    clock: Clock
    after_turn: Callable[[Conversation], None]

    async def answer(self, lane: Lane, batch: Sequence[Queued], scope: StopScope, retries: str | None = None) -> bool:
        """A turn, from its batch to the delivered answer; False if nobody was there to take it.

        Stopped before it has begun, it is none: its messages wait again.
        """
        turn = turn_id(batch)
        conversation = await self._opened(lane.address)
        await close_orphan(conversation, turn)
        if (attempts := _attempts(batch[0], conversation)) > ATTEMPTS:
            log.error("turn.set_aside", turn=turn, messages=len(batch))
            await conversation.close(turn, SET_ASIDE, "failed", UNKNOWN_OUTCOME)
            return await self._settle(conversation, batch, aside=True)
        if scope.stopped and batch[0].turn is None:
            lane.put_back(batch)
            return True
        try:
            await self.inbox.stamp(turn, batch, _heard_n(batch, conversation, retries), attempts)
            delivery = await self.deliveries.begin(turn, lane.address)
            await delivery.open()
            with scope:
                if not scope.stopped:
                    await self._run(conversation, batch, delivery, retries)
            if scope.stopped:
                await conversation.refresh()
                await self._hear(conversation, batch, retries, fetch=False)
                await conversation.close(turn, delivery.shown.strip() or STOPPED_EARLY, "stopped", CANCELLED, retries)
        except asyncio.CancelledError:
            await self.inbox.park(turn)
            raise
        finally:
            lane.stop = None
        delivered = await self._settle(conversation, batch, delivery)
        self.after_turn(conversation)
        return delivered

    async def _run(
        self, conversation: Conversation, batch: Sequence[Queued], delivery: Delivery, retries: str | None
    ) -> None:
        """The part of a turn that a person may stop."""
        turn = turn_id(batch)
        started = self.clock.monotonic()
        try:
            await self._hear(conversation, batch, retries)
            if not is_ended(conversation.session.of_turn(turn)):
                own = done_again(conversation, retries) | {turn}
                tail = await self.runner.prompter.tail(conversation, own, await self._images(conversation, own))
                run = self.runner.run(Turn(turn, conversation, tail, delivery.show, retries))
                await beside(delivery.keep_showing(), run)
        except (TellUser, TooLong, Misuse) as error:
            log.warning("turn.failed", turn=turn, kind=type(error).__name__, reason=error.gist)
            log.debug("turn.reason", turn=turn, reason=error.text)  # it may quote what was said
            await conversation.close(turn, error.text, "failed", UNKNOWN_OUTCOME, retries)
        log.info("turn.finished", turn=turn, messages=len(batch), seconds=round(self.clock.monotonic() - started, 3))

    async def _hear(
        self, conversation: Conversation, batch: Sequence[Queued], retries: str | None, fetch: bool = True
    ) -> None:
        """One `user` record per message, unless they are in the log already."""
        heard: list[Inbound] = []
        paths: list[list[str]] = []
        for message in _unheard(batch, conversation, retries):
            received: list[str] = []
            notes = [f"[{attachment.name[:100]} was not fetched]" for attachment in message.attachments]
            if fetch:
                channel = self.deliveries.channel(message.address)
                received, notes = await self.files.receive(conversation.space, message, channel)
            heard.append(replace(message, text="\n".join(filter(None, (message.text, *notes)))))
            paths.append(received)
        if heard:
            await conversation.heard(turn_id(batch), heard, paths)

    async def _images(self, conversation: Conversation, own: frozenset[str]) -> dict[str, Image]:
        """The pictures that came with these turns."""
        newest = takewhile(lambda message: message.turn in own, reversed(conversation.session.messages))
        paths = [path for message in newest if isinstance(message, UserMessage) for path in message.files]
        found = {path: await self.files.image(conversation.space, path) for path in paths}
        return {path: image for path, image in found.items() if image}

    async def fail(self, lane: Lane, batch: Sequence[Queued], is_retry: bool) -> bool:
        """Ends a turn that met a bug; False if nobody was there to be told."""
        conversation = await self._opened(lane.address)
        turn = turn_id(batch)
        if not is_retry:
            await self._hear(conversation, batch, None, fetch=False)
        await conversation.close(turn, BUG, "failed", UNKNOWN_OUTCOME, retried(conversation, turn))
        return await self._settle(conversation, batch)

    async def to_retry(self, lane: Lane, batch: Sequence[Queued]) -> str | None:
        """The turn that a batch which asks for it shall do again, if there is one."""
        return retried(await self._opened(lane.address), turn_id(batch))

    async def _opened(self, address: str) -> Conversation:
        """The conversation as its log says; for who alone may write there."""
        conversation = await self.conversations.open(address)
        await conversation.refresh()
        return conversation

    async def _settle(
        self,
        conversation: Conversation,
        batch: Sequence[Queued],
        delivery: Delivery | None = None,
        aside: bool = False,
    ) -> bool:
        """The turn's last words go to the outbox as its messages leave the inbox; then they are sent."""
        turn = turn_id(batch)
        last = conversation.session.of_turn(turn)[-1]
        end = last.end if isinstance(last, AssistantMessage) else None
        answers = tuple(row.message.id for row in batch)
        outbound = Outbound(turn, conversation.key, last.content, end or "failed", answers=answers)
        await self.inbox.settle(outbound, batch, aside)
        return await self.deliveries.send(turn, delivery)


async def close_orphan(conversation: Conversation, turn: str = "") -> None:
    """Closes a turn before this one that has no end: the bus knows nothing of it any more, so it has failed."""
    records = conversation.session.last_turn()
    if records and records[0].turn not in ("", turn) and not is_ended(records):
        await conversation.close(records[0].turn, INTERRUPTED, "failed", UNKNOWN_OUTCOME)


def turn_id(batch: Sequence[Queued]) -> str:
    """The batch's turn: the one it was stamped for, else session key, `#` and its first message's id."""
    return batch[0].turn or f"{batch[0].message.address}#{batch[0].message.id}"


def _unheard(batch: Sequence[Queued], conversation: Conversation, retries: str | None) -> list[Inbound]:
    """The messages of a batch that are not in the log yet; a kill may have cut their writing short anywhere."""
    records = conversation.session.of_turn(turn_id(batch))
    if retries or not all(isinstance(record, UserMessage) for record in records):
        return []
    return albums_joined([row.message for row in batch])[len(records) :]


def _heard_n(batch: Sequence[Queued], conversation: Conversation, retries: str | None) -> int:
    """The session's last `n` once the batch stands in the log: what comes after it is progress."""
    return conversation.session.last_n + len(_unheard(batch, conversation, retries))


def _attempts(first: Queued, conversation: Conversation) -> int:
    """The number of this start of the turn; one that added records does not count."""
    return 1 if conversation.session.last_n > first.log_n else first.attempts + 1


def retried(conversation: Conversation, turn: str) -> str | None:
    """The turn that `turn` does again: the one before it, if that failed or was stopped."""
    records = conversation.session.of_turn(turn)
    if records:
        return records[0].retries if isinstance(records[0], AssistantMessage) else None
    if not (newest := conversation.session.last_turn()):
        return None
    *before, last = newest
    if not isinstance(last, AssistantMessage) or last.end not in ("failed", "stopped"):
        return None
    return last.turn if before or last.retries else None  # one that was set aside has nothing to be done again


def done_again(conversation: Conversation, retries: str | None) -> frozenset[str]:
    """That turn, and those that it did again itself."""
    chain: set[str] = set()
    for message in reversed(conversation.session.messages):
        if retries is None or (chain and message.turn not in (*chain, retries)):
            break
        if message.turn == retries:
            chain.add(retries)
            if isinstance(message, AssistantMessage) and message.retries:
                retries = message.retries
    return frozenset(chain)
