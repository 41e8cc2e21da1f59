"""An OpenAI-compatible model provider on loopback.

What of the real contract is honoured:

- `POST /v1/chat/completions`, whole and as server-sent events: a chunk with the role, deltas,
  one with the finish reason, the usage chunk only if `stream_options.include_usage` is set (all
  others then carry `"usage": null`), `[DONE]`.
- Requests are checked as the real one checks them: roles, contents, the pairing of tool calls and
  their results, tool names and schemas, `tool_choice`. What breaks a rule is answered with 400 and
  kept in `violations`. Two rules are stricter than the real ones: the names of tools are unique,
  and each call of a message has its own id and one result.
- A forced `tool_choice` is obeyed by the default answer, with arguments that fit the schema; its
  finish reason is "stop", as with the real one.
- `cached_tokens` are those of the longest prefix shared with an earlier request to the same model,
  tools first. Tokens are a rough count, characters / 4 unless told otherwise.
- `POST /v1/embeddings` (texts that share words are near each other), `GET /v1/models`.

What is not: sampling parameters and `max_tokens` do not change an answer; there is no rate limit.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import re
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from aiohttp import web

from .loopback import LoopbackServer, cut, never_answer

Json = dict[str, Any]
ToolCall = tuple[str, "Json | str"]

_REMEMBERED_PROMPTS = 64
_PIECE = 1 << 16  # characters of a delta, at most, where a text is split by itself
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")


@dataclass(frozen=True)
class Answer:
    """What the model says. `tool_calls` are names with arguments, raw text or to be encoded.

    `call_ids` replaces the ids of the calls in order: the same twice, or None to leave it out.
    `chunks` are the deltas of a streamed text, else it is split at words. `delay_s` is before the
    first byte, `chunk_delay_s` before each event; the first byte also waits until `held` is set.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    finish_reason: str | None = None
    delay_s: float = 0
    chunk_delay_s: float = 0
    chunks: Sequence[str] | None = None
    call_ids: Sequence[str | None] | None = None
    held: asyncio.Event | None = None

    @property
    def whole(self) -> str:
        return self.text or "".join(self.chunks or ())


@dataclass(frozen=True)
class Fault:
    """An answer of HTTP and no more: an error, or a 200 that is not what it should be."""

    status: int
    body: Json | str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def rate_limited(cls, retry_after: float | None = 1) -> Fault:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        body = _error_body("Rate limit reached for requests", "requests", code="rate_limit_exceeded")
        return cls(429, body, headers)

    @classmethod
    def quota(cls) -> Fault:
        """429 too, but waiting does not help."""
        words = "You exceeded your current quota, please check your plan and billing details."
        return cls(429, _error_body(words, "insufficient_quota", code="insufficient_quota"))

    @classmethod
    def server_error(cls, status: int = 500) -> Fault:
        words = "The server had an error while processing your request. Sorry about that!"
        return cls(status, _error_body(words, "server_error"))

    @classmethod
    def unavailable(cls) -> Fault:
        words = "The engine is currently overloaded, please try again later"
        return cls(503, _error_body(words, "service_unavailable_error"))

    @classmethod
    def unauthorized(cls) -> Fault:
        words = "Incorrect API key provided: sk-nope. You can find your API key at "
        words += "https://platform.openai.com/account/api-keys."
        return cls(401, _error_body(words, code="invalid_api_key"))

    @classmethod
    def context_length(cls, limit: int = 8192, tokens: int = 9000) -> Fault:
        words = f"This model's maximum context length is {limit} tokens. However, your messages "
        words += f"resulted in {tokens} tokens. Please reduce the length of the messages."
        return cls(400, _error_body(words, param="messages", code="context_length_exceeded"))

    @classmethod
    def content_filter(cls) -> Fault:
        words = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
        return cls(400, _error_body(words, code="invalid_prompt"))

    @classmethod
    def bad_gateway(cls) -> Fault:
        page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
        return cls(502, page, {"Content-Type": "text/html"})

    @classmethod
    def not_json(cls) -> Fault:
        return cls(200, "<!doctype html><p>Please log in.", {"Content-Type": "text/html"})


@dataclass(frozen=True)
class Cut:
    """The connection ends after so many events of the stream, or half of a whole answer.

    With `error` the stream says so in an event first, as providers do that fail half-way.
    """

    after_chunks: int = 1
    answer: Answer = Answer("This answer is going to be cut off before its end.")
    error: Json | None = None


@dataclass(frozen=True)
class Stall:
    """After so many events nothing more comes; a whole answer never begins."""

    after_chunks: int = 1
    answer: Answer = Answer("This answer is going to stop without an end.")


@dataclass(frozen=True)
class Empty:
    """A success with these `choices`: none, or whatever should not be there."""

    choices: Sequence[Any] = ()


@dataclass(frozen=True)
class EmptyStream:
    """A stream without any chunk, with or without its `[DONE]`; if not streamed an empty body."""

    done: bool = True


Reply = Answer | Fault | Cut | Stall | Empty | EmptyStream
Scripted = Reply | str | Sequence[ToolCall]


@dataclass(frozen=True)
class Violation:
    """A request that the real server would refuse: why, and which of `requests` it was."""

    message: str
    param: str | None
    request: int


class _Invalid(Exception):
    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


def rough_count(text: str) -> int:
    """Characters / 4."""
    return math.ceil(len(text) / 4)


class OpenAIServer(LoopbackServer):
    """Answers as told: first what was queued, then what the script says, else an echo.

    Use as `async with OpenAIServer() as model`. `api_key` is the only accepted key, if given, and
    `models` the only known models; `max_context_tokens` limits the prompt and `max_tokens`
    together. `count` counts the tokens of a text.
    """

    _of_connections = LoopbackServer._of_connections | {"_open", "in_flight"}

    def __init__(
        self,
        *,
        api_key: str | None = None,
        models: Sequence[str] | None = None,
        max_context_tokens: int | None = None,
        count: Callable[[str], int] = rough_count,
        dimensions: int = 8,
    ) -> None:
        super().__init__()
        self.api_key = api_key
        self.models = models
        self.max_context_tokens = max_context_tokens
        self.dimensions = dimensions
        self.requests: list[Json] = []
        self.raw_requests: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.embedding_requests: list[Json] = []
        self.violations: list[Violation] = []
        self.in_flight = 0
        self._count = count
        self._queue: deque[Scripted] = deque()
        self._script: Callable[[Json], Scripted] | None = None
        self._embedding_faults: deque[Fault] = deque()
        self._prompts: dict[str, deque[str]] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._answered = 0

    # What a test says.

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, decide: Callable[[Json], Scripted] | None) -> None:
        """`decide` is given each request and returns a reply, a text or a list of tool calls."""
        self._script = decide

    def queue(self, *replies: Scripted) -> None:
        """Replies to the next requests, in order, before the script is asked."""
        self._queue.extend(replies)

    def queue_embeddings(self, *faults: Fault) -> None:
        """The next calls for embeddings fail so."""
        self._embedding_faults.extend(faults)

    def hold(self) -> None:
        """Let requests come in, count as `in_flight`, and wait for `release()`.

        What they are answered is decided only then.
        """
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    # The server.

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        if (refused := self._unauthorized(request)) is not None:
            return _plain(refused)
        match request.method, request.path.rstrip("/"):
            case "POST", "/v1/chat/completions":
                return await self._chat(request, body)
            case "POST", "/v1/embeddings":
                return self._embeddings(body)
            case "GET", "/v1/models":
                names = self.models if self.models is not None else ["test-model"]
                data = [_model(name) for name in names]
                return web.json_response({"object": "list", "data": data})
            case "GET", path if path.startswith("/v1/models/"):
                name = path.removeprefix("/v1/models/")
                unknown = self._unknown_model(name)
                return _plain(unknown) if unknown else web.json_response(_model(name))
        words = f"Invalid URL ({request.method} {request.path})"
        return _plain(Fault(404, _error_body(words)))

    def _unauthorized(self, request: web.BaseRequest) -> Fault | None:
        given = request.headers.get("Authorization", "")
        if not given.startswith("Bearer ") or not given[7:].strip():
            return Fault(401, _error_body("You didn't provide an API key."))
        if self.api_key is not None and given[7:] != self.api_key:
            return Fault.unauthorized()
        return None

    def _unknown_model(self, name: str) -> Fault | None:
        if self.models is None or name in self.models:
            return None
        words = f"The model `{name}` does not exist or you do not have access to it."
        return Fault(404, _error_body(words, code="model_not_found"))

    async def _chat(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        self.raw_requests.append(body)
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        try:
            try:
                asked = _decode(body)
            except _Invalid as invalid:
                self.requests.append({})
                return self._refuse(invalid)
            self.requests.append(asked)
            self._notify()
            await self._open.wait()
            return await self._answer(request, asked)
        finally:
            self.in_flight -= 1

    def _refuse(self, invalid: _Invalid) -> web.Response:
        number = len(self.requests) - 1
        self.violations.append(Violation(invalid.message, invalid.param, number))
        return _plain(Fault(400, _error_body(invalid.message, param=invalid.param, code=invalid.code)))

    async def _answer(self, request: web.BaseRequest, asked: Json) -> web.StreamResponse:
        try:
            check(asked)
        except _Invalid as invalid:
            return self._refuse(invalid)
        if (unknown := self._unknown_model(asked["model"])) is not None:
            return _plain(unknown)
        usage = self._prompt_usage(asked)
        wanted = usage["prompt_tokens"] + (asked.get("max_completion_tokens") or asked.get("max_tokens") or 0)
        if self.max_context_tokens is not None and wanted > self.max_context_tokens:
            return _plain(Fault.context_length(self.max_context_tokens, wanted))
        reply = self._decide(asked)
        if isinstance(reply, Fault):
            return _plain(reply)
        if isinstance(reply, Stall | Cut | Answer):
            answer = reply if isinstance(reply, Answer) else reply.answer
            await asyncio.sleep(answer.delay_s)
            if answer.held is not None:
                await answer.held.wait()
        self._answered += 1
        completion = _Completion(f"chatcmpl-{self._answered:06d}", asked, usage, self._count)
        if asked.get("stream"):
            return await _stream(request, completion, reply)
        match reply:
            case Stall():
                return await never_answer()
            case Cut(answer=answer):
                whole = json.dumps(completion.body(answer)).encode()
                response = web.StreamResponse(headers={"Content-Length": str(len(whole))})
                response.content_type = "application/json"
                await response.prepare(request)
                await response.write(whole[: len(whole) // 2])
                return cut(request)
            case Empty(choices=choices):
                return web.json_response(completion.body(Answer()) | {"choices": list(choices)})
            case EmptyStream():
                return web.Response(content_type="application/json")
        return web.json_response(completion.body(reply))

    def _decide(self, asked: Json) -> Reply:
        if self._queue:
            return _reply(self._queue.popleft())
        if self._script is not None:
            return _reply(self._script(asked))
        return _default(asked)

    def _prompt_usage(self, asked: Json) -> Json:
        prompt = as_counted(asked)
        earlier = self._prompts.setdefault(asked["model"], deque(maxlen=_REMEMBERED_PROMPTS))
        shared = max((_shared(prompt, other) for other in earlier), default=0)
        earlier.append(prompt)
        tokens = self._count(prompt)
        cached = self._count(prompt[:shared]) if shared else 0
        details = {"cached_tokens": cached, "audio_tokens": 0}
        return {"prompt_tokens": tokens, "prompt_tokens_details": details}

    def _embeddings(self, body: bytes) -> web.Response:
        try:
            asked = _decode(body)
            given = asked.get("input")
            texts = [given] if isinstance(given, str) else given
            if not isinstance(texts, list) or not texts or "" in texts:
                raise _Invalid("'$.input' is invalid. Please check the API reference.")
        except _Invalid as invalid:
            return _plain(Fault(400, _error_body(invalid.message)))
        self.embedding_requests.append(asked)
        if self._embedding_faults:
            return _plain(self._embedding_faults.popleft())
        texts = [text if isinstance(text, str) else json.dumps(text) for text in texts]
        size = asked.get("dimensions") or self.dimensions
        data: list[Json] = []
        for index, text in enumerate(texts):
            vector: Any = embed(text, size)
            if asked.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        tokens = sum(self._count(text) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": asked.get("model"), "usage": usage}
        return web.json_response(answer)


def as_counted(asked: Json) -> str:
    """The prompt of a request, tools first, as one text: what `prompt_tokens` are the tokens of."""
    parts = [json.dumps(asked.get("tools") or [], sort_keys=True, ensure_ascii=False)]
    for message in asked["messages"]:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content, sort_keys=True, ensure_ascii=False)
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        parts += [f"<|{message['role']}|>{text}", *(f"{call['name']} {call['arguments']}" for call in calls)]
    return "\n".join(parts)


def embed(text: str, dimensions: int = 8) -> list[float]:
    """A unit vector, always the same for a text: the sum of one direction for each word."""
    total = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        raw = hashlib.shake_256(word.encode()).digest(dimensions)
        for index, byte in enumerate(raw):
            total[index] += byte - 127.5
    length = math.hypot(*total) or 1.0
    return [value / length for value in total]


# Answers.


class _Completion:
    """The envelope of one answer: the same id, time and model in every part of it."""

    def __init__(self, id: str, asked: Json, usage: Json, count: Callable[[str], int]) -> None:
        self._count = count
        self._usage = usage
        self._id = id
        self._created = int(time.time())
        self._model = asked["model"]
        choice = asked.get("tool_choice")
        self._forced = isinstance(choice, dict)
        self.wants_usage = bool((asked.get("stream_options") or {}).get("include_usage"))

    def _envelope(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
            "service_tier": "default",
            "system_fingerprint": "fp_loopback",
        }

    def usage(self, answer: Answer) -> Json:
        arguments = [_arguments(given) for _, given in answer.tool_calls]
        completion = self._count(answer.whole) + sum(self._count(text) for text in arguments)
        return {
            **self._usage,
            "completion_tokens": completion,
            "total_tokens": self._usage["prompt_tokens"] + completion,
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }

    def _calls(self, answer: Answer) -> list[Json]:
        calls: list[Json] = []
        for index, (name, given) in enumerate(answer.tool_calls):
            function = {"name": name, "arguments": _arguments(given)}
            call: Json = {"id": f"call_{self._id[9:]}_{index}", "type": "function"}
            if answer.call_ids is not None and index < len(answer.call_ids):
                call["id"] = answer.call_ids[index]
            if call["id"] is None:
                del call["id"]
            calls.append({**call, "function": function})
        return calls

    def _finish(self, answer: Answer) -> str:
        calls = answer.tool_calls and not self._forced
        return answer.finish_reason or ("tool_calls" if calls else "stop")

    def body(self, answer: Answer) -> Json:
        message: Json = {"role": "assistant", "content": answer.whole, "refusal": None}
        if answer.tool_calls:
            message["content"] = answer.whole or None
            message["tool_calls"] = self._calls(answer)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish(answer),
        }
        return self._envelope("chat.completion", [choice]) | {"usage": self.usage(answer)}

    def chunk(self, delta: Json | None, finish: str | None = None) -> Json:
        """One event; without delta it has no choices."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        event = self._envelope("chat.completion.chunk", [] if delta is None else [choice])
        return event | ({"usage": None} if self.wants_usage else {})

    def events(self, answer: Answer) -> Iterator[Json]:
        """All events of a streamed answer but the usage and the end mark."""
        only_calls = answer.tool_calls and not answer.whole
        yield self.chunk({"role": "assistant", "content": None if only_calls else "", "refusal": None})
        for piece in _pieces(answer):
            yield self.chunk({"content": piece})
        for index, call in enumerate(self._calls(answer)):
            arguments = call["function"]["arguments"]
            head = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
            yield self.chunk({"tool_calls": [{"index": index, **head}]})
            step = max(8, len(arguments) // 16)
            for start in range(0, len(arguments), step):
                part = {"index": index, "function": {"arguments": arguments[start : start + step]}}
                yield self.chunk({"tool_calls": [part]})
        yield self.chunk({}, self._finish(answer))


async def _stream(request: web.BaseRequest, completion: _Completion, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse()
    response.headers["Content-Type"] = "text/event-stream; charset=utf-8"
    response.headers["Cache-Control"] = "no-cache"
    await response.prepare(request)

    async def send(event: Json) -> None:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    match reply:
        case Answer():
            for event in completion.events(reply):
                await asyncio.sleep(reply.chunk_delay_s)
                await send(event)
            if completion.wants_usage:
                await send(completion.chunk(None) | {"usage": completion.usage(reply)})
        case Cut(after_chunks=after, answer=answer) | Stall(after_chunks=after, answer=answer):
            for event, _ in zip(completion.events(answer), range(after), strict=False):
                await asyncio.sleep(answer.chunk_delay_s)
                await send(event)
            if isinstance(reply, Stall):
                return await never_answer()
            if reply.error is not None:
                await send(reply.error)
            return cut(request)
        case Empty(choices=choices):
            await send(completion.chunk(None) | {"choices": list(choices)})
    if not (isinstance(reply, EmptyStream) and not reply.done):
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _reply(given: Scripted) -> Reply:
    if isinstance(given, str):
        return Answer(given)
    if isinstance(given, Reply):
        return given
    return Answer(tool_calls=given)


def _default(asked: Json) -> Answer:
    choice = asked.get("tool_choice")
    functions = {tool["function"]["name"]: tool["function"] for tool in asked.get("tools") or []}
    if isinstance(choice, dict):
        name = choice["function"]["name"]
    elif choice == "required" and functions:
        name = next(iter(functions))
    else:
        said = [_text(m.get("content")) for m in asked["messages"] if m["role"] == "user"]
        return Answer(f"You said: {said[-1] if said else ''}")
    arguments = _example(functions[name].get("parameters") or {"type": "object"})
    return Answer(tool_calls=[(name, arguments)])


def _example(schema: Json) -> Any:
    """A smallest value that fits a schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: _example(properties.get(name, {})) for name in schema.get("required", [])}
    if kind == "array":
        return [_example(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    simple = {"integer": 0, "number": 0, "boolean": False, "null": None}
    value = simple.get(kind, "text") if isinstance(kind, str) else "text"
    return max(value, schema.get("minimum", 0)) if kind in ("integer", "number") else value


def _pieces(answer: Answer) -> Iterator[str]:
    if answer.chunks is not None:
        yield from answer.chunks
    elif len(answer.text) <= _PIECE:
        yield from re.findall(r"\s*\S+\s*$|\s*\S+|\s+", answer.text)
    else:
        for start in range(0, len(answer.text), _PIECE):
            yield answer.text[start : start + _PIECE]


def _arguments(given: Json | str) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def _shared(one: str, other: str) -> int:
    """Length of the longest common prefix; by halves, for prompts are long."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 1700000000, "owned_by": "loopback"}


def _plain(fault: Fault) -> web.Response:
    if isinstance(fault.body, dict):
        return web.json_response(fault.body, status=fault.status, headers=fault.headers)
    headers = {"Content-Type": "text/plain", **fault.headers}
    return web.Response(body=fault.body.encode(), status=fault.status, headers=headers)


def _error_body(
    message: str,
    kind: str = "invalid_request_error",
    *,
    param: str | None = None,
    code: str | None = None,
) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


# Rules for requests.


def _decode(body: bytes) -> Json:
    """The request. Not JSON: NaN, half a surrogate pair, anything but an object."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        asked = json.loads(body.decode(), parse_constant=refuse)
        json.dumps(asked, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise _Invalid(
            "We could not parse the JSON body of your request. (HINT: This likely means you "
            "aren't using your HTTP library correctly.)"
        )
    return asked


def check(asked: Json) -> None:
    """Raise what the real server would answer to a request that breaks a rule."""
    if not isinstance(asked.get("model"), str) or not asked["model"]:
        raise _Invalid("you must provide a model parameter")
    messages = asked.get("messages")
    if not isinstance(messages, list):
        raise _Invalid("Missing required parameter: 'messages'.", "messages", "missing_parameter")
    if not messages:
        raise _Invalid(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            "messages",
            "empty_array",
        )
    if "stream_options" in asked and not asked.get("stream"):
        raise _Invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    limit = asked.get("max_tokens")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise _Invalid(
            f"Invalid 'max_tokens': expected an integer above or equal to 1, but got {limit!r}.",
            "max_tokens",
            "integer_below_min_value",
        )
    _check_tools(asked)
    _check_messages(messages)


def _check_tools(asked: Json) -> None:
    tools, choice = asked.get("tools"), asked.get("tool_choice")
    if tools is None:
        if choice is not None and choice != "none":
            words = "'tool_choice' is only allowed when 'tools' are specified."
            raise _Invalid(f"Invalid value for 'tool_choice': {words}", "tool_choice")
        return
    if not isinstance(tools, list) or not tools:
        words = "[] is too short - 'tools'" if tools == [] else "expected an array of objects."
        raise _Invalid(words, "tools", "invalid_type")
    names: list[str] = []
    for index, tool in enumerate(tools):
        at = f"tools[{index}]"
        if not isinstance(tool, dict) or tool.get("type") != "function":
            raise _Invalid(f"Invalid value: '{at}.type'. Supported values are: 'function'.", at)
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            at += ".function.name"
            raise _Invalid(f"Missing required parameter: '{at}'.", at, "missing_required_parameter")
        name = function["name"]
        _check_name(name, f"{at}.function.name")
        if name in names:
            raise _Invalid("Tool names must be unique.", f"{at}.function.name")
        names.append(name)
        if not isinstance(function.get("description", ""), str):
            raise _Invalid(f"Invalid type for '{at}.function.description'.", at, "invalid_type")
        if "parameters" in function:
            _check_schema(name, function["parameters"], f"{at}.function.parameters")
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name")
        if choice.get("type") != "function" or wanted not in names:
            raise _Invalid(f"Tool choice '{wanted}' not found in 'tools' parameter.", "tool_choice")
    elif choice not in (None, "auto", "none", "required"):
        raise _Invalid(
            f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'.",
            "tool_choice",
            "invalid_value",
        )


def _check_name(name: str, at: str) -> None:
    if len(name) > 64:
        raise _Invalid(
            f"Invalid '{at}': string too long. Expected a string with maximum length 64, "
            f"but got a string with length {len(name)} instead.",
            at,
            "string_above_max_length",
        )
    if not _NAME.fullmatch(name):
        raise _Invalid(
            f"Invalid '{at}': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            at,
            "invalid_value",
        )


def _check_schema(name: str, schema: Any, at: str) -> None:
    def wrong(words: str) -> _Invalid:
        words = f"Invalid schema for function '{name}': {words}"
        return _Invalid(words, at, "invalid_function_parameters")

    def walk(node: Any, context: tuple[str, ...]) -> None:
        where = f"In context={context!r}, "
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            raise wrong(f"{where}{node!r} is not of type 'object', 'boolean'.")
        kinds = node.get("type", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind not in ("object", "array", "string", "number", "integer", "boolean", "null"):
                raise wrong(f"{kind!r} is not valid under any of the given schemas.")
        if "array" in ([kinds] if isinstance(kinds, str) else kinds) and "items" not in node:
            raise wrong(f"{where}array schema missing items.")
        properties = node.get("properties", {})
        if not isinstance(properties, dict):
            raise wrong(f"{where}{properties!r} is not of type 'object'.")
        required = node.get("required", [])
        if not isinstance(required, list) or not all(isinstance(key, str) for key in required):
            raise wrong(f"{where}{required!r} is not of type 'array'.")
        for key, child in properties.items():
            walk(child, (*context, "properties", key))
        if "items" in node:
            walk(node["items"], (*context, "items"))
        for word in ("anyOf", "oneOf", "allOf"):
            for index, child in enumerate(node.get(word, [])):
                walk(child, (*context, word, str(index)))

    kind = schema.get("type") if isinstance(schema, dict) else None
    # An empty object stands for a function without parameters.
    if schema != {} and kind != "object":
        raise wrong(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    walk(schema, ())


def _check_messages(messages: list[Any]) -> None:
    open_calls: list[str] = []
    opened_at = 0
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            supported = ", ".join(f"'{name}'" for name in _ROLES[:-1])
            raise _Invalid(
                f"Invalid value: '{role}'. Supported values are: {supported}, and 'developer'.",
                f"{at}.role",
                "invalid_value",
            )
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str):
                where = f"{at}.tool_call_id"
                words = f"Missing required parameter: '{where}'."
                raise _Invalid(words, where, "missing_required_parameter")
            if call_id not in open_calls:
                raise _Invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{index}].role",
                )
            open_calls.remove(call_id)
        elif open_calls:
            raise _unanswered(open_calls, opened_at)
        _check_content(message, at)
        if role == "assistant" and "tool_calls" in message:
            open_calls, opened_at = _check_calls(message["tool_calls"], at), index
    if open_calls:
        raise _unanswered(open_calls, opened_at)


def _unanswered(calls: list[str], index: int) -> _Invalid:
    return _Invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(calls),
        f"messages.[{index}].role",
    )


def _check_content(message: Json, at: str) -> None:
    content = message.get("content")
    if content is None:
        if message["role"] == "assistant" and message.get("tool_calls"):
            return
        words = "Invalid value for 'content': expected a string, got null."
        raise _Invalid(words, f"{at}.content")
    if isinstance(content, str):
        return
    where = f"{at}.content"
    if not isinstance(content, list) or not content:
        words = f"Invalid type for '{where}': expected one of a string or array of objects."
        raise _Invalid(words, where, "invalid_type")
    allowed = {"text", "image_url", "input_audio", "file"} if message["role"] == "user" else {"text"}
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed or not isinstance(part.get(kind), str | dict):
            words = f"Invalid value: '{kind}'. Supported values are: {sorted(allowed)}."
            raise _Invalid(words, f"{where}[{index}].type", "invalid_value")


def _check_calls(calls: Any, at: str) -> list[str]:
    """The ids of the calls, each one to be answered."""
    at += ".tool_calls"
    if not isinstance(calls, list) or not calls:
        raise _Invalid(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            at,
            "empty_array",
        )
    ids: list[str] = []
    for index, call in enumerate(calls):
        where = f"{at}[{index}]"
        call_id = call.get("id") if isinstance(call, dict) else None
        if not isinstance(call_id, str) or not call_id:
            words = f"Missing required parameter: '{where}.id'."
            raise _Invalid(words, f"{where}.id", "missing_required_parameter")
        if len(call_id) > 40:
            raise _Invalid(
                f"Invalid '{where}.id': string too long. Expected a string with maximum length "
                f"40, but got a string with length {len(call_id)} instead.",
                f"{where}.id",
                "string_above_max_length",
            )
        if call_id in ids:
            raise _Invalid(f"Duplicate value for '{where}.id': {call_id}", f"{where}.id")
        ids.append(call_id)
        function = call.get("function")
        if call.get("type") != "function" or not isinstance(function, dict):
            words = f"Invalid value: '{call.get('type')}'. Supported values are: 'function'."
            raise _Invalid(words, f"{where}.type", "invalid_value")
        if not isinstance(function.get("name"), str):
            words = f"Missing required parameter: '{where}.function.name'."
            raise _Invalid(words, f"{where}.function.name", "missing_required_parameter")
        _check_name(function["name"], f"{where}.function.name")
        if not isinstance(function.get("arguments"), str):
            words = f"Invalid type for '{where}.function.arguments': expected a string."
            raise _Invalid(words, f"{where}.function.arguments", "invalid_type")
    return ids
