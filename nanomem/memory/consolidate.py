"""Consolidation: when a session is made shorter, by how much, and what happens when the model does not play along.

One task a session, under the session's lock, which `/new` takes too. How a stretch becomes a decision, `distill.py`
knows; how a decision is carried out, `decisions.py`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from nanomem.agent.background import Background
from nanomem.agent.conversation import Conversation
from nanomem.agent.prompting import Prompter
from nanomem.budget import cost
from nanomem.errors import Misuse, TellUser
from nanomem.memory.decisions import Decisions
from nanomem.records import EntryType
from nanomem.session import Said
from nanomem.spaces import Space
from nanomem.stretch import all_but_newest, pick_boundary, turns_before_last

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class When:
    """The numbers of both triggers, as the settings have them; the ratios are shares of the budget."""

    target_ratio: float = 0.5
    soft_ratio: float = 0.8
    max_rounds: int = 5
    max_failures: int = 3
    deadline_s: float = 60
    memory_window: int = 100


class Consolidator:
    """Keeps sessions within their budget. `model` is the one whose prompts are counted; `written` is told of each
    history entry."""

    def __init__(
        self,
        when: When,
        model: str,
        prompter: Prompter,
        decisions: Decisions,
        background: Background,
        written: Callable[[Space], None],
    ) -> None:
        self._when = when
        self._model = model
        self._prompter = prompter
        self._decisions = decisions
        self._background = background
        self._written = written
        self._running: WeakKeyDictionary[Conversation, asyncio.Task[None]] = WeakKeyDictionary()

    def after_turn(self, conversation: Conversation) -> None:
        """Sees in the background whether the session has become too long, and makes it shorter."""
        self._start(conversation, self._keep_short(conversation))

    async def relieve(self, conversation: Conversation, beside: int, wait: bool) -> None:
        """Makes room before a model call that takes `beside` o200k tokens more than the session; waits for it until
        `deadline_s` at the latest, and what runs then goes on."""
        if not wait:
            self._start(conversation, self._to_target(conversation, beside))
            return
        try:
            async with asyncio.timeout(self._when.deadline_s):
                if running := self._running.get(conversation):
                    await asyncio.wait([running])
                if task := self._start(conversation, self._to_target(conversation, beside)):
                    await asyncio.wait([task])
        except TimeoutError:
            log.warning("consolidation.not_waited_for", session=conversation.key, seconds=self._when.deadline_s)

    async def finish(self, conversation: Conversation) -> None:
        """Carries out what was decided before a crash."""
        async with conversation.shrinking:
            await self._decisions.finish(conversation)

    async def archive(self, conversation: Conversation, inbound: str) -> str | None:
        """All of the session, for `/new`; why it could not be done, or None. Part of it may be done then."""
        async with conversation.shrinking:
            await self._decisions.finish(conversation)
            return await self._through(conversation, conversation.session.last_n, "archive", inbound)

    async def compact(self, conversation: Conversation, inbound: str) -> str | None:
        """All but the last turn, for `/compact`; why it could not be done, or None."""
        async with conversation.shrinking:
            await self._decisions.finish(conversation)
            messages = conversation.session.messages
            count = turns_before_last(messages)
            through = messages[count - 1].n if count else 0
            return await self._through(conversation, through, "consolidation", inbound)

    def _start(self, conversation: Conversation, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """At most one task a session: the one that runs already, if there is one."""
        running = self._running.get(conversation)
        if running is not None and not running.done():
            work.close()
            return running
        task = self._background.start(f"consolidation of {conversation.key}", work)
        if task is not None:
            self._running[conversation] = task
        return task

    async def _keep_short(self, conversation: Conversation) -> None:
        used = await self._prompter.used(conversation, self._model)
        if used > self._when.soft_ratio * self._prompter.limits.budget:
            await self._to_target(conversation, 0)
        window = self._when.memory_window
        if window and len(conversation.session.messages) >= window:
            await self._to_window(conversation)

    async def _to_target(self, conversation: Conversation, beside: int) -> None:
        """Rounds until the prompt is at its target, or nothing more can be done.

        What is said meanwhile is left out of the count: it would have every round chased by another one.
        """
        async with conversation.shrinking:
            await self._decisions.finish(conversation)
            last_n = conversation.session.last_n
            for _ in range(self._when.max_rounds):
                messages = conversation.session.messages
                newer = sum(cost(message) for message in messages if message.n > last_n)
                excess = (
                    await self._prompter.excess(conversation, self._model, self._when.target_ratio) + beside - newer
                )
                if excess <= 0:
                    return
                count = pick_boundary(messages, excess)
                if not count:
                    log.info("consolidation.nothing_to_cut", session=conversation.key, messages=len(messages))
                    return
                if await self._consolidate(conversation, messages[:count], "consolidation"):
                    return

    async def _to_window(self, conversation: Conversation) -> None:
        """All but the newest half of the window."""
        async with conversation.shrinking:
            await self._decisions.finish(conversation)
            messages = conversation.session.messages
            if len(messages) < self._when.memory_window:
                return
            count = all_but_newest(messages, self._when.memory_window // 2)
            if count:
                await self._through(conversation, messages[count - 1].n, "consolidation")

    async def _through(
        self, conversation: Conversation, through: int, kind: EntryType, inbound: str | None = None
    ) -> str | None:
        """Stretch by stretch as far as message `through`; why it stopped before, or None."""
        while stretch := [m for m in conversation.session.messages if m.n <= through]:
            if reason := await self._consolidate(conversation, stretch, kind, inbound):
                return reason
        return None

    async def _consolidate(
        self, conversation: Conversation, stretch: Sequence[Said], kind: EntryType, inbound: str | None = None
    ) -> str | None:
        """One decision about the stretch, or as much of it as fits into a call, carried out; or why there is none.

        The last of so many failures in a row archives the stretch word by word.
        """
        try:
            decision = await self._decisions.make(conversation, stretch, kind, inbound)
        except (TellUser, Misuse) as error:
            await self._decisions.failed(conversation, stretch, error.text)
            failures = conversation.session.failures
            log.warning("consolidation.failed", session=conversation.key, failures=failures, reason=error.gist)
            log.debug("consolidation.reason", session=conversation.key, reason=error.text)  # it may quote what was said
            if failures < self._when.max_failures:
                return error.text
            decision = await self._decisions.make_raw(conversation, stretch, inbound)
        await self._decisions.carry_out(conversation, decision)
        self._written(conversation.space)
        return None
