"""A search as a person types it: words, and options among them. Pure."""

import re
from calendar import monthrange
from datetime import datetime, timedelta

from nanomem.errors import Refused
from nanomem.recall.found import A_PAGE, MOST_NEAR, Sought

_OPTION = re.compile(r"(?:\A|(?<=\s))(?:--|—)([a-z]+)(?:[\s=]+(\"[^\"]*\"|\S+))?", re.IGNORECASE)
HOW = "Say what to look for: some words of it. There is --who NAME, --since DATE, --until DATE, --page N, --near N."
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_LAST_PAGE = 100


def typed(text: str, now: datetime) -> Sought:
    """The search that a person means. Raises Refused, with a word on what to type."""
    given = {name.lower(): value.strip('"') for name, value in _OPTION.findall(text)}
    words = " ".join(_OPTION.sub(" ", text).split())
    if unknown := given.keys() - {"who", "since", "until", "page", "near"}:
        raise Refused(f"There is no --{min(unknown)}. {HOW}")
    if missing := [name for name, value in given.items() if not value]:
        raise Refused(f"Something is missing behind --{missing[0]}. {HOW}")
    if not words and not given.keys() - {"page", "near"}:
        raise Refused(HOW)
    first, last = since(given.get("since", ""), now), until(given.get("until", ""), now)
    if first and last and first >= last:
        raise Refused("--since is a later date than --until.")
    page = _number("page", given.get("page", "1"), 1, _LAST_PAGE)
    return Sought(
        words,
        now,
        who=given.get("who", ""),
        since=first,
        until=last,
        skip=(page - 1) * A_PAGE,
        again=False,
        near=_number("near", given.get("near", "0"), 0, MOST_NEAR),
    )


def since(text: str, now: datetime) -> datetime | None:
    """The beginning of a day, month or year, `2026-03-05`, `2026-03` or `2026`. Raises Refused."""
    return _span(text, now)[0] if text else None


def until(text: str, now: datetime) -> datetime | None:
    """The end of a day, month or year. Raises Refused."""
    return _span(text, now)[1] if text else None


def _span(text: str, now: datetime) -> tuple[datetime, datetime]:
    found = _DATE.fullmatch(text.strip())
    try:
        if not found:
            raise ValueError
        year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
        first = now.replace(year=year, month=month, day=day, hour=0, minute=0, second=0, microsecond=0)
        last = first if found[3] else first.replace(month=month if found[2] else 12)
        if not found[3]:
            last = last.replace(day=monthrange(year, last.month)[1])
        return first, last + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Refused(f"A date is needed, like 2026-03-05, 2026-03 or 2026, not {text[:50]!r}.") from None


def _number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and least <= int(text[:9]) <= most):
        raise Refused(f"--{name} takes a number from {least} to {most}, not {text[:50]!r}.")
    return int(text)
