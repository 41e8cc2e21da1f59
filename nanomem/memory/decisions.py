"""Decisions about stretches: made once, written down, and carried out step by step.

Each step finds what of it is done already, so that a decision cut short anywhere is finished later.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4
from weakref import WeakKeyDictionary

import structlog

from nanomem.agent.conversation import Conversation
from nanomem.entries import Entry
from nanomem.facts import MemoryFiles
from nanomem.memory.distill import Distiller
from nanomem.memory.fitness import Fitness
from nanomem.memory.known import known_now
from nanomem.ports import Change, Clock, History, Memory, Versions
from nanomem.proposal import edited, removals
from nanomem.records import Consolidated, Consolidating, ConsolidationFailed, EntryType
from nanomem.session import Said
from nanomem.stretch import fitting, raw_entries

log = structlog.get_logger()

BUGS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Decisions:
    """For who holds the session's lock. `raw_limit` is the most tokens of an entry that keeps messages as they are;
    `secrets_in` finds what may be in history, and not in the memory."""

    def __init__(
        self,
        distiller: Distiller,
        memory: Memory,
        versions: Versions,
        history: History,
        clock: Clock,
        raw_limit: int,
        secrets_in: Callable[[str], frozenset[str]],
    ) -> None:
        self._distiller = distiller
        self._memory = memory
        self._versions = versions
        self._history = history
        self._clock = clock
        self._raw_limit = raw_limit
        self._secrets_in = secrets_in
        self._unwritten: WeakKeyDictionary[Conversation, Consolidating] = WeakKeyDictionary()

    async def make(
        self, conversation: Conversation, stretch: Sequence[Said], kind: EntryType, inbound: str | None
    ) -> Consolidating:
        """Asks the model about as much of the stretch as fits into one call, and writes down what shall be done.

        What could not be written down is not asked for again. Raises TellUser: nothing was decided; CannotStore.
        """
        held = self._unwritten.get(conversation)
        if held is None or held.first != stretch[0].n or held.through > stretch[-1].n:
            held = self._unwritten[conversation] = await self._made(conversation, stretch)
        decision = replace(held, type=kind, inbound=inbound)
        await conversation.moved(decision)
        del self._unwritten[conversation]
        return decision

    async def _made(self, conversation: Conversation, stretch: Sequence[Said]) -> Consolidating:
        known, versions = await known_now(self._memory, self._versions, conversation.space)
        part = stretch[: fitting(stretch, await self._distiller.room(known))]
        wanted = await self._distiller.distilled(known, part)
        return Consolidating(
            id=uuid4().hex,
            type="consolidation",
            first=part[0].n,
            through=part[-1].n,
            history_entry=wanted.history_entry,
            key_facts=wanted.key_facts,
            memory_update=wanted.memory_update,
            changes=wanted.changes,
            removed=wanted.removed,
            base=versions[-1].id if versions else None,
            after=await self._history.last(conversation.space),
        )

    async def make_raw(self, conversation: Conversation, stretch: Sequence[Said], inbound: str | None) -> Consolidating:
        """The stretch shall be kept word by word."""
        decision = Consolidating(
            id=uuid4().hex,
            type="raw",
            first=stretch[0].n,
            through=stretch[-1].n,
            after=await self._history.last(conversation.space),
            limit=self._raw_limit,
            inbound=inbound,
        )
        await conversation.moved(decision)
        return decision

    async def failed(self, conversation: Conversation, stretch: Sequence[Said], reason: str) -> None:
        """Notes that the model gave nothing usable."""
        now = self._clock.now()
        await conversation.moved(ConsolidationFailed(through=stretch[-1].n, reason=reason, timestamp=now))

    async def finish(self, conversation: Conversation) -> None:
        """Carries out what is decided and not done."""
        await conversation.refresh()
        if decision := conversation.session.pending:
            log.info("consolidation.taken_up_again", session=conversation.key, id=decision.id)
            await self.carry_out(conversation, decision)

    async def carry_out(self, conversation: Conversation, decision: Consolidating) -> None:
        """History entry, memory change, pointer; each only if it is not there yet."""
        entries = await self._written(conversation, decision)
        version = await self._remembered(conversation, decision, entries)
        await conversation.moved(
            Consolidated(
                id=decision.id,
                through=decision.through,
                history=entries[-1].cursor if entries else conversation.session.history,
                timestamp=self._clock.now(),
            )
        )
        log.info(
            "memory.consolidated",
            session=conversation.key,
            type=decision.type,
            messages=f"{decision.first}-{decision.through}",
            entries=len(entries),
            version=version,
        )

    async def _remembered(
        self, conversation: Conversation, decision: Consolidating, entries: Sequence[Entry]
    ) -> int | None:
        """The number of the version that the decision has become. A bug over one proposal is passed over: it would
        come again each time, and hold up the conversation for ever; what was said is in history all the same."""
        if decision.type == "raw":
            return None
        try:
            change = await self._change(conversation, decision, entries)
            receipt = await self._memory.change(conversation.space, change)
        except BUGS:
            log.exception("memory.not_changed", session=conversation.key, id=decision.id)
            return None
        return receipt.version.number if receipt.version else None

    async def _written(self, conversation: Conversation, decision: Consolidating) -> list[Entry]:
        """The history entries of a decision, appended as far as they are not there: found by session and range."""
        wanted = self._entries(conversation, decision)
        later = await self._history.after(conversation.space, decision.after)
        first, through = decision.first, decision.through
        there = [e for e in later if e.session == conversation.key and first <= e.first and e.last <= through]
        return there + await self._history.append(conversation.space, wanted[len(there) :])

    def _entries(self, conversation: Conversation, decision: Consolidating) -> list[Entry]:
        stretch = _stretch(conversation, decision)
        if decision.type == "raw":
            return raw_entries(stretch, conversation.key, self._distiller.zone, decision.limit)
        entry = Entry(
            timestamp=stretch[-1].timestamp if stretch else self._clock.now(),
            type=decision.type,
            session=conversation.key,
            first=decision.first,
            last=decision.through,
            summary=decision.history_entry,
            key_facts=decision.key_facts,
        )
        return [entry]

    async def _change(self, conversation: Conversation, decision: Consolidating, entries: Sequence[Entry]) -> Change:
        """What the memory shall become: what the model wants, as far as a person's words do not say otherwise."""
        changes, said = decision.changes or (), _stretch(conversation, decision)
        known, versions = await known_now(self._memory, self._versions, conversation.space)
        fitness = await asyncio.to_thread(partial(Fitness, known, versions, said, self._secrets_in, strict=False))
        removed = fitness.of_removals(removals(decision.removed, changes))

        def propose(base: MemoryFiles) -> MemoryFiles:
            update = decision.memory_update
            proposal = replace(base, memory=edited(base.memory, changes) if update is None else update)
            return fitness.of_files(base, proposal, removed)

        return Change(
            kind="consolidation",
            propose=propose,
            base=decision.base,
            removed=removed,
            trailers={
                "Session": conversation.key,
                "Messages": f"{decision.first}-{decision.through}",
                "History": f"{entries[0].cursor}-{entries[-1].cursor}" if entries else "",
                "Inbound": f"{conversation.key}#{decision.inbound}" if decision.inbound else "",
                "Id": decision.id,
            },
        )


def _stretch(conversation: Conversation, decision: Consolidating) -> list[Said]:
    """The messages that it is about."""
    messages = conversation.session.messages
    return [message for message in messages if decision.first <= message.n <= decision.through]
