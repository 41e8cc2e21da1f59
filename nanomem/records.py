"""What is kept of a conversation: the records of a session log, and their JSON form.

Pure. A record is made valid or not at all; what cannot be read raises BadRecord.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

from nanomem.messages import End, Sender, ToolCall, Usage

VERSION = 1
_ENDS = get_args(End)


class BadRecord(ValueError):
    """The object is no record of any kind we write; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record with a role: something that was said. `n` counts from 1 and never restarts; `tokens` in o200k_base."""

    n: int
    turn: str
    timestamp: datetime
    content: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(Message):
    """One message of a person. `files` are paths in the space of what was sent along."""

    sender: Sender
    reply_to: str | None = None
    forwarded_from: str | None = None
    edited: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(Message):
    """One answer of a model. `end` is on the last record of a turn; `retries` names the turn it does again."""

    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    end: End | None = None
    retries: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage(Message):
    """The result of one tool call."""

    tool_call_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The first record of a file. `last_consolidated` is only there in an older layout."""

    key: str
    created_at: datetime | None
    version: int | None = VERSION
    last_consolidated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The conversation starts afresh after `through`; `inbound` is the id of the command that said so."""

    through: int
    timestamp: datetime
    inbound: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """The chat is known under another key from now on."""

    key: str
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A record of a kind this version does not know; it stays in the file."""

    type: str


Record = UserMessage | AssistantMessage | ToolMessage | Metadata | Reset | Alias | Other


def stamp(moment: datetime) -> str:
    """UTC, ISO 8601 with seconds and +00:00."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def to_json(record: Record) -> dict[str, Any]:
    """The object that stands in the file; keys without a value are left out."""
    match record:
        case Metadata():
            created = stamp(record.created_at) if record.created_at else None
            return {"_type": "metadata", "version": VERSION, "key": record.key, "created_at": created}
        case Reset():
            fields = {"_type": "reset", "through": record.through, "timestamp": stamp(record.timestamp)}
            return fields | ({"inbound": record.inbound} if record.inbound else {})
        case Alias():
            return {"_type": "alias", "key": record.key, "timestamp": stamp(record.timestamp)}
        case Other():
            raise BadRecord(f"a record of the unknown type {record.type!r} is read, never written")
        case _:
            return _message_to_json(record)


def _message_to_json(record: UserMessage | AssistantMessage | ToolMessage) -> dict[str, Any]:
    said: dict[str, Any] = {"content": record.content}
    after: dict[str, Any] = {}
    match record:
        case UserMessage():
            said = {"role": "user", **said}
            after["sender"] = {"id": record.sender.id, "name": record.sender.name}
            after["reply_to"] = record.reply_to
            after["forwarded_from"] = record.forwarded_from
            after["edited"] = record.edited or None
            after["files"] = list(record.files) or None
        case AssistantMessage():
            said = {"role": "assistant", "content": record.content or (None if record.tool_calls else "")}
            if record.tool_calls:
                said["tool_calls"] = [
                    {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                    for c in record.tool_calls
                ]
            after["usage"] = _usage_to_json(record.usage) if record.usage else None
            after["model"] = record.model
            after["retries"] = record.retries
            after["end"] = record.end
        case ToolMessage():
            said = {"role": "tool", "tool_call_id": record.tool_call_id, "name": record.name, **said}
    common = {"timestamp": stamp(record.timestamp), "n": record.n, "turn": record.turn, "tokens": record.tokens}
    return said | common | {key: value for key, value in after.items() if value is not None}


def from_json(fields: Any, n: int) -> Record:
    """The record an object stands for; `n` is its number where it has none (an older layout).

    Raises BadRecord.
    """
    if not isinstance(fields, dict):
        raise BadRecord("not an object")
    match fields.get("_type"):
        case None:
            return _message_from_json(fields, n)
        case "metadata":
            return Metadata(
                key=str(fields.get("key", "")),
                created_at=_time(fields.get("created_at"), required=False),
                version=_number(fields, "version", None),
                last_consolidated=_number(fields, "last_consolidated", 0) or 0,
            )
        case "reset":
            inbound = fields.get("inbound")
            return Reset(
                through=_number(fields, "through", 0) or 0,
                timestamp=_moment(fields.get("timestamp")),
                inbound=None if inbound is None else str(inbound),
            )
        case "alias":
            return Alias(key=str(fields.get("key", "")), timestamp=_moment(fields.get("timestamp")))
        case kind:
            return Other(type=str(kind))


def _message_from_json(fields: Mapping[str, Any], n: int) -> Record:
    common: dict[str, Any] = {
        "n": _number(fields, "n", n),
        "turn": str(fields.get("turn", "")),
        "timestamp": _moment(fields.get("timestamp")),
        "content": _text(fields.get("content")),
        "tokens": _number(fields, "tokens", -1),
    }
    match fields.get("role"):
        case "user":
            return UserMessage(
                **common,
                sender=_sender(fields.get("sender")),
                reply_to=_optional(fields.get("reply_to")),
                forwarded_from=_optional(fields.get("forwarded_from")),
                edited=fields.get("edited") is True,
                files=tuple(str(f) for f in _list(fields.get("files"))),
            )
        case "assistant":
            end = fields.get("end")
            return AssistantMessage(
                **common,
                tool_calls=tuple(_tool_call(c) for c in _list(fields.get("tool_calls"))),
                usage=_usage(fields.get("usage")),
                model=_optional(fields.get("model")),
                end=end if end in _ENDS else None,
                retries=_optional(fields.get("retries")),
            )
        case "tool":
            call = fields.get("tool_call_id")
            return ToolMessage(**common, tool_call_id=str(call), name=str(fields.get("name", "")))
        case role:
            raise BadRecord(f"unknown role {str(role)[:40]!r}")


def _number(fields: Mapping[str, Any], key: str, default: int | None = -1) -> int | None:
    value = fields.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRecord(f"{key} is no number")
    return value


def _time(value: Any, required: bool = True) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        if required:
            raise BadRecord("timestamp is no time") from None
        return None
    if not 1 < moment.year < 9999:
        raise BadRecord("a time that no other time zone can show")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _moment(value: Any) -> datetime:
    moment = _time(value)
    assert moment is not None
    return moment


def _text(value: Any) -> str:
    """The text of a content: a string, nothing, or a list of parts as some APIs have it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half of a surrogate pair is no text
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    raise BadRecord("content is no text")


def _optional(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sender(value: Any) -> Sender:
    if not isinstance(value, dict):
        return Sender("", "")
    return Sender(str(value.get("id", "")), str(value.get("name", "")))


def _tool_call(value: Any) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise BadRecord("a tool call without a function")
    return ToolCall(str(value.get("id", "")), str(function.get("name", "")), str(function.get("arguments", "")))


def _usage_to_json(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        **({"cost_usd": round(usage.cost_usd, 8)} if usage.cost_usd else {}),
    }


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None

    def count(key: str) -> int:
        found = value.get(key)
        return found if isinstance(found, int) else 0

    cost = value.get("cost_usd")
    return Usage(
        count("prompt_tokens"),
        count("completion_tokens"),
        count("cached_tokens"),
        float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e9 else 0.0,
    )
