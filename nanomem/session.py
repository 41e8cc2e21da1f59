"""A session is a fold over its log: `replay(records)`. And the history of it that a prompt may show.

Pure: no clock, no file. A history that damage made illegal is repaired here, never in the file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from nanomem.records import AssistantMessage, Metadata, Record, Reset, ToolMessage, UserMessage

Said = UserMessage | AssistantMessage | ToolMessage

LOST_RESULT = "The result of this call was lost."
UNKNOWN_OUTCOME = "Interrupted: nanomem stopped while this ran. The outcome is unknown; it was not run again."


@dataclass(slots=True)
class Session:
    """The part of a conversation that is not consolidated, and where the log stands.

    `messages` begin after `last_consolidated`. `last_n` is the number of the newest message.
    """

    key: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    messages: list[Said] = field(default_factory=list)
    last_n: int = 0
    last_consolidated: int = 0
    last_reset: str | None = None

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
                self._forget_through(record.through)
            case Metadata():
                self.key = self.key or record.key
                self.created_at = self.created_at or record.created_at
                self._forget_through(record.last_consolidated)

    def _forget_through(self, through: int) -> None:
        if through <= self.last_consolidated:
            return
        self.last_consolidated = through
        self.last_n = max(self.last_n, through)
        self.messages = [m for m in self.messages if m.n > through]

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
