"""Our words to the dictionaries litellm takes, and an answer put together from its pieces.

Pure: knows the shapes on the wire, neither litellm itself nor keys, networks or time.
"""

import base64
import json
import re
from typing import Any
from uuid import uuid4

from nanomem.messages import Image, PromptMessage, Reply, Request, ToolCall, Usage

ANSWER_LIMIT = 400_000
"""Characters of text and arguments together; what comes after them is not read."""
MOST_TOKENS = 10**12
"""More than any answer can have cost."""

_MARK = {"type": "ephemeral"}
_SURROGATE = re.compile("[\ud800-\udfff]")
# Control characters, ESC among them, but for tab and line breaks.
_CONTROLS = {c: None for c in (*range(1, 9), 11, 12, *range(14, 32), *range(0x7F, 0xA0))}


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
    if not request.tools:
        return wanted
    wanted["tools"] = [
        _function(name=tool.name, description=tool.description, parameters=dict(tool.parameters))
        for tool in request.tools
    ]
    if request.forced is not None:
        wanted["tool_choice"] = _function(name=request.forced) if request.forced else "none"
    return wanted


def clean(text: str) -> str:
    """Without control characters; NUL and lone surrogates are shown as U+FFFD."""
    return storable(text).translate(_CONTROLS)


def storable(text: str) -> str:
    """Halves of a surrogate pair joined, lone ones and NUL replaced: what UTF-8 and every file can hold."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def counted(given: Any) -> int:
    """A number of tokens, as a provider gave it; what is none is 0."""
    return int(given) if isinstance(given, int) and 0 <= given < MOST_TOKENS else 0


class Draft:
    """The answer to a request, as it grows."""

    def __init__(self, request: Request) -> None:
        self.text = ""
        self.cut: str | None = None
        self._taken = {call.id for message in request.messages for call in message.tool_calls}
        self._held = ""
        self._calls: list[dict[str, str]] = []
        self._slots: dict[int, dict[str, str]] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether it is longer than any answer may be. Each piece counts, empty ones too."""
        return self._size > ANSWER_LIMIT

    def take(self, piece: Any, finish: str | None) -> bool:
        """Adds litellm's delta; says whether the text has grown."""
        self._size += 1
        if finish in ("length", "content_filter"):
            self.cut = finish
        calls = getattr(piece, "tool_calls", None)
        for call in calls if isinstance(calls, list) else ():
            self._take_call(call)
        return self._grow(getattr(piece, "content", None) or "")

    def reply(self, usage: Usage) -> Reply:
        """All of it; ids that are missing or used twice are new ones."""
        text = self.text + clean(self._held)
        cut = "length" if self.full else self.cut
        return Reply(text[:ANSWER_LIMIT], tuple(self._call(call) for call in self._calls), usage, cut)

    def _grow(self, content: str) -> bool:
        self._size += len(content)
        content = self._held + content[:ANSWER_LIMIT]
        # What may be half a character waits for the other half.
        self._held = content[-1:] if "\ud800" <= content[-1:] <= "\udbff" else ""
        new = clean(content.removesuffix(self._held))
        self.text += new
        return bool(new)

    def _take_call(self, given: Any) -> None:
        call = self._slots.get(given.index)
        # Some providers number all their calls 0: another id begins another call.
        if call is None or (given.id and call["id"] not in ("", given.id)):
            call = self._slots[given.index] = {"id": "", "name": "", "arguments": ""}
            self._calls.append(call)
        arguments = given.function.arguments or ""
        self._size += len(arguments)
        call["id"] = call["id"] or given.id or ""
        call["name"] = call["name"] or given.function.name or ""
        if not self.full:
            call["arguments"] += arguments

    def _call(self, call: dict[str, str]) -> ToolCall:
        call_id = storable(call["id"])
        if not call_id or call_id in self._taken:
            call_id = f"call_{uuid4().hex}"
        self._taken.add(call_id)
        return ToolCall(call_id, storable(call["name"]), storable(call["arguments"]))


def _message(message: PromptMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": storable(message.text)}
    if message.role == "tool":
        told["tool_call_id"] = message.tool_call_id or ""
    if message.tool_calls:
        told |= {"content": told["content"] or None, "tool_calls": [_legal(call) for call in message.tool_calls]}
    if message.images:
        words = [{"type": "text", "text": told["content"]}] if told["content"] else []
        told["content"] = words + [_picture(image) for image in message.images]
    return told


def _picture(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}


def _function(**described: Any) -> dict[str, Any]:
    return {"type": "function", "function": described}


def _legal(call: ToolCall) -> dict[str, Any]:
    """A call the model once made, in a form that no provider refuses: else one bad call would end the conversation."""
    try:
        given = json.loads(call.arguments or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        given = None
    arguments = storable(call.arguments or "{}") if isinstance(given, dict) else json.dumps({"invalid": call.arguments})
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"
    return {"id": call.id, **_function(name=name, arguments=arguments)}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _mark(message: dict[str, Any]) -> None:
    """On a tool's result the mark belongs to the message, else to its last part."""
    if message["role"] == "tool":
        message["cache_control"] = _MARK
    elif isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": _MARK}]
    else:
        message["content"][-1] = {**message["content"][-1], "cache_control": _MARK}
