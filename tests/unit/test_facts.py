"""What counts as a fact."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.facts import facts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- likes tea\n* has a cat\n+ lives in Bern", ["- likes tea", "* has a cat", "+ lives in Bern"]),
        ("1. first\n2) second", ["1. first", "2) second"]),
        ("- Family\n  - sister: Eva\n    - born 1990", ["- Family", "- sister: Eva", "- born 1990"]),
        ("Name: Ann\nTime zone: Europe/Zurich", ["Name: Ann", "Time zone: Europe/Zurich"]),
        ("| who | what |\n|---|:--:|\n| Ann | tea |", ["| Ann | tea |"]),
        ("Ann is a nurse\nand works at night.\n\nShe sings.", ["Ann is a nurse and works at night.", "She sings."]),
        ("A paragraph\n- and an item", ["A paragraph", "- and an item"]),
        ("# Heading\n\n## Another\n---\n***\n", []),
        ("<!-- a comment\nover lines -->\n- a fact", ["- a fact"]),
        ("- before\n<!-- never closed\n- hidden", ["- before"]),
        ("- Name: (to be filled)\n(To be filled)\n", []),
        ("# Heading\nText right below.", ["Text right below."]),
        ("", []),
        ("   \n\t\n", []),
        ("- 喜欢茶\n- любит чай", ["- 喜欢茶", "- любит чай"]),
        ("- one\r\n- two\r\n", ["- one", "- two"]),
        ("#hashtag is a word", ["#hashtag is a word"]),
    ],
)
def test_what_a_person_would_call_one(text: str, found: list[str]) -> None:
    """List items, values, table rows, paragraphs; no headings, rules, comments or placeholders."""
    assert facts(text) == found


lines = st.lists(st.sampled_from(["- a", "# b", "c: d", "|x|", "|---|", "", "word", "<!--", "-->", "---", "  * e"]))


@given(st.text() | lines.map("\n".join))
def test_any_text_has_its_facts(text: str) -> None:
    """Never an error; a fact is on one line, has no space around it, and is found again in what was found."""
    found = facts(text)
    for fact in found:
        assert fact and fact == fact.strip() and len(fact.splitlines()) == 1


@pytest.mark.parametrize(
    "line", [" " * 100_000 + "x", "|" + " " * 100_000 + "x", "-|" * 50_000 + "x", "- " * 50_000 + "x"]
)
def test_a_line_made_to_be_slow_is_not(line: str) -> None:
    """A file of one long line is looked at in a moment."""
    began = time.monotonic()
    facts(line)
    assert time.monotonic() - began < 2
