"""What a model says in the two calls of a Dream, and how much of its form is forgiven."""

import json
from typing import Any

import pytest
from hypothesis import given

from nanomem.errors import ShowModel
from nanomem.extraction import Extracted, SkillDraft, extracted, joined, update_of, updated
from nanomem.facts import NAMES
from nanomem.proposal import LONGEST
from nanomem.versions import Removal
from tests.unit.strategies import json_values

FILE = "memory/MEMORY.md"


def of(**given: Any) -> Extracted:
    return extracted(json.dumps(given))


def test_each_list_is_for_its_file() -> None:
    """Facts come without list markers and on one line; empty ones are none."""
    found = of(user_updates=["- Ann\nbinds books.", " "], memory_updates=["Has a cat."], soul_updates=["Be brief."])
    assert found.updates == {
        "SOUL.md": ("Be brief.",),
        "USER.md": ("Ann binds books.",),
        "memory/MEMORY.md": ("Has a cat.",),
    }


@pytest.mark.parametrize(
    "given",
    [
        ["Has a cat."],
        "Has a cat.",
        [{"fact": "Has a cat."}],
        [{"fact": "Has a cat."}, {"other": 1}, 7, None, ["x"]],
        '["Has a cat."]',
        ['["Has a cat."]'],
    ],
)
def test_a_fact_is_found_in_many_forms(given: Any) -> None:
    """As a text, a list of objects, JSON in a text; what is none of these is left out."""
    assert of(memory_updates=given).updates[FILE] == ("Has a cat.",)


def test_what_is_outdated_has_a_reason() -> None:
    """Each with the reason that was given, or with none."""
    found = of(outdated=[{"fact": "Lives in Rome", "reason": "moved"}, {"fact": "Likes tea"}, "prose"])
    assert found.outdated == (Removal("Lives in Rome", "moved"), Removal("Likes tea", ""))


def test_empty_lists_are_an_answer() -> None:
    """Most days teach little; one list that is named is enough."""
    assert of(user_updates=[]) == Extracted(dict.fromkeys(NAMES, ()))


@pytest.mark.parametrize("raw", ["", "null", "{}", "[]", "7", '"prose"', '{"processed_entries": ["1"]}', '{"user_upd'])
def test_what_names_nothing_is_no_answer(raw: str) -> None:
    """Prose, half a call, or only what is passed over."""
    with pytest.raises(ShowModel):
        extracted(raw)


def test_what_was_processed_is_passed_over() -> None:
    """The cursor follows what was sent, whatever the model says of it."""
    assert of(memory_updates=["Has a cat."], processed_entries=[9, {}]) == of(memory_updates=["Has a cat."])


def test_too_much_is_no_answer() -> None:
    """A model that repeats itself for ever does not fill the memory."""
    with pytest.raises(ShowModel, match="longer than"):
        of(memory_updates=["x" * (LONGEST + 1)])


def test_a_skill_without_text_is_none() -> None:
    """One with a text is there as it was given."""
    given = [{"name": "bake", "description": "bread", "text": "1. Knead."}, {"name": "empty"}]
    assert of(skill_drafts=given, outdated=[]).skills == (SkillDraft("bake", "bread", "1. Knead."),)


def test_the_same_said_in_two_batches_is_said_once() -> None:
    """Files and order are kept."""
    one = of(user_updates=["A", "B"], outdated=[{"fact": "Z", "reason": "gone"}])
    two = of(user_updates=["C", "A"], memory_updates=["B"], outdated=[{"fact": "Z", "reason": "gone"}])
    both = joined([one, two])
    assert both.updates == {"SOUL.md": (), "USER.md": ("A", "B", "C"), FILE: ("B",)}
    assert both.outdated == (Removal("Z", "gone"),)
    assert joined([]) == Extracted(dict.fromkeys(NAMES, ()))


@given(json_values)
def test_any_json_is_an_answer_or_is_not(value: Any) -> None:
    """Nothing a model sends is a bug; what is found are texts on one line."""
    for raw in (json.dumps(value), json.dumps({"memory_updates": value, "outdated": value, "skill_drafts": value})):
        try:
            found = extracted(raw)
        except ShowModel:
            continue
        facts = [fact for facts in found.updates.values() for fact in facts]
        assert all(fact and fact == " ".join(fact.split()) for fact in facts)


def test_a_file_comes_whole_with_what_was_left_out() -> None:
    """To the letter; the removals with their reasons."""
    raw = json.dumps({"path": FILE, "content": "# Facts\n\n- A\n", "removed": [{"fact": "B", "reason": "gone"}]})
    assert updated(FILE, raw) == ("# Facts\n\n- A\n", (Removal("B", "gone"),))


@pytest.mark.parametrize("path", [FILE, f"./{FILE}", f" {FILE} "])
def test_a_path_may_be_spelled_in_a_few_ways(path: str) -> None:
    """As models do."""
    assert updated(FILE, json.dumps({"path": path, "content": "- A"})) == ("- A", ())


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "USER.md", "../memory/MEMORY.md", "/memory/MEMORY.md", "", "config.toml"]
)
def test_only_the_file_that_was_asked_for_is_written(path: str) -> None:
    """Any other path is refused, whatever is behind it."""
    with pytest.raises(ShowModel, match="another file"):
        updated(FILE, json.dumps({"path": path, "content": "- A"}))


@pytest.mark.parametrize("raw", ["", "prose", json.dumps({"path": FILE}), json.dumps({"content": "- A"})])
def test_a_file_without_path_or_content_is_none(raw: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ShowModel):
        updated(FILE, raw)


def test_a_file_may_not_be_endless() -> None:
    """It would never be read again."""
    with pytest.raises(ShowModel, match="longer than"):
        updated(FILE, json.dumps({"path": FILE, "content": "x" * (LONGEST + 1)}))


def test_the_schema_names_the_one_path() -> None:
    """So that a model has nothing to choose."""
    assert update_of("USER.md").parameters["properties"]["path"]["enum"] == ["USER.md"]
