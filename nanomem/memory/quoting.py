"""Which facts a person means, and which messages a fact was heard in: words compared with words. Pure."""

import unicodedata
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from nanomem.facts import MemoryFiles, facts
from nanomem.patterns import late
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said
from nanomem.versions import flat

LONGEST = 300
"""Characters of one quote."""
_BEFORE = 80  # of them before its first word that counts
# Kana, Chinese characters and Hangul: scripts written without spaces between words.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = late(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_IS_UNSPACED = late(f"[{_UNSPACED}]{{2}}")


@dataclass(frozen=True, slots=True)
class Quote:
    """Something that was said: when, by whom, and the part of it that counts."""

    at: datetime
    who: str
    text: str


def matching(files: MemoryFiles, words: str) -> list[tuple[str, str]]:
    """File and fact of all facts with every one of these words as a part of them; if there are none, of those
    with most of them."""
    wanted = set(folded(words).split())
    found = [(name, fact) for name, text in files.by_name.items() for fact in facts(text)]
    scored = [(sum(word in folded(fact) for word in wanted), name, fact) for name, fact in found]
    top = max((score for score, *_ in scored), default=0)
    return [(name, fact) for score, name, fact in scored if score == top > 0]


def folded(text: str) -> str:
    """The text as it is compared: without case, and each sign in one form."""
    return unicodedata.normalize("NFKC", text).casefold()


def terms(text: str) -> AbstractSet[str]:
    """Its words that say something, folded; where none are set apart, pairs of signs."""
    words: set[str] = set()
    for word in _WORD().findall(folded(text)):
        words.update(map("".join, pairwise(word)) if _IS_UNSPACED().match(word) else [word])
    return {word for word in words if len(word) > 2 or not word.isascii() or word.isdigit()} or words


def overlap(wanted: AbstractSet[str], text: str) -> int:
    """How many of the terms are in the text."""
    within = folded(text)
    return sum(word in within for word in wanted)


def quotes(fact: str, messages: Sequence[Said], most: int = 3) -> list[Quote]:
    """The messages that share most words with the fact, those of people first, then the assistant's.

    Where none shares any, what one person said is the source if nobody else said anything.
    """
    wanted = terms(fact)
    scored = [(overlap(wanted, message.content), message) for message in messages]
    top = max((score for score, _ in scored), default=0)
    best = [(score, message) for score, message in scored if score * 2 >= top > 0]
    best.sort(key=lambda found: (_rank(found[1]), -found[0], found[1].n))
    chosen = [message for _, message in best[:most]]
    people = [message for message in messages if isinstance(message, UserMessage)]
    if not chosen and len(people) == 1:
        chosen = list(people)
    return [Quote(message.timestamp, _who(message), excerpt(message.content, wanted)) for message in chosen]


def excerpt(text: str, wanted: AbstractSet[str]) -> str:
    """At most `LONGEST` characters of a text, on one line, around its first word that counts."""
    text = flat(text)
    if len(text) <= LONGEST:
        return text
    within = text.casefold()
    first = min((at for word in wanted if (at := within.find(word)) >= 0), default=0)
    room = LONGEST - 2 * len("...")
    start = max(0, min(first - _BEFORE, len(text) - room))
    front, back = "..." if start else "", "..." if start + room < len(text) else ""
    return f"{front}{text[start : start + room]}{back}"


def _rank(message: Said) -> int:
    return (UserMessage, AssistantMessage, ToolMessage).index(type(message))


def _who(message: Said) -> str:
    match message:
        case UserMessage():
            return message.sender.name or "User"
        case AssistantMessage():
            return "Assistant"
        case ToolMessage():
            return f"Tool {message.name}"
