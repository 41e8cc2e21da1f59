"""How a text becomes words that the index finds again."""

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanomem.recall.words import APART, STOP, indexed, plain, spoken, terms

ODD = ["", "\ud800", "\0", '"', "NEAR(", "a AND b*", "^x", "的了吗", "the of and", "🦴🫠", "مرحبا", "สวัสดี", "おはよう"]
HUGE = "x" * 100_000, "word " * 20_000, "字" * 100_000, '"' * 100_000, "\u0301" * 100_000
anything = st.text(st.characters(), max_size=60) | st.sampled_from(ODD)


@given(anything)
@example("mu\u0308ller🦴字\x1f\0")
def test_an_indexed_text_is_given_back(text: str) -> None:
    """But for what no text has: NUL, the sign that stands between words, halves of pairs."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", " ").replace(APART, " ")
    assert plain(indexed(text)) == clean
    assert indexed(plain(indexed(text))) == indexed(text)


@given(anything)
def test_any_text_has_terms_that_the_index_takes(text: str) -> None:
    """None twice, and none that could leave its quotes; if there is a word at all, something is looked for."""
    found = terms(text)
    assert len(found) == len(set(found))
    assert all(word and '"' not in word and "\0" not in word for word in found)
    assert bool(found) == bool(spoken(text.encode("utf-8", "replace").decode()))


@pytest.mark.parametrize("text", HUGE, ids=lambda text: repr(text[:5]))
def test_a_huge_text_is_no_trouble(text: str) -> None:
    """All three are done in one pass."""
    assert plain(indexed(text)) == text
    assert len(terms(text)) <= 2
    spoken(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("What is my dog called?", ["dog", "called"]),
        ("Wie heißt mein Hund?", ["heißt", "hund"]),
        ("Was ist in der Straße?", ["straße"]),
        ("what was it", ["what", "was", "it"]),
        ("我的狗叫什么", ["狗"]),
        ("小狗", ["小", "狗", f"小{APART}狗"]),
        ("我的", ["我", "的", f"我{APART}的"]),
        ("It's 5 o'clock", ["clock"]),
        ("U+1F600 😀 _x_", ["1f600"]),
        ("Room 12 and room 12", ["room", "12"]),
        ("mu\u0308ller", ["mu\u0308ller"]),
        ("?!", []),
    ],
)
def test_what_is_looked_for(text: str, wanted: list[str]) -> None:
    """Words without those a question is put with, unless there are no others; signs alone and in pairs."""
    assert terms(text) == wanted


def test_names_are_not_looked_for() -> None:
    """Who is meant is weighed otherwise; a name alone is looked for. However it is written."""
    assert terms("What did Ann bake?", {"ann"}) == ["bake"]
    assert terms("Ann?", {"ann"}) == ["ann"]
    assert terms("Weiß Cafe\u0301 tea", set(spoken("weiss Café"))) == ["tea"]


def test_one_language_at_a_time_has_stop_words() -> None:
    """The German article is no English verb: "die" is looked for in an English question."""
    assert "die" in STOP[1] and terms("how did the plants die") == ["plants", "die"]
    assert terms("wo sind die Pflanzen") == ["pflanzen"]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Wir wohnen in der Hauptstraße", "Hauptstraße"),
        ("HAUPTSTRASSE", "hauptstrasse"),
        ("Frau Mu\u0308ller kommt", "müller"),
        ("Frau Müller kommt", "mu\u0308ller"),
        ("Rex🫠is here", "rex"),
        ("good\U0001fae0dog", "dog"),
        ("我的小狗叫Rex雷克斯", "rex"),
        ("我的小狗叫Rex雷克斯", "小狗"),
        ("ฉันชอบแมว", "แมว"),
        ("나는 고양이를 좋아해", "고양이"),
        ("私は猫が好きです", "猫"),
        ("אני אוהב כלבים", "כלבים"),
        ("أحب القطط", "القطط"),
        ("running late", "run"),
    ],
)
def test_what_was_said_is_found_by_its_words(said: str, asked: str) -> None:
    """In FTS5 as the index uses it, whatever the script, the case, and the way accents are put."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter unicode61 remove_diacritics 2')")
    db.execute("INSERT INTO words VALUES (?)", (indexed(said),))
    found = [db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (f'"{t}"',)).fetchone() for t in terms(asked)]
    db.close()
    assert found == [(1,)] * len(terms(asked))
