"""Recall unasked: what was said before and strongly fits a new message, for the block behind it.

Only what people said, and only what the model does not see anyway; a line comes once in a conversation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from datetime import tzinfo

import structlog

from nanomem.errors import CannotStore
from nanomem.ports import Clock, Occasion, Reminded, Tokenizer
from nanomem.recall.found import Found, Hit, Sought, around, date
from nanomem.recall.question import AGENT
from nanomem.recall.words import STOP, asks, spoken, terms
from nanomem.spaces import Space

log = structlog.get_logger()

MOST_LINES, MOST_TOKENS = 3, 300
"""Of all lines together."""
STRONG_SHARE, STRONG_WORDS = 0.4, 2
"""A saying fits strongly when so much of what the message's words weigh stands in it, in so many of its words, and one
of them is rare: small talk is like other small talk in all but that."""
_LONGEST = 400  # characters of a line
_LONGEST_MESSAGE = 1_000  # more is a text to be worked on, not something that reminds of anything
LONGEST_S = 0.3
"""What a turn waits for it, however much there is to look through."""
_PATIENCE_S = 0.02  # for what was just said elsewhere
_LOOKED_AT = 12
_PLEASANT = """
hello hi hey thanks thank thx ok okay yes no please sorry bye goodbye good great nice fine well morning evening
afternoon night day welcome sure right hallo guten morgen abend tag nacht danke bitte gut ja nein tschüss"""
_PLEASANTRIES = frozenset(_PLEASANT.split()).union(*STOP)
"""What people say to each other at any time, and words without meaning of their own: they remind of nothing."""
_KNOWN_SHARE = 0.8  # of a saying's words in one line of the prompt: it is known from there


@dataclass(frozen=True, slots=True)
class IndexReminder:
    """`ports.Reminder` by a search with what was said."""

    search: Callable[[Space, Sought, float], Awaitable[tuple[Found, bool]]]
    tokenizer: Tokenizer
    clock: Clock
    zone: tzinfo

    async def remind(self, occasion: Occasion) -> list[Reminded]:
        """See the port. A search that cannot be made, or would take long, reminds of nothing."""
        if len(occasion.said) > _LONGEST_MESSAGE or _PLEASANTRIES.issuperset(terms(occasion.said)):
            return []
        now = self.clock.now().astimezone(self.zone)
        asked = Sought(
            occasion.said,
            now,
            occasion.askers,
            session=occasion.session,
            unless=occasion.in_sight,
            most=_LOOKED_AT,
            only_rare=True,
        )
        try:
            async with asyncio.timeout(LONGEST_S):
                found, _ = await self.search(occasion.space, asked, _PATIENCE_S)
        except (CannotStore, TimeoutError) as error:
            log.warning("recall.not_reminded", reason=str(error) or "it took too long")
            return []
        except Exception:  # whatever is wrong with an index, it is not worth a turn
            log.exception("recall.not_reminded")
            return []
        room, lines = MOST_TOKENS, []
        for hit in strong(found.hits, occasion)[:MOST_LINES]:
            said = around(hit.text, found.wanted, _LONGEST)
            line = f"said on {date(hit.at, self.zone)} by {hit.who}: {said}" if hit.at else said
            if (size := await self.tokenizer.count(line) + 1) <= room:
                lines.append(Reminded(hit.session, hit.n, line))
                room -= size
        return lines


def strong(hits: Sequence[Hit], occasion: Occasion) -> list[Hit]:
    """Those that people said, and did not ask, that fit strongly, and that neither the message nor the prompt says, nor
    said before."""
    said = set(spoken(occasion.said))
    found = [
        (hit, words)
        for hit in hits
        if hit.kind == "talk"
        and hit.speaker != AGENT
        and hit.share >= STRONG_SHARE
        and hit.words >= STRONG_WORDS
        and hit.rare
        and not asks(hit.text)
        and (hit.session, hit.n) not in occasion.told
        and not said.issuperset(words := set(spoken(hit.text)))
    ]
    if not found:  # as mostly: a long prompt is not taken to pieces for nothing
        return []
    lines = [set(spoken(line)) for line in occasion.prompt.splitlines()]
    return [hit for hit, words in found if not _is_known(words, lines)]


def _is_known(words: Set[str], lines: Sequence[Set[str]]) -> bool:
    return any(len(words & line) >= _KNOWN_SHARE * len(words) for line in lines)
