"""Records and their JSON form: nothing is lost on the way, and nothing but BadRecord is raised."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.messages import Sender, ToolCall, Usage
from nanomem.records import (
    AssistantMessage,
    BadRecord,
    Metadata,
    Other,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
    from_json,
    stamp,
    to_json,
)
from nanomem.session import replay
from tests.unit.strategies import NOW, json_values, moments, records

WHEN = "2026-04-10T09:15:00+00:00"
TURN = "telegram:123456#987"
CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{...}"}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 1}

# The lines of the documented format, and what they mean.
LINES: list[tuple[dict[str, Any], Record]] = [
    (
        {"_type": "metadata", "version": 1, "key": "telegram:123456", "created_at": WHEN},
        Metadata(key="telegram:123456", created_at=NOW),
    ),
    (
        {
            "role": "user",
            "content": "Hello",
            "timestamp": WHEN,
            "n": 1,
            "turn": TURN,
            "tokens": 12,
            "sender": {"id": "123456", "name": "Ann"},
        },
        UserMessage(n=1, turn=TURN, timestamp=NOW, content="Hello", tokens=12, sender=Sender("123456", "Ann")),
    ),
    (
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [CALL],
            "timestamp": WHEN,
            "n": 2,
            "turn": TURN,
            "tokens": 30,
            "usage": USAGE,
        },
        AssistantMessage(
            n=2,
            turn=TURN,
            timestamp=NOW,
            content="",
            tokens=30,
            tool_calls=(ToolCall("c1", "read_file", "{...}"),),
            usage=Usage(3, 2, 1),
        ),
    ),
    (
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "read_file",
            "content": "text",
            "timestamp": WHEN,
            "n": 3,
            "turn": TURN,
            "tokens": 210,
        },
        ToolMessage(n=3, turn=TURN, timestamp=NOW, content="text", tokens=210, tool_call_id="c1", name="read_file"),
    ),
    (
        {
            "role": "assistant",
            "content": "Done",
            "timestamp": WHEN,
            "n": 4,
            "turn": TURN,
            "tokens": 55,
            "end": "answer",
        },
        AssistantMessage(n=4, turn=TURN, timestamp=NOW, content="Done", tokens=55, end="answer"),
    ),
    ({"_type": "reset", "through": 60, "timestamp": WHEN}, Reset(through=60, timestamp=NOW)),
]


@given(records)
def test_what_is_written_is_read_again(record: Record) -> None:
    """Every kind, every field, through the bytes of a file."""
    line = json.dumps(to_json(record), ensure_ascii=False).encode()
    assert from_json(json.loads(line), 99) == record


@given(records)
def test_a_record_is_one_line(record: Record) -> None:
    """No line break gets out of a text."""
    assert "\n" not in json.dumps(to_json(record), ensure_ascii=False)


@pytest.mark.parametrize(("line", "record"), LINES)
def test_the_documented_lines(line: dict[str, Any], record: Record) -> None:
    """They are read as what they say, and written exactly so, key by key in that order."""
    assert from_json(line, 99) == record
    assert json.dumps(to_json(record)) == json.dumps(line)


@pytest.mark.parametrize("kind", ["of tomorrow", "7"])
def test_a_kind_of_another_version_is_read_and_never_written(kind: str) -> None:
    """It stays in the file as it is."""
    found = from_json({"_type": kind, "through": 36, "id": "x", "anything": [1]}, 1)
    assert found == Other(type=kind)
    with pytest.raises(BadRecord):
        to_json(found)


KEYS = [
    "_type", "role", "content", "timestamp", "n", "turn", "tokens", "sender", "tool_calls", "usage", "end", "through",
    "key", "version", "created_at", "last_consolidated", "inbound", "tool_call_id", "name", "files", "retries", "model",
]  # fmt: skip
near_records = st.dictionaries(
    st.sampled_from(KEYS),
    json_values
    | st.sampled_from([WHEN, "user", "assistant", "tool", "metadata", "reset", "alias", "0001-01-01T00:00:00+14:00"])
    | st.sampled_from([[CALL], [{"function": None}], {"cost_usd": 10**400}, {"cost_usd": float("nan")}]),
)


@given(near_records | json_values, st.integers(1, 1000))
def test_whatever_json_holds_only_bad_record_is_raised(fields: Any, n: int) -> None:
    """And what is accepted can be folded and shown: its numbers are numbers, its times exist in every zone."""
    try:
        record = from_json(fields, n)
    except BadRecord:
        return
    session = replay([record])
    assert isinstance(session.last_n, int)
    for message in session.messages:
        assert isinstance(message.n, int) and isinstance(message.tokens, int)
        assert stamp(message.timestamp)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "alien"},
        {"timestamp": None},
        {"timestamp": "yesterday"},
        {"timestamp": 5},
        {"timestamp": "0001-01-01T00:00:00+14:00"},
        {"n": "1"},
        {"n": 1.5},
        {"n": True},
        {"content": 5},
        {"content": {}},
        {"tokens": "many"},
    ],
)
def test_a_field_of_the_wrong_kind_makes_it_no_record(change: dict[str, Any]) -> None:
    """It is reported with its line rather than guessed at."""
    with pytest.raises(BadRecord):
        from_json(LINES[1][0] | change, 1)


def test_an_older_line_gets_its_number_and_no_token_count() -> None:
    """Missing and null are the same; a time without a zone is UTC; content may be a list of parts."""
    old = {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"text": "b"}],
        "timestamp": "2026-04-10T09:15:00",
    }
    for more in ({}, {"n": None, "tokens": None, "sender": None}):
        found = from_json(old | more, 7)
        assert isinstance(found, UserMessage)
        assert (found.n, found.tokens, found.content, found.sender) == (7, -1, "a\nb", Sender("", ""))
        assert found.timestamp == NOW


@given(moments)
def test_times_are_written_in_utc_with_seconds(moment: Any) -> None:
    """Whatever zone they came in."""
    assert stamp(moment).endswith("+00:00") and len(stamp(moment)) == 25
