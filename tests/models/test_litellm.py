"""The litellm adapter against an emulated provider: what reaches the wire, and what each fault becomes."""

import asyncio
import json
import logging
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import CannotForce, NanomemError, NotNow, TellUser, TooLong, TryLater
from nanomem.messages import Image, PromptMessage, Reply, Request, ToolCall, ToolSchema, Usage
from nanomem.models import wire
from nanomem.models.litellm import LitellmModel, Provider
from proofs.proxy import Gone, Proxy
from tests.emulators.openai import Answer, Cut, Empty, EmptyStream, Fault, OpenAIServer, Stall
from tests.models.conftest import KEY

Make = Callable[..., LitellmModel]

SAVE = ToolSchema(
    "save_memory",
    "Saves.",
    {"type": "object", "properties": {"history_entry": {"type": "string"}}, "required": ["history_entry"]},
)
RECALL = ToolSchema("recall", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})


def asks(text: str = "hello", **more: object) -> Request:
    return Request("Be brief.", (PromptMessage("user", text),), **more)  # type: ignore[arg-type]


async def test_streams_an_answer(server: OpenAIServer, model: Make) -> None:
    """The text arrives in growing pieces, then whole, with what it cost in tokens."""
    server.queue("Good morning to you.")
    heard: list[str] = []
    reply = await model().ask(asks(), heard.append)
    assert reply.text == "Good morning to you." == heard[-1]
    assert len(heard) > 2
    assert all(later.startswith(earlier) and later != earlier for earlier, later in pairwise(heard))
    assert reply.usage.prompt_tokens > 0 and reply.usage.completion_tokens > 0
    assert reply.usage.cost_usd == 0.0 and reply.cut is None
    sent = server.requests[0]
    assert sent["stream"] is True and sent["temperature"] == 0.1 and sent["max_tokens"] == 8192
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert not server.violations


async def test_counts_cached_tokens(server: OpenAIServer, model: Make) -> None:
    """What the provider took from its cache is told apart."""
    asking = model()
    await asking.ask(asks())
    assert (await asking.ask(asks())).usage.cached_tokens > 0


async def test_streamed_and_forced_tool_calls_on_this_litellm(server: OpenAIServer, model: Make) -> None:
    """Whoever raises litellm's version sees here whether tools still work."""
    server.queue([("recall", {"query": "Graz"}), ("recall", '{"query": "Wi')])
    streamed = await model().ask(asks(tools=(RECALL, SAVE)))
    assert [(c.name, c.arguments) for c in streamed.tool_calls] == [
        ("recall", '{"query": "Graz"}'),
        ("recall", '{"query": "Wi'),
    ]
    forced = await model().ask(asks(tools=(RECALL, SAVE), forced="save_memory"))
    assert json.loads(forced.tool_calls[0].arguments) == {"history_entry": "text"}
    assert server.requests[1]["tool_choice"] == {"type": "function", "function": {"name": "save_memory"}}
    assert [tool["function"]["name"] for tool in server.requests[1]["tools"]] == ["recall", "save_memory"]


async def test_can_forbid_tools(server: OpenAIServer, model: Make) -> None:
    """Forbidden tools stay in the prompt, whose beginning is cached with them."""
    await model().ask(asks(tools=(RECALL,), forced=""))
    assert server.requests[0]["tool_choice"] == "none" and len(server.requests[0]["tools"]) == 1


async def test_a_whole_conversation_reaches_the_wire(server: OpenAIServer, model: Make) -> None:
    """Pictures, tool calls and their results, in the provider's shapes; a lone surrogate cannot break it."""
    messages = (
        PromptMessage("user", "What is this? \ud83d", images=(Image("image/png", b"\x89PNG"),)),
        PromptMessage("assistant", "", tool_calls=(ToolCall("c1", "recall", '{"query": "x"}'),)),
        PromptMessage("tool", "nothing", tool_call_id="c1", name="recall"),
        PromptMessage("user", "And now?"),
    )
    await model().ask(Request("Be brief.", messages, (RECALL,)))
    assert not server.violations
    picture = server.requests[0]["messages"][1]["content"]
    assert picture[0]["text"] == "What is this? \ufffd"
    assert picture[1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="


QUOTED = ("overloaded", "502", "payload", "fire", "Balance", "maximum", "flagged", "such", "bad", "page", "teapot")


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (Fault.server_error(), TryLater, "in trouble"),
        (Fault.unavailable(), TryLater, "overloaded"),
        (Fault.bad_gateway(), TryLater, "502"),
        (Fault.not_json(), TryLater, "empty answer"),
        (Cut(0), TryLater, "payload"),
        (Cut(3), TryLater, "payload"),
        (Cut(2, error={"error": {"message": "it caught fire", "type": "server_error"}}), TryLater, "caught fire"),
        (Empty(), TryLater, "empty answer"),
        (Empty([None]), TryLater, "openai/m"),
        (Empty([{"index": 0, "delta": {"content": "half an ans"}, "finish_reason": None}]), TryLater, "cut off"),
        (EmptyStream(), TryLater, "empty answer"),
        (EmptyStream(done=False), TryLater, "empty answer"),
        (Answer(""), TryLater, "empty answer"),
        (Answer(" \n "), TryLater, "empty answer"),
        (Answer("", finish_reason="content_filter"), TellUser, "content filter"),
        (Answer("", finish_reason="length"), TellUser, "max_completion_tokens"),
        (Fault.rate_limited(None), TryLater, "too often"),
        (Fault.quota(), NotNow, "no credit"),
        (Fault(402, {"error": {"message": "Insufficient Balance"}}), NotNow, "no credit"),
        (Fault.unauthorized(), NotNow, "Check [providers.openai] api_key."),
        (Fault(403, {"error": {"message": f"{KEY} may not"}}), NotNow, "Check [providers.openai] api_key."),
        (Fault.context_length(), TooLong, "maximum context length"),
        (Fault.content_filter(), TellUser, "content filter"),
        (Fault(404, {"error": {"message": "no such model"}}), NotNow, "does not know the model"),
        (Fault(400, {"error": {"message": "tool_choice is not supported"}}), CannotForce, "a forced tool call"),
        (Fault(404, {"error": {"message": "no endpoint for tool_choice"}}), CannotForce, "a forced tool call"),
        (Fault(400, {"error": {"message": f"bad {KEY} " + "x" * 10_000}}), TellUser, "refused the request: bad [key]"),
        (Fault(500, f"<html>{KEY} in a page</html>"), TryLater, "[key] in a page"),
        (Fault(418, "I am a teapot"), TellUser, "teapot"),
    ],
)
async def test_faults_say_what_to_do(
    server: OpenAIServer, model: Make, fault: object, error: type[NanomemError], says: str
) -> None:
    """Each fault of a provider becomes an error named for what to do next, bounded and without the key."""
    server.queue(fault)  # type: ignore[arg-type]
    with pytest.raises(NanomemError) as raised:
        await model().ask(asks())
    assert type(raised.value) is error
    assert says in raised.value.text
    assert len(raised.value.text) < 450
    assert "canary" not in raised.value.text
    assert (gist := raised.value.gist) and raised.value.text.startswith(gist), "the log says it, too"
    assert not any(word in gist for word in QUOTED), "but not what a provider says, who may quote what was said"
    assert raised.value.__context__ is None and raised.value.__cause__ is None
    assert len(server.requests) == 1


async def test_passes_on_when_to_ask_again(server: OpenAIServer, model: Make) -> None:
    """The Retry-After of a rate limit is kept."""
    server.queue(Fault.rate_limited(7))
    with pytest.raises(TryLater) as raised:
        await model().ask(asks())
    assert raised.value.after_s == 7


async def test_a_provider_that_cannot_be_reached(server: OpenAIServer, model: Make) -> None:
    """A refused connection is worth trying again."""
    await server.offline()
    with pytest.raises(TryLater):
        await model().ask(asks())


@pytest.mark.parametrize("after", [0, 2])
async def test_a_stream_that_stalls(server: OpenAIServer, model: Make, after: int) -> None:
    """Silence for the whole timeout, before the first piece or between two, ends the call."""
    asking = model(timeout_s=0.5)
    await model().ask(asks())
    server.queue(Stall(after))
    with pytest.raises(TryLater, match=r"in time|trouble"):
        await asking.ask(asks())
    await server.wait_for(lambda: not server.in_flight)


async def test_cancelling_closes_the_connection(server: OpenAIServer, model: Make) -> None:
    """A stopped turn leaves no call running at the provider."""
    server.queue(Stall(3))
    heard = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(model().ask(asks(), lambda _: heard.set()))
        await heard.wait()
        assert server.in_flight
        call.cancel()
    await server.wait_for(lambda: not server.in_flight)
    assert call.cancelled()


async def test_an_endless_answer_is_cut(server: OpenAIServer, model: Make) -> None:
    """50 MB are not read to the end, and the answer says that it was cut."""
    server.queue(Answer("x" * 50_000_000))
    reply = await model().ask(asks())
    assert len(reply.text) == wire.ANSWER_LIMIT and reply.cut == "length"
    await server.wait_for(lambda: not server.in_flight)


async def test_a_model_that_repeats_itself_is_no_error(server: OpenAIServer, model: Make) -> None:
    """Many pieces that are the same are an answer like any other."""
    server.queue(Answer(chunks=["again "] * 300))
    assert (await model().ask(asks())).text == "again " * 300


async def test_says_why_an_answer_ended_early(server: OpenAIServer, model: Make) -> None:
    """The provider's reason is kept with what there is."""
    server.queue(Answer("Once upon a", finish_reason="length"))
    assert (await model().ask(asks())).cut == "length"


async def test_dangerous_characters_are_taken_out(server: OpenAIServer, model: Make) -> None:
    """Control characters, and halves of characters over the borders of pieces too."""
    chunks = ["a\0b \x1b[3", "1mred\x1b[0m \ud83d", "\ude00 \ud83d", " ok \x1b]0;title\x07\u200d\u202e"]
    server.queue(Answer(chunks=chunks))
    heard: list[str] = []
    reply = await model().ask(asks(), heard.append)
    assert reply.text == "a\ufffdb [31mred[0m \U0001f600 \ufffd ok ]0;title\u200d\u202e" == heard[-1]


@pytest.mark.parametrize("ids", [[None, None], ["c1", "c1"], ["old", "old"], ["", "c1"]])
async def test_every_call_has_an_id_of_its_own(server: OpenAIServer, model: Make, ids: list[str | None]) -> None:
    """Ids that are missing, used twice, or taken by an earlier call are replaced; the next request is legal."""
    earlier = (
        PromptMessage("user", "hi"),
        PromptMessage("assistant", "", (ToolCall("old", "recall", "{}"),)),
        PromptMessage("tool", "nothing", tool_call_id="old"),
    )
    server.queue(Answer(tool_calls=[("recall", {}), ("../no such tool", "null")], call_ids=ids))
    reply = await model().ask(Request("", earlier, (RECALL,)))
    got = [call.id for call in reply.tool_calls]
    assert len({*got, "old"}) == 3 and all(got)
    assert [call.name for call in reply.tool_calls] == ["recall", "../no such tool"]


@pytest.mark.parametrize(
    "arguments", ["", "null", "[1]", '"text"', "12", "{'cut", '{"n": NaN}', "[" * 100_000, '{"a": 1}']
)
async def test_a_bad_call_does_not_end_the_conversation(server: OpenAIServer, model: Make, arguments: str) -> None:
    """Whatever a model made of its call, the next request with it is one that every provider takes."""
    server.queue(Answer(tool_calls=[("no such/../tool " * 9, arguments), ("", arguments)]), "Sorry.")
    made = (await model().ask(asks(tools=(RECALL,)))).tool_calls
    assert [call.arguments for call in made] == [arguments, arguments]
    results = (PromptMessage("tool", "no such tool", tool_call_id=call.id) for call in made)
    reply = await model().ask(
        Request("", (PromptMessage("user", "hi"), PromptMessage("assistant", "", made), *results))
    )
    assert reply.text == "Sorry." and not server.violations
    for call in server.requests[1]["messages"][1]["tool_calls"]:
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


@pytest.mark.parametrize("calls", ["x", {"index": 0}, 7, True])
async def test_calls_that_are_no_list_are_none(calls: object) -> None:
    """The text beside them is kept."""
    draft = wire.Draft(asks())
    draft.take(SimpleNamespace(tool_calls=calls, content="Hello"), None)
    assert draft.reply(Usage()) == Reply("Hello")


async def test_two_hundred_calls_at_once(server: OpenAIServer, model: Make) -> None:
    """All arrive, in order."""
    server.queue([("recall", {"query": str(i)}) for i in range(200)])
    reply = await model().ask(asks(tools=(RECALL,)))
    assert [json.loads(c.arguments)["query"] for c in reply.tool_calls] == [str(i) for i in range(200)]


async def test_unknown_models_and_providers(server: OpenAIServer, model: Make) -> None:
    """The person is told what a model's name looks like, or that the provider has no such model."""
    with pytest.raises(TellUser, match="knows no provider"):
        await model("no-such-model").ask(asks())
    with pytest.raises(TellUser, match="does not know the model openai/other"):
        await model("openai/other").ask(asks())


async def test_a_bare_name_finds_its_provider(server: OpenAIServer, model: Make) -> None:
    """litellm knows whose model `gpt-4o` is, and what it costs."""
    server.models = ["gpt-4o"]
    reply = await model("gpt-4o").ask(asks())
    assert reply.usage.cost_usd > 0


async def test_the_key_is_looked_up_when_used(server: OpenAIServer) -> None:
    """A key changed while the daemon runs counts from the next call on; a wrong one is never shown."""
    keys = ["sk-wrong-canary-key", KEY]
    asking = LitellmModel("openai/m", {"openai": Provider(lambda: keys.pop(0), server.base_url)}, timeout_s=20)
    with pytest.raises(TellUser) as raised:
        await asking.ask(asks())
    assert "canary" not in raised.value.text
    assert (await asking.ask(asks())).text == "You said: hello"
    assert "canary" not in repr(Provider(lambda: KEY, extra={"k": "canary"}))


async def test_no_key_never_sends_the_environments(
    server: OpenAIServer, model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of one's own without a key in the settings does not get the key meant for another."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-meant-for-another")
    server.api_key = None
    await model(key="").ask(asks())
    assert server.headers[0]["Authorization"] == "Bearer none"


async def test_secrets_in_other_settings_are_not_shown(server: OpenAIServer, model: Make) -> None:
    """What is passed on to litellm reaches it, and is redacted like the key."""
    server.queue(Fault(400, {"error": {"message": "header canary-in-header not good"}}))
    with pytest.raises(TellUser, match=r"header \[key\] not good"):
        await model(extra={"extra_headers": {"X-Pass": "canary-in-header"}}).ask(asks())
    assert "canary-in-header" in server.headers[0].values()


async def test_nothing_said_is_logged(
    server: OpenAIServer, model: Make, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither prompt nor answer nor key, whatever level is asked for."""
    caplog.set_level(logging.INFO)
    server.queue("secret-answer", Fault.server_error(), Cut(2))
    asking = model()
    await asking.ask(asks("secret-question"))
    for _ in range(2):
        with pytest.raises(TryLater):
            await asking.ask(asks("secret-question"))
    out, err = capfd.readouterr()
    logged = caplog.text + out + err
    assert "secret" not in logged and "canary" not in logged and "LiteLLM" not in logged


async def test_warm_up_and_calls_share_one_import(server: OpenAIServer, model: Make) -> None:
    """Loading early, many times, and asking at once: all work."""
    asking = model()
    await asyncio.gather(asking.warm_up(), asking.warm_up(), asking.ask(asks()), asking.ask(asks()))
    assert asking.name == "openai/m"


def test_claude_is_given_cache_marks() -> None:
    """At the end of the prefix and of the history, and nowhere else; no other provider gets any."""
    messages = (
        PromptMessage("user", "one"),
        PromptMessage("assistant", "two"),
        PromptMessage("user", "three"),
    )
    mark = {"type": "ephemeral"}
    marked = wire.messages(Request("sys", messages, history=2), marks=True)
    assert marked[0]["content"] == [{"type": "text", "text": "sys", "cache_control": mark}]
    assert marked[2]["content"] == [{"type": "text", "text": "two", "cache_control": mark}]
    assert json.dumps(marked).count("cache_control") == 2
    assert "cache_control" not in json.dumps(wire.messages(Request("sys", messages, history=2), marks=False))
    claude = [("anthropic", "claude-x"), ("bedrock", "anthropic.claude"), ("openrouter", "openrouter/anthropic/x")]
    assert all(wire.wants_marks(provider, name) for provider, name in claude)
    assert not wire.wants_marks("openai", "gpt-4o") and not wire.wants_marks("vertex_ai", "vertex_ai/gemini-pro")


@pytest.mark.parametrize(
    ("last", "where"),
    [
        (PromptMessage("tool", "result", tool_call_id="c"), 4),
        (PromptMessage("assistant", "", (ToolCall("d", "recall", "{}"),)), 3),
        (PromptMessage("user", "look", images=(Image("image/png", b"1"),)), 4),
    ],
)
def test_the_mark_goes_where_it_can_stand(last: PromptMessage, where: int) -> None:
    """A message without content cannot bear a mark: the one before it does."""
    messages = (
        PromptMessage("user", "one"),
        PromptMessage("assistant", "", (ToolCall("c", "recall", "{}"),)),
        PromptMessage("tool", "found", tool_call_id="c"),
        last,
    )
    marked = wire.messages(Request("sys", messages, history=4), marks=True)
    assert [i for i, message in enumerate(marked) if "cache_control" in json.dumps(message)] == [0, where]


@given(st.text(st.sampled_from("ax \x1b\x9b[]\x07\\0;m\ud83d\ude00\0"), max_size=30), st.integers(0, 30))
def test_cleaning_in_pieces_is_cleaning(text: str, cut: int) -> None:
    """Where a text is cut into pieces makes no difference to what is shown of it, and all of it can be stored."""
    draft = wire.Draft(Request("", ()))
    for piece in (text[:cut], text[cut:]):
        draft.take(PromptMessageLike(piece), None)
    shown = draft.reply(Usage()).text
    assert shown == wire.clean(text)
    shown.encode()
    assert not {"\0", "\x1b"} & set(shown)


class PromptMessageLike:
    """A delta with nothing but content."""

    def __init__(self, content: str) -> None:
        self.content = content


async def test_a_provider_that_is_gone_without_a_word_is_not_waited_for(server: OpenAIServer) -> None:
    """Whether it was to hear the request or to answer it."""
    async with Proxy(server.port) as proxy:
        reached = Provider(lambda: KEY, f"http://127.0.0.1:{proxy.port}/v1")
        model = LitellmModel("openai/m", {"openai": reached}, timeout_s=60)
        server.hold()
        asking = asyncio.create_task(model.ask(asks()))
        await server.wait_for(lambda: server.in_flight)
        proxy.strand()
        done, _ = await asyncio.wait([asking], timeout=15)
        assert [type(task.exception()) for task in done] == [TryLater]
        server.release()
        proxy.script = lambda _: Gone()
        with pytest.raises(TryLater):
            await asyncio.wait_for(model.ask(asks()), 15)
        proxy.script = lambda _: None
        assert (await model.ask(asks())).text
