"""The words of a request: marks, merging, the block of what changes, and how much of it is history."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.facts import MemoryFiles
from nanomem.messages import Image, PromptMessage, Sender
from nanomem.prompt import Marks, Prefix, Timestamps, ago, memory_changes, rendered
from nanomem.records import UserMessage
from nanomem.session import Said, repaired
from tests.unit.strategies import NOW, TURNS, assistant, damaged, result, user, whole

OFF = Marks("off", UTC)


def prefix(last_n: int = 0) -> Prefix:
    return Prefix("system", MemoryFiles(), 0, 1, last_n, NOW + timedelta(hours=1), 10)


def texts(shown: Sequence[PromptMessage]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in shown]


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=5, seconds=59), "5 minutes ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=23, minutes=59), "23 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=3, hours=12), "3 days ago"),
        (timedelta(days=7), "1 week ago"),
        (timedelta(days=29), "4 weeks ago"),
        (timedelta(days=31), "1 month ago"),
        (timedelta(days=364), "11 months ago"),
        (timedelta(days=366), "1 year ago"),
        (timedelta(days=800), "2 years ago"),
    ],
)
def test_an_age_in_words(age: timedelta, words: str) -> None:
    """In the largest whole unit; what a wrong clock puts into the future is just now."""
    assert ago(age) == words


@given(st.timedeltas(timedelta(days=-1000), timedelta(days=100_000)))
def test_any_age_has_words(age: timedelta) -> None:
    """With a number of at least one, in the singular where it is one."""
    words = ago(age)
    if words != "just now":
        number, unit, _ = words.split()
        assert int(number) >= 1 and (unit.endswith("s") == (number != "1"))


def test_neighbours_of_a_kind_are_one_message() -> None:
    """As strict chat templates want it."""
    said: list[Said] = [user(1, "a", "one"), user(2, "a", "two"), assistant(3, "a", "x"), assistant(4, "b", "y")]
    shown, history = rendered([*said, user(5, "c", "three")], {"c"}, prefix(), "now", OFF)
    assert texts(shown) == [("user", "one\n\ntwo"), ("assistant", "x\n\ny"), ("user", "three\n\nnow")]
    assert history == 2


def test_calls_and_results_are_never_merged() -> None:
    """Each result is a message; an answer behind them is another; calls keep their message."""
    said: list[Said] = [
        user(1),
        assistant(2, calls=["a", "b"]),
        result(3, "a"),
        result(4, "b"),
        assistant(5),
        assistant(6, calls=["c"]),
    ]
    shown, _ = rendered([*said, result(7, "c")], {"t1"}, prefix(), "now", OFF)
    assert [m.role for m in shown] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert [call.id for call in shown[4].tool_calls] == ["c"] and shown[4].text == "hi\n\nhi"
    assert [m.tool_call_id for m in shown if m.role == "tool"] == ["a", "b", "c"]


def test_the_block_stands_behind_the_newest_question() -> None:
    """Before the work on it, so that all before the question, and the work, stay as they are."""
    said: list[Said] = [
        user(1, "a"),
        assistant(2, "a"),
        user(3, "b"),
        assistant(4, "b", calls=["x"]),
        result(5, "x", "b"),
    ]
    shown, history = rendered(said, {"b"}, prefix(), "BLOCK", OFF)
    assert [("BLOCK" in m.text) for m in shown] == [False, False, True, False, False]
    assert shown[2].text == "hello\n\nBLOCK"
    assert history == 2


@pytest.mark.parametrize("count", [1, 2])
def test_the_first_turn_has_no_history(count: int) -> None:
    """Its question with the block will not come again in the next turn, however many rounds it takes."""
    questions: list[Said] = [user(n) for n in range(1, count + 1)]
    shown, history = rendered([*questions, assistant(3, calls=["x"]), result(4, "x")], {"t1"}, prefix(), "BLOCK", OFF)
    assert history == 0 and len(shown) == 3


def test_a_question_merged_with_one_before_is_no_history() -> None:
    """It carries the block, so it is not the same in the next request."""
    said: list[Said] = [user(1, "a"), assistant(2, "a"), user(3, "lost its answer"), user(4, "c")]
    shown, history = rendered(said, {"c"}, prefix(), "BLOCK", OFF)
    assert (len(shown), history) == (3, 2)


@given(st.one_of(damaged.map(repaired), whole()), st.sampled_from([*TURNS, "turn0", "turn1", "nobody's"]))
def test_history_is_what_comes_before_the_block_and_the_turn(messages: list[Said], turn: str) -> None:
    """Whatever the log holds: no history message has the block, nor anything of the turn in it."""
    shown, history = rendered(messages, {turn}, prefix(), "BLOCK", OFF)
    assert 0 <= history <= len(shown)
    assert not any("BLOCK" in message.text for message in shown[:history])
    assert sum("BLOCK" in message.text for message in shown) == any(isinstance(m, UserMessage) for m in messages)
    assert all(one.role != "user" or next.role != "user" for one, next in pairwise(shown))
    assert [m for m in shown if m.role == "tool"] == [
        m for m in rendered(messages, set(), prefix(), "", OFF)[0] if m.role == "tool"
    ]


@given(whole(), st.integers(1, 5))
def test_the_next_turn_extends_the_history(messages: list[Said], newest: int) -> None:
    """What was history comes again byte for byte, and the turn that was new joins it."""
    turns = list(dict.fromkeys(message.turn for message in messages))
    if len(turns) < 2:
        return
    newest = min(newest, len(turns) - 1)
    until = [m for m in messages if m.turn in turns[:newest]]
    before, count = rendered(until, {turns[newest - 1]}, prefix(), "BLOCK one", OFF)
    then = [m for m in messages if m.turn in turns[: newest + 1]]
    after, more = rendered(then, {turns[newest]}, prefix(), "BLOCK two", OFF)
    assert after[:count] == before[:count]
    assert more > count


@pytest.mark.parametrize(
    ("timestamps", "old", "new"),
    [
        ("relative", "[59 minutes ago] ", "[2026-04-10 11:17] "),
        ("absolute", "[2026-04-10 11:16] ", "[2026-04-10 11:17] "),
        ("off", "", ""),
    ],
)
def test_marks(timestamps: Timestamps, old: str, new: str) -> None:
    """Ages count from when the prefix was built, and only up to what there was then: they never change."""
    marks = Marks(timestamps, ZoneInfo("Europe/Zurich"))
    shown, _ = rendered([user(1, "a"), assistant(1, "a"), user(2, "b")], {"b"}, prefix(last_n=1), "now", marks)
    assert [m.text for m in shown] == [f"{old}hello", "hi", f"{new}hello\n\nnow"]


def test_what_a_message_came_with_is_said() -> None:
    """What it replies to, whose words it forwards, that it was edited, its files; in a group who speaks."""
    message = UserMessage(
        n=1, turn="t", timestamp=NOW, content="see", tokens=1, sender=Sender("1", "Ann"),
        reply_to="earlier", forwarded_from="Bob", edited=True, files=("files/a.png", "files/b.pdf"),
    )  # fmt: skip
    picture = Image("image/png", b"png")
    shown, _ = rendered([message], {"t"}, prefix(), "now", OFF, named=True, images={"files/a.png": picture})
    assert shown[0].text.splitlines() == [
        "[in reply to: earlier]",
        "[forwarded from Bob]",
        "[an earlier message, edited]",
        "[file sent along: files/a.png]",
        "[file sent along: files/b.pdf]",
        "Ann: see",
        "",
        "now",
    ]
    assert shown[0].images == (picture,)
    alone, _ = rendered([message], {"t"}, prefix(), "now", OFF)
    assert "Ann" not in alone[0].text and alone[0].images == ()


def test_changes_of_memory_are_told_line_by_line() -> None:
    """What is gone and what is new, with its file; nothing where nothing is; empty lines are no news."""
    before = MemoryFiles("kind", "Name: Ann", "- tea\n-- dashes\n- cat")
    after = MemoryFiles("kind", "Name: Anna", "- tea\n\n- cat\n++ pluses")
    assert memory_changes(before, after).splitlines() == [
        "USER.md - Name: Ann",
        "USER.md + Name: Anna",
        "MEMORY.md - -- dashes",
        "MEMORY.md + ++ pluses",
    ]
    assert memory_changes(before, before) == ""


@given(st.text("ab-+\n @", max_size=40), st.text("ab-+\n @", max_size=40))
def test_every_changed_line_is_told(old: str, new: str) -> None:
    """None is taken for the diff's own marks."""
    told = memory_changes(MemoryFiles(memory=old), MemoryFiles(memory=new)).splitlines()
    for line in {line.strip() for line in new.splitlines()} - {line.strip() for line in old.splitlines()} - {""}:
        assert f"MEMORY.md + {line}" in told
    for line in {line.strip() for line in old.splitlines()} - {line.strip() for line in new.splitlines()} - {""}:
        assert f"MEMORY.md - {line}" in told
