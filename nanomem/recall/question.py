"""What a question says beside its words: of whom it asks, and of when.

English, and the commonest of German and Chinese. Pure: today and the names of those who speak are given.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nanomem.recall.words import STOP, spoken, terms

MOST_TERMS = 200
"""What one search looks for; the rest of a longer text is left out."""
AGENT = "agent"
"""The person's id under which the agent's own messages are kept."""

_MONTHS = (
    ("january", "jan", "januar"),
    ("february", "feb", "februar"),
    ("march", "märz"),
    ("april", "apr"),
    ("may", "mai"),
    ("june", "juni"),
    ("july", "juli"),
    ("august", "aug"),
    ("september", "sept"),
    ("october", "oktober", "oct"),
    ("november", "nov"),
    ("december", "dezember", "dec"),
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_SEASONS = {
    (3, 4, 5): ("spring", "springtime", "frühling", "frühjahr"),
    (6, 7, 8): ("summer", "summertime", "sommer"),
    (9, 10, 11): ("autumn", "fall", "herbst"),
    (12, 1, 2): ("winter", "wintertime"),
}
_SEASON = {name: months for months, names in _SEASONS.items() for name in names}
_UNSPACED_SEASONS = {"春": (3, 4, 5), "夏": (6, 7, 8), "秋": (9, 10, 11), "冬": (12, 1, 2)}
_ONLY_TIME = "last next year month week day today yesterday early late"
_TIMES = frozenset(_ONLY_TIME.split()) | _MONTH.keys() | _SEASON.keys()
_DOUBTFUL = frozenset({"march", "may", "mai", "spring", "fall", "jan", "dec"})
"""Words that mean a time only behind another word of time, or before a number."""
_NO_NAMES = _TIMES.union({"user", "assistant"}, *STOP)
_BEFORE_TIME = (
    "in during since until till of by last this next early late mid every previous past im seit letzten letztes"
)
_OF_TIME = frozenset(_BEFORE_TIME.split())
_UNSPACED_MONTHS = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"]
_UNSPACED_MONTH = re.compile(r"(1[0-2]|[1-9]|十[一二]?|[一二三四五六七八九])\s*月(?!饼)")
_UNSPACED_SEASON = re.compile(r"([春夏秋冬])[天季]")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_DAY_OR_YEAR = re.compile(r"\d\d?|(?:19|20)\d\d")
_SPANS: tuple[tuple[re.Pattern[str], int, int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), first, days)
    for pattern, first, days in (
        (r"\btoday\b|\bheute\b|今天", 0, 1),
        (r"\byesterday\b|\bgestern\b|昨天", 1, 1),
        (r"\b(?:last|past) week\b|\bletzte\w? woche\b|上周|上个?星期", 13, 14),
        (r"\b(?:last|past) month\b|\bletzten monat\b|上个月", 61, 62),
    )
)
"""How many days ago a span begins, and how many it lasts: wide, since nobody counts them."""
_LAST_YEAR = re.compile(r"\blast year\b|\bletztes jahr\b|去年", re.IGNORECASE)
_THIS_YEAR = re.compile(r"\bthis year\b|\bdieses jahr\b|今年", re.IGNORECASE)

_WHEN = re.compile(
    r"\W*(?:when|since when|how long|(?:what|which) (?:time|day|date|month|year)|wann|seit wann)\b"
    r"|什[么麼]时候|何时|哪[天年]|几[号月点]|いつ",
    re.IGNORECASE,
)
_OTHER_TIME_WORDS = """
yesterday today tomorrow tonight ago last next week weeks weekend month months year years night morning recently soon
monday tuesday wednesday thursday friday saturday sunday
gestern heute morgen letzte letzten letztes nächste nächsten woche wochen monat jahr jahre uhr
montag dienstag mittwoch donnerstag freitag samstag sonntag"""
_TIME_WORDS = (_MONTH.keys() - _DOUBTFUL) | frozenset(_OTHER_TIME_WORDS.split())
_UNSPACED_TIME = re.compile("[昨今明]天|[上下本]个?[周月]|[去今明]年|周[一二三四五六日末]|[月号点]|早上|晚上")
_WORD = re.compile(r"\w+")

_POLITE = re.compile(
    r"\b(?:do|can|could|would|will) you (?:please )?(?:still )?"
    r"(?:remember|know|recall|tell me|remind me|think|find(?: out)?|look(?: up)?)\b"
    r"|\bremind me\b|\btell me\b|\b(?:weißt|kannst) du (?:noch|mir sagen)\b|你(?:还)?(?:记得|知道)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\b(?P<asker>i|my|mine|me|we|our|ich|mein\w{0,2}|mir|mich|wir)\b|\b(?P<agent>you|your|yours|du|dein\w{0,2}|dir)\b"
    r"|(?P<own>我)|(?P<other>[你您])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Times:
    """Moments that are meant: those in one of the months, the years and the spans, as far as each is named."""

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    span: tuple[datetime, datetime] | None = None

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.span)

    def have(self, at: datetime) -> bool:
        """Whether that moment, in the person's time zone, is meant."""
        return (
            (not self.months or at.month in self.months)
            and (not self.years or at.year in self.years)
            and (self.span is None or self.span[0] <= at < self.span[1])
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: `terms`; `same` are all its words. `persons` are the ids of the one it is about.

    `when` is set where it asks for a time, `is_about_times` where there is nothing to look for but times.
    """

    terms: tuple[str, ...]
    same: tuple[str, ...]
    is_about_times: bool = False
    persons: frozenset[str] = frozenset()
    times: Times = Times()
    when: bool = False


def read(text: str, now: datetime, people: Mapping[str, Sequence[str]], askers: Collection[str] = ()) -> Question:
    """Reads a question. `people` are the names of those who speak by their ids; `now` is in the person's time zone.

    "I" and "my" mean those who ask, all people if it is not known who does, and "you" the agent.
    """
    named = _named(text, people)
    persons = _meant(text, askers or people.keys() - {AGENT}) if not named else named if len(named) == 1 else ()
    wanted = terms(text, named_in(text, people))[:MOST_TERMS]
    return Question(
        tuple(wanted),
        tuple(spoken(text)),
        all(any(word in stop for stop in STOP) or word in _TIMES or _DAY_OR_YEAR.fullmatch(word) for word in wanted),
        frozenset(persons),
        times_in(text, now),
        _WHEN.match(text) is not None or _WHEN.search(text, max(0, len(text) - 40)) is not None,
    )


def named_in(text: str, people: Mapping[str, Sequence[str]]) -> set[str]:
    """The words that name somebody."""
    return set().union(*_named(text, people).values())


def tells_a_time(text: str) -> bool:
    """Whether there is a word of time in it."""
    words = _WORD.findall(text.casefold())
    if not _TIME_WORDS.isdisjoint(words) or any(len(word) == 4 and word.isdecimal() for word in words):
        return True
    return not text.isascii() and _UNSPACED_TIME.search(text) is not None


def times_in(text: str, now: datetime) -> Times:
    """The months, seasons, years and days that are named."""
    words = spoken(text)
    months: set[int] = set()
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word in _DOUBTFUL and before not in _OF_TIME and not after.isdecimal():
            continue
        if word in _MONTH:
            months.add(_MONTH[word])
        elif word in _SEASON:
            months |= set(_SEASON[word])
    for found in _UNSPACED_MONTH.findall(text):
        months.add(int(found) if found.isdecimal() else _UNSPACED_MONTHS.index(found) + 1)
    for found in _UNSPACED_SEASON.findall(text):
        months |= set(_UNSPACED_SEASONS[found])
    years = set(map(int, _YEAR.findall(text)))
    years |= ({now.year - 1} if _LAST_YEAR.search(text) else set()) | ({now.year} if _THIS_YEAR.search(text) else set())
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for pattern, ago, days in _SPANS:
        if pattern.search(text):
            first = today - timedelta(days=ago)
            return Times(frozenset(months), frozenset(years), (first, first + timedelta(days=days)))
    return Times(frozenset(months), frozenset(years))


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
    return word not in _NO_NAMES or re.search(rf"\w\W+{re.escape(word.capitalize())}\b", text) is not None


def _first(parts: list[str], name: str) -> list[str]:
    """The first word of a name; a name in signs has none."""
    return parts[:1] if parts and len(parts[0]) > 1 else parts


def _within(parts: Sequence[str], words: Sequence[str]) -> bool:
    size = len(parts)
    return any(words[i : i + size] == list(parts) for i in range(len(words) - size + 1))


def _meant(text: str, askers: Collection[str]) -> Collection[str]:
    """Whom the first "I" or "you" means."""
    subject = _SUBJECT.search(_POLITE.sub(" ", text))
    if subject is None:
        return ()
    return askers if subject["asker"] or subject["own"] else (AGENT,)
