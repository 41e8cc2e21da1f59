"""Which skills a message calls for, and how they are shown."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.ports import Skill
from nanomem.skills import AT_ONCE, index, line, triggered, within_context
from nanomem.stores.skills import MOST_TRIGGERS


def skill(*triggers: str, name: str = "tea", always: bool = False) -> Skill:
    return Skill(name, f"about {name}", f"Do {name}.", triggers, always)


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("tea", "tea"),
        ("tea", "Some TEA, please"),
        ("Tea", "(tea)"),
        ("tea", "tea's cold"),
        ("green tea", "I like\n Green   tea!"),
        ("c++", "my c++ program"),
        ("/brew", "type /brew now"),
        ("straße", "Die STRASSE"),
        ("café", "cafe\u0301 noir"),
        ("чай", "Где ЧАЙ?"),
        ("茶", "我喜欢喝绿茶。"),
        ("绿茶", "我喜欢喝绿茶。"),
        ("tea", "我喜欢tea吗"),
        ("お茶", "お茶をください"),
        ("차", "차를 주세요"),
        ("ชา", "ฉันชอบชาเขียว"),
        ("चाय", "मुझे चाय दो"),
        ("tea", "steam, teapot, then tea"),
    ],
)
def test_a_trigger_calls(trigger: str, message: str) -> None:
    """In any case and script, as a whole word or phrase; as a part only where words have no borders."""
    assert triggered([skill(trigger)], [message]) == [skill(trigger)]


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("tea", ""),
        ("tea", "steam"),
        ("tea", "teapot"),
        ("tea", "tea2"),
        ("tea", "tea_time"),
        ("tea", "чtea"),
        ("green tea", "green and tea"),
        ("green tea", "evergreen tea"),
        ("чай", "чайник"),
        ("चाय", "चाये"),
        ("绿茶", "绿色的茶"),
        ("", "anything"),
        ("tea", "x" * 30_000 + " tea"),
    ],
)
def test_a_trigger_does_not_call(trigger: str, message: str) -> None:
    """Nor what stands in the depths of a pasted book."""
    assert triggered([skill(trigger)], [message]) == []


def test_one_trigger_in_one_message_is_enough() -> None:
    """And a skill without any is never called."""
    both = [skill("tea", "kettle", name="tea"), skill(name="walk")]
    assert triggered(both, ["hello", "where is the kettle?"]) == both[:1]
    assert triggered(both, ["tea", "tea"]) == both[:1] and triggered(both, []) == []


def test_at_most_three_and_none_that_is_there_anyway() -> None:
    """The first by the order they are given in."""
    many = [skill("tea", name="always", always=True), *(skill("tea", name=f"s{n}") for n in range(9))]
    assert triggered(many, ["tea"]) == many[1 : 1 + AT_ONCE]


words = st.text("abc ä茶チé\u0301_-.Iİß", max_size=12)


@given(words, words, words)
def test_a_word_between_spaces_always_calls(before: str, trigger: str, after: str) -> None:
    """Whatever it is made of, unless it begins with a mark that belongs to the sign before."""
    given_trigger = " ".join(trigger.split())
    called = triggered([skill(given_trigger)], [f"{before} {given_trigger} {after}"])
    assert bool(called) == bool(given_trigger) or given_trigger.startswith("\u0301")


def test_hostile_triggers_take_no_time() -> None:
    """As many as a skill can have, and a message made for them."""
    found_everywhere, found_nowhere = (["a" * n + end for n in range(1, MOST_TRIGGERS + 1)] for end in ("", "b"))
    many = [skill(*found_everywhere), *(skill(*found_nowhere, name=f"s{n}") for n in range(50))]
    started = time.monotonic()
    assert triggered(many, ["a" * 100_000]) == []
    assert time.monotonic() - started < 5


def test_a_line_in_a_list() -> None:
    """Not too long; none for what is always there."""
    assert line(skill()) == "tea: about tea"
    long = line(Skill("tea", "x" * 5_000, "body"))
    assert len(long) < 210 and long.endswith("x…")
    assert index([skill(), skill(name="x", always=True), skill(name="walk")]) == "tea: about tea\nwalk: about walk"
    assert index([skill(always=True)]) == ""


@pytest.mark.parametrize(
    "mark", ["<context>", "</context>", "</CONTEXT>", "< / context >", "</context\n>", "<context a='b'>"]
)
def test_nothing_looks_like_the_blocks_border(mark: str) -> None:
    """All else stays as it is."""
    assert within_context(f"a {mark} b") == f"a &lt;{mark[1:]} b"
    assert within_context("<contexts> 1 < 2 <b>context</b>") == "<contexts> 1 < 2 <b>context</b>"
