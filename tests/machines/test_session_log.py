"""The session log against a list of its records: what was appended is there, once, in order, whatever happens to it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nanomem.messages import Sender, ToolCall
from nanomem.records import (
    Alias,
    AssistantMessage,
    Consolidated,
    Consolidating,
    ConsolidationFailed,
    Learnt,
    Metadata,
    Other,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
)
from nanomem.session import Said, Session, replay
from nanomem.spaces import Space
from nanomem.stores.session_log import JsonlSessionLog, path_of, read_all
from tests.machines.playing import Machine, play

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
KEYS = ["telegram:-7:3", "terminal:Local"]
keys = st.sampled_from(KEYS)
shares = st.floats(0, 1)
texts = st.sampled_from(["", "hello", 'two\nlines, "quoted"', "日本\u2028\x85\0", "long"])
moves = st.lists(st.tuples(st.sampled_from("uucte"), texts), min_size=1, max_size=6)
"""A message of a person, a call of a tool, its result, an end: as they come, legal or not."""
GARBAGE = [
    b"",
    b"{",
    b"null",
    b"\xff\xfe\0",
    b"[" * 5_000,
    b'{"role": "user", "content": "no time", "n": 1}',
    b'{"role": "user", "n": "7", "timestamp": "2026-04-10T09:15:00+00:00"}',
    b'{"_type": "mood", "value": 3}',
]


class SessionLogMachine(Machine):
    """Two sessions of one space; `kept` is what each log must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Space("owner", self.folder, self.folder)
        self.kept: dict[str, list[Record]] = {key: [] for key in KEYS}
        self.decided: dict[str, Consolidating] = {}
        self.counter = 0
        self.restarts()

    @rule()
    def restarts(self) -> None:
        """Another process."""
        self.disk.restart()
        self.log = JsonlSessionLog()

    @rule(key=keys, said=moves)
    def talks(self, key: str, said: Sequence[tuple[str, str]]) -> None:
        """Some messages are appended at once."""
        self.append(key, self.messages(key, said))

    @rule(one=keys, other=keys, said=moves)
    def talk_at_once(self, one: str, other: str, said: Sequence[tuple[str, str]]) -> None:
        """In two sessions, or twice in one: in the order of asking."""
        first = self.messages(one, said)
        second = self.messages(other, said, [*self.kept[one], *first] if one == other else None)

        async def both() -> None:
            await asyncio.gather(self.log.append(self.space, one, first), self.log.append(self.space, other, second))

        self.run(both())
        self.kept[one] += first
        self.kept[other] += second

    @rule(key=keys, said=moves, turns=st.integers(0, 3))
    def is_cancelled(self, key: str, said: Sequence[tuple[str, str]], turns: int) -> None:
        """An append that nobody waits for any more is there as a whole, or was never begun."""
        records = self.messages(key, said)
        before = self.size(key)

        async def given_up() -> None:
            task = asyncio.create_task(self.log.append(self.space, key, records))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.run(given_up())
        if self.size(key) > before:
            self.kept[key] += records

    @rule(key=keys, said=moves, at=st.integers(1, 5), share=shares)
    def dies(self, key: str, said: Sequence[tuple[str, str]], at: int, share: float) -> None:
        """Before it is begun, or amid the writing, at any byte: whole lines count, and what is torn does not."""
        records, path = self.messages(key, said), path_of(self.space, key)
        before = path.read_bytes() if path.exists() else b""
        self.disk.restart()
        self.survives(self.log.append(self.space, key, records), at)
        self.count("torn", self.disk.tear(share))
        after = path.read_bytes() if path.exists() else b""
        assert after.startswith(before)
        whole = [
            line for line in after[len(before) :].split(b"\n") if is_whole(line) and b'"_type": "metadata"' not in line
        ]
        self.kept[key] += records[: len(whole)]
        self.restarts()

    @rule(key=keys, garbage=st.sampled_from(GARBAGE), share=shares, is_ended=st.booleans())
    def is_damaged(self, key: str, garbage: bytes, share: float, is_ended: bool) -> None:
        """A line that nobody wrote stands among the others, or at the end."""
        path = path_of(self.space, key)
        if not self.kept[key]:
            return
        lines = path.read_bytes().split(b"\n")
        place = 1 + int(share * (len(lines) - 1))
        spoilt = b"\n".join([*lines[:place], garbage, *lines[place:]])
        path.write_bytes(spoilt + (b"\n" if is_ended and not spoilt.endswith(b"\n") else b""))

    @rule(key=keys, share=shares, is_done=st.booleans())
    def decides(self, key: str, share: float, is_done: bool) -> None:
        """A consolidation is begun: through any message that is not consolidated, also amid a turn."""
        messages = replay(self.kept[key]).messages
        if messages and key not in self.decided:
            self.decide(key, messages[int(share * (len(messages) - 1))].n, None)
            if is_done:
                self.carries_out(key)

    @rule(key=keys)
    def carries_out(self, key: str) -> None:
        """The pointer moves; other messages may have come meanwhile."""
        if decision := self.decided.pop(key, None):
            self.counter += 1
            moved = Consolidated(id=decision.id, through=decision.through, history=self.counter, timestamp=NOW)
            self.append(key, [moved])

    @rule(key=keys)
    def starts_afresh(self, key: str) -> None:
        """`/new`: what is decided is finished, the rest is archived, then the conversation is over."""
        self.carries_out(key)
        inbound = f"new{self.counter}"
        if replay(self.kept[key]).messages:
            self.decide(key, last_n(self.kept[key]), inbound)
            self.carries_out(key)
        if last_n(self.kept[key]):
            self.append(key, [Reset(through=last_n(self.kept[key]), timestamp=NOW, inbound=inbound)])

    @rule(key=keys, share=shares)
    def notes(self, key: str, share: float) -> None:
        """A failure, what Dream has seen, and another name of the chat."""
        through = int(share * last_n(self.kept[key]))
        failed = ConsolidationFailed(through=through, reason="no", timestamp=NOW)
        self.append(key, [failed, Learnt(through=through, timestamp=NOW), Alias(key="telegram:-8", timestamp=NOW)])

    @rule(key=keys, first=st.integers(-1, 40), count=st.integers(0, 40))
    def looks_back(self, key: str, first: int, count: int) -> None:
        """Messages by their numbers."""
        found = self.run(self.log.messages(self.space, key, first, first + count))
        assert found == [said for said in messages_of(self.kept[key]) if first <= said.n <= first + count]

    @invariant()
    def all_is_there(self) -> None:
        """Read from the beginning, and read from the end."""
        for key, kept in self.kept.items():
            path = path_of(self.space, key)
            everything = list(read_all(path)) if path.exists() else []
            assert [record for record in everything if not isinstance(record, Metadata | Other)] == kept
            assert told(self.run(self.log.load(self.space, key)), kept) == told(replay(kept), kept)
        there = {key for key, kept in self.kept.items() if kept}
        assert there <= set(self.run(self.log.keys(self.space))) <= set(KEYS)

    # --- what the rules are made of

    def append(self, key: str, records: Sequence[Record]) -> None:
        self.run(self.log.append(self.space, key, records))
        self.kept[key] += records

    def decide(self, key: str, through: int, inbound: str | None) -> None:
        self.counter += 1
        first = replay(self.kept[key]).messages[0].n
        self.decided[key] = Consolidating(
            id=f"d{self.counter}", type="consolidation", first=first, through=through, inbound=inbound
        )
        self.append(key, [self.decided[key]])

    def messages(self, key: str, said: Sequence[tuple[str, str]], kept: Sequence[Record] | None = None) -> list[Said]:
        before = messages_of(self.kept[key] if kept is None else kept)
        found: list[Said] = []
        for n, (what, text) in enumerate(said, last_n(before) + 1):
            last = next(reversed([*before, *found]), None)
            is_over = last is None or (isinstance(last, AssistantMessage) and last.end is not None)
            turn = f"{key}#{n}" if last is None or (is_over and what == "u") else last.turn
            found.append(message(what, n, turn, text))
        return found

    def size(self, key: str) -> int:
        path = path_of(self.space, key)
        return path.stat().st_size if path.exists() else 0


def message(what: str, n: int, turn: str, text: str) -> Said:
    text = text * 5_000 if text == "long" else text
    if what == "u":
        return UserMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, sender=Sender("42", "Ann"))
    if what == "t":
        return ToolMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, tool_call_id="c", name="look")
    if what == "c":
        calls = (ToolCall("c", "look", "{}"),)
        return AssistantMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, tool_calls=calls)
    return AssistantMessage(n=n, turn=turn, timestamp=NOW, content=text, tokens=1, end="answer")


def messages_of(kept: Sequence[Record]) -> list[Said]:
    return [record for record in kept if isinstance(record, Said)]


def last_n(kept: Sequence[Record]) -> int:
    return max((said.n for said in messages_of(kept)), default=0)


def is_whole(line: bytes) -> bool:
    try:
        return bool(json.loads(line))
    except ValueError:
        return False


def told(session: Session, kept: Sequence[Record]) -> Session:
    """A session without what says nothing any more once it is out of sight: what Dream has seen of messages that are
    consolidated, the newest `/new` when something was said after it, what a command has made short before that was done
    again, and how often a model answered in a turn that was cut more than once."""
    pointers = [at for at, record in enumerate(kept) if isinstance(record, Said | Reset)]
    is_fresh = bool(pointers) and isinstance(kept[pointers[-1]], Reset)
    newest = max((record.history for record in kept if isinstance(record, Consolidated)), default=0)
    return replace(
        session,
        key="",
        created_at=None,
        learnt=max(session.learnt, session.last_consolidated),
        rounds_before=0,
        last_reset=session.last_reset if is_fresh else None,
        compacted=session.compacted if session.compacted and session.compacted.history == newest else None,
    )


def test_the_session_log() -> None:
    """A sample, the same each time in the build."""
    play(SessionLogMachine, 40, 20)
