"""A session is a fold over its log: `replay(records)`. And the history of it that a prompt may show.

Pure: no clock, no file. A history that damage made illegal is repaired here, never in the file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from nanomem.records import (
    AssistantMessage,
    Consolidated,
    Consolidating,
    ConsolidationFailed,
    Learnt,
    Metadata,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
)

Said = UserMessage | AssistantMessage | ToolMessage

LOST_RESULT = "The result of this call was lost."
UNKNOWN_OUTCOME = "Interrupted: nanomem stopped while this ran. The outcome is unknown; it was not run again."


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one command to consolidate has done so far: these messages, up to this history entry, `raw` at the end."""

    inbound: str
    first: int
    through: int
    history: int
    raw: bool


@dataclass(slots=True)
class Session:
    """The part of a conversation that is not consolidated, and where the log stands.

    `messages` begin after `last_consolidated`; where that is amid a turn, `question` is what was asked there and
    `rounds_before` how many answers of that turn are out of sight. `last_n` is the number of the newest message,
    `history` the last entry written for this session, `failures` those in a row since. `pending` is a decision
    that is not carried out yet; `compacted` is what the newest command to consolidate has done.
    """

    key: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    messages: list[Said] = field(default_factory=list)
    last_n: int = 0
    last_consolidated: int = 0
    last_reset: str | None = None
    question: list[UserMessage] = field(default_factory=list)
    rounds_before: int = 0
    history: int = 0
    failures: int = 0
    learnt: int = 0
    pending: Consolidating | None = None
    compacted: Compacted | None = None

    def apply(self, record: Record) -> None:
        """Takes in the next record of the log."""
        match record:
            case UserMessage() | AssistantMessage() | ToolMessage():
                self.last_n = max(self.last_n, record.n)
                self.updated_at = record.timestamp
                if record.n > self.last_consolidated:
                    self.messages.append(record)
            case Reset():
                self.updated_at = record.timestamp
                self.last_reset = record.inbound or self.last_reset
                self.failures = 0
                self._forget_through(record.through)
                self.question = []
            case Consolidating():
                self.pending = record
            case Consolidated():
                self._consolidated(record)
            case ConsolidationFailed():
                self.failures += 1
            case Learnt():
                self.learnt = max(self.learnt, record.through)
            case Metadata():
                self.key = self.key or record.key
                self.created_at = self.created_at or record.created_at
                self._forget_through(record.last_consolidated)

    @property
    def shown(self) -> list[Said]:
        """What a prompt may show: the messages, behind the question that the first of them answers."""
        return [*self.question, *self.messages]

    def rounds(self, turn: str) -> int:
        """How often a model has answered in that turn."""
        before = self.rounds_before if self.messages and self.messages[0].turn == turn else 0
        return before + sum(isinstance(record, AssistantMessage) for record in self.of_turn(turn))

    def _consolidated(self, record: Consolidated) -> None:
        self.history = max(self.history, record.history)
        self.failures = 0
        self._forget_through(record.through)
        decision, self.pending = self.pending, None
        if decision is None or decision.id != record.id or decision.inbound is None:
            return
        first = decision.first
        if self.compacted and self.compacted.inbound == decision.inbound:
            first = self.compacted.first
        self.compacted = Compacted(decision.inbound, first, record.through, record.history, decision.type == "raw")

    def _forget_through(self, through: int) -> None:
        if through <= self.last_consolidated:
            return
        gone = [m for m in self.shown if m.n <= through]
        cut_before = self.messages[0].turn if self.messages and self.rounds_before else None
        self.last_consolidated = through
        self.last_n = max(self.last_n, through)
        self.messages = [m for m in self.messages if m.n > through]
        self.question, before = [], self.rounds_before
        self.rounds_before = 0
        if self.messages and not isinstance(self.messages[0], UserMessage):
            turn = self.messages[0].turn
            end = next((i for i in reversed(range(len(gone))) if isinstance(gone[i], UserMessage)), -1) + 1
            while end and isinstance(asked := gone[end - 1], UserMessage):
                self.question.insert(0, asked)
                end -= 1
            rounds = sum(isinstance(m, AssistantMessage) and m.turn == turn for m in gone)
            self.rounds_before = rounds + (before if cut_before == turn else 0)

    def of_turn(self, turn: str) -> list[Said]:
        """The records of one turn, which are the newest or not there."""
        first = len(self.messages)
        while first and self.messages[first - 1].turn == turn:
            first -= 1
        return self.messages[first:]

    def last_turn(self) -> list[Said]:
        """The records of the newest turn."""
        return self.of_turn(self.messages[-1].turn) if self.messages else []


def replay(records: Iterable[Record]) -> Session:
    """The session that a log stands for."""
    session = Session()
    for record in records:
        session.apply(record)
    return session


def is_ended(records: Sequence[Said]) -> bool:
    """Whether a turn's records hold its end."""
    return bool(records) and isinstance(last := records[-1], AssistantMessage) and last.end is not None


def open_calls(records: Sequence[Said]) -> list[tuple[str, str]]:
    """(id, name) of each call of the newest assistant message that has no result yet."""
    done: set[str] = set()
    for record in reversed(records):
        match record:
            case ToolMessage():
                done.add(record.tool_call_id)
            case AssistantMessage():
                return [(c.id, c.name) for c in record.tool_calls if c.id not in done]
            case _:
                return []
    return []


def repaired(messages: Sequence[Said]) -> list[Said]:
    """The messages as a legal history: it starts with a user message, and every tool call has exactly
    one result, right behind it. Orphan results and doubles are left out, missing results are filled in.
    A note that a turn failed or was stopped is left out where that turn was done again.
    """
    start = next((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), len(messages))
    legal: list[Said] = []
    waiting: dict[str, ToolMessage] = {}
    for message in messages[start:]:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                legal.append(message)
                del waiting[message.tool_call_id]
            continue
        legal.extend(waiting.values())
        waiting = {}
        if isinstance(message, AssistantMessage):
            while message.retries and legal and _is_end_of(message.retries, legal[-1]):
                legal.pop()
            message = _with_unique_calls(message)
            waiting = {c.id: _lost_result(message, c.id, c.name) for c in message.tool_calls}
        legal.append(message)
    legal.extend(waiting.values())
    return legal


def _is_end_of(turn: str, message: Said) -> bool:
    return isinstance(message, AssistantMessage) and message.end is not None and message.turn == turn


def _with_unique_calls(message: AssistantMessage) -> AssistantMessage:
    unique = tuple({call.id: call for call in message.tool_calls}.values())
    return message if len(unique) == len(message.tool_calls) else replace(message, tool_calls=unique)


def _lost_result(call: AssistantMessage, call_id: str, name: str) -> ToolMessage:
    return ToolMessage(
        n=call.n,
        turn=call.turn,
        timestamp=call.timestamp,
        content=LOST_RESULT,
        tokens=8,
        tool_call_id=call_id,
        name=name,
    )


def history(messages: Sequence[Said], max_messages: int) -> list[Said]:
    """The newest messages a prompt may show: at most so many, legal, starting at a user message.

    Turns are not torn: the window opens at the first user message within the limit, unless one turn
    alone is longer, which is then shown whole.
    """
    first = max(0, len(messages) - max_messages)
    while first < len(messages) and not starts_turn(messages, first):
        first += 1
    if first == len(messages):
        first = next((i for i in reversed(range(len(messages))) if starts_turn(messages, i)), 0)
    return repaired(messages[first:])


def starts_turn(messages: Sequence[Said], index: int) -> bool:
    """Whether the message there is the first of a turn; in an older layout, which names no turns, of a question."""
    if not isinstance(messages[index], UserMessage):
        return False
    return (
        index == 0
        or not isinstance(messages[index - 1], UserMessage)
        or messages[index - 1].turn != messages[index].turn
    )
