"""Our words to the dictionaries litellm takes, and an answer put together from its pieces.

Pure: knows the shapes on the wire, neither litellm itself nor keys, networks or time.
"""

import base64
import json
import re
from typing import Any
from uuid import uuid4

from nanomem.messages import PromptMessage, Reply, Request, ToolCall, Usage

ANSWER_LIMIT = 400_000
"""Characters of text and arguments together; what comes after them is not read."""

_MARK = {"type": "ephemeral"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x9b[0-?]*[ -/]*[@-~]")
# What may be the first half of an escape sequence or of a surrogate pair.
_UNFINISHED = re.compile(
    "(?:(?:\x1b\\[|\x9b)[0-?]{0,99}[ -/]{0,9}|\x1b(?:\\][^\x07\x1b]{0,99}\x1b?)?|[\ud800-\udbff])\\Z"
)
_CONTROLS = {c: None for c in (*range(1, 9), 11, 12, *range(14, 32), 0x7F, 0x9B)}


def wants_marks(provider: str, model: str) -> bool:
    """Whether the prompt cache works by explicit marks: Claude, wherever it is hosted."""
    hosts = ("anthropic", "bedrock", "bedrock_converse", "vertex_ai", "openrouter", "azure_ai")
    return provider in hosts and ("claude" in model.lower() or "anthropic" in model.lower())


def messages(request: Request, marks: bool) -> list[dict[str, Any]]:
    """The prompt; with `marks`, on the system text and on the last of `request.history` that can bear one."""
    system: dict[str, Any] = {"role": "system", "content": storable(request.system)}
    rest = [_message(message) for message in request.messages]
    if marks:
        _mark(system)
        for message in reversed(rest[: request.history]):
            if message["content"]:
                _mark(message)
                break
    return [system, *rest] if request.system else rest


def options(request: Request) -> dict[str, Any]:
    """All but the messages."""
    wanted: dict[str, Any] = {"max_tokens": request.max_tokens, "temperature": request.temperature}
    if request.tools:
        wanted["tools"] = [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
            }
            for t in request.tools
        ]
        if request.forced:
            wanted["tool_choice"] = {"type": "function", "function": {"name": request.forced}}
        elif request.forced == "":
            wanted["tool_choice"] = "none"
    return wanted


def clean(text: str) -> str:
    """Without NUL and lone surrogates (shown as U+FFFD), escape sequences and control characters."""
    return storable(_ESCAPE.sub("", text)).translate(_CONTROLS)


def storable(text: str) -> str:
    """Halves of a surrogate pair joined, lone ones and NUL replaced: what UTF-8 and every file can hold."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


class Draft:
    """The answer to a request, as it grows."""

    def __init__(self, request: Request) -> None:
        self.text = ""
        self.cut: str | None = None
        self._taken = {call.id for message in request.messages for call in message.tool_calls}
        self._held = ""
        self._calls: list[dict[str, str]] = []
        self._slots: dict[int, int] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether it is longer than any answer may be. Each piece counts, empty ones too."""
        return self._size > ANSWER_LIMIT

    def take(self, piece: Any, finish: str | None) -> bool:
        """Adds litellm's delta, or a whole message; says whether the text has grown."""
        self._size += 1
        if finish in ("length", "content_filter"):
            self.cut = finish
        for position, call in enumerate(getattr(piece, "tool_calls", None) or ()):
            self._take_call(call, position)
        content = getattr(piece, "content", None)
        return isinstance(content, str) and self._grow(content)

    def reply(self, usage: Usage) -> Reply:
        """All of it; ids that are missing or used twice are new ones."""
        text = self.text + clean(self._held)
        cut = "length" if self.full else self.cut
        return Reply(text[:ANSWER_LIMIT], tuple(self._call(call) for call in self._calls), usage, cut)

    def _grow(self, content: str) -> bool:
        self._size += len(content)
        content = self._held + content[:ANSWER_LIMIT]
        unfinished = _UNFINISHED.search(content)
        end = unfinished.start() if unfinished else len(content)
        self._held = content[end:]
        new = clean(content[:end])
        self.text += new
        return bool(new)

    def _take_call(self, given: Any, position: int) -> None:
        index = getattr(given, "index", None)
        index = index if isinstance(index, int) else position
        call_id = given.id if isinstance(given.id, str) else ""
        slot = self._slots.get(index)
        # Some providers number all their calls 0: another id begins another call.
        if slot is None or (call_id and self._calls[slot]["id"] not in ("", call_id)):
            slot = self._slots[index] = len(self._calls)
            self._calls.append({"id": "", "name": "", "arguments": ""})
        call, function = self._calls[slot], given.function
        arguments = getattr(function, "arguments", None) or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        self._size += len(arguments)
        call["id"] = call["id"] or call_id
        call["name"] = call["name"] or (getattr(function, "name", None) or "")
        if not self.full:
            call["arguments"] += arguments

    def _call(self, call: dict[str, str]) -> ToolCall:
        call_id = storable(call["id"])
        if not call_id or call_id in self._taken:
            call_id = f"call_{uuid4().hex}"
        self._taken.add(call_id)
        return ToolCall(call_id, storable(call["name"]), storable(call["arguments"]))


def _message(message: PromptMessage) -> dict[str, Any]:
    text = storable(message.text)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}
    if message.role == "assistant" and message.tool_calls:
        calls = [_legal(call) for call in message.tool_calls]
        return {"role": "assistant", "content": text or None, "tool_calls": calls}
    if message.role == "assistant" or not message.images:
        return _plain(message.role, text)
    pictures = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"},
        }
        for image in message.images
    ]
    return {"role": "user", "content": [{"type": "text", "text": text}, *pictures] if text else pictures}


def _legal(call: ToolCall) -> dict[str, Any]:
    """A call the model once made, in a form that no provider refuses: else one bad call would end the conversation."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        given = json.loads(call.arguments or "{}", parse_constant=refuse)
    except (ValueError, RecursionError):
        given = None
    arguments = storable(call.arguments or "{}") if isinstance(given, dict) else json.dumps({"invalid": call.arguments})
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _plain(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _mark(message: dict[str, Any]) -> None:
    """On a tool's result the mark belongs to the message, else to its last part."""
    if message["role"] == "tool":
        message["cache_control"] = _MARK
    elif isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": _MARK}]
    else:
        message["content"][-1] = {**message["content"][-1], "cache_control": _MARK}
