"""What Dream has not read yet in a space, and the marks of how far it has.

The cursor is the greater of its file and what the newest `[Dream]` version was made from, so a crash between the two
repeats nothing. For talk that is in no entry yet, a `learnt` record in the session follows that version likewise.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo

from nanomem.agent.conversation import Conversations
from nanomem.batches import Piece, heard, in_full, new_talk, parted, talk
from nanomem.ports import Clock, History, SessionLog, Tokenizer
from nanomem.records import Learnt
from nanomem.session import Said
from nanomem.spaces import Space
from nanomem.versions import Stretch, Version

Veiled = Callable[[Sequence[Said]], Sequence[Said]]


class Unread:
    """Knows what is new. Talk counts once its session has been quiet for `quiet`."""

    def __init__(
        self,
        history: History,
        logs: SessionLog,
        conversations: Conversations,
        tokenizer: Tokenizer,
        clock: Clock,
        quiet: timedelta,
        zone: tzinfo,
    ) -> None:
        self._history = history
        self._logs = logs
        self._conversations = conversations
        self._tokenizer = tokenizer
        self._clock = clock
        self._quiet = quiet
        self._zone = zone

    async def waiting(self, space: Space, known: Sequence[Version]) -> int:
        """How many history entries have not been read."""
        return max(await self._history.last(space) - await self._cursor(space, known), 0)

    async def pieces(self, space: Space, known: Sequence[Version], limit: int, veiled: Veiled) -> list[Piece]:
        """All that is new: entries in their order, whole, then talk in pieces of at most `limit` tokens. `veiled` puts
        a mask in place of what of a message may not be read: before it is cut, since nobody knows half a secret."""
        entries = await self._history.after(space, await self._cursor(space, known))
        newest = _newest_dream(known)
        for key in await self._logs.keys(space):
            if self._conversations.space_of(key) == space:
                messages = await asyncio.to_thread(veiled, await self._talk(space, key, newest))
                entries += talk(messages, key, self._zone, limit)
        texts = [in_full(entry, self._zone) for entry in entries]
        pieces = [
            Piece(entry, text, await self._tokenizer.count(text)) for entry, text in zip(entries, texts, strict=True)
        ]
        return parted(pieces)

    async def said(self, space: Space, pieces: Sequence[Piece]) -> list[Said]:
        """The messages that the pieces are about, as far as the logs still have them."""
        stretches = dict.fromkeys(piece.heard for piece in pieces)
        return [message for stretch in stretches for message in await self._logs.messages(space, *stretch)]

    async def mark(self, space: Space, pieces: Sequence[Piece]) -> None:
        """Notes that these are read. Raises CannotStore."""
        await self._mark(space, max((piece.entry.cursor for piece in pieces), default=0), heard(pieces))

    async def catch_up(self, space: Space, known: Sequence[Version]) -> None:
        """Makes the marks that a crash behind a version has left out."""
        if newest := _newest_dream(known):
            await self._mark(space, newest.read_through, newest.heard)

    async def _mark(self, space: Space, cursor: int, stretches: Sequence[Stretch]) -> None:
        if cursor > await self._history.dreamt(space):
            await self._history.set_dreamt(space, cursor)
        for key, _, last in stretches:
            conversation = await self._conversations.open(key)
            if conversation.session.learnt < last <= conversation.session.last_n:
                await conversation.moved(Learnt(through=last, timestamp=self._clock.now()))

    async def _cursor(self, space: Space, known: Sequence[Version]) -> int:
        newest = _newest_dream(known)
        return max(await self._history.dreamt(space), newest.read_through if newest else 0)

    async def _talk(self, space: Space, key: str, newest: Version | None) -> list[Said]:
        session = await self._logs.load(space, key)
        is_quiet = session.updated_at is None or self._clock.now() - session.updated_at >= self._quiet
        if not is_quiet or session.pending:
            return []
        covered = [stretch.last for stretch in newest.heard if stretch.session == key] if newest else []
        return new_talk(session.messages, max([session.learnt, *covered]))


def _newest_dream(known: Sequence[Version]) -> Version | None:
    return next((version for version in reversed(known) if version.kind == "Dream"), None)
