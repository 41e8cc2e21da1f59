"""What a question says of whom and of when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.recall.question import AGENT, MOST_TERMS, read
from nanomem.recall.times import tells_a_time, times_in
from tests.unit.test_recall_words import HUGE, anything

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
PEOPLE = {"1": ["Ann Lee"], "2": ["Bob"], "3": ["李雷"], AGENT: ["Assistant"]}


def meant(text: str, *askers: str) -> frozenset[str]:
    return read(text, NOW, PEOPLE, askers).persons


@given(anything, st.lists(anything, max_size=2))
def test_any_text_can_be_read(text: str, names: list[str]) -> None:
    """And anybody may be called anything."""
    question = read(text, NOW, {"1": names}, {"1"})
    assert len(question.terms) <= MOST_TERMS
    tells_a_time(text)


@pytest.mark.parametrize("text", HUGE, ids=lambda text: repr(text[:5]))
def test_a_huge_text_is_read_in_a_moment(text: str) -> None:
    """Of many different words only the first are looked for."""
    read(text, NOW, PEOPLE, {"1"})
    assert len(read(" ".join(f"w{n}" for n in range(10_000)), NOW, PEOPLE).terms) == MOST_TERMS


@pytest.mark.parametrize(
    ("text", "persons"),
    [
        ("What did Ann say?", {"1"}),
        ("what did ANN LEE say", {"1"}),
        ("What did Annabel say?", set()),
        ("Ann and Bob?", set()),
        ("李雷说什么", {"3"}),
        ("李先生", set()),
        ("Where do I live?", {"2"}),
        ("Wo wohne ich?", {"2"}),
        ("我住在哪里", {"2"}),
        ("What did you suggest?", {AGENT}),
        ("Was hast du gesagt?", {AGENT}),
        ("你说了什么", {AGENT}),
        ("Do you remember where I live?", {"2"}),
        ("Weißt du noch, wo ich wohne?", {"2"}),
        ("你还记得我的狗吗", {"2"}),
        ("Where is the key?", set()),
    ],
)
def test_whom_it_is_about(text: str, persons: set[str]) -> None:
    """Someone named, the one who asks, or the agent; a polite "do you remember" is nobody."""
    assert meant(text, "2") == persons


@pytest.mark.parametrize(
    ("text", "names", "persons", "terms"),
    [
        ("What will we do in the garden?", "Will Garden", {"1"}, ("garden",)),
        ("What did Will say on the garden?", "Will Garden", {"2"}, ("garden",)),
        ("Which user had the key?", "User", set(), ("user", "key")),
        ("The code of the door?", "The code of all doors", set(), ("code", "door")),
        ("What did Ann Lee say on the key?", "Ann Lee", {"2"}, ("key",)),
    ],
)
def test_a_name_may_be_a_common_word(text: str, names: str, persons: set[str], terms: tuple[str, ...]) -> None:
    """It is one where it is written as one, and takes no word from the question but itself."""
    found = read(text, NOW, {"1": ["Eve"], "2": [names]}, {"1"})
    assert (set(found.persons), found.terms) == (persons, terms)


def test_who_asks_may_be_unknown() -> None:
    """Then "I" may be anybody but the agent."""
    assert meant("Where do I live?") == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("in March", {3}),
        ("im März und Oktober", {3, 10}),
        ("三月", {3}),
        ("十一月和12月", {11, 12}),
        ("last spring", {3, 4, 5}),
        ("im Sommer", {6, 7, 8}),
        ("冬天", {12, 1, 2}),
        ("May 5", {5}),
        ("March 2025", {3}),
        ("may I march in?", set()),
        ("It may rain", set()),
        ("the spring is broken, I may fall", set()),
        ("月饼", set()),
        ("八月饼", set()),
    ],
)
def test_months_and_seasons(text: str, months: set[int]) -> None:
    """Words that are also others count only where they are a time."""
    assert times_in(text, NOW).months == months


@pytest.mark.parametrize(
    ("text", "years"),
    [("in 2024", {2024}), ("last year", {2025}), ("dieses Jahr", {2026}), ("去年", {2025}), ("tel 120245", set())],
)
def test_years(text: str, years: set[int]) -> None:
    """Named, or told from today."""
    assert times_in(text, NOW).years == years


@pytest.mark.parametrize("text", ["last week", "letzte Woche", "上周", "LAST WEEK"])
def test_last_week(text: str) -> None:
    """From Monday to Sunday."""
    times, monday = times_in(text, NOW), NOW - timedelta(days=NOW.weekday())
    assert not times.have(NOW) and not times.have(monday)
    assert times.have(monday - timedelta(days=1)) and times.have(monday - timedelta(days=7))
    assert not times.have(monday - timedelta(days=8))


@pytest.mark.parametrize(
    ("text", "days", "not_days"),
    [
        ("today", [0], [1]),
        ("gestern", [1], [0, 2]),
        ("前天", [2], [1, 3]),
        ("two weeks ago", [14, 11], [7, 21]),
        ("vor drei Tagen", [3], [2, 4]),
        ("两个月前", [60, 46], [20, 90]),
        ("a year ago", [365], [100]),
        ("in the past week", [0, 6], [8]),
    ],
)
def test_so_long_ago(text: str, days: list[int], not_days: list[int]) -> None:
    """A day to the day, longer times roughly."""
    times = times_in(text, NOW)
    assert all(times.have(NOW - timedelta(days=n)) for n in days)
    assert not any(times.have(NOW - timedelta(days=n)) for n in not_days)


@pytest.mark.parametrize(
    "text",
    [
        *("what did I say last month", "Was habe ich im Februar gesagt?", "was war gestern?", "10月", "in april"),
        *("昨天我说了什么?", "三月我说了什么?", "what did we talk about last week?", "what did Ann say two weeks ago"),
    ],
)
def test_nothing_but_a_time(text: str) -> None:
    """Then all of that time is meant."""
    question = read(text, NOW, {"1": ["Ann"]})
    assert question.is_about_times and question.times


@pytest.mark.parametrize(
    ("year", "month", "meant"), [(2025, 1, True), (2025, 12, True), (2026, 2, True), (2026, 12, False)]
)
def test_a_winter_is_of_two_years(year: int, month: int, meant: bool) -> None:
    """It begins in one and ends in the next."""
    assert times_in("What was it in winter 2025?", NOW).have(datetime(year, month, 10, tzinfo=UTC)) is meant


def test_yesterday_is_the_day_before_in_the_persons_zone() -> None:
    """From midnight to midnight; all that is named has to fit."""
    times = times_in("yesterday, in April", NOW)
    assert times.have(datetime(2026, 4, 9, 0, 0, tzinfo=UTC)) and times.have(datetime(2026, 4, 9, 23, 59, tzinfo=UTC))
    assert not times.have(datetime(2026, 4, 10, tzinfo=UTC))
    assert not times_in("yesterday, in March", NOW).have(datetime(2026, 4, 9, tzinfo=UTC))
    assert not times_in("hello", NOW)


@pytest.mark.parametrize(
    ("text", "only"),
    [("what did I say last week", True), ("im Mai 2024", True), ("on the 5th", False), ("dog 2024", False)],
)
def test_a_question_may_be_about_nothing_but_times(text: str, only: bool) -> None:
    """Then there are no words to look for."""
    assert read(text, NOW, {}).is_about_times == only


def test_a_number_is_no_time() -> None:
    """A code or a telephone number is looked for."""
    assert not read("What is 471112?", NOW, {}).is_about_times


@pytest.mark.parametrize("text", ["When was it?", "Seit wann?", "什么时候去", "and when", "What time is it"])
def test_a_time_may_be_asked_for(text: str) -> None:
    """Then messages with a word of time count more."""
    assert read(text, NOW, {}).when
    assert not read("Where was it?", NOW, {}).when


@pytest.mark.parametrize(
    ("text", "tells"),
    [("see you on Monday", True), ("in 2019", True), ("昨天下雨", True), ("I may come", False), ("a dog", False)],
)
def test_a_message_may_tell_a_time(text: str, tells: bool) -> None:
    """A day, a month, a year."""
    assert tells_a_time(text) == tells
