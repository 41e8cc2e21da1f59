"""The times that a question names, and whether a message names one.

English, and the commonest of German and Chinese. Pure: today is given.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from nanomem.patterns import late
from nanomem.recall.words import spoken

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
    (3, 4, 5): ("spring", "springtime", "frühling", "frühjahr", "春"),
    (6, 7, 8): ("summer", "summertime", "sommer", "夏"),
    (9, 10, 11): ("autumn", "fall", "herbst", "秋"),
    (12, 1, 2): ("winter", "wintertime", "冬"),
}
_SEASON = {name: months for months, names in _SEASONS.items() for name in names}
_DOUBTFUL = frozenset({"march", "may", "mai", "spring", "fall", "jan", "dec"})
"""Words that mean a time only behind another word of time, or before a number."""
_BEFORE_TIME = """
in during since until till of by last this next early late mid every previous past im seit
letzten letztes diesen dieses"""
_OF_TIME = frozenset(_BEFORE_TIME.split())
_OTHER_WORDS = """
yesterday today tomorrow tonight ago last next week weeks weekend month months year years night morning recently soon
monday tuesday wednesday thursday friday saturday sunday day days early late this past previous
gestern vorgestern heute morgen letzte letzten letzter letztes nächste nächsten woche wochen monat monaten monate
jahr jahre jahren tag tagen uhr vor diese diesen dieses
montag dienstag mittwoch donnerstag freitag samstag sonntag"""
_TOLD = frozenset(_OTHER_WORDS.split()) - {"this", "past", "previous", "day", "days", "early", "late", "vor", "diese"}
_TOLD = _TOLD | (_MONTH.keys() - _DOUBTFUL)
"""Words by which a message tells a time."""
_UNSPACED_TOLD = re.compile("[昨今明前]天|[上下本这]个?[周月]|[去今明]年|周[一二三四五六日末]|[月号点]|早上|晚上")

_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple": 2, "few": 3}
_NUMBERS |= {"einem": 1, "einer": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "paar": 3}
_NUMBERS |= {"一": 1, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6}
_NUMBER = "|".join([r"\d{1,3}", *_NUMBERS])
_AGO_PATTERN = (
    rf"\b(?:a )?(?P<n>{_NUMBER}) (?:of )?(?P<unit>day|week|month|year)s? ago\b"
    rf"|\bvor (?P<n2>{_NUMBER}) (?P<unit2>tag|woche|monat|jahr)e?n?\b"
    rf"|(?P<n3>{_NUMBER})个?(?P<unit3>天|周|星期|月|年)[以之]?前"
)
_AGO = late(_AGO_PATTERN, re.IGNORECASE)
_DAYS = {"day": 1, "tag": 1, "天": 1, "week": 7, "woche": 7, "周": 7, "星期": 7, "month": 30, "monat": 30, "月": 30}
_UNSPACED_MONTHS = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"]
_UNSPACED_MONTH = re.compile(r"(1[0-2]|[1-9]|十[一二]?|[一二三四五六七八九])\s*月(?![饼前])(?<!个月)")
_UNSPACED_SEASON = re.compile(r"([春夏秋冬])[天季]")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")

_Span = tuple[datetime, datetime]
_SPANS: tuple[tuple[Callable[[], re.Pattern[str]], Callable[[datetime], _Span]], ...] = tuple(
    (late(pattern, re.IGNORECASE), span)
    for pattern, span in (
        (r"\bthe day before yesterday\b|\bvorgestern\b|前天", lambda today: _days(today, 2, 1)),
        (r"\btoday\b|\bheute\b|今天", lambda today: _days(today, 0, 1)),
        (r"\byesterday\b|\bgestern\b|昨天", lambda today: _days(today, 1, 1)),
        (r"\blast week\b|\b(?:letzte|vorige)[nr]? woche\b|上个?(?:周|星期)(?!末)", lambda today: _week(today, 1)),
        (r"\bthis week\b|\bdieser? woche\b|[本这]个?(?:周|星期)(?!末)", lambda today: _week(today, 0)),
        (r"\blast month\b|\b(?:letzten|vorigen) monat\b|上个?月", lambda today: _month(today, 1)),
        (r"\bthis month\b|\bdiesen monat\b|[本这]个?月", lambda today: _month(today, 0)),
        (r"\b(?:past|last few) (?:week|days)\b|\bletzten tage\b|[这最]几天|最近", lambda today: _days(today, 7, 8)),
    )
)
_LAST_YEAR = re.compile(r"\blast year\b|\b(?:letztes|voriges) jahr\b|去年", re.IGNORECASE)
_THIS_YEAR = re.compile(r"\bthis year\b|\bdieses jahr\b|今年", re.IGNORECASE)
_ONLY = frozenset(_OTHER_WORDS.split()) | _MONTH.keys() | _SEASON.keys() | _NUMBERS.keys()
_DAY_OR_YEAR = re.compile(r"\d\d?|(?:19|20)\d\d")
_UNSPACED_ONLY = late(
    rf"{_AGO_PATTERN}|{_UNSPACED_MONTH.pattern}|{_UNSPACED_SEASON.pattern}|{_UNSPACED_TOLD.pattern}"
    r"|(?:19|20)\d\d年|星期|最近|几天",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Times:
    """Moments that are meant: those in one of the months, the years and the span, as far as each is named."""

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    span: _Span | None = None

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.span)

    @property
    def _is_winter(self) -> bool:
        """A winter is of two years: that of 2025 may end in 2026."""
        return self.months >= {12, 1, 2}

    def have(self, at: datetime) -> bool:
        """Whether that moment, in the person's time zone, is meant."""
        return (
            (not self.months or at.month in self.months)
            and (
                not self.years or at.year in self.years or (self._is_winter and at.year - (at.month < 3) in self.years)
            )
            and (self.span is None or self.span[0] <= at < self.span[1])
        )


def times_in(text: str, now: datetime) -> Times:
    """The months, seasons, years and days that are named. `now` is in the person's time zone."""
    words = spoken(text)
    months: set[int] = set()
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word in _DOUBTFUL and before not in _OF_TIME and not after.isdecimal():
            continue
        if word in _MONTH:
            months.add(_MONTH[word])
        elif word in _SEASON and word.isalpha() and len(word) > 1:
            months |= set(_SEASON[word])
    for found in _UNSPACED_MONTH.findall(text):
        months.add(int(found) if found.isdecimal() else _UNSPACED_MONTHS.index(found) + 1)
    for found in _UNSPACED_SEASON.findall(text):
        months |= set(_SEASON[found])
    years = set(map(int, _YEAR.findall(text)))
    years |= ({now.year - 1} if _LAST_YEAR.search(text) else set()) | ({now.year} if _THIS_YEAR.search(text) else set())
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return Times(frozenset(months), frozenset(years), _ago(text, today) or _named_span(text, today))


def tells_a_time(text: str) -> bool:
    """Whether there is a word of time in it."""
    words = re.findall(r"\w+", text.casefold())
    if not _TOLD.isdisjoint(words) or any(len(word) == 4 and word.isdecimal() for word in words):
        return True
    return not text.isascii() and _UNSPACED_TOLD.search(text) is not None


def is_of_time(word: str) -> bool:
    """Whether it is no more than a word of time."""
    return word in _ONLY or _DAY_OR_YEAR.fullmatch(word) is not None


def without_times(text: str) -> str:
    """A text in a script without spaces without the times in it; in other texts words can be told apart."""
    return text if text.isascii() else _UNSPACED_ONLY().sub(" ", text)


def _named_span(text: str, today: datetime) -> _Span | None:
    return next((span(today) for pattern, span in _SPANS if pattern().search(text)), None)


def _ago(text: str, today: datetime) -> _Span | None:
    """Around so long ago, as far as people count: a day to the day, other units half of one to both sides."""
    found = _AGO().search(text)
    if found is None:
        return None
    number = (found["n"] or found["n2"] or found["n3"]).casefold()
    unit = _DAYS.get((found["unit"] or found["unit2"] or found["unit3"]).casefold(), 365)
    days = unit * (_NUMBERS.get(number) or int(number))
    return _days(today, days + unit // 2, unit // 2 * 2 + 1)


def _days(today: datetime, ago: int, days: int) -> _Span:
    try:
        first = today - timedelta(days=ago)
    except OverflowError:
        first = today.replace(year=2)
    return first, first + timedelta(days=days)


def _week(today: datetime, ago: int) -> _Span:
    return _days(today, today.weekday() + 7 * ago, 7)


def _month(today: datetime, ago: int) -> _Span:
    first = today.replace(day=1)
    for _ in range(ago):
        first = (first - timedelta(days=1)).replace(day=1)
    return first, (first + timedelta(days=32)).replace(day=1)
