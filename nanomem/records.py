"""What is kept of a conversation: the records of a session log, and their JSON form.

Pure. A record is made valid or not at all; what cannot be read raises BadRecord.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from nanomem.messages import End, Sender, ToolCall, Usage
from nanomem.versions import Removal

VERSION = 1
_ENDS = get_args(End)

EntryType = Literal["consolidation", "archive", "raw"]
"""What a history entry is: a stretch made short, the rest of what `/new` ended, or a stretch word by word."""


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
class Edit:
    """One wish to change a long memory file: a fact to add, or one to change `to` another wording, or to remove."""

    add: str = ""
    change: str = ""
    to: str = ""
    remove: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidating:
    """A whole decision about a stretch, before any of it is done.

    Either `memory_update`, the new MEMORY.md, or `changes` to it, against version `base`; a `raw` one has neither.
    `after` is the newest history entry there was; `limit` is the most tokens of a raw entry; `inbound` is the
    command that asked for it.
    """

    id: str
    type: EntryType
    first: int
    through: int
    history_entry: str = ""
    key_facts: tuple[str, ...] = ()
    memory_update: str | None = None
    changes: tuple[Edit, ...] | None = None
    removed: tuple[Removal, ...] = ()
    base: str | None = None
    after: int = 0
    limit: int = 0
    inbound: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidated:
    """That decision is carried out: the pointer moves. `history` is the last entry written for it."""

    id: str
    through: int
    history: int
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationFailed:
    """The model gave nothing usable for a stretch; the pointer stays."""

    through: int
    reason: str
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """Dream has seen the conversation up to there."""

    through: int
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """The chat is known under another key from now on."""

    key: str
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A record of a kind this version does not know; it stays in the file."""

    type: str


Pointer = Consolidating | Consolidated | ConsolidationFailed | Learnt | Reset
Record = UserMessage | AssistantMessage | ToolMessage | Metadata | Pointer | Alias | Other


_TYPES = {
    Consolidated: "consolidated",
    ConsolidationFailed: "consolidation_failed",
    Learnt: "learnt",
    Reset: "reset",
}


def stamp(moment: datetime) -> str:
    """UTC, ISO 8601 with seconds and +00:00."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def to_json(record: Record) -> dict[str, Any]:
    """The object that stands in the file; keys without a value are left out."""
    match record:
        case Metadata():
            created = stamp(record.created_at) if record.created_at else None
            return {"_type": "metadata", "version": VERSION, "key": record.key, "created_at": created}
        case Consolidating():
            return _decision_to_json(record)
        case Consolidated() | ConsolidationFailed() | Learnt() | Reset():
            fields = {name: getattr(record, name) for name in record.__slots__}
            kept = {name: value for name, value in fields.items() if value is not None}
            return {"_type": _TYPES[type(record)], **kept, "timestamp": stamp(record.timestamp)}
        case Alias():
            return {"_type": "alias", "key": record.key, "timestamp": stamp(record.timestamp)}
        case Other():
            raise BadRecord(f"a record of the unknown type {record.type!r} is read, never written")
        case _:
            return _message_to_json(record)


def _decision_to_json(record: Consolidating) -> dict[str, Any]:
    changes = record.changes and [{k: v for k, v in asdict(edit).items() if v} for edit in record.changes]
    asked = {"inbound": record.inbound} if record.inbound else {}
    return {
        "_type": "consolidating",
        "id": record.id,
        "type": record.type,
        "from": record.first,
        "through": record.through,
        "history_entry": record.history_entry,
        "key_facts": list(record.key_facts),
        "memory_update": record.memory_update,
        "changes": changes if record.changes is not None else None,
        "removed": [asdict(removal) for removal in record.removed],
        "base": record.base,
        "after": record.after,
        **({"limit": record.limit} if record.limit else {}),
        **asked,
    }


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
        case "consolidating":
            return _decision_from_json(fields)
        case "consolidated":
            return Consolidated(
                id=str(fields.get("id", "")),
                history=_number(fields, "history", 0) or 0,
                through=_number(fields, "through", 0) or 0,
                timestamp=moment(fields.get("timestamp")),
            )
        case "consolidation_failed":
            return ConsolidationFailed(
                through=_number(fields, "through", 0) or 0,
                reason=str(fields.get("reason", "")),
                timestamp=moment(fields.get("timestamp")),
            )
        case "learnt":
            return Learnt(through=_number(fields, "through", 0) or 0, timestamp=moment(fields.get("timestamp")))
        case "reset":
            inbound = fields.get("inbound")
            return Reset(
                through=_number(fields, "through", 0) or 0,
                timestamp=moment(fields.get("timestamp")),
                inbound=None if inbound is None else str(inbound),
            )
        case "alias":
            return Alias(key=str(fields.get("key", "")), timestamp=moment(fields.get("timestamp")))
        case kind:
            return Other(type=str(kind))


def _decision_from_json(fields: Mapping[str, Any]) -> Consolidating:
    kind: Any = fields.get("type")
    if kind not in get_args(EntryType):
        raise BadRecord("a decision of an unknown type")
    changes = fields.get("changes")
    names = Edit.__slots__
    return Consolidating(
        id=str(fields.get("id", "")),
        type=kind,
        first=_number(fields, "from", 0) or 0,
        through=_number(fields, "through", 0) or 0,
        history_entry=_text(fields.get("history_entry")),
        key_facts=tuple(map(str, _list(fields.get("key_facts")))),
        memory_update=_optional(fields.get("memory_update")),
        changes=None
        if changes is None
        else tuple(Edit(**{n: str(c[n]) for n in names if n in c}) for c in _list(changes) if isinstance(c, dict)),
        removed=tuple(
            Removal(str(r.get("fact", "")), str(r.get("reason", "")))
            for r in _list(fields.get("removed"))
            if isinstance(r, dict)
        ),
        base=_optional(fields.get("base")),
        after=_number(fields, "after", 0) or 0,
        limit=_number(fields, "limit", 0) or 0,
        inbound=_optional(fields.get("inbound")),
    )


def _message_from_json(fields: Mapping[str, Any], n: int) -> Record:
    common: dict[str, Any] = {
        "n": _number(fields, "n", n),
        "turn": str(fields.get("turn", "")),
        "timestamp": moment(fields.get("timestamp")),
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


def moment(value: Any) -> datetime:
    """The time that a JSON value stands for. Raises BadRecord."""
    found = _time(value)
    assert found is not None
    return found


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
