"""Dream, the slow learner: one run over what is new in a space, from reading to one version.

A run calls a model for each batch, then for each file that changes, and makes one change of the memory. Up to that
change nothing is written but that a batch was begun, so a run cut short anywhere is made anew; behind it come only
marks, which `unread.py` makes good. Knows nothing of when it is run, or of who asked.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import uuid4

import structlog

from nanomem.batches import Batch, Piece, heard, next_batch
from nanomem.errors import CannotStore, OverLimit, Refused, TellUser
from nanomem.extraction import Extracted, joined
from nanomem.facts import MemoryFiles, facts
from nanomem.ledger import CONTRADICTED
from nanomem.memory.calling import DoesNotFit
from nanomem.memory.drafting import draft
from nanomem.memory.fitness import Fitness
from nanomem.memory.known import known_now
from nanomem.memory.learning import Learner
from nanomem.memory.unread import Unread
from nanomem.memory.why import own
from nanomem.messages import Usage
from nanomem.ports import Change, Diary, Memory, PassedOver, Receipt, Run, Skills, Versions
from nanomem.session import Said
from nanomem.spaces import Space
from nanomem.versions import Removal, Version, of_messages
from nanomem.wording import gist, names

log = structlog.get_logger()

MOST_ATTEMPTS = 3
MASK = "[secret]"
CUT_SHORT = "nanomem ended, or met a bug, each time while it was read"


@dataclass(slots=True)
class _Read:
    """A batch that has been begun: what it has to teach, None where it is passed over."""

    batch: Batch
    attempt: int
    found: Extracted | None = None


@dataclass(slots=True)
class _Work:
    """One run while it goes on: what is known, at which versions, and what was read, which is not read again."""

    space: Space
    at: datetime
    known: MemoryFiles
    versions: Sequence[Version]
    read: list[_Read] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    refused: int = 0
    reason: str = ""

    @property
    def pieces(self) -> list[Piece]:
        """All that is done with."""
        return [piece for read in self.read for piece in read.batch.pieces]

    @property
    def taught(self) -> list[Piece]:
        """Of these, what was not passed over."""
        return [piece for read in self.read if read.found for piece in read.batch.pieces]

    def spent(self, usage: Usage) -> None:
        """Adds what a call has cost."""
        self.usage += usage


class Dreamer:
    """Runs Dreams; one at a time in a space is the caller's to see to. `secrets_in` finds what must not be learnt."""

    def __init__(
        self,
        memory: Memory,
        versions: Versions,
        unread: Unread,
        learner: Learner,
        diary: Diary,
        skills: Skills,
        secrets_in: Callable[[str], frozenset[str]],
    ) -> None:
        self._memory = memory
        self._versions = versions
        self._unread = unread
        self._learner = learner
        self._diary = diary
        self._skills = skills
        self._secrets_in = secrets_in

    async def waiting(self, space: Space) -> int:
        """How many history entries have not been read. Raises CannotStore."""
        return await self._unread.waiting(space, await self._versions.all(space))

    async def run(self, space: Space, at: datetime, inbound: str = "") -> Run | None:
        """Learns what is new; None: there is nothing, and nothing was asked or written. `at` is now, `inbound` the
        command that asked for it. Raises CannotStore, Refused: it could not be read or written, which counts as no
        attempt."""
        known, versions = await known_now(self._memory, self._versions, space)
        await self._unread.catch_up(space, versions)
        work = _Work(space, at, own(space, known), versions)
        room = await self._learner.room(work.known)
        pieces = await self._unread.pieces(space, versions, room, self._veiled)
        if not pieces:
            return None
        log.info("dream.started", space=space.name, pieces=len(pieces))
        try:
            await self._read(work, pieces, room)
            receipt = await self._learn(work, inbound)
            await self._unread.mark(space, work.pieces)
        except (asyncio.CancelledError, CannotStore, Refused):
            await self._diary.give_back(space.name, work.begun)
            raise
        await self._diary.done(space.name, [read.batch.name for read in work.read])
        run = _receipt(work, receipt)
        await self._diary.note(run)
        log.info("dream.finished", **_told(run))
        return run

    # --- phase 1

    async def _read(self, work: _Work, pieces: Sequence[Piece], room: int) -> None:
        """Batch by batch, until all are read, one fails, or today's allowance ends. One that is too long for the model
        is cut in two, and that is no failure."""
        begun = {*await self._diary.attempts(work.space.name)}
        needed = await self._learner.needed(work.known)
        rest = list(pieces)
        while rest:
            left = await self._learner.left_today()
            batch = next_batch(rest, room if left is None else min(room, left - needed), begun)
            assert batch is not None
            if left is not None and batch.tokens + needed > left and not await self._learner.is_untouched():
                limit = self._learner.daily_tokens
                work.reason = f"Today's limit of {limit:,} tokens for learning is reached; the rest waits."
                return
            try:
                if not await self._read_one(work, batch):
                    return
                rest = rest[len(batch.pieces) :]
            except DoesNotFit:
                room = batch.tokens // 2
                begun.discard(batch.name)

    async def _read_one(self, work: _Work, batch: Batch) -> bool:
        """False: it failed, and will be tried again in another run. Raises DoesNotFit: less of it may be read."""
        read = _Read(batch, await self._diary.attempt(work.space.name, batch.name))
        if read.attempt > MOST_ATTEMPTS:
            return await self._passed_over(work, read, CUT_SHORT)
        work.begun.append(batch.name)
        said = await self._unread.said(work.space, batch.pieces)
        try:
            text = await asyncio.to_thread(self._without_secrets, batch.text, said)
            read.found = await self._learner.extract(work.known, text, work.space.is_owners, work.spent)
        except TellUser as error:
            if isinstance(error, DoesNotFit) and len(batch.pieces) > 1:
                work.begun.remove(batch.name)
                await self._diary.done(work.space.name, [batch.name])
                raise
            return await self._failed(work, read, error)
        work.read.append(read)
        return True

    def _without_secrets(self, text: str, said: Sequence[Said]) -> str:
        """A secret that was said is no business of another call; only from the message itself can all be told."""
        return _masked(text, self._secrets_in(text).union(*(self._secrets_in(message.content) for message in said)))

    def _veiled(self, said: Sequence[Said]) -> list[Said]:
        return [replace(one, content=_masked(one.content, self._secrets_in(one.content))) for one in said]

    async def _failed(self, work: _Work, read: _Read, error: TellUser) -> bool:
        """Whether it is passed over, and so is done with. A limit of the owner's is no failure of the batch."""
        work.reason = reason = error.text
        if isinstance(error, OverLimit):
            await self._diary.give_back(work.space.name, [read.batch.name])
            return False
        log.warning("dream.failed", space=work.space.name, batch=read.batch.name, attempt=read.attempt)
        log.debug("dream.reason", space=work.space.name, reason=reason)  # it may quote what was said
        return read.attempt >= MOST_ATTEMPTS and await self._passed_over(work, read, reason)

    async def _passed_over(self, work: _Work, read: _Read, reason: str) -> bool:
        await self._diary.pass_over(PassedOver(work.space.name, read.batch.name, reason, work.at))
        log.error("dream.passed_over", space=work.space.name, batch=read.batch.name)
        read.found = None
        if read not in work.read:
            work.read.append(read)
        return True

    # --- phase 2

    async def _learn(self, work: _Work, inbound: str) -> Receipt:
        """One change of the memory, made of what all batches had to teach."""
        found = [read.found for read in work.read if read.found]
        if not found:
            return Receipt(None)
        said = await self._unread.said(work.space, work.taught)
        cursor = max((piece.entry.cursor for piece in work.taught), default=0)
        fitness = await asyncio.to_thread(
            partial(Fitness, work.known, work.versions, said, self._secrets_in, strict=True, cursor=cursor)
        )
        wanted = await asyncio.to_thread(fitness.of_wishes, joined(found))
        try:
            proposal, removed = await self._proposed(work, wanted)
        except TellUser as error:
            return await self._gave_up(work, error)
        removed = fitness.of_removals([*wanted.outdated, *removed])
        proposal = await asyncio.to_thread(fitness.of_files, work.known, proposal, removed)
        work.refused = len(fitness.refused)
        trailers = {**_trailers(work.taught), "Inbound": inbound, "Id": uuid4().hex}
        base = work.versions[-1].id if work.versions else None
        change = Change("Dream", lambda _: proposal, base=base, removed=removed, trailers=trailers)
        receipt = await self._memory.change(work.space, change)
        if work.space.is_owners:
            await draft(self._skills, work.space, wanted.skills, fitness.admits)
        return receipt

    async def _proposed(self, work: _Work, wanted: Extracted) -> tuple[MemoryFiles, list[Removal]]:
        """The files as the model wants them, and what it left out on purpose: a call for each that changes."""
        texts = work.known.by_name
        removed: list[Removal] = []
        for name in await asyncio.to_thread(_changing, work.known, wanted):
            outdated = [removal for removal in wanted.outdated if _is_in(texts[name], removal)]
            texts[name], left_out = await self._learner.update(
                name, texts[name], wanted.updates[name], outdated, work.spent
            )
            removed += left_out
        return MemoryFiles(*texts.values()), removed

    async def _gave_up(self, work: _Work, error: TellUser) -> Receipt:
        """No change could be made of what was read: it is read again, but for what has failed too often, as far as
        nothing before that is unread."""
        read, work.read, work.reason = work.read, [], error.text
        if isinstance(error, OverLimit):
            await self._diary.give_back(work.space.name, [one.batch.name for one in read if one.found])
        for one in read:
            if one.found is None:
                work.read.append(one)
            elif isinstance(error, OverLimit) or not await self._failed(work, one, error):
                break
        return Receipt(None)


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _changing(known: MemoryFiles, wanted: Extracted) -> list[str]:
    """The files that something is for, something outdated is in, or a contradiction is to be settled in."""
    return [
        name
        for name, text in known.by_name.items()
        if wanted.updates[name]
        or CONTRADICTED.strip() in text
        or any(_is_in(text, removal) for removal in wanted.outdated)
    ]


def _is_in(text: str, removal: Removal) -> bool:
    wanted = gist(removal.fact)
    return any(names(wanted, gist(fact)) for fact in facts(text))


def _trailers(pieces: Sequence[Piece]) -> dict[str, str]:
    """What was read: history entries, and messages that are in none."""
    cursors = [piece.entry.cursor for piece in pieces if not piece.is_talk]
    return {"History": f"{cursors[0]}-{cursors[-1]}" if cursors else "", **of_messages(heard(pieces))}


def _receipt(work: _Work, receipt: Receipt) -> Run:
    counts = Counter(verdict.what for verdict in receipt.verdicts)
    return Run(
        space=work.space.name,
        at=work.at,
        entries=sum(not piece.is_talk for piece in work.taught),
        messages=sum(last - first + 1 for _, first, last in heard(work.taught)),
        usage=work.usage,
        new=counts["new"],
        reworded=counts["reworded"],
        out=counts["removed"],
        refused=work.refused,
        version=receipt.version.number if receipt.version else None,
        reason=work.reason,
    )


def _told(run: Run) -> dict[str, object]:
    """A receipt as the log has it; what a provider said may quote what was said to it."""
    figures = {name: getattr(run, name) for name in ("entries", "messages", "new", "reworded", "out", "refused")}
    cost = {"tokens": run.usage.tokens, "cost_usd": round(run.usage.cost_usd, 6)}
    return {"space": run.space, **figures, **cost, "version": run.version, "complete": not run.reason}
