"""Fakes for every port, and a scripted chat: what nanomem's own tests use, and a plug-in's may.

The fakes keep the ports' promises and nothing more; the same contract tests run over them and the
real adapters.
"""

import asyncio
import hashlib
import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nanomem.entries import Entry
from nanomem.errors import BegunAnew, CannotStore, Gone, NotHere, Refused, ShowModel
from nanomem.facts import NAMES, MemoryFiles
from nanomem.memory.judging import decided, made, told
from nanomem.messages import (
    Attachment,
    Image,
    Inbound,
    Outbound,
    Reply,
    Request,
    Sender,
    ToolCall,
    ToolSchema,
    Usage,
)
from nanomem.ports import (
    EMPTY,
    Accepted,
    Change,
    Channel,
    Embedded,
    Origin,
    PassedOver,
    Purpose,
    Queued,
    Receipt,
    Run,
    Skill,
    Taker,
    Update,
)
from nanomem.recall.found import Found, Hit, Sought
from nanomem.recall.words import terms
from nanomem.records import Record
from nanomem.session import Said, Session, replay
from nanomem.skills import mark as mark_of
from nanomem.spaces import Space
from nanomem.stores.skills import skill_of
from nanomem.versions import Version, parsed


class FakeClock:
    """Time that passes when it is told to, or at once with `rushing`, as far as somebody sleeps."""

    def __init__(self, now: datetime = datetime(2026, 4, 10, 9, 15, tzinfo=UTC), rushing: bool = True) -> None:
        self._now = now
        self._elapsed = 0.0
        self._rushing = rushing
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self.slept: list[float] = []

    def now(self) -> datetime:
        """See the port."""
        return self._now + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """See the port."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """See the port."""
        self.slept.append(seconds)
        if self._rushing:
            self._elapsed += seconds
            await asyncio.sleep(0)
            return
        event = asyncio.Event()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, len(self.slept), event))
        await event.wait()

    def pass_time(self, seconds: float) -> None:
        """Lets time pass and wakes who has slept long enough."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            heapq.heappop(self._sleepers)[2].set()


class FakeTokenizer:
    """A token for every four characters."""

    async def count(self, text: str) -> int:
        """See the port."""
        return -(-len(text) // 4)


Answer = str | Reply | BaseException | Callable[[Request], "str | Reply"]


class FakeModel:
    """Gives scripted answers in order, then echoes. `gate`, when cleared, holds every answer back."""

    def __init__(self, *answers: Answer, name: str = "fake") -> None:
        self.name = name
        self.answers: list[Answer] = list(answers)
        self.requests: list[Request] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def warm_up(self) -> None:
        """See the port."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """See the port."""
        self.requests.append(request)
        self.asked.set()
        answer = self.answers.pop(0) if self.answers else f"echo: {request.messages[-1].text}"
        if callable(answer) and not isinstance(answer, BaseException):
            answer = answer(request)
        if isinstance(answer, str):
            answer = Reply(answer)
        if isinstance(answer, Reply) and heard and answer.text:
            heard(answer.text[: len(answer.text) // 2 + 1])
        await self.gate.wait()
        if isinstance(answer, BaseException):
            raise answer
        if heard and answer.text:
            heard(answer.text)
        return answer


class FakeEmbedder:
    """Texts that share words are near each other, as are those of one word in `alike`. `fails` holds errors for the
    next calls."""

    def __init__(self, name: str = "fake", size: int = 64, is_local: bool = False) -> None:
        self.name = name
        self.is_local = is_local
        self.alike: dict[str, str] = {}
        self.asked: list[Sequence[str]] = []
        self.fails: list[Exception] = []
        self._size = size

    async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
        """See the port."""
        self.asked.append(texts)
        if self.fails:
            raise self.fails.pop(0)
        return Embedded([self._vector(text) for text in texts], Usage(sum(map(len, texts))))

    def _vector(self, text: str) -> tuple[float, ...]:
        total = [0.0] * self._size
        for word in re.findall(r"\w+", text.casefold()):
            digest = hashlib.shake_256(self.alike.get(word, word).encode()).digest(self._size)
            total = [value + byte - 127.5 for value, byte in zip(total, digest, strict=True)]
        return tuple(total)


def calls(*wanted: tuple[str, str], text: str = "") -> Reply:
    """A reply that calls tools: (name, raw arguments) each, with ids c1, c2 ..."""
    return Reply(text, tuple(ToolCall(f"c{i}", name, raw) for i, (name, raw) in enumerate(wanted, 1)))


class FakeTool:
    """A tool without parameters that does what a function does."""

    def __init__(self, name: str, does: Callable[[], str], parallel: bool = False) -> None:
        self.schema = ToolSchema(name, f"does {name}", {"type": "object", "properties": {}})
        self.parallel = parallel
        self._does = does

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        """See the port."""
        return self._does()


class FakeChannel:
    """A network in memory. `screen` is what a person sees, by address, in order."""

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.error: str | None = None
        self.here = True
        self.fails: list[Exception] = []
        self.shown: dict[str, list[str]] = defaultdict(list)
        self.finished: list[Outbound] = []
        self.files: dict[str, bytes] = {}
        self._where: dict[str, tuple[str, int]] = {}
        self._changed = asyncio.Event()

    def screen(self, address: str) -> list[str]:
        """The texts a person sees now."""
        return list(self.shown[address])

    async def run(self, taker: Taker) -> None:
        """See the port."""
        await asyncio.Event().wait()

    def parts(self, text: str) -> list[str]:
        """See the port; 100 characters fit."""
        return [text[at : at + 100] for at in range(0, len(text), 100)] or ["(empty answer)"]

    async def place(self, address: str) -> str:
        """See the port."""
        self._may_fail()
        self.shown[address].append("…")
        placed = str(len(self._where) + 1)
        self._where[placed] = (address, len(self.shown[address]) - 1)
        self._changed.set()
        return placed

    async def show(self, address: str, placed: str, part: str, final: bool) -> None:
        """See the port."""
        self._may_fail()
        if placed not in self._where:
            raise Gone("no such message")
        self.shown[address][self._where[placed][1]] = part
        self._changed.set()

    async def say(self, address: str, text: str) -> None:
        """See the port."""
        self._may_fail()
        self.shown[address].append(text)
        self._changed.set()

    async def done(self, sent: Outbound) -> None:
        """See the port."""
        self.finished.append(sent)
        self._changed.set()

    async def fetch(self, attachment: Attachment, to: Path) -> None:
        """See the port; what can be fetched is in `files`, by its ref."""
        if attachment.ref not in self.files:
            raise Refused("it is not there")
        to.write_bytes(self.files[attachment.ref])

    async def until(self, predicate: Callable[[], bool], timeout: float = 10.0) -> None:
        """Returns once it holds; looks after each change."""
        async with asyncio.timeout(timeout):
            while not predicate():
                self._changed.clear()
                await self._changed.wait()

    def _may_fail(self) -> None:
        if not self.here:
            raise NotHere("nobody is here")
        if self.fails:
            raise self.fails.pop(0)


class FakeSessionLog:
    """Logs in memory."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[Record]] = defaultdict(list)
        self.fails: list[Exception] = []

    async def load(self, space: Space, key: str) -> Session:
        """See the port."""
        session = replay(self.records[space.name, key])
        session.key = key
        return session

    async def append(self, space: Space, key: str, records: Sequence[Record]) -> None:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        self.records[space.name, key].extend(records)

    async def messages(self, space: Space, key: str, first: int, last: int) -> list[Said]:
        """See the port."""
        said = [found for found in self.records[space.name, key] if isinstance(found, Said)]
        return [message for message in said if first <= message.n <= last]

    async def keys(self, space: Space) -> Sequence[str]:
        """See the port."""
        return sorted(key for (name, key), records in self.records.items() if name == space.name and records)


class FakeInbox:
    """The bus's rows in memory."""

    def __init__(self) -> None:
        self.rows: dict[int, Queued] = {}
        self.set_aside: list[Queued | Update] = []
        self.sending: dict[str, Outbound] = {}
        self._ids: set[tuple[str, str]] = set()
        self._offsets: dict[str, int] = {}
        self._aliases: dict[str, str] = {}

    async def offset(self, channel: str) -> int | None:
        """See the port."""
        return self._offsets.get(channel)

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None) -> list[Queued]:
        """See the port."""
        new: list[Queued] = []
        for update in updates:
            if (channel, update.id) in self._ids or (update.message is None and update.error is None):
                continue
            self._ids.add((channel, update.id))
            if update.message is None:
                self.set_aside.append(update)
                continue
            row = Queued(len(self._ids), update.message)
            self.rows[row.seq] = row
            new.append(row)
        if offset is not None:
            self._offsets[channel] = offset
        return new

    async def waiting(self) -> list[Queued]:
        """See the port."""
        return [self.rows[seq] for seq in sorted(self.rows)]

    async def stamp(self, turn: str, rows: Sequence[Queued], log_n: int, attempts: int) -> None:
        """See the port."""
        for row in rows:
            self.rows[row.seq] = replace(row, turn=turn, log_n=log_n, attempts=attempts)
        ids = tuple(row.message.id for row in rows)
        self.sending.setdefault(turn, Outbound(turn, rows[0].message.address, answers=ids))

    async def park(self, turn: str) -> None:
        """See the port."""
        for seq, row in self.rows.items():
            if row.turn == turn:
                self.rows[seq] = replace(row, attempts=max(row.attempts - 1, 0))

    async def placed(self, outbound_id: str, ids: Sequence[str]) -> None:
        """See the port."""
        if outbound_id in self.sending:
            self.sending[outbound_id] = replace(self.sending[outbound_id], placed=tuple(ids))

    async def settle(self, outbound: Outbound, rows: Sequence[Queued], aside: bool = False) -> None:
        """See the port."""
        known = self.sending.get(outbound.id, outbound)
        self.sending[outbound.id] = replace(known, text=outbound.text, end=outbound.end)
        for row in rows:
            self.rows.pop(row.seq, None)
            if aside:
                self.set_aside.append(row)

    async def delivered(self, outbound_id: str) -> None:
        """See the port."""
        self.sending.pop(outbound_id, None)

    async def outbound(self, outbound_id: str) -> Outbound | None:
        """See the port."""
        return self.sending.get(outbound_id)

    async def undelivered(self) -> list[Outbound]:
        """See the port."""
        return [outbound for outbound in self.sending.values() if outbound.text is not None]

    async def counts(self) -> Mapping[str, int]:
        """See the port."""
        undelivered = len(await self.undelivered())
        return {"waiting": len(self.rows), "undelivered": undelivered, "set_aside": len(self.set_aside)}

    async def alias(self, old: str, new: str) -> None:
        """See the port."""
        self._aliases[new] = old

    async def aliases(self) -> Mapping[str, str]:
        """See the port."""
        return dict(self._aliases)


class FakeMeter:
    """Counts in memory."""

    def __init__(self) -> None:
        self.days: dict[str, Usage] = {}
        self.purposes: dict[tuple[str, Purpose], Usage] = {}

    async def spend(self, day: str, usage: Usage, purpose: Purpose = "talk") -> None:
        """See the port."""
        self.days[day] = self.days.get(day, Usage()) + usage
        self.purposes[day, purpose] = self.purposes.get((day, purpose), Usage()) + usage

    async def spent(self, day: str, purpose: Purpose | None = None) -> Usage:
        """See the port."""
        return self.purposes.get((day, purpose), Usage()) if purpose else self.days.get(day, Usage())


class FakeDiary:
    """Dreams' beginnings and receipts in memory."""

    def __init__(self) -> None:
        self.moment: datetime | None = None
        self.begun: dict[tuple[str, str], int] = {}
        self.passed: list[PassedOver] = []
        self.kept: list[Run] = []

    async def due(self) -> datetime | None:
        """See the port."""
        return self.moment

    async def set_due(self, moment: datetime) -> None:
        """See the port."""
        self.moment = moment.replace(microsecond=0)

    async def attempts(self, space: str) -> Mapping[str, int]:
        """See the port."""
        return {batch: count for (name, batch), count in self.begun.items() if name == space}

    async def attempt(self, space: str, batch: str) -> int:
        """See the port."""
        self.begun[space, batch] = self.begun.get((space, batch), 0) + 1
        return self.begun[space, batch]

    async def give_back(self, space: str, batches: Sequence[str]) -> None:
        """See the port."""
        for batch in batches:
            if (space, batch) in self.begun:
                self.begun[space, batch] = max(self.begun[space, batch] - 1, 0)

    async def done(self, space: str, batches: Sequence[str]) -> None:
        """See the port."""
        for batch in batches:
            self.begun.pop((space, batch), None)

    async def pass_over(self, passed: PassedOver) -> None:
        """See the port."""
        self.passed = [replace(passed, at=passed.at.replace(microsecond=0)), *self.passed]
        for old in [at for at, kept in enumerate(self.passed) if kept.space == passed.space][100:]:
            del self.passed[old]
        await self.done(passed.space, [passed.batch])

    async def passed_over(self, space: str | None = None) -> Sequence[PassedOver]:
        """See the port."""
        return [passed for passed in self.passed if space in (None, passed.space)][:100]

    async def note(self, run: Run) -> None:
        """See the port."""
        self.kept = [replace(run, at=run.at.replace(microsecond=0)), *self.kept]
        for old in [at for at, kept in enumerate(self.kept) if kept.space == run.space][100:]:
            del self.kept[old]

    async def runs(self, space: str | None = None, most: int = 1) -> Sequence[Run]:
        """See the port."""
        return [run for run in self.kept if space in (None, run.space)][:most]


class FakeMemory:
    """The same files for every space, and what was ever made of them in `versions`."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.files = files or MemoryFiles()
        self.versions: list[tuple[Version, MemoryFiles]] = []
        self.fails: list[Exception] = []

    async def read(self, space: Space) -> MemoryFiles:
        """See the port."""
        return self.files

    async def change(self, space: Space, change: Change) -> Receipt:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        if version := made([version for version, _ in self.versions], change.trailers):
            return Receipt(version)
        now = MemoryFiles() if change.base == EMPTY else self.files
        base = next((files for version, files in self.versions if version.id == change.base), now)
        result = decided(change, base, change.propose(base), self.files)
        if result.files == self.files:
            return Receipt(None, result.verdicts)
        number, at = len(self.versions) + 1, datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
        text = told(change, result.verdicts)
        self.files = result.files
        self.versions.append((Version(number, f"{number:040x}", at, *parsed(text)), result.files))
        return Receipt(self.versions[-1][0], result.verdicts)


class FakeVersions:
    """Versions in memory. `fails` holds errors for the next writes."""

    def __init__(self) -> None:
        self.kept: dict[str, list[tuple[Version, MemoryFiles]]] = defaultdict(list)
        self.noted: dict[str, str] = {}
        self.fails: list[Exception] = []

    async def all(self, space: Space) -> Sequence[Version]:
        """See the port."""
        return tuple(version for version, _ in self.kept[space.name])

    async def read(self, space: Space, version: str) -> MemoryFiles:
        """See the port."""
        for kept, files in self.kept[space.name]:
            if kept.id == version:
                return files
        raise KeyError(version)

    async def commit(self, space: Space, files: MemoryFiles, message: str, at: datetime) -> Version:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        number = len(self.kept[space.name]) + 1
        name = hashlib.sha1(f"{space.name} {number} {message}".encode("utf-8", "replace")).hexdigest()
        version = Version(number, name, at.astimezone(UTC).replace(microsecond=0), *parsed(message))
        self.kept[space.name].append((version, files))
        return version

    async def placed(self, space: Space) -> str | None:
        """See the port."""
        return self.noted.get(space.name)

    async def set_placed(self, space: Space, version: str) -> None:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        await self.read(space, version)
        self.noted[space.name] = version


class FakeWorkingFiles:
    """Files in memory: `files[space name][file name]`, which a person may edit. `fails` is for the next to be placed.

    `meanwhile` is what a person does between what is read and the next text that is put in place; it happens once.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, str]] = defaultdict(dict)
        self.kept: dict[str, dict[str, str]] = defaultdict(dict)
        self.meanwhile: Callable[[], None] | None = None
        self.fails: list[Exception] = []

    async def read(self, space: Space) -> Mapping[str, str | None]:
        """See the port."""
        names = NAMES if space.is_owners else NAMES[1:]
        return {name: self.files[space.name].get(name) for name in names}

    async def place(self, space: Space, name: str, text: str) -> str | None:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        if self.meanwhile:
            person, self.meanwhile = self.meanwhile, None
            person()
        if name in self.kept[space.name]:
            raise CannotStore(f"what stood in {name} before is not compared yet")
        files = self.files[space.name]
        replaced, files[name] = files.get(name), text
        if replaced is not None:
            self.kept[space.name][name] = replaced
        return replaced

    async def left(self, space: Space) -> Mapping[str, str]:
        """See the port."""
        return dict(self.kept[space.name])

    async def compared(self, space: Space, name: str) -> None:
        """See the port."""
        self.kept[space.name].pop(name, None)


class FakeHistory:
    """Entries in memory. `fails` holds errors for the next to be appended."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Entry]] = defaultdict(list)
        self.cursors: dict[str, int] = {}
        self.fails: list[Exception] = []

    async def append(self, space: Space, entries: Sequence[Entry]) -> list[Entry]:
        """See the port."""
        if self.fails:
            raise self.fails.pop(0)
        newest = await self.last(space)
        added = [replace(entry, cursor=cursor) for cursor, entry in enumerate(entries, newest + 1)]
        self.entries[space.name].extend(added)
        return added

    async def last(self, space: Space) -> int:
        """See the port."""
        return self.entries[space.name][-1].cursor if self.entries[space.name] else 0

    async def entry(self, space: Space, cursor: int) -> Entry | None:
        """See the port."""
        return next((entry for entry in self.entries[space.name] if entry.cursor == cursor), None)

    async def after(self, space: Space, cursor: int) -> list[Entry]:
        """See the port."""
        return [entry for entry in self.entries[space.name] if entry.cursor > cursor]

    async def repair(self, space: Space) -> bool:
        """See the port; there is no view."""
        return False

    async def dreamt(self, space: Space) -> int:
        """See the port."""
        return self.cursors.get(space.name, 0)

    async def set_dreamt(self, space: Space, cursor: int) -> None:
        """See the port."""
        self.cursors[space.name] = cursor


class FakeRecallIndex:
    """Talk in memory: finds what has a word of the question, the most words first, then the newest.

    `said` are the logs by space and name, one line of talk each; a reading takes in one line. `fails` holds errors for
    the next calls, or None for one that goes well; after BegunAnew nothing is kept.
    `calls` are the names of what was called.
    """

    def __init__(self) -> None:
        self.said: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.kept: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self.fails: list[Exception | None] = []
        self.calls: list[str] = []

    async def logs(self, space: Space) -> Sequence[str]:
        """See the port."""
        await self._called("logs", space)
        names = [log for name, log in self.said if name == space.name]
        gone = [name for name in self.kept[space.name] if name not in names and "/" not in name]
        for name in gone:
            del self.kept[space.name][name]
        return names

    async def read(self, space: Space, log: str) -> bool:
        """See the port."""
        await self._called(f"read {log}", space)
        said, kept = self.said[space.name, log], self.kept[space.name].setdefault(log, [])
        kept += said[len(kept) : len(kept) + 1]
        return len(kept) < len(said)

    async def know(self, space: Space, facts: Mapping[str, Sequence[str]]) -> None:
        """See the port."""
        await self._called("know", space)
        logs = {name: lines for name, lines in self.kept[space.name].items() if "/" not in name}
        self.kept[space.name] = logs | {name: list(lines) for name, lines in facts.items()}

    async def find(self, space: Space, sought: Sought) -> Found:
        """See the port; who, when and what is in sight make no difference."""
        await self._called("find", space)
        wanted = terms(sought.text)
        hits = [
            Hit("memory" if "/" in name else "talk", "", n, None, "Ann", "42", line, name, words=len(words))
            for name, lines in self.kept[space.name].items()
            for n, line in enumerate(lines, 1)
            if (words := set(wanted).intersection(terms(line)))
        ]
        hits.sort(key=lambda hit: (-hit.words, -hit.n))
        end = sought.skip + sought.most
        return Found(hits[sought.skip : end], len(hits) > end, wanted)

    async def _called(self, name: str, space: Space) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)
        if self.fails:
            error = self.fails.pop(0)
            if isinstance(error, BegunAnew):
                self.kept[space.name].clear()
            if error:
                raise error


class FakeSkills:
    """The same skills for every space, and the texts of the owner's drafts in `waiting`. `broken` says what is wrong
    with others, by place; `replaced` has the texts that were, by place. `fails` holds errors for the next writes."""

    def __init__(self, *skills: Skill) -> None:
        self.skills = list(skills)
        self.waiting: dict[str, str] = {}
        self.replaced: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        self.fails: list[Exception] = []
        self._texts: dict[str, str] = {}

    async def all(self, space: Space) -> Sequence[Skill]:
        """See the port."""
        return sorted(self.skills, key=lambda skill: skill.name)

    async def problems(self, space: Space) -> Mapping[str, str]:
        """See the port."""
        return dict(self.broken)

    async def text(self, space: Space, name: str) -> str | None:
        """See the port; one that was given has no more of a head than it needs."""
        given = {s.name: f"---\ndescription: {s.description}\n---\n{s.body}\n" for s in self.skills}
        return (given | self._texts | (self.waiting if space.is_owners else {})).get(name)

    async def drafts(self, space: Space) -> Sequence[Skill]:
        """See the port."""
        return [skill_of(name, self.waiting[name]) for name in sorted(self.waiting)] if space.is_owners else []

    async def draft(self, space: Space, name: str, text: str) -> Skill:
        """See the port."""
        self._may_write(space)
        try:
            skill = skill_of(name, text)
        except ValueError as error:
            raise ShowModel(f"This is no skill: {error}.") from None
        self.waiting[name] = text
        return skill

    async def accept(self, space: Space, name: str, mark: str = "") -> Accepted | None:
        """See the port."""
        self._may_write(space)
        before = next((skill for skill in self.skills if skill.name == name and skill.own), None)
        is_other = bool(mark) and mark_of(await self.text(space, name) or "") != mark
        if name not in self.waiting:
            return Accepted(before) if before and not is_other else None
        if is_other:
            raise Refused(f"The draft {name} has changed since: see /skills show {name}.")
        kept = f"replaced/{name}-{len(self.replaced) + 1}" if before else ""
        if before:
            self.replaced[kept] = self._texts.get(name, before.body)
        self._texts[name] = self.waiting.pop(name)
        skill = replace(skill_of(name, self._texts[name]), own=True)
        self.skills = [*(other for other in self.skills if other.name != name), skill]
        return Accepted(skill, kept)

    def _may_write(self, space: Space) -> None:
        if self.fails:
            raise self.fails.pop(0)
        if not space.is_owners:
            raise Refused("only in the owner's space")


class FakeTemplates:
    """Every template is its name and its values."""

    def render(self, name: str, **values: object) -> str:
        """See the port."""
        return f"{name}: " + ", ".join(f"{key}={value}" for key, value in values.items() if value)


class FakeFiles:
    """What was sent along gets a path, and is a picture if its type says so."""

    async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
        """See the port."""
        return [f"files/{attachment.name}" for attachment in message.attachments], []

    async def image(self, space: Space, path: str) -> Image | None:
        """See the port."""
        return Image("image/png", b"png") if path.endswith(".png") else None


def inbound(text: str, number: int = 1, address: str = "fake:42", name: str = "Ann") -> Inbound:
    """A message as a channel would bring it; its id is the number."""
    sender = Sender(address.split(":")[1], name)
    return Inbound(address, str(number), text, sender, datetime(2026, 4, 10, 9, 15, tzinfo=UTC), from_owner=True)


def updates(messages: Iterable[Inbound]) -> list[Update]:
    """Messages as updates to be taken."""
    return [Update(message.id, message.text, message) for message in messages]
