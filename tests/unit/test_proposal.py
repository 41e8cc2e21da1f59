"""What a model says in `save_memory`, in every shape that models were seen to use, and the memory it wants."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import ShowModel
from nanomem.proposal import IN_CHANGES, WHOLE, Distilled, edited, removals, understood
from nanomem.records import Edit
from nanomem.versions import Removal
from tests.unit.strategies import json_values

GIVEN = {"history_entry": "They talked of tea.", "memory_update": "- Likes tea"}
MEANT = Distilled("They talked of tea.", memory_update="- Likes tea")

SHAPES = {
    "an object": json.dumps(GIVEN),
    "a string of JSON": json.dumps(json.dumps(GIVEN)),
    "a list of one": json.dumps([GIVEN]),
    "a list of one string": json.dumps([json.dumps(GIVEN)]),
    "a fenced block": f"```json\n{json.dumps(GIVEN)}\n```",
    "more than was asked for": json.dumps({**GIVEN, "mood": "fine"}),
    "nothing where a list may be": json.dumps({**GIVEN, "removed": None, "key_facts": None}),
}


@pytest.mark.parametrize("raw", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_means_the_same(raw: str) -> None:
    """Models differ in form, not in what they say."""
    assert understood(WHOLE, raw) == MEANT


def test_values_that_are_no_strings() -> None:
    """An object, a list or a number in a text's place is written out."""
    found = understood(WHOLE, json.dumps({"history_entry": {"topic": "tea"}, "memory_update": ["- tea", "- milk"]}))
    assert found.history_entry == '{"topic": "tea"}'
    assert found.memory_update == '["- tea", "- milk"]'
    assert understood(WHOLE, json.dumps({**GIVEN, "key_facts": "one"})).key_facts == ("one",)
    assert understood(WHOLE, json.dumps({**GIVEN, "key_facts": ["one", 2, ""]})).key_facts == ("one", "2")


BAD: list[Any] = [
    {},
    [],
    None,
    "prose",
    7,
    {"history_entry": "x"},
    {"memory_update": "x"},
    {"history_entry": None, "memory_update": "x"},
    {"history_entry": "  ", "memory_update": "x"},
    [GIVEN, GIVEN],
]


@pytest.mark.parametrize("value", BAD)
def test_what_says_nothing_is_refused(value: Any) -> None:
    """A missing field, an empty entry, no object at all."""
    with pytest.raises(ShowModel):
        understood(WHOLE, json.dumps(value))


@given(json_values)
def test_anything_is_understood_or_refused(value: Any) -> None:
    """Nothing else comes of any JSON."""
    for schema in (WHOLE, IN_CHANGES):
        try:
            assert isinstance(understood(schema, json.dumps(value)), Distilled)
        except ShowModel:
            pass


def test_one_bad_item_does_not_spoil_the_others() -> None:
    """Of what shall go, what names no fact is passed over."""
    items = [{"fact": "Likes tea", "reason": "said so"}, "Likes milk", 7, None, {"fact": ["x"]}, {"reason": "none"}]
    found = understood(WHOLE, json.dumps({**GIVEN, "removed": items}))
    assert found.removed == (Removal("Likes tea", "said so"), Removal('["x"]', ""), Removal("", "none"))


def test_changes_in_every_shape() -> None:
    """As a text of JSON, with names nobody asked for, with values that are no texts; none that can be used is a
    failure, not an answer without changes."""

    def changes(value: Any) -> tuple[Edit, ...] | None:
        return understood(IN_CHANGES, json.dumps({"history_entry": "x", "changes": value})).changes

    wanted = (Edit(add="Likes tea"),)
    assert changes([{"add": "Likes tea"}]) == changes(json.dumps([{"add": "Likes tea"}])) == wanted
    assert changes([{"add": "Likes tea", "fact": "more", "reason": None}, "prose"]) == wanted
    assert changes([{"add": 5}]) == (Edit(add="5"),)
    assert changes([]) == ()
    with pytest.raises(ShowModel):
        changes([{"add": "tea " * 99_999}])
    for useless in (["Likes tea"], [{"fact": "Likes tea"}], "prose", "[" * 99_999):
        with pytest.raises(ShowModel):
            changes(useless)


def test_a_long_memory_is_changed_in_places() -> None:
    """Found by its words, whatever the marker; what is not found is added, or left alone."""
    changes = (
        Edit(add="Has a dog"),
        Edit(change="likes tea", to="Likes green tea"),
        Edit(change="Never was there", to="Is new"),
        Edit(remove="Lives in Rome", reason="moved away"),
        Edit(remove="Plays chess"),
    )
    before = "# Memory\n* Likes tea.\n- Lives in Rome <!-- contradicted -->\n1. Plays chess"
    assert edited(before, changes) == "# Memory\n* Likes green tea\n1. Plays chess\n- Has a dog\n- Is new"


def test_only_a_reason_lets_go() -> None:
    """A change without one is a rewording, for the ledger to judge."""
    changes = [
        Edit(change="a", to="b"),
        Edit(change="c", to="d", reason="e"),
        Edit(remove="f", reason=" "),
        Edit(add="g"),
    ]
    assert removals([Removal("x", "y")], changes) == [Removal("x", "y"), Removal("c", "e")]


@given(
    st.text(max_size=200), st.lists(st.builds(Edit, add=st.text(max_size=9), change=st.text(max_size=9)), max_size=4)
)
def test_any_text_is_edited(memory: str, changes: list[Edit]) -> None:
    """What is only added takes nothing away."""
    kept = edited(memory, changes).split("\n")
    assert kept[: len(memory.split("\n"))] == memory.split("\n")
