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

from nanomem.batches import Batch, News, Piece, heard, next_batch
from nanomem.errors import CannotStore, NotNow, Refused, TellUser
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
from nanomem.ports import EMPTY, Change, Diary, Memory, PassedOver, Receipt, Run, Skills, Versions
from nanomem.proposal import edited
from nanomem.records import Edit
from nanomem.session import Said
from nanomem.spaces import Space
from nanomem.versions import Removal, Version, of_messages
from nanomem.wording import gist, names

log = structlog.get_logger()

MOST_ATTEMPTS = 3
MASK = "[secret]"
LEARNING = "what was read"
"""Names the attempt to make one change of all that was read, which is no single batch's."""
CUT_SHORT = "nanomem ended, or met a bug, each time it came to that"


@dataclass(slots=True)
class _Read:
    """A batch that is done with, and what it has to teach; None where it was passed over."""

    batch: Batch
    found: Extracted | None


@dataclass(slots=True)
class _Work:
    """One run while it goes on: what is known, at which versions; what is new, and what of that was read. `begun` is
    the attempt that goes on, `drafted` the skills it has proposed."""

    space: Space
    at: datetime
    known: MemoryFiles
    versions: Sequence[Version]
    news: News
    read: list[_Read] = field(default_factory=list)
    begun: str | None = None
    usage: Usage = field(default_factory=Usage)
    refused: int = 0
    drafted: Sequence[str] = ()
    reason: str = ""

    @property
    def done(self) -> int:
        """How many pieces are done with: the first of all."""
        return sum(len(read.batch.pieces) for read in self.read)

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

    async def catch_up(self, space: Space) -> None:
        """Makes the marks that a crash behind a run has left out. Raises CannotStore."""
        await self._unread.catch_up(space, await self._versions.all(space))

    async def run(self, space: Space, at: datetime, inbound: str = "") -> Run | None:
        """Learns what is new; None: there is nothing, and nothing was asked or written. `at` is now, `inbound` the
        command that asked for it. Raises CannotStore, Refused: it could not be read or written, which counts as no
        attempt."""
        known, versions = await known_now(self._memory, self._versions, space)
        await self._unread.catch_up(space, versions)
        known = own(space, known)
        room = await self._learner.room(known)
        work = _Work(space, at, known, versions, await self._unread.news(space, versions, room, self._veiled))
        if not work.news.pieces:
            await self._unread.mark(space, work.news, 0)
            return None
        log.info("dream.started", space=space.name, pieces=len(work.news.pieces))
        try:
            await self._read(work, room)
            receipt = await self._learn(work, inbound)
            await self._unread.mark(space, work.news, work.done)
        except (asyncio.CancelledError, CannotStore, Refused):
            await self._take_back(work)
            raise
        await self._diary.done(space.name, [LEARNING])
        run = _receipt(work, receipt)
        await self._diary.note(run)
        log.info("dream.finished", **_told(run))
        return run

    async def _begin(self, work: _Work, what: str) -> int:
        """Counts an attempt before it is made: more than `MOST_ATTEMPTS` is one too many, as those before have ended
        nanomem or met a bug."""
        work.begun = what
        return await self._diary.attempt(work.space.name, what)

    async def _take_back(self, work: _Work) -> None:
        """The attempt that goes on ends for no fault of what was to be read."""
        if work.begun:
            await self._diary.give_back(work.space.name, [work.begun])
        work.begun = None

    async def _put_off(self, work: _Work, error: NotNow) -> None:
        """Until the next run: it is not for what was to be read."""
        await self._take_back(work)
        work.reason = error.text
        log.warning("dream.put_off", space=work.space.name, reason=error.gist)

    # --- phase 1

    async def _read(self, work: _Work, room: int) -> None:
        """Batch by batch, until all are read, one fails, or today's allowance ends. One that is too long for the model
        is cut in two, and that is no failure."""
        begun = {*await self._diary.attempts(work.space.name)}
        needed = await self._learner.needed(work.known)
        while rest := work.news.pieces[work.done :]:
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
            except DoesNotFit:
                room = batch.tokens // 2
                begun.discard(batch.key)

    async def _read_one(self, work: _Work, batch: Batch) -> bool:
        """False: it failed, and will be tried again in another run. Raises DoesNotFit: less of it may be read."""
        attempt = await self._begin(work, batch.key)
        if attempt > MOST_ATTEMPTS:
            return await self._pass_over(work, batch, CUT_SHORT)
        said = await self._unread.said(work.space, batch.pieces)
        text = await asyncio.to_thread(self._without_secrets, batch.text, said)
        try:
            found = await self._learner.extract(work.known, text, work.space.is_owners, work.spent)
        except NotNow as error:
            await self._put_off(work, error)
            return False
        except TellUser as error:
            if isinstance(error, DoesNotFit) and len(batch.pieces) > 1:
                await self._diary.done(work.space.name, [batch.key])
                raise
            return await self._failed(work, batch, attempt, error)
        await self._diary.done(work.space.name, [batch.key])
        work.begun = None
        work.read.append(_Read(batch, found))
        return True

    async def _failed(self, work: _Work, batch: Batch, attempt: int, error: TellUser) -> bool:
        """Whether it is passed over, and so is done with."""
        work.begun, work.reason = None, error.text
        log.warning("dream.failed", space=work.space.name, batch=batch.name, attempt=attempt, reason=error.gist)
        log.debug("dream.reason", space=work.space.name, reason=error.text)  # it may quote what was said
        if attempt < MOST_ATTEMPTS:
            return False
        if work.taught:  # is learnt first; then the next run comes to it again, and knows why it fails
            await self._diary.give_back(work.space.name, [batch.key])
            return False
        return await self._pass_over(work, batch, error.text)

    async def _pass_over(self, work: _Work, batch: Batch, reason: str) -> bool:
        """It will not be read again. Where something before it is yet to be learnt, that comes first: False."""
        work.begun, work.reason = None, f"Passed over {batch.name}: {reason}"
        if work.taught:
            return False
        await self._diary.pass_over(PassedOver(work.space.name, batch.name, reason, work.at))
        log.error("dream.passed_over", space=work.space.name, batch=batch.name)
        work.read.append(_Read(batch, None))
        await self._unread.mark(work.space, work.news, work.done)
        await self._diary.done(work.space.name, [batch.key])
        return True

    def _without_secrets(self, text: str, said: Sequence[Said]) -> str:
        """A secret that was said is no business of another call; only from the message itself can all be told."""
        return _masked(text, self._secrets_in(text).union(*(self._secrets_in(message.content) for message in said)))

    def _veiled(self, said: Sequence[Said]) -> list[Said]:
        return [replace(one, content=_masked(one.content, self._secrets_in(one.content))) for one in said]

    # --- phase 2

    async def _learn(self, work: _Work, inbound: str) -> Receipt:
        """One change of the memory, made of what all batches had to teach."""
        found = [read.found for read in work.read if read.found]
        if not found:
            return Receipt(None)
        if await self._begin(work, LEARNING) > MOST_ATTEMPTS:
            return await self._give_up(work)
        said = await self._unread.said(work.space, work.taught)
        cursor = max((piece.entry.cursor for piece in work.taught), default=0)
        fitness = await asyncio.to_thread(
            partial(Fitness, work.known, work.versions, said, self._secrets_in, strict=True, cursor=cursor)
        )
        wanted = await asyncio.to_thread(fitness.of_wishes, joined(found))
        try:
            proposal, removed = await self._proposed(work, wanted)
        except NotNow as error:
            await self._put_off(work, error)
            work.read = [read for read in work.read if not read.found]
            return Receipt(None)
        removed = fitness.of_removals([*wanted.outdated, *removed])
        proposal = await asyncio.to_thread(fitness.of_files, work.known, proposal, removed)
        work.refused = len(fitness.refused)
        trailers = {**_trailers(work.taught), "Inbound": inbound, "Id": uuid4().hex}
        base = work.versions[-1].id if work.versions else EMPTY
        change = Change("Dream", lambda _: proposal, base=base, removed=removed, trailers=trailers)
        receipt = await self._memory.change(work.space, change)
        if work.space.is_owners:
            work.drafted = await draft(self._skills, work.space, wanted.skills, fitness.admits)
        return receipt

    async def _proposed(self, work: _Work, wanted: Extracted) -> tuple[MemoryFiles, list[Removal]]:
        """The files as the model wants them, and what it left out on purpose: a call for each that changes. Where its
        answer cannot be used, what is to be learnt is added as it is. Raises NotNow."""
        texts = work.known.by_name
        removed: list[Removal] = []
        for name in await asyncio.to_thread(_changing, work.known, wanted):
            new = wanted.updates[name]
            outdated = [removal for removal in wanted.outdated if _is_in(texts[name], removal)]
            before = texts[name]
            try:
                texts[name], left_out = await self._learner.update(name, before, new, outdated, work.spent)
                removed += left_out
            except NotNow:
                raise
            except TellUser as error:
                log.warning("dream.file_not_written", space=work.space.name, file=name, reason=error.gist)
                log.debug("dream.reason", space=work.space.name, reason=error.text)
                texts[name] = _without_more_ado(before, new, outdated)
            if new and not {*facts(texts[name])} - {*facts(before)}:
                log.warning("dream.nothing_taken_in", space=work.space.name, file=name)
                texts[name] = _without_more_ado(before, new, outdated)
        return MemoryFiles(*texts.values()), removed

    async def _give_up(self, work: _Work) -> Receipt:
        """Each time that this was to be learnt, nanomem has ended or met a bug."""
        work.begun, work.reason = None, CUT_SHORT
        for read in work.read:
            if read.found:
                read.found = None
                name = read.batch.name
                await self._diary.pass_over(PassedOver(work.space.name, name, CUT_SHORT, work.at))
                log.error("dream.passed_over", space=work.space.name, batch=name)
        return Receipt(None)


def _without_more_ado(text: str, new: Sequence[str], outdated: Sequence[Removal]) -> str:
    """A file with what is to be learnt added as it is, and without what holds no longer."""
    gone = [Edit(remove=removal.fact, reason=removal.reason) for removal in outdated]
    return edited(text, [*gone, *(Edit(add=fact) for fact in new)])


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
        drafted=tuple(work.drafted),
    )


def _told(run: Run) -> dict[str, object]:
    """A receipt as the log has it; what a provider said may quote what was said to it."""
    figures = {name: getattr(run, name) for name in ("entries", "messages", "new", "reworded", "out", "refused")}
    cost = {"tokens": run.usage.tokens, "cost_usd": round(run.usage.cost_usd, 6)}
    return {"space": run.space, **figures, **cost, "version": run.version, "complete": not run.reason}
