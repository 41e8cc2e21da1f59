"""What Dream has not read yet in a space, and the marks of how far it has.

The cursor is the greater of its file and what the newest `[Dream]` version was made from, so a crash between the two
repeats nothing. For talk that is in no entry yet, a `learnt` record in the session follows that version likewise; an
entry that tells of nothing but such talk is not read again.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo

import structlog

from nanomem.agent.conversation import Conversations
from nanomem.batches import News, Piece, heard, in_full, new_talk, parted, talk
from nanomem.errors import CannotStore
from nanomem.memory.known import newest_dream
from nanomem.ports import Clock, History, SessionLog, Tokenizer
from nanomem.records import Learnt
from nanomem.session import Said, Session
from nanomem.spaces import Space
from nanomem.versions import Stretch, Version

log = structlog.get_logger()

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

    async def news(self, space: Space, known: Sequence[Version], limit: int, veiled: Veiled) -> News:
        """Entries in their order, whole, then talk in pieces of at most `limit` tokens. `veiled` puts a mask in place
        of what of a message may not be read: before it is cut, since nobody knows half a secret."""
        entries = await self._history.after(space, await self._cursor(space, known))
        sessions = {entry.session for entry in entries}
        learnt = {key: _learnt(await self._session(space, key), key, known) for key in sessions}
        covered = frozenset(entry.cursor for entry in entries if entry.last <= learnt[entry.session])
        entries = [entry for entry in entries if entry.cursor not in covered]
        for key in await self._logs.keys(space):
            if self._conversations.space_of(key) == space:
                messages = await asyncio.to_thread(veiled, await self._talk(space, key, known))
                entries += talk(messages, key, self._zone, limit)
        texts = [in_full(entry, self._zone) for entry in entries]
        sizes = [await self._tokenizer.count(text) for text in texts]
        return News(parted([*map(Piece, entries, texts, sizes)]), covered)

    async def said(self, space: Space, pieces: Sequence[Piece]) -> list[Said]:
        """The messages that the pieces are about, as far as the logs still have them."""
        found: list[Said] = []
        for stretch in dict.fromkeys(piece.heard for piece in pieces):
            try:
                found += await self._logs.messages(space, *stretch)
            except CannotStore as error:
                _report(space, stretch.session, error)
        return found

    async def mark(self, space: Space, news: News, done: int) -> None:
        """Notes that so many of the pieces are read. Raises CannotStore."""
        await self._mark(space, news.read_through(done), heard(news.pieces[:done]))

    async def catch_up(self, space: Space, known: Sequence[Version]) -> None:
        """Makes the marks that a crash behind a version has left out."""
        if newest := newest_dream(known):
            await self._mark(space, await self._cursor(space, known), newest.heard)

    async def _mark(self, space: Space, cursor: int, stretches: Sequence[Stretch]) -> None:
        if cursor and cursor != await self._history.dreamt(space):
            await self._history.set_dreamt(space, cursor)
        for key, _, last in stretches:
            conversation = await self._conversations.open(key)
            if conversation.session.learnt < last <= conversation.session.last_n:
                await conversation.moved(Learnt(through=last, timestamp=self._clock.now()))

    async def _cursor(self, space: Space, known: Sequence[Version]) -> int:
        """The newest entry that was read. One beyond the end was noted of another history, or by mistake."""
        last, noted = await self._history.last(space), await self._history.dreamt(space)
        made_from = max((version.read_through for version in known if version.kind == "Dream"), default=0)
        if noted > last:
            log.warning("dream.cursor_beyond_the_end", space=space.name, cursor=noted, last=last)
        return max((cursor for cursor in (noted, made_from) if cursor <= last), default=last)

    async def _talk(self, space: Space, key: str, known: Sequence[Version]) -> list[Said]:
        session = await self._session(space, key)
        is_quiet = session.updated_at is None or self._clock.now() - session.updated_at >= self._quiet
        if not is_quiet or session.pending:
            return []
        return new_talk(session.messages, _learnt(session, key, known))

    async def _session(self, space: Space, key: str) -> Session:
        """As its log tells; one that cannot be read keeps nothing else from being read."""
        try:
            return await self._logs.load(space, key)
        except CannotStore as error:
            _report(space, key, error)
            return Session()


def _report(space: Space, session: str, error: CannotStore) -> None:
    log.warning("dream.session_unreadable", space=space.name, session=session, reason=error.text)


def _learnt(session: Session, key: str, known: Sequence[Version]) -> int:
    """The last message of a session that was read, in whatever form."""
    newest = newest_dream(known)
    covered = [stretch.last for stretch in newest.heard if stretch.session == key] if newest else []
    return max([session.learnt, *covered])
