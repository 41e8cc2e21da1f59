"""A search as a person types it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import Refused
from nanomem.recall.found import A_PAGE
from nanomem.recall.typed import HOW, since, typed, until
from tests.unit.test_recall_words import HUGE, anything

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
pieces = anything | st.sampled_from(
    ["--who", "--page", "--near=", "--since", "2026", "—until", "-- ", '"', "9" * 5_000]
)


@given(st.lists(pieces, max_size=6).map(" ".join))
def test_anything_may_be_typed(text: str) -> None:
    """It is a search, or it is said what to type."""
    try:
        sought = typed(text, NOW)
    except Refused as error:
        assert error.text
    else:
        assert 0 <= sought.skip <= 99 * A_PAGE and 0 <= sought.near <= 4


@pytest.mark.parametrize("text", HUGE, ids=lambda text: repr(text[:5]))
def test_a_huge_text_is_typed(text: str) -> None:
    """It takes no time."""
    assert typed(text, NOW).text


def test_options_stand_anywhere() -> None:
    """With a space or an equals sign, in quotes, and as telephones change two hyphens."""
    sought = typed('dog --who "Ann Lee" —PAGE 2 --since=2026-03 food --until 2026 --near 1', NOW)
    assert (sought.text, sought.who, sought.skip, sought.near) == ("dog food", "Ann Lee", A_PAGE, 1)
    assert (sought.since, sought.until) == (datetime(2026, 3, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def test_words_may_have_hyphens() -> None:
    """Only two at the beginning of a word are an option."""
    for text in ("well-known", "a - b", "a -- b", "a—b", "-x", "x--who"):
        assert typed(text, NOW).text == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", HOW),
        ("  ", HOW),
        ("--page 2", HOW),
        ("dog --wo Ann", "There is no --wo. "),
        ("dog --who", "Something is missing behind --who. "),
        ('dog --who ""', "Something is missing behind --who. "),
        ("dog --page 0", "--page takes a number from 1 to 100, not '0'."),
        ("dog --page ²", "--page takes a number"),
        ("dog --page 1234567890123", "--page takes a number"),
        ("dog --near 5", "--near takes a number from 0 to 4"),
        ("dog --since yesterday", "A date is needed, like 2026-03-05, 2026-03 or 2026, not 'yesterday'."),
        ("dog --until 2026-02-30", "A date is needed"),
        ("dog --until 9999", "A date is needed"),
        ("dog --since 0000", "A date is needed"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    """With what to type instead."""
    with pytest.raises(Refused) as raised:
        typed(text, NOW)
    assert raised.value.text.startswith(says)


def test_a_person_or_a_time_alone_is_a_search() -> None:
    """Everything that Ann said."""
    assert typed("--who Ann", NOW).who == "Ann" and typed("--since 2026", NOW).since


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-03-05", (2026, 3, 5), (2026, 3, 6)),
        ("2026-3-5", (2026, 3, 5), (2026, 3, 6)),
        (" 2024-02 ", (2024, 2, 1), (2024, 3, 1)),
        ("2026-12", (2026, 12, 1), (2027, 1, 1)),
        ("2025", (2025, 1, 1), (2026, 1, 1)),
    ],
)
def test_a_span_is_from_its_first_moment_to_its_last(
    text: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    """In the person's time zone, also where the clocks change in it."""
    zone = ZoneInfo("Europe/Berlin")
    now = NOW.astimezone(zone)
    assert since(text, now) == datetime(*first, tzinfo=zone) and until(text, now) == datetime(*last, tzinfo=zone)
    assert since("", now) is until("", now) is None
