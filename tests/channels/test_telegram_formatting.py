"""Answers as Telegram shows them: cut to its limit, formatted where that loses nothing."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanomem.channels.telegram.formatting import LIMIT, formatted, parts, sendable


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def words(text: str) -> str:
    return "".join(text.split())


WORDS = st.text(st.characters(exclude_characters="`~", exclude_categories=["Cs", "Cc"]), max_size=40)
BLOCKS = ["```python", "```", "~~~", "# ", "- ", "1. ", "> ", "| a | b |", "|---|---|", "    x", "\r\n", "</div>"]
INLINE = ["**", "_", "`", "||", "<b>", "[x](http://y.z)", "[1]: http://y.z", "$x^2$", "\\"]
LETTERS = ["😀" * 50, "e\u0301" * 40, "\u200b", "a" * 3000]
MARKUP = st.sampled_from(BLOCKS + INLINE + LETTERS)
ANSWERS = st.lists(st.tuples(st.one_of(WORDS, MARKUP), st.sampled_from(["\n", " ", "\n\n", ""])), max_size=60).map(
    lambda pairs: "".join(one + gap for one, gap in pairs)
)


def long(answer: str) -> str:
    return answer * (LIMIT // max(len(answer), 1) + 1) if answer else answer


@given(st.one_of(ANSWERS, ANSWERS.map(long), st.text()))
@example("\ud83d and \x00")
@example("```\n" + "x" * 5000)
@example("`" * 5000)
@example("~~~" * 2000)
@example("| a | b |\n|---|---|\n" + "| x | " + "y" * 3000 + " |\n" + "| x | y |\n" * 60)
def test_every_part_can_be_sent(answer: str) -> None:
    """Whatever the answer is, each part fits with its formatting and without, and shows something."""
    found = parts(answer)
    assert found and found == parts(answer)
    for part in found:
        shown, entities = formatted(part)
        assert 0 < units(part) <= LIMIT
        assert 0 < units(shown) <= LIMIT and shown.strip()
        assert all(0 <= one["offset"] < one["offset"] + one["length"] <= units(shown) for one in entities)
        assert part == sendable(part)


@given(st.one_of(ANSWERS, ANSWERS.map(long)))
def test_parts_are_whole_already(answer: str) -> None:
    """Cutting a part again changes nothing."""
    assert all(parts(part) == [part] for part in parts(answer))


@given(st.lists(WORDS, max_size=400).map(" ".join), st.sampled_from([1, 30]))
def test_no_word_is_lost(answer: str, times: int) -> None:
    """Joined, the parts are the answer but for the white space at the cuts."""
    joined = words("".join(parts(answer * times)))
    assert joined == words(sendable(answer * times))


@given(ANSWERS.map(long))
def test_with_code_no_line_of_it_is_lost(answer: str) -> None:
    """Code fences may be closed and opened again at a cut; every letter is still there, in order."""
    joined = iter(words("".join(parts(answer))))
    assert all(char in joined for char in words(sendable(answer)) if char.isalnum())


@given(ANSWERS)
def test_formatting_hides_no_letter(answer: str) -> None:
    """A letter of the answer is shown, or is a link's address, a language, or a formula's command."""
    shown, entities = formatted(parts(answer)[0])
    kept = shown + "".join(str(one.get("url", "")) + str(one.get("language", "")) for one in entities)
    for char in set(re.sub(r"\\[A-Za-z]+", "", parts(answer)[0])):
        assert not (char.isascii() and char.isalpha()) or char in kept or "$" in answer


@pytest.mark.parametrize("nothing", ["", " ", "\n \n", "\u200b", "\u2060 \u200d", "\r\n"])
def test_an_empty_answer_says_so(nothing: str) -> None:
    """Telegram takes no empty message."""
    assert parts(nothing) == ["(empty answer)"]
    assert formatted(nothing) == ("(empty answer)", [])


def test_what_cannot_be_sent_is_replaced() -> None:
    """Lone surrogates and control characters would make the request fail for ever."""
    assert parts("a\ud83db\x00c\x1b[0m") == ["a\ufffdb\ufffdc\ufffd[0m"]


def test_4096_units_are_one_message_and_one_more_are_two() -> None:
    """Emoji are two units each."""
    assert [units(part) for part in parts("x" * 4096)] == [4096]
    assert [units(part) for part in parts("x" * 4097)] == [4096, 1]
    assert [units(part) for part in parts("😀" * 4096)] == [4096, 4096]


def test_cuts_are_at_paragraphs_then_lines_then_words() -> None:
    """The best border in reach is taken."""
    paragraph = "word " * 300
    assert parts(f"{paragraph}\n\n{paragraph}\n\n{paragraph}") == [
        f"{paragraph}\n\n{paragraph}".strip(),
        paragraph.strip(),
    ]
    lines = "\n".join(f"{number} " + "line " * 10 for number in range(200))
    assert all(re.match(r"\d", part) for part in parts(lines))
    assert all(part.endswith("word") for part in parts("word " * 3000))


def test_a_code_block_that_fits_is_kept_whole() -> None:
    """The cut is before it, even where that leaves a short part."""
    code = "```python\n" + "x = 1\n" * 500 + "```"
    assert parts("Look:\n" * 200 + "\n" + code + "\nDone.")[1] == code + "\nDone."
    assert parts("Look:\n\n" + "```python\n" + "x = 1\n" * 680 + "```") == [
        "Look:",
        "```python\n" + "x = 1\n" * 680 + "```",
    ]


def test_a_code_block_that_must_be_cut_is_closed_and_opened_again() -> None:
    """Each part is a code block of the same language."""
    found = parts("Look:\n```python\n" + "print('some line')\n" * 600 + "```\nDone.")
    assert found[0].startswith("Look:\n") and found[-1].endswith("```\nDone.")
    assert all("```python\nprint" in part for part in found)
    assert all(part.endswith("')\n```") for part in found[:-1])
    assert sum(part.count("print('some line')") for part in found) == 600
    assert all(formatted(part)[1][0]["type"] == "pre" for part in found)


def test_a_line_longer_than_a_message_stays_code() -> None:
    """No part is an empty code block."""
    found = parts("```json\n" + "x" * 9000 + "\n```")
    assert all(part.startswith("```json\nx") and part.endswith("x\n```") for part in found)
    assert "".join(found).count("x") == 9000


def test_markdown_becomes_entities() -> None:
    """With offsets in UTF-16 units."""
    assert formatted("😀 **bold** and [a link](https://example.org)") == (
        "😀 bold and a link",
        [
            {"type": "bold", "offset": 3, "length": 4},
            {"type": "text_link", "offset": 12, "length": 6, "url": "https://example.org"},
        ],
    )


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("1. tea\n1. milk\n1. **sugar**", "1. tea\n2. milk\n3. sugar"),
        ("# Title\n\n- **a**\n  - b\n- [ ] c\n- [x] d", "Title\n\n• a\n  • b\n☐ c\n☑ d"),
        ("un**believ**able &amp; $x^2$", "unbelievable & x^2"),
        ("| a | b |\n|---|---|\n| **1** | `2` |", "a | b\n--+--\n1 | 2"),
    ],
)
def test_common_markdown_is_formatted(answer: str, shown: str) -> None:
    """What is merely written in another way is not taken for lost."""
    text, entities = formatted(answer)
    assert text.strip() == shown and entities


@pytest.mark.parametrize(
    "odd", ["**open", "a * b * c", "`", "```", "[x](", "_", "1 < 2 > 0", "||", "~~", "> ", "#", "-"]
)
def test_unbalanced_markdown_is_shown_somehow(odd: str) -> None:
    """Nothing of it is refused or lost."""
    shown, _ = formatted(odd)
    assert shown.strip()


def test_html_is_shown_not_swallowed() -> None:
    """The converter alone would drop it."""
    assert formatted("use <b>bold</b> and **this**") == ("use <b>bold</b> and **this**", [])
    assert formatted("<div>\nhello\n</div>")[0] == "<div>\nhello\n</div>"
    assert formatted("`<b>`") == ("<b>", [{"type": "code", "offset": 0, "length": 3}])


def test_what_formatting_would_lose_is_shown_as_it_is() -> None:
    """A definition that nothing refers to; a link inside a table."""
    assert formatted("See below.\n\n[1]: https://example.org") == ("See below.\n\n[1]: https://example.org", [])
    table = "| a |\n|---|\n| [x](https://example.org) |"
    assert formatted(table) == (table, [])


def test_a_single_sign_is_shown_as_it_is() -> None:
    """Nothing is loaded to format a placeholder, and a dash does not become a list."""
    for sign in ("…", "-", "#", "*"):
        assert formatted(sign) == (sign, [])
