"""A stretch of a session: where it may end, and how it reads as text.

Pure. A stretch begins behind the pointer; it never ends between a tool call and its result.
"""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from nanomem.budget import cost
from nanomem.entries import Entry
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said, starts_turn

_HEAD_TOKENS = 20
"""Of what stands before a message's text, rounded up."""
TOOL_SHOWN = 1_000
"""Characters of a tool's result that a model is shown when it makes a stretch short."""


def pick_boundary(messages: Sequence[Said], tokens_to_remove: int) -> int:
    """How many messages from the first on to take: the fewest that free so many o200k tokens and end just before
    a turn, else as many as end before the last turn.

    One turn alone is cut between its tool rounds instead, of which the last stays. 0: there is nothing to cut.
    """
    return _enough(messages, _turns(messages) or _rounds(messages), tokens_to_remove)


def all_but_newest(messages: Sequence[Said], keep: int) -> int:
    """How many to take so that at least `keep` messages stay, ending just before a turn."""
    return max((place for place in _turns(messages) if place <= len(messages) - keep), default=0)


def turns_before_last(messages: Sequence[Said]) -> int:
    """How many messages stand before the newest turn."""
    return max(_turns(messages), default=0)


def fitting(messages: Sequence[Said], tokens: int) -> int:
    """How many of a stretch fit into so many tokens: all of it, else up to its last boundary that does; at least
    up to its first one, whatever that costs."""
    size = 0
    places = {*_turns(messages), *_rounds(messages)}
    last = 0
    for index, message in enumerate(messages):
        if index in places:
            if size > tokens and last:
                return last
            last = index
            if size > tokens:
                return last
        size += cost(message)
    return last if size > tokens and last else len(messages)


def _enough(messages: Sequence[Said], places: Sequence[int], tokens: int) -> int:
    freed, done = 0, 0
    for place in places:
        freed, done = freed + sum(map(cost, messages[done:place])), place
        if freed >= tokens:
            break
    return done


def _turns(messages: Sequence[Said]) -> list[int]:
    return [index for index in range(1, len(messages)) if starts_turn(messages, index)]


def _rounds(messages: Sequence[Said]) -> list[int]:
    """Behind the results of a round of tools, where the next answer begins."""
    return [
        index
        for index in range(1, len(messages))
        if isinstance(messages[index], AssistantMessage) and isinstance(messages[index - 1], ToolMessage)
    ]


def as_text(messages: Sequence[Said], zone: tzinfo, longest: int | None = None) -> str:
    """The stretch as a model is shown it: `[2026-04-10 09:15] USER (Ann): ...`, a line a message.

    Results of tools are shown by their beginning; with `longest`, so is every message.
    """
    return "\n".join(_shown(message, zone, longest) for message in messages)


def _shown(message: Said, zone: tzinfo, longest: int | None) -> str:
    room = TOOL_SHOWN if isinstance(message, ToolMessage) else None
    room = min(filter(None, (room, longest)), default=None)
    text = " ".join(message.content.split())
    if room and len(text) > room:
        text = f"{text[:room]} [... {len(text) - room:,} more characters]"
    return f"{_head(message, zone, _speaker(message))}: {text}"


def _speaker(message: Said) -> str:
    """Who says it, and whose words they are: what is forwarded is no word of the one who forwards it."""
    if not isinstance(message, UserMessage):
        return ""
    forwarded = f"forwarded from {_plain(message.forwarded_from)}" if message.forwarded_from else ""
    told = ", ".join(filter(None, (_plain(message.sender.name), forwarded)))
    return f" ({told})" if told else ""


def _head(message: Said, zone: tzinfo, name: str = "") -> str:
    at = f"[{message.timestamp.astimezone(zone):%Y-%m-%d %H:%M}]"
    match message:
        case UserMessage():
            return f"{at} USER{name}"
        case AssistantMessage():
            tools = ", ".join(_plain(call.name) for call in message.tool_calls)
            return f"{at} ASSISTANT [tools: {tools}]" if tools else f"{at} ASSISTANT"
        case ToolMessage():
            return f"{at} TOOL ({_plain(message.name)})"


def _plain(name: str) -> str:
    """A name that cannot be taken for the frame around it."""
    return " ".join("".join(" " if c in "()[]:" else c for c in name).split())[:64]


def raw_entries(
    messages: Sequence[Said], session: str, zone: tzinfo, limit: int, *, named: bool = False
) -> list[Entry]:
    """The stretch word by word, cut between messages into entries of at most `limit` tokens; a message that is
    longer alone is split. Line breaks in a message are spaces. With `named`, it says who speaks, as in `as_text`."""
    entries: list[Entry] = []
    part: list[tuple[Said, str]] = []
    size = 0
    for message in messages:
        for line, tokens in _pieces(message, zone, limit, _speaker(message) if named else ""):
            if part and size + tokens > limit:
                entries.append(_raw(part, session))
                part, size = [], 0
            part.append((message, line))
            size += tokens
    return [*entries, _raw(part, session)] if part else entries


def _raw(part: Sequence[tuple[Said, str]], session: str) -> Entry:
    first, last = part[0][0], part[-1][0]
    count = len({message.n for message, _ in part})
    head = f"[RAW] {count} message{'s' if count > 1 else ''}"
    return Entry(
        timestamp=last.timestamp,
        type="raw",
        session=session,
        first=first.n,
        last=last.n,
        summary="\n".join([head, *(line for _, line in part)]),
    )


def _pieces(message: Said, zone: tzinfo, limit: int, speaker: str) -> Iterator[tuple[str, int]]:
    """The lines of one message, with their tokens: one, unless it is too long. A token is at least a byte, so a piece
    of so many bytes is never too long."""
    text = message.content.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    head = _head(message, zone, speaker)
    tokens, room = max(message.tokens, 1) + _HEAD_TOKENS, max(limit - _HEAD_TOKENS, 4)
    if tokens <= limit:
        yield f"{head}: {text}", tokens
        return
    data = text.encode("utf-8", "replace")
    while data:
        piece = data[:room].decode("utf-8", "ignore")
        yield f"{head}: {piece}", limit
        data = data[len(piece.encode()) :]
