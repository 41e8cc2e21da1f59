"""What a question says beside its words: of whom it asks, and of when.

English, and the commonest of German and Chinese. Pure: today and the names of those who speak are given.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nanomem.patterns import late
from nanomem.recall.times import Times, is_of_time, times_in, without_times
from nanomem.recall.words import STOP, asks, content, spoken, terms

MOST_TERMS = 200
"""What one search looks for; the rest of a longer text is left out."""
AGENT = "agent"
"""The person's id under which the agent's own messages are kept."""

_TALK = frozenset(
    """
    talk talked talking discuss discussed happen happened
    gesagt erzählt gesprochen geredet besprochen passiert gemacht""".split()  # noqa: SIM905
)
"""What is done with words: who asks for no more than that and a time asks for all of that time."""
_UNSPACED_TALK = late("[说說聊讲講谈談过過到事都做]")
_NO_NAMES = _TALK.union({"user", "assistant"}, *STOP)

_WHEN = late(
    r"\W*(?:when|since when|how long|(?:what|which) (?:time|day|date|month|year)|wann|seit wann)\b"
    r"|什[么麼]时候|何时|哪[天年]|几[号月点]|いつ",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\W*(?:wh(?:at|en|ere|ich|o|om|ose|y)|how|was|wann|wo|welche\w?|wer|wen|wem|wie|warum)\b", re.I)
_POLITE = late(
    r"\b(?:do|can|could|would|will) you (?:please )?(?:still )?"
    r"(?:remember|know|recall|tell me|remind me|think|find(?: out)?|look(?: up)?)\b"
    r"|\bremind me\b|\btell me\b|\b(?:weißt|kannst) du (?:noch|mir sagen)\b|你(?:还)?(?:记得|知道)",
    re.IGNORECASE,
)
_SUBJECT = late(
    r"\b(?P<asker>i|my|mine|me|we|our|ich|mein\w{0,2}|mir|mich|wir)\b|\b(?P<agent>you|your|yours|du|dein\w{0,2}|dir)\b"
    r"|(?P<own>我)|(?P<other>[你您])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: `terms`; `same` are all its words. `persons` are the ids of the one it is about.

    `asks` is set where it is put as a question, `when` where it asks for a time, and `is_about_times` where there is
    nothing to look for but times.
    """

    terms: tuple[str, ...]
    same: tuple[str, ...]
    is_about_times: bool = False
    asks: bool = False
    persons: frozenset[str] = frozenset()
    times: Times = field(default_factory=Times)
    when: bool = False


def read(text: str, now: datetime, people: Mapping[str, Sequence[str]], askers: Collection[str] = ()) -> Question:
    """Reads a question. `people` are the names of those who speak by their ids; `now` is in the person's time zone.

    "I" and "my" mean those who ask, all people if it is not known who does, and "you" the agent.
    """
    named = _named(text, people)
    persons = _meant(text, askers or people.keys() - {AGENT}) if not named else named if len(named) == 1 else ()
    names = named_in(text, people)
    wanted = terms(text, names)[:MOST_TERMS]
    return Question(
        tuple(wanted),
        tuple(spoken(text)),
        not any(map(_says_something, content(_UNSPACED_TALK().sub(" ", without_times(text)), names))),
        asks(text) or _ASKS.match(text) is not None,
        frozenset(persons),
        times_in(text, now),
        _WHEN().match(text) is not None or _WHEN().search(text, max(0, len(text) - 40)) is not None,
    )


def _says_something(word: str) -> bool:
    return word not in _TALK and not is_of_time(word) and not any(word in stop for stop in STOP)


def named_in(text: str, people: Mapping[str, Sequence[str]]) -> set[str]:
    """The words that name somebody."""
    return set().union(*_named(text, people).values())


def _named(text: str, people: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Those whose whole name, or its first word, is in the text, and these words alone: people choose their names."""
    words = spoken(text)
    found: dict[str, set[str]] = {}
    for person, names in people.items():
        for parts, name in ((spoken(name), name) for name in names):
            for some in (parts, _first(parts, name)):
                if some and _within(some, words) and (len(some) > 1 or _is_a_name(some[0], text)):
                    found.setdefault(person, set()).update(some)
                    break
    return found


def _is_a_name(word: str, text: str) -> bool:
    """Will and May are names where they are written as such, and not at the beginning."""
    return (
        not (word in _NO_NAMES or is_of_time(word))
        or re.search(rf"\w\W+{re.escape(word.capitalize())}\b", text) is not None
    )


def _first(parts: list[str], name: str) -> list[str]:
    """The first word of a name; a name in signs has none."""
    return parts[:1] if parts and len(parts[0]) > 1 else parts


def _within(parts: Sequence[str], words: Sequence[str]) -> bool:
    size = len(parts)
    return any(words[i : i + size] == list(parts) for i in range(len(words) - size + 1))


def _meant(text: str, askers: Collection[str]) -> Collection[str]:
    """Whom the first "I" or "you" means."""
    subject = _SUBJECT().search(_POLITE().sub(" ", text))
    if subject is None:
        return ()
    return askers if subject["asker"] or subject["own"] else (AGENT,)
