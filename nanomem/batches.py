"""What a Dream reads, cut into calls: history entries, and talk that is in no entry yet. Pure.

Nothing is cut off; what is too large for one call goes into one alone.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import groupby, takewhile

from nanomem.entries import Entry, for_people
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said
from nanomem.stretch import raw_entries
from nanomem.versions import Stretch

_LEFT_OUT = "(left out)"
_LEFT_OUT_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing to read: an entry of history, or with the cursor 0 messages that are in none; `tokens` is its size.

    `is_whole` is false where the rest of its last message is in the next piece. Such a message has its pieces to
    itself: `part` counts them from 1, and is 0 for whatever is there whole.
    """

    entry: Entry
    text: str
    tokens: int
    is_whole: bool = True
    part: int = 0

    @property
    def heard(self) -> Stretch:
        """The messages it is about."""
        return Stretch(self.entry.session, self.entry.first, self.entry.last)

    @property
    def is_talk(self) -> bool:
        """Whether it is in no entry yet."""
        return not self.entry.cursor


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call reads: entries, or talk."""

    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """Which pieces these are, for people: `entries 3-7`, or `telegram:42 messages 1-12, terminal:local ...`."""
        return ", ".join(_names(self.pieces))

    @property
    def key(self) -> str:
        """What stays the same of it when it is read again: talk may have gone on meanwhile."""
        first = self.pieces[0]
        return f"{first.entry.session} messages {first.entry.first}{_part(first)}" if first.is_talk else self.name

    @property
    def text(self) -> str:
        """All of it."""
        return "\n\n".join(piece.text for piece in self.pieces)

    @property
    def tokens(self) -> int:
        """The size of its text."""
        return sum(piece.tokens for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class News:
    """All that is new in a space, and `covered`: entries, by cursor, that tell of nothing but talk that was read."""

    pieces: Sequence[Piece]
    covered: frozenset[int] = frozenset()

    def read_through(self, done: int) -> int:
        """The newest entry before which none is unread once so many pieces are done; 0 for none."""
        still = min((piece.entry.cursor for piece in self.pieces[done:] if not piece.is_talk), default=None)
        cursors = {piece.entry.cursor for piece in self.pieces[:done]} | self.covered
        return max((cursor for cursor in cursors if still is None or cursor < still), default=0)


def in_full(entry: Entry, zone: tzinfo) -> str:
    """An entry as a model is shown it, with its key facts."""
    facts = [f"- {fact}" for fact in entry.key_facts if entry.cursor]
    return "\n".join([for_people(entry, zone), *facts])


def new_talk(messages: Sequence[Said], after: int) -> list[Said]:
    """The messages behind number `after` up to the end of the last turn that has ended; results of tools, which are
    nobody's words, without their text. Empty where no person has said anything."""
    end = next((at for at in range(len(messages), 0, -1) if _ends_turn(messages[at - 1])), 0)
    said = [_without_output(message) for message in messages[:end] if message.n > after]
    return said if any(isinstance(message, UserMessage) for message in said) else []


def talk(messages: Sequence[Said], session: str, zone: tzinfo, limit: int) -> list[Entry]:
    """The messages as entries that have no cursor."""
    return raw_entries(messages, session, zone, limit, named=True)


def parted(pieces: Sequence[Piece]) -> list[Piece]:
    """The same, each knowing whether its last message goes on in the next one, and which part of it it is."""
    found: list[Piece] = []
    for at, piece in enumerate(pieces):
        goes_on = at + 1 < len(pieces) and _goes_on(piece, pieces[at + 1])
        before = found[-1].part if found and not found[-1].is_whole else 0
        found.append(replace(piece, is_whole=not goes_on, part=before + 1 if goes_on or before else 0))
    return found


def _goes_on(piece: Piece, following: Piece) -> bool:
    is_same = piece.is_talk and following.is_talk and piece.heard.session == following.heard.session
    return is_same and piece.heard.last == following.heard.first


def heard(pieces: Sequence[Piece]) -> list[Stretch]:
    """The messages of the talk among the pieces, one stretch a session, up to the last one that is there whole."""
    found: dict[str, Stretch] = {}
    for piece in pieces:
        if piece.is_talk:
            last = piece.entry.last if piece.is_whole else piece.entry.last - 1
            before = found.get(piece.entry.session, piece.heard)
            found[before.session] = before._replace(last=last)
    return [stretch for stretch in found.values() if stretch.first <= stretch.last]


def next_batch(pieces: Sequence[Piece], room: int, begun: Collection[str]) -> Batch | None:
    """As many pieces of the kind of the first as fit into the room, at least one; just those of a batch of entries that
    was begun before and not done. None: there are no pieces."""
    size, fitting = 0, 0
    for count, piece in enumerate(takewhile(lambda piece: piece.is_talk == pieces[0].is_talk, pieces), 1):
        if begun and not piece.is_talk and (batch := Batch(tuple(pieces[:count]))).key in begun:
            return batch
        size += piece.tokens
        if size <= room or not fitting:
            fitting = count
    return Batch(tuple(pieces[:fitting])) if pieces else None


def _names(pieces: Sequence[Piece]) -> Iterator[str]:
    for session, found in groupby(pieces, key=lambda piece: piece.entry.session if piece.is_talk else ""):
        those = [*found]
        first, last = those[0], those[-1]
        if first.is_talk:
            yield f"{session} messages {first.entry.first}{_part(first)}-{last.entry.last}{_part(last)}"
        else:
            yield f"entries {first.entry.cursor}-{last.entry.cursor}"


def _part(piece: Piece) -> str:
    """Without it, all pieces of one message would be one batch, begun too often."""
    return f" (part {piece.part})" if piece.part else ""


def _ends_turn(message: Said) -> bool:
    """In an older layout, which names no turns, each answer ends one."""
    return isinstance(message, AssistantMessage) and (
        message.end is not None or not (message.turn or message.tool_calls)
    )


def _without_output(message: Said) -> Said:
    return replace(message, content=_LEFT_OUT, tokens=_LEFT_OUT_TOKENS) if isinstance(message, ToolMessage) else message
