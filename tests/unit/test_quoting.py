"""Which facts are meant by some words, and in which messages a fact was heard."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.facts import MemoryFiles
from nanomem.memory.quoting import LONGEST, excerpt, matching, quotes, terms
from nanomem.messages import Sender
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
FILES = MemoryFiles(
    "- Be kind\n", "Name: Ann\n", "# Memory\n\n- Likes green tea\n- Green cup\n- 喜欢绿茶\n- Café in Graz\n"
)


def said(*texts: str) -> list[Said]:
    """Messages a minute apart: `Ann: text`, `Assistant: text`, `Tool name: text`."""
    found: list[Said] = []
    for n, given_text in enumerate(texts, 1):
        who, _, text = given_text.partition(": ")
        at = NOW + timedelta(minutes=n)
        if who == "Assistant":
            found.append(AssistantMessage(n=n, turn="t", timestamp=at, content=text, tokens=1))
        elif who.startswith("Tool "):
            name = who.removeprefix("Tool ")
            found.append(ToolMessage(n=n, turn="t", timestamp=at, content=text, tokens=1, tool_call_id="c", name=name))
        else:
            found.append(UserMessage(n=n, turn="t", timestamp=at, content=text, tokens=1, sender=Sender("1", who)))
    return found


def heard(fact: str, *texts: str) -> list[str]:
    return [f"{quote.who}: {quote.text}" for quote in quotes(fact, said(*texts))]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tea", ["- Likes green tea"]),
        ("TEA  Green", ["- Likes green tea"]),
        ("green", ["- Likes green tea", "- Green cup"]),
        ("green tea pot", ["- Likes green tea"]),
        ("red cup", ["- Green cup"]),
        ("绿茶", ["- 喜欢绿茶"]),
        ("cafe\u0301", ["- Café in Graz"]),
        ("ann", ["Name: Ann"]),
        ("coffee", []),
        ("", []),
        ("memory", []),
    ],
)
def test_the_facts_that_are_meant(words: str, found: list[str]) -> None:
    """All words in any order and case, also parts of words; else those with most of them. Headings are none."""
    assert [fact for _, fact in matching(FILES, words)] == found


def test_the_file_of_a_fact() -> None:
    """Is told with it."""
    assert matching(FILES, "kind") == [("SOUL.md", "- Be kind")]


def test_the_message_with_most_of_the_words_is_the_source() -> None:
    """With those that come near; others are not shown."""
    assert heard("Likes green tea", "Ann: hello", "Ann: I only drink green tea these days", "Assistant: Noted!") == [
        "Ann: I only drink green tea these days"
    ]
    assert heard("Likes green tea", *(f"Ann: green tea {n}" for n in range(9))) == [
        f"Ann: green tea {n}" for n in range(3)
    ]


def test_people_come_before_the_assistant_and_tools() -> None:
    """Where they said as much of it; who only said yes is not the source."""
    assert heard("Likes green tea", "Assistant: So you like green tea?", "Ann: Yes, green tea") == [
        "Ann: Yes, green tea",
        "Assistant: So you like green tea?",
    ]
    assert heard("Likes green tea", "Assistant: Do you like green tea?", "Ann: Yes") == [
        "Assistant: Do you like green tea?"
    ]
    assert heard("Opens at 9", "Ann: When do they open?", "Tool web_fetch: opens at 9 daily") == [
        "Tool web_fetch: opens at 9 daily"
    ]


def test_other_languages() -> None:
    """Words that are not set apart are compared in pairs; of one message alone it needs no likeness."""
    assert heard("喜欢喝绿茶", "Ann: 你好", "Ann: 我每天喝绿茶") == ["Ann: 我每天喝绿茶"]
    assert heard("Likes green tea", "Ann: 我喜欢绿茶", "Assistant: 好") == ["Ann: 我喜欢绿茶"]
    assert heard("Likes green tea", "Ann: 我喜欢绿茶", "Ann: 好") == []
    assert heard("Likes green tea") == []


@given(st.text(max_size=2_000), st.text(max_size=20), st.integers(0, 900))
def test_a_quote_is_short_and_shows_the_word(text: str, word: str, before: int) -> None:
    """On one line, however long the message is."""
    shown = excerpt("x " * before + word + " " + text, terms(word))
    assert len(shown) <= LONGEST and "\n" not in shown
    if word.isascii() and word.isalnum():
        assert word in shown
