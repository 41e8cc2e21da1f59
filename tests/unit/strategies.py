"""What hypothesis draws from: records of every kind, conversations with and without damage, any JSON."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

from hypothesis import strategies as st

from nanomem.messages import End, Sender, ToolCall, Usage
from nanomem.records import (
    Alias,
    AssistantMessage,
    Consolidated,
    Consolidating,
    ConsolidationFailed,
    Edit,
    Learnt,
    Metadata,
    Record,
    Reset,
    ToolMessage,
    UserMessage,
)
from nanomem.session import Said
from nanomem.versions import Removal

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
TURNS = ["t1", "t2", "t3"]

texts = st.text(max_size=30)
some_text = st.text(min_size=1, max_size=30)
counts = st.integers(0, 2**40)
numbers = st.integers(1, 2**40)
ends: st.SearchStrategy[End | None] = st.sampled_from([None, *get_args(End)])

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30), timezones=zones).map(
    lambda moment: moment.replace(microsecond=0, fold=0)
)

tool_calls = st.builds(ToolCall, texts, texts, texts)
usages = st.builds(Usage, counts, counts, counts, st.integers(0, 10**9).map(lambda cents: cents / 100))
senders = st.builds(Sender, texts, texts)
_common: dict[str, st.SearchStrategy[Any]] = {
    "n": numbers,
    "turn": texts,
    "timestamp": moments,
    "content": texts,
    "tokens": counts,
}
_maybe = st.none() | texts

messages: st.SearchStrategy[Said] = st.one_of(
    st.builds(
        UserMessage,
        **_common,
        sender=senders,
        reply_to=_maybe,
        forwarded_from=_maybe,
        edited=st.booleans(),
        files=st.lists(texts, max_size=3).map(tuple),
    ),
    st.builds(
        AssistantMessage,
        **_common,
        tool_calls=st.lists(tool_calls, max_size=3).map(tuple),
        usage=st.none() | usages,
        model=_maybe,
        end=ends,
        retries=_maybe,
    ),
    st.builds(ToolMessage, **_common, tool_call_id=texts, name=texts),
)
records: st.SearchStrategy[Record] = st.one_of(
    messages,
    st.builds(Metadata, key=texts, created_at=st.none() | moments),
    st.builds(Reset, through=counts, timestamp=moments, inbound=st.none() | some_text),
    st.builds(
        Consolidating,
        id=texts,
        type=st.sampled_from(["consolidation", "archive", "raw"]),
        first=counts,
        through=counts,
        history_entry=texts,
        key_facts=st.lists(texts, max_size=2).map(tuple),
        memory_update=st.none() | texts,
        changes=st.none() | st.lists(st.builds(Edit, add=texts, change=texts, to=texts), max_size=2).map(tuple),
        removed=st.lists(st.builds(Removal, texts, texts), max_size=2).map(tuple),
        base=_maybe,
        after=counts,
        limit=counts,
        inbound=st.none() | some_text,
    ),
    st.builds(Consolidated, id=texts, through=counts, history=counts, timestamp=moments),
    st.builds(ConsolidationFailed, through=counts, reason=texts, timestamp=moments),
    st.builds(Learnt, through=counts, timestamp=moments),
    st.builds(Alias, key=texts, timestamp=moments),
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


def user(n: int, turn: str = "t1", text: str = "hello", tokens: int = 10, name: str = "Ann") -> UserMessage:
    """A message of a person, a minute after the one before."""
    sent = NOW + timedelta(minutes=n)
    return UserMessage(n=n, turn=turn, timestamp=sent, content=text, tokens=tokens, sender=Sender("42", name))


def assistant(
    n: int,
    turn: str = "t1",
    text: str = "hi",
    calls: Sequence[str] = (),
    end: End | None = None,
    retries: str | None = None,
    tokens: int = 10,
) -> AssistantMessage:
    """An answer; `calls` are the ids of tool calls."""
    return AssistantMessage(
        n=n,
        turn=turn,
        timestamp=NOW + timedelta(minutes=n),
        content=text,
        tokens=tokens,
        tool_calls=tuple(ToolCall(call, "look", "{}") for call in calls),
        end=end,
        retries=retries,
    )


def result(n: int, call: str, turn: str = "t1", text: str = "seen", tokens: int = 10) -> ToolMessage:
    """The result of the call with that id."""
    sent = NOW + timedelta(minutes=n)
    return ToolMessage(n=n, turn=turn, timestamp=sent, content=text, tokens=tokens, tool_call_id=call, name="look")


def numbered(said: Sequence[Said]) -> list[Said]:
    """The same, with `n` from 1 on."""
    return [replace(message, n=n) for n, message in enumerate(said, 1)]


_ids = st.sampled_from(["c1", "c2", "c3"])
_turns = st.sampled_from(TURNS)

damaged: st.SearchStrategy[list[Said]] = st.lists(
    st.one_of(
        st.builds(user, st.just(0), _turns),
        st.builds(
            assistant,
            st.just(0),
            _turns,
            calls=st.lists(_ids, max_size=3),
            end=ends,
            retries=st.none() | _turns,
        ),
        st.builds(result, st.just(0), _ids, _turns),
    ),
    max_size=20,
).map(numbered)
"""What a log may hold after any damage: orphan results, doubled ids, missing results, retries of anything."""


@st.composite
def whole(draw: st.DrawFn, most_turns: int = 8) -> list[Said]:
    """What a healthy log holds: turns of one or two questions, rounds of tools, and an end."""
    said: list[Said] = []
    for number in range(draw(st.integers(0, most_turns))):
        turn = f"turn{number}"
        tokens = draw(st.integers(1, 2000))
        said += [user(0, turn, tokens=tokens)] * draw(st.integers(1, 2))
        for _ in range(draw(st.integers(0, 3))):
            ids = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, min_size=1, max_size=3))
            said.append(assistant(0, turn, calls=ids))
            said += [result(0, call, turn, "x" * 4000, tokens=draw(st.integers(1, 3000))) for call in ids]
        said.append(assistant(0, turn, end=draw(st.sampled_from(get_args(End)))))
    return numbered(said)
