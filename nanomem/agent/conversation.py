"""One session while it is in use: what is said in it goes to its log first, and then into the fold.

Gives each record its number, time and token count. Knows nothing of models, tools or channels.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from nanomem.messages import End, Inbound, Reply, ToolCall
from nanomem.ports import Clock, SessionLog, Tokenizer
from nanomem.prompt import Prefix
from nanomem.records import AssistantMessage, Pointer, Record, Reset, ToolMessage, UserMessage
from nanomem.session import Said, Session, is_ended, open_calls
from nanomem.spaces import Space

MOST_RECALLED = 500
"""Messages that a conversation remembers to have been reminded of."""


class Conversation:
    """A session and the way to add to it. `prefix` is what its prompt begins with, kept between turns.

    `recalled` are the messages that it was reminded of (session and number), each with the turn it was put into.
    `shrinking` is held by whoever makes the session shorter: a consolidation, or `/new`.
    """

    def __init__(self, space: Space, session: Session, log: SessionLog, tokenizer: Tokenizer, clock: Clock) -> None:
        self.space = space
        self.session = session
        self.prefix: Prefix | None = None
        self.recalled: dict[tuple[str, int], str] = {}
        self.shrinking = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._log = log
        self._tokenizer = tokenizer
        self._clock = clock
        self._stale = False
        self._counted = False

    @property
    def key(self) -> str:
        """The session's key, which is its address."""
        return self.session.key

    async def refresh(self) -> None:
        """Reads the log again if a write was interrupted, so that what stands there is what is known here."""
        async with self._writing:
            if self._stale:
                self.session = await self._log.load(self.space, self.key)
                self._stale = False
                self._counted = False
        if not self._counted:
            await self._count_missing()
            self._counted = True

    async def heard(self, turn: str, messages: Sequence[Inbound], files: Sequence[Sequence[str]]) -> None:
        """One `user` record per message; `files` are the paths of what came along with each."""
        records: list[Record] = []
        for n, (message, paths) in enumerate(zip(messages, files, strict=True), self.session.last_n + 1):
            records.append(
                UserMessage(
                    n=n,
                    turn=turn,
                    timestamp=message.sent_at,
                    content=message.text,
                    tokens=await self._tokenizer.count(message.text),
                    sender=message.sender,
                    reply_to=message.reply_to,
                    forwarded_from=message.forwarded_from,
                    edited=message.edited,
                    files=tuple(paths),
                )
            )
        await self._append(records)

    async def answered(
        self, turn: str, reply: Reply, model: str | None = None, end: End | None = None, retries: str | None = None
    ) -> AssistantMessage:
        """An `assistant` record; with `end` the turn's last."""
        calls = json.dumps([[call.name, call.arguments] for call in reply.tool_calls]) if reply.tool_calls else ""
        record = AssistantMessage(
            n=self.session.last_n + 1,
            turn=turn,
            timestamp=self._clock.now(),
            content=reply.text,
            tokens=await self._tokenizer.count(reply.text + calls),
            tool_calls=reply.tool_calls,
            usage=reply.usage if reply.usage.prompt_tokens else None,
            model=model,
            end=end,
            retries=retries,
        )
        await self._append([record])
        return record

    async def resulted(self, turn: str, results: Sequence[tuple[str, str, str]]) -> None:
        """A `tool` record for each (call id, tool name, result)."""
        records: list[Record] = [
            ToolMessage(
                n=n,
                turn=turn,
                timestamp=self._clock.now(),
                content=text,
                tokens=await self._tokenizer.count(text),
                tool_call_id=call_id,
                name=name,
            )
            for n, (call_id, name, text) in enumerate(results, self.session.last_n + 1)
        ]
        if records:
            await self._append(records)

    async def close(self, turn: str, text: str, end: End, calls: str, retries: str | None = None) -> None:
        """Ends a turn: each open call gets `calls` as its result, then comes the last record."""
        records = self.session.of_turn(turn)
        if is_ended(records):
            return
        await self.resulted(turn, [(call_id, name, calls) for call_id, name in open_calls(records)])
        await self.answered(turn, Reply(text), end=end, retries=retries if not records else None)

    async def moved(self, pointer: Pointer) -> None:
        """A record that tells how far the session is consolidated, or is to be."""
        await self._append([pointer])

    async def reset(self, inbound: str) -> None:
        """Starts afresh, once for each command that asks for it."""
        if self.session.last_reset == inbound:
            return
        if self.session.last_n:
            await self._append([Reset(through=self.session.last_n, timestamp=self._clock.now(), inbound=inbound)])
        self.prefix = None
        self.recalled.clear()

    def reminded(self, session: str, n: int, turn: str) -> None:
        """Notes that a turn was reminded of a message; only the newest are kept."""
        self.recalled[session, n] = turn
        while len(self.recalled) > MOST_RECALLED:
            del self.recalled[next(iter(self.recalled))]

    async def _append(self, records: Sequence[Record]) -> None:
        async with self._writing:
            was_stale, self._stale = self._stale, True
            await self._log.append(self.space, self.key, records)
            for record in records:
                self.session.apply(record)
            self._stale = was_stale

    async def _count_missing(self) -> None:
        """Counts the tokens of messages that an older layout kept without."""
        messages = self.session.messages
        for index, message in enumerate(messages):
            if message.tokens < 0:
                messages[index] = replace(message, tokens=await self._tokenizer.count(_all_text(message)))


def _all_text(message: Said) -> str:
    calls: Sequence[ToolCall] = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return message.content + "".join(call.name + call.arguments for call in calls)


class Conversations:
    """The conversations in use, and the last few that were. `space_of` is the space of a session key."""

    def __init__(
        self, space_of: Callable[[str], Space], log: SessionLog, tokenizer: Tokenizer, clock: Clock, keep: int = 256
    ) -> None:
        self.space_of = space_of
        self._log = log
        self._tokenizer = tokenizer
        self._clock = clock
        self._keep = keep
        self._open: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._recent: OrderedDict[str, Conversation] = OrderedDict()

    async def open(self, key: str) -> Conversation:
        """The conversation of a session key: one object, however many hold it."""
        conversation = self._open.get(key)
        space = self.space_of(key)
        if conversation is None or conversation.space != space:
            session = await self._log.load(space, key)
            conversation = self._open.get(key)
            if conversation is None or conversation.space != space:
                conversation = Conversation(space, session, self._log, self._tokenizer, self._clock)
                self._open[key] = conversation
        self._recent[key] = conversation
        self._recent.move_to_end(key)
        while len(self._recent) > self._keep:
            self._recent.popitem(last=False)
        return conversation
