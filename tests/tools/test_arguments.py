"""From what models send as arguments to what tools get."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.arguments import check_arguments
from nanomem.errors import ShowModel
from nanomem.messages import ToolSchema

SCHEMA = ToolSchema(
    "read_file",
    "Reads.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer"},
            "whole": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "removed": {"type": "array", "items": {"type": "object", "properties": {"fact": {"type": "string"}}}},
        },
        "required": ["path"],
    },
)
NONE_REQUIRED = ToolSchema("now", "Tells the time.", {"type": "object", "properties": {}})

WANTED = {"path": "a.txt"}


@pytest.mark.parametrize(
    "raw",
    [
        '{"path": "a.txt"}',
        '"{\\"path\\": \\"a.txt\\"}"',
        '[{"path": "a.txt"}]',
        '["{\\"path\\": \\"a.txt\\"}"]',
        '```json\n{"path": "a.txt"}\n```',
        '```\n{"path": "a.txt"}```',
        '\ufeff {"path": "a.txt"} ',
        '{"path": "a.txt", "unknown": 1, "offset": null}',
    ],
)
def test_every_form_models_send_is_understood(raw: str) -> None:
    """An object, as a string, in a list, in a fence, with a mark before it or with keys nobody knows."""
    assert check_arguments(SCHEMA, raw) == WANTED


@pytest.mark.parametrize("raw", ["", "  ", None, "null", "{}", "```json\n```"])
def test_nothing_is_an_empty_object(raw: str | None) -> None:
    """A tool without arguments can be called in all these ways."""
    assert check_arguments(NONE_REQUIRED, raw) == {}


@pytest.mark.parametrize(
    ("given_value", "text"),
    [(3, "3"), (1.5, "1.5"), (True, "true"), ({"a": 1}, '{"a": 1}'), (["ü"], '["ü"]'), ("x", "x")],
)
def test_a_text_is_made_of_anything(given_value: object, text: str) -> None:
    """Where a string is wanted, other values are written as JSON."""
    assert check_arguments(SCHEMA, json.dumps({"path": given_value})) == {"path": text}


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [
        ("offset", "3", 3),
        ("offset", 3.0, 3),
        ("offset", " 7 ", 7),
        ("whole", "True", True),
        ("whole", False, False),
        ("tags", "one", ["one"]),
        ("tags", [1, None, "b"], ["1", "b"]),
        ("removed", [{"fact": 5, "x": 1}, '{"fact": "y"}'], [{"fact": "5"}, {"fact": "y"}]),
    ],
)
def test_values_are_fitted_to_their_type(name: str, value: object, fitted: object) -> None:
    """Strings for numbers, one for a list, objects within lists."""
    assert check_arguments(SCHEMA, json.dumps({"path": "p", name: value})) == {"path": "p", name: fitted}


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ('{"path": "a.t', "no complete JSON"),
        ('{"path": "a", "path": "b"}', "twice"),
        ('{"path": NaN}', "NaN"),
        ('{"path": "a", "offset": Infinity}', "Infinity"),
        ('{"path": "a", "offset": 1e999}', "`offset` has to be a whole number"),
        ('{"path": "a", "offset": 1.5}', "`offset` has to be a whole number"),
        ('{"path": "a", "offset": true}', "`offset` has to be a whole number"),
        ('{"path": "a", "offset": "nan"}', "`offset` has to be a whole number"),
        ('{"path": "a", "whole": 3}', "`whole` has to be true or false"),
        ("{}", "`path` is missing"),
        ('{"path": null}', "`path` is missing"),
        ("null", "`path` is missing"),
        ("[]", "no JSON object"),
        ("[{}, {}]", "no JSON object"),
        ("17", "no JSON object"),
        ('"hello"', "no complete JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"path": ' * 100_000, "nested too deeply"),
        ('{"path": "' + "a" * 1_000_001, "longer than"),
        ('{"path": "a", "offset": ' + "9" * 5_000 + "}", ""),
    ],
)
def test_what_cannot_be_used_is_answered_with_what_to_send(raw: str, word: str) -> None:
    """The model is told what is wrong, and an example of what is right."""
    with pytest.raises(ShowModel) as caught:
        check_arguments(SCHEMA, raw)
    assert word in caught.value.text
    assert 'like {"path": "..."}' in caught.value.text
    assert len(caught.value.text) < 500


def test_a_lone_surrogate_is_replaced() -> None:
    """It parses, but no file or network takes it; a pair is one character."""
    assert check_arguments(SCHEMA, '{"path": "a\\ud800b\\ud83d\\ude00"}') == {"path": "a\ufffdb\U0001f600"}


@given(st.text())
def test_any_text_gives_fitting_arguments_or_a_word(raw: str) -> None:
    """Nothing but ShowModel is ever raised."""
    try:
        assert isinstance(check_arguments(SCHEMA, raw)["path"], str)
    except ShowModel as refusal:
        refusal.text.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
names = st.sampled_from(["path", "offset", "whole", "tags", "removed", "unknown"])


@given(st.dictionaries(names, json_values))
def test_any_values_give_fitting_arguments_or_a_word(values: dict[str, object]) -> None:
    """What comes out has the types of the schema and can be written to a file."""
    try:
        fitted = check_arguments(SCHEMA, json.dumps(values))
    except ShowModel:
        return
    assert isinstance(fitted["path"], str)
    assert type(fitted.get("offset", 0)) is int
    assert isinstance(fitted.get("tags", []), list)
    json.dumps(fitted, ensure_ascii=False).encode()


@given(st.fixed_dictionaries({"path": st.text(st.characters(exclude_categories=["Cs"])), "offset": st.integers()}))
def test_what_fits_comes_through_unchanged(values: dict[str, object]) -> None:
    """Valid arguments are never altered."""
    assert check_arguments(SCHEMA, json.dumps(values)) == values
