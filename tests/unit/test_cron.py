"""When something is due that a cron expression names: in a time zone, with its changes of clocks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.cron import next_after

BERLIN = ZoneInfo("Europe/Berlin")
EXPRESSIONS = ["0 4 * * *", "*/15 * * * *", "30 2 * * *", "0 0 1 * *", "0 12 * * MON-FRI"]


def due(expression: str, after: datetime, count: int = 1) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(count):
        following = next_after(expression, BERLIN, after)
        assert following is not None
        found.append(after := following)
    return found


def test_an_hour_is_that_of_the_zone() -> None:
    """Four in the morning in Berlin is three in winter, and two in summer."""
    assert due("0 4 * * *", datetime(2026, 1, 10, 12, tzinfo=UTC)) == [datetime(2026, 1, 11, 3, tzinfo=UTC)]
    assert due("0 4 * * *", datetime(2026, 4, 10, 12, tzinfo=UTC)) == [datetime(2026, 4, 11, 2, tzinfo=UTC)]


def test_the_moment_itself_is_not_after_it() -> None:
    """A run that was just made is not due again."""
    at = datetime(2026, 4, 11, 2, tzinfo=UTC)
    assert due("0 4 * * *", at) == [at + timedelta(days=1)]


@pytest.mark.parametrize("day", [datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 10, 23, 12, tzinfo=UTC)])
@pytest.mark.parametrize("hour", ["30 2 * * *", "0 4 * * *", "0 0 * * *"])
def test_a_change_of_clocks_makes_no_run_more_or_less(day: datetime, hour: str) -> None:
    """Also of a time of day that is not there, or there twice: each day of the zone has one."""
    found = [moment.astimezone(BERLIN).date() for moment in due(hour, day, 5)]
    assert all(later - earlier == timedelta(days=1) for earlier, later in pairwise(found))


@given(
    st.sampled_from(EXPRESSIONS),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
)
def test_the_next_one_is_later(expression: str, moment: datetime) -> None:
    """Always, and in UTC, and nothing is due in between."""
    [found] = due(expression, moment)
    assert found > moment and found.tzinfo is UTC
    assert due(expression, found - timedelta(seconds=1)) == [found]


def test_spaces_around_it_do_no_harm() -> None:
    """People paste."""
    at = datetime(2026, 4, 10, 12, tzinfo=UTC)
    assert due(" 0 4 * * *\n", at) == due("0 4 * * *", at)


@pytest.mark.parametrize(
    "expression", ["", "never", "0 4 * *", "61 4 * * *", "0 25 * * *", "* * * * * * *", "0 0 31 2 *"]
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    """With a word on what is wrong; so is a day that never comes."""
    with pytest.raises(ValueError, match=r"\w"):
        next_after(expression, BERLIN, datetime(2026, 4, 10, tzinfo=UTC))
