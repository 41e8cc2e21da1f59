"""What counts as a fact."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.facts import FACTS, blocks, facts


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
        ("| a | b |", ["| a | b |"]),
        (
            "```sh\n# no heading\n- no item <!-- no comment -->\n```\n- a",
            ["```sh # no heading - no item <!-- no comment --> ```", "- a"],
        ),
        ("```\n```", []),
        ("~~~\nnever closed\n- so all is code", ["~~~ never closed - so all is code"]),
        ("- an item\n  that goes on\nand a paragraph", ["- an item that goes on", "and a paragraph"]),
        ("- before <!-- a\nb --> after\n- c", ["- before  after", "- c"]),
        ("A paragraph\n(to be filled)", []),
        ("#hashtag is a word", ["#hashtag is a word"]),
        ("姓名：高远\n城市：长春", ["姓名：高远", "城市：长春"]),
        ("宠物：一只猫\n宠物：一只龟", ["宠物：一只猫", "宠物：一只龟"]),
        (
            "**Shoe size**: 41\n**Eyes:** grey\n**星座：**天秤\n职业 ：木匠",
            ["**Shoe size**: 41", "**Eyes:** grey", "**星座：**天秤", "职业 ：木匠"],
        ),
        ("From 10:30 to\n11：45 https://a.example/x\nand on", ["From 10:30 to 11：45 https://a.example/x and on"]),
        ("名字\n（to be filled）\n- 城市：(to be filled)", []),
        ("- one\n- ...\n…\n- two", ["- one", "- two"]),
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


def test_a_file_in_its_pieces() -> None:
    """Each with its heading and the list item it belongs to."""
    found = blocks("# A\n## B\n- one\n  - two\n\n### C ##\ntext\n## D\n| x |\n|---|\n| y |\n")
    assert [(block.kind, block.text, block.depth, block.under, block.parent) for block in found] == [
        ("heading", "A", 1, -1, -1),
        ("heading", "B", 2, 0, -1),
        ("item", "- one", 0, 1, -1),
        ("item", "- two", 2, 1, 2),
        ("blank", "", 0, 1, -1),
        ("heading", "C", 3, 1, -1),
        ("text", "text", 0, 5, -1),
        ("heading", "D", 2, 0, -1),
        ("table", "| x |", 0, 7, -1),
        ("table", "|---|", 0, 7, -1),
        ("row", "| y |", 0, 7, -1),
    ]


@given(
    st.text() | lines.map("\n".join) | st.lists(st.sampled_from(["```", "~~~", "a", "<!-- x", "-->"])).map("\n".join)
)
def test_the_pieces_are_the_whole_file(text: str) -> None:
    """Put together they are the text, to the byte; and a fact says something."""
    found = blocks(text)
    assert "".join(block.raw for block in found) == text
    assert all(block.text for block in found if block.kind in FACTS)
