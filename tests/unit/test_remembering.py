"""How a fact that somebody asks to be kept gets into MEMORY.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import Refused
from nanomem.facts import MemoryFiles, facts
from nanomem.ports import Receipt
from nanomem.remembering import LONGEST, bare, normal, one_fact, remembered, told, with_fact

TEMPLATE = "# Memory\n\n## People\n\n(to be filled)\n\n## To keep in mind\n\n(to be filled)\n"


def added(memory: str, fact: str = "Likes tea") -> str:
    return with_fact(MemoryFiles(memory=memory), fact).memory


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "- Likes tea\n"),
        ("- one", "- one\n- Likes tea\n"),
        ("- one\n  and more of it\n\nAfter words.\n", "- one\n  and more of it\n- Likes tea\n\nAfter words.\n"),
        ("1. one\n\n- two\n\n## Empty\n", "1. one\n\n- two\n- Likes tea\n\n## Empty\n"),
        ("Only prose.\n", "Only prose.\n\n- Likes tea\n"),
        ("# Memory\n\n", "# Memory\n\n- Likes tea\n\n"),
        ("- one\n```\n- code\n\n```\n", "- one\n```\n- code\n\n```\n- Likes tea\n"),
        ("- one\n```\n- never closed\n", "- Likes tea\n- one\n```\n- never closed\n"),
        ("```\n- code\n```\n", "```\n- code\n```\n\n- Likes tea\n"),
        ("Words.\n\n```\n- never closed\n", "Words.\n\n- Likes tea\n\n```\n- never closed\n"),
        ("Words.\n\n<!-- never closed\n- x\n", "Words.\n\n- Likes tea\n\n<!-- never closed\n- x\n"),
        ("- one <!-- settle -->\n", "- one <!-- settle -->\n- Likes tea\n"),
        ("- one\n- two <!-- in\ntwo lines -->\n", "- one\n- two <!-- in\ntwo lines -->\n- Likes tea\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", "| a | b |\n|---|---|\n| 1 | 2 |\n\n- Likes tea\n"),
        (TEMPLATE, TEMPLATE.removesuffix("(to be filled)\n") + "- Likes tea\n"),
        (
            "## to keep in Mind ##\n\n- one\n\n## Next\n\n- x\n",
            "## to keep in Mind ##\n\n- one\n- Likes tea\n\n## Next\n\n- x\n",
        ),
        ("## To keep in mind\n## Next\n\n- x\n", "## To keep in mind\n\n- Likes tea\n\n## Next\n\n- x\n"),
        ("```\n## To keep in mind\n```\n\n- one\n", "```\n## To keep in mind\n```\n\n- one\n- Likes tea\n"),
        ("## To keep in mind\n\n(to be filled)\n\n# A\n\n- a\n", "## To keep in mind\n\n- Likes tea\n\n# A\n\n- a\n"),
        ("``` <!-- open\n- x\n<!-- c -->\n", "- Likes tea\n\n``` <!-- open\n- x\n<!-- c -->\n"),
        ("## To keep in mind\nWords\n(to be filled)\n", "## To keep in mind\nWords\n(to be filled)\n\n- Likes tea\n"),
    ],
)
def test_where_it_goes(before: str, after: str) -> None:
    """Under the heading of the template, in place of its placeholder, or behind the last list; in no code or table,
    and never so that something else becomes another fact."""
    assert added(before) == after


@pytest.mark.parametrize("known", ["- Likes  tea", "Likes tea <!-- sure? -->", "3. Likes tea", "* Likes tea"])
def test_what_is_known_is_not_written_again(known: str) -> None:
    """In whichever of the three files it stands, and however it is marked."""
    for files in (MemoryFiles(soul=known), MemoryFiles(user=known), MemoryFiles(memory=known)):
        assert with_fact(files, "Likes tea") is files
    assert with_fact(MemoryFiles(memory="- Likes tea and cake\n"), "Likes tea").memory.endswith("- Likes tea\n")


def test_one_fact_is_one_line() -> None:
    """Breaks become spaces, a list marker of its own is dropped, and it cannot hide what stands behind it."""
    assert one_fact(" - likes\n  green\ttea ") == "likes green tea"
    assert one_fact("tea <!-- and") == "tea <! -- and"
    for nothing in ("", " \n", "---", "***", "- ", "(to be filled)"):
        with pytest.raises(Refused):
            one_fact(nothing)
    with pytest.raises(Refused, match="too long"):
        one_fact("x" * (LONGEST + 1))


def test_the_wish_and_the_word_about_it() -> None:
    """A change by the agent, with where it comes from; known is what made no version."""
    change = remembered("Likes tea", {"Id": "remember a#1"})
    assert (change.kind, change.trailers["Id"], change.base) == ("agent", "remember a#1", None)
    assert change.propose(MemoryFiles()).memory == "- Likes tea\n"
    assert told(Receipt(None), "Likes tea") == "Already known: Likes tea"


lines = st.lists(
    st.sampled_from(
        [
            *(
                "",
                "- one",
                "  - in it",
                "2. two",
                "# Head",
                "## To keep in mind",
                "(to be filled)",
                "Name: Ann",
                "prose",
            ),
            *(
                "```",
                "~~~~",
                "| a | b |",
                "|---|---|",
                "<!-- c -->",
                "<!-- open",
                "closed -->",
                "- a <!-- b -->",
                "---",
            ),
        ]
    ),
    max_size=12,
).map("\n".join)


@given(lines | st.text(), st.text("ab -#<!>`|:()\n", max_size=20))
def test_nothing_else_changes(memory: str, text: str) -> None:
    """Whatever stands in the file: all facts are there as before, with one more; a second time nothing happens."""
    try:
        fact = one_fact(text)
    except Refused:
        return
    before, after = facts(memory), added(memory, fact)
    if normal(fact) in map(normal, before):
        assert after == memory
    else:
        assert sorted(map(normal, facts(after))) == sorted([*map(normal, before), normal(fact)])
        assert added(after, fact) == after


def test_a_fact_for_people_has_no_marks() -> None:
    """Those of lists and those for the next Dream."""
    assert bare("-  Likes\n tea <!-- settle -->") == "Likes tea"
    assert normal("* cafe\u0301") == normal("café")
