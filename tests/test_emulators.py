"""The emulators, driven by the real clients: what they promise is what those clients see."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, Update
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
)
from telegram.request import HTTPXRequest

from tests.emulators import (
    Answer,
    Cut,
    Empty,
    EmptyStream,
    Fault,
    OpenAIServer,
    Stall,
    TelegramServer,
)

# Both must be set before litellm is imported, which the tests below do on their own.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")

Json = dict[str, Any]

pytestmark = [
    # The raw call is meant: the parsed one fails as a whole if one update is broken.
    pytest.mark.filterwarnings("ignore:Please use 'Bot"),
    pytest.mark.filterwarnings("ignore:.*Deprecated since version v22.2.*retry_after"),
]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with a_bot(telegram) as bot:
        yield bot


def a_bot(telegram: TelegramServer, token: str | None = None) -> Bot:
    return Bot(
        token or telegram.token,
        base_url=telegram.base_url,
        base_file_url=telegram.base_file_url,
        request=HTTPXRequest(connection_pool_size=8, httpx_kwargs={"trust_env": False}),
        get_updates_request=HTTPXRequest(httpx_kwargs={"trust_env": False}),
    )


async def poll(bot: Bot, **params: Any) -> list[Json]:
    updates = await bot.do_api_request("getUpdates", api_kwargs=params)
    assert isinstance(updates, list)
    return updates


def ids(updates: list[Json]) -> list[int]:
    return [update["update_id"] for update in updates]


# Telegram: updates.


async def test_an_update_comes_again_until_a_later_offset_confirms_it(telegram: TelegramServer, bot: Bot) -> None:
    """Delivery alone confirms nothing; a greater offset does, for good."""
    first, second = telegram.say("one"), telegram.say("two")
    assert ids(await poll(bot)) == [first, second] == [1000, 1001]
    assert ids(await poll(bot)) == [first, second]
    assert ids(await poll(bot, offset=second)) == [second]
    assert ids(await poll(bot)) == [second]
    assert await poll(bot, offset=second + 1) == []
    assert telegram.unconfirmed == []


async def test_limit_negative_offset_and_an_offset_from_another_time(telegram: TelegramServer, bot: Bot) -> None:
    """A negative offset drops all before; one far ahead of the ids is taken for none."""
    given = [telegram.say(str(number)) for number in range(5)]
    assert ids(await poll(bot, limit=2)) == given[:2]
    assert ids(await poll(bot, offset=900_000)) == given
    assert ids(await poll(bot, offset=-2)) == given[-2:]
    assert telegram.unconfirmed == given[-2:]


async def test_a_waiting_poll_is_woken_by_an_update(telegram: TelegramServer, bot: Bot) -> None:
    """Long polling ends with the first update, not with its timeout."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(poll(bot, timeout=50))
        await telegram.wait_for(lambda: telegram.polling)
        said = telegram.say("hello")
    assert ids(waiting.result()) == [said]


async def test_a_second_poller_ends_the_first(telegram: TelegramServer, bot: Bot) -> None:
    """The older call gets 409, the newer one goes on."""
    async with a_bot(telegram) as other, asyncio.TaskGroup() as group:
        older = group.create_task(caught(poll(bot, timeout=50)))
        await telegram.wait_for(lambda: telegram.polling)
        newer = group.create_task(poll(other, timeout=50))
        error = await older
        telegram.say("hello")
    assert isinstance(error, Conflict)
    assert "terminated by other getUpdates request" in str(error)
    assert ids(newer.result()) == [1000]


async def caught(awaited: Any) -> BaseException | None:
    try:
        await awaited
    except Exception as error:
        return error
    return None


async def test_a_batch_is_delivered_again_although_it_was_confirmed(telegram: TelegramServer, bot: Bot) -> None:
    """`redeliver` stands for a confirmation that was lost: once more, whatever the offset."""
    batch = [telegram.say("one"), telegram.say("two")]
    await poll(bot)
    assert await poll(bot, offset=1002) == []
    telegram.redeliver()
    assert ids(await poll(bot, offset=1002)) == batch
    assert await poll(bot, offset=1002) == []


async def test_another_server_goes_on_from_a_copy(telegram: TelegramServer, bot: Bot) -> None:
    """What people see, and what waits to be confirmed, is as it was, whatever happened since."""
    first = telegram.say("Hi")
    sent = await bot.send_message(42, "Hello.")
    copy = telegram.snapshot()
    await bot.edit_message_text("Bye.", 42, sent.message_id)
    await bot.do_api_request("getUpdates", api_kwargs={"offset": first + 1, "timeout": 0})
    async with TelegramServer() as other, a_bot(other) as same_bot:
        other.restore(copy)
        assert other.visible() == ["Hello."] and other.unconfirmed == [first]
        await same_bot.edit_message_text("Good day.", 42, sent.message_id)
        assert other.visible() == ["Good day."] and telegram.visible() == ["Bye."]
        assert other.say("Again") == first + 1
    async with TelegramServer() as third:
        third.restore(copy)
        assert third.visible() == ["Hello."]


async def test_updates_of_people_can_be_parsed(telegram: TelegramServer, bot: Bot) -> None:
    """Every kind of message is one the real library understands."""
    telegram.say("/new@nanomem_bot now 🙂 @nanomem_bot", user=7, chat=-1001, topic=3, username="ann")
    telegram.say("look", photo=b"jpeg", media_group="g1", reply_to=1, chat=-1001)
    telegram.say(document=telegram.add_file(b"x", "../../x", media_type="lie"), caption="read")
    telegram.say(voice=b"ogg")
    telegram.say(sticker=b"webp", forward_from=9)
    telegram.say("changed", edited=True)
    sent = await bot.send_message(
        42,
        "?",
        reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("yes", callback_data="y")]]),
    )
    telegram.press("y", sent.message_id)
    telegram.say("news", chat=-5, chat_type="channel")
    updates = [Update.de_json(update, bot) for update in await poll(bot)]
    messages = [update.message for update in updates]
    command, photo, document, voice, sticker = messages[:5]
    assert command and command.chat.is_forum and command.message_thread_id == 3
    assert [command.parse_entity(e) for e in command.entities] == [
        "/new@nanomem_bot",
        "@nanomem_bot",
    ]
    assert photo and photo.photo and photo.caption == "look" and photo.reply_to_message == command
    assert document and document.document and document.document.file_name == "../../x"
    assert voice and voice.voice and sticker and sticker.sticker and sticker.forward_origin
    edited, query, post = updates[5].edited_message, updates[6].callback_query, updates[7]
    assert edited and edited.text == "changed" and edited.message_id == sticker.message_id
    assert query and query.data == "y" and await query.answer()
    assert post.channel_post and post.effective_user is None


async def test_broken_updates_arrive_as_they_are(telegram: TelegramServer, bot: Bot) -> None:
    """`push` changes nothing; what has no number for an id comes once."""
    telegram.push({"message": {"message_id": "x"}})
    telegram.push({"update_id": "seven"})
    telegram.push({"update_id": 5000, "message": None, "odd": "\ud800"})
    updates = await poll(bot)
    assert [u["update_id"] for u in updates] == [1000, "seven", 5000]
    assert await poll(bot, offset=5001) == []
    assert telegram.say("next") == 5001


async def test_kinds_that_were_not_asked_for_are_dropped(telegram: TelegramServer, bot: Bot) -> None:
    """`allowed_updates` holds from the call that names it."""
    await poll(bot, allowed_updates=["message"])
    telegram.say("one")
    telegram.say("two", edited=True)
    assert ids(await poll(bot)) == [1000]


# Telegram: messages.


async def test_a_message_is_sent_edited_and_deleted(telegram: TelegramServer, bot: Bot) -> None:
    """The chat shows the newest text; the history of texts stays."""
    sent = await bot.send_message(-1001, "  …  ", message_thread_id=8)
    assert sent.text == "…" and sent.message_thread_id == 8
    await bot.edit_message_text("<b>Hi</b> &amp; 🙂<i>x</i>", -1001, sent.message_id, parse_mode="HTML")
    assert telegram.visible(-1001) == telegram.visible(-1001, topic=8) == ["Hi & 🙂x"]
    (message,) = telegram.messages(-1001)
    assert [(e["type"], e["offset"], e["length"]) for e in message.entities] == [
        ("bold", 0, 2),
        ("italic", 7, 1),
    ]
    assert message.history == ["…", "Hi & 🙂x"]
    assert await bot.delete_message(-1001, sent.message_id)
    assert message.deleted and telegram.visible(-1001) == []
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("again", -1001, sent.message_id)


async def test_editing_to_the_same_is_refused(telegram: TelegramServer, bot: Bot) -> None:
    """Same text and entities: "message is not modified"; the same text in bold is a change."""
    sent = await bot.send_message(42, "same")
    with pytest.raises(BadRequest, match="Message is not modified: specified new message"):
        await bot.edit_message_text("same ", 42, sent.message_id)
    await bot.edit_message_text("*same*", 42, sent.message_id, parse_mode="MarkdownV2")


@pytest.mark.parametrize(
    ("text", "params", "words"),
    [
        ("", {}, "Message text is empty"),
        (" \n\u200b", {}, "Text must be non-empty"),
        ("x" * 4097, {}, "Message is too long"),
        ("🙂" * 2049, {}, "Message is too long"),
        ("a <b>b", {"parse_mode": "HTML"}, "Can't parse entities: can't find end tag"),
        ("a < b", {"parse_mode": "HTML"}, "Can't parse entities: unsupported start tag"),
        ("<b>a</i>", {"parse_mode": "HTML"}, "Can't parse entities: unmatched end tag"),
        ("Done.", {"parse_mode": "MarkdownV2"}, "Character '.' is reserved"),
        ("*bold", {"parse_mode": "MarkdownV2"}, "Can't find end of Bold entity"),
        ("`x", {"parse_mode": "MarkdownV2"}, "Can't find end of Code entity"),
        ("a *b", {"parse_mode": "Markdown"}, "Can't find end of the entity"),
        ("x", {"parse_mode": "Word"}, "Unsupported parse_mode"),
        ("hello", {"entities": [{"type": "bold", "offset": 3, "length": 3}]}, "ends after the end"),
        (
            "hello",
            {"entities": [{"type": "bold", "offset": 9, "length": 3}]},
            "begins after",
        ),
        ("🙂x", {"entities": [{"type": "bold", "offset": 1, "length": 1}]}, "middle of a UTF-16"),
        ("x", {"entities": [{"type": "loud", "offset": 0, "length": 1}]}, "Unsupported type"),
        ("x", {"reply_parameters": {"message_id": 99}}, "Message to be replied not found"),
    ],
)
async def test_a_bad_text_is_refused_in_the_real_words(
    telegram: TelegramServer, bot: Bot, text: str, params: Json, words: str
) -> None:
    """Nothing of it is shown."""
    with pytest.raises(BadRequest, match=f"(?i){words}"):
        await bot.do_api_request("sendMessage", api_kwargs={"chat_id": 42, "text": text, **params})
    assert telegram.visible() == []


async def test_the_limit_holds_for_the_text_after_its_markup(telegram: TelegramServer, bot: Bot) -> None:
    """4,096 units of text fit, however many marks are around them."""
    await bot.send_message(42, f"<b>{'x' * 4096}</b>", parse_mode="HTML")
    await bot.send_message(42, "🙂" * 2048)
    await bot.send_message(42, r"__a__ _b_ ||c|| [d\.](http://x.y/\)) `e\`` 1\.", parse_mode="MarkdownV2")
    assert telegram.visible()[2] == "a b c d. e` 1."
    kinds = [entity["type"] for entity in telegram.messages()[2].entities]
    assert kinds == ["underline", "italic", "spoiler", "text_link", "code"]


async def test_half_a_surrogate_pair_is_refused(telegram: TelegramServer) -> None:
    """The library cannot even send it as a form; as JSON the server says no."""
    async with httpx.AsyncClient(trust_env=False) as http:
        url = f"{telegram.base_url}{telegram.token}/sendMessage"
        answer = await http.post(
            url,
            content=rb'{"chat_id": 42, "text": "\ud800"}',
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 400
    assert answer.json()["description"] == "Bad Request: strings must be encoded in UTF-8"


async def test_chats_that_cannot_be_written_to(telegram: TelegramServer, bot: Bot) -> None:
    """Blocked, migrated, a topic that is gone."""
    telegram.block(42)
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(42, "hello")
    telegram.migrate(-5, -1005)
    with pytest.raises(ChatMigrated) as migrated:
        await bot.send_message(-5, "hello")
    assert migrated.value.new_chat_id == -1005
    old, new = [Update.de_json(update, bot).message for update in await poll(bot)]
    assert old and old.migrate_to_chat_id == -1005 and new and new.migrate_from_chat_id == -5
    telegram.delete_topic(-1005, 4)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(-1005, "hello", message_thread_id=4)


async def test_files_go_both_ways(telegram: TelegramServer, bot: Bot) -> None:
    """Download by id, upload as multipart, refuse what is too big to download."""
    telegram.say(document=telegram.add_file(b"notes", "n.txt"))
    document = (await poll(bot))[0]["message"]["document"]
    file = await bot.get_file(document["file_id"])
    assert await file.download_as_bytearray() == b"notes"
    sent = await bot.send_document(42, b"report", caption="*Here*", filename="r.md", parse_mode="Markdown")
    assert sent.document and sent.document.file_name == "r.md" and sent.caption == "Here"
    assert telegram.messages()[0].document == b"report"
    with pytest.raises(BadRequest, match="File is too big"):
        await bot.get_file(telegram.add_file(b"", "big", size=21 * 1024 * 1024))


async def test_the_small_methods(telegram: TelegramServer, bot: Bot) -> None:
    """Who am I, typing, the menu, no webhook, nothing unknown."""
    assert bot.username == "nanomem_bot"
    assert await bot.send_chat_action(42, "typing")
    with pytest.raises(BadRequest):
        await bot.send_chat_action(42, "juggling")
    await bot.set_my_commands([BotCommand("new", "Start a new session")])
    assert [c.command for c in await bot.get_my_commands()] == ["new"]
    with pytest.raises(BadRequest, match=r"(?i)bot_command_invalid"):
        await bot.set_my_commands([BotCommand("New!", "x")])
    telegram.say("old")
    await bot.delete_webhook(drop_pending_updates=True)
    assert await poll(bot) == []
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"{telegram.base_url}{telegram.token}/makeTea")).status_code == 404


async def test_a_wrong_token_is_refused(telegram: TelegramServer) -> None:
    """A token of the right form is 401, anything else 404; the library calls both invalid."""
    with pytest.raises(InvalidToken, match="rejected by the server"):
        async with a_bot(telegram, "1:wrong"):
            pass
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"{telegram.base_url}1:wrong/getMe")).status_code == 401
        assert (await http.get(f"{telegram.base_url}wrong/getMe")).status_code == 404


# Telegram: faults.


async def test_faults_come_in_order_and_then_it_works(telegram: TelegramServer, bot: Bot) -> None:
    """429 says how long to wait; 502 is the page of a proxy; neither sends anything."""
    telegram.fail_next("sendMessage", 429, retry_after=3600)
    telegram.fail_next("sendMessage", 502, times=2)
    with pytest.raises(RetryAfter) as limited:
        await bot.send_message(42, "hello")
    assert str(limited.value.retry_after).startswith(("3600", "1:00:00"))
    for _ in range(2):
        with pytest.raises(NetworkError, match="Bad Gateway"):
            await bot.send_message(42, "hello")
    assert telegram.visible() == []
    await bot.send_message(42, "hello")
    assert telegram.visible() == ["hello"]
    assert len(telegram.calls_of("sendMessage")) == 4


async def test_the_client_cannot_know_what_was_accepted(telegram: TelegramServer, bot: Bot) -> None:
    """Carried out, then cut, hung or failed: the message is there, the client has an error."""
    telegram.fail_next("sendMessage", accept=True, cut=True)
    with pytest.raises(NetworkError, match="RemoteProtocolError"):
        await bot.send_message(42, "one")
    telegram.fail_next("sendMessage", accept=True, hang=True)
    with pytest.raises(NetworkError, match="Timed out"):
        await bot.send_message(42, "two", read_timeout=0.05)
    telegram.fail_next("sendMessage", 500, accept=True)
    with pytest.raises(NetworkError, match="Internal Server Error"):
        await bot.send_message(42, "three")
    telegram.delays["sendMessage"] = 60
    with pytest.raises(NetworkError, match="Timed out"):
        await bot.send_message(42, "four", read_timeout=0.05)
    assert telegram.visible() == ["one", "two", "three", "four"]


async def test_a_batch_is_not_confirmed_by_an_answer_that_was_lost(telegram: TelegramServer, bot: Bot) -> None:
    """getUpdates whose answer is cut off: the same batch comes next time."""
    said = telegram.say("hello")
    telegram.fail_next("getUpdates", accept=True, cut=True)
    with pytest.raises(NetworkError):
        await poll(bot)
    assert ids(await poll(bot)) == [said]


async def test_the_network_goes_and_comes_back(telegram: TelegramServer, bot: Bot) -> None:
    """Offline: a waiting poll is cut and new connections refused; then the same port again."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(caught(poll(bot, timeout=50)))
        await telegram.wait_for(lambda: telegram.polling)
        await telegram.offline()
    assert isinstance(waiting.result(), NetworkError)
    with pytest.raises(NetworkError, match="ConnectError"):
        await bot.get_me()
    said = telegram.say("meanwhile")
    await telegram.online()
    assert ids(await poll(bot)) == [said]


# A model.


@pytest.fixture
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def client(model: OpenAIServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=model.base_url,
        api_key="sk-test",
        max_retries=0,
        http_client=httpx.AsyncClient(trust_env=False),
    ) as client:
        yield client


SAVE: Json = {
    "type": "function",
    "function": {
        "name": "save_memory",
        "description": "Save it",
        "parameters": {
            "type": "object",
            "properties": {"entry": {"type": "string"}, "many": {"type": "integer"}},
            "required": ["entry", "many"],
        },
    },
}
FORCED: Json = {"type": "function", "function": {"name": "save_memory"}}
HELLO: list[Json] = [{"role": "user", "content": "hello"}]


async def ask(client: AsyncOpenAI, messages: list[Json] | None = None, **params: Any) -> Any:
    return await client.chat.completions.create(
        model="test-model",
        messages=HELLO if messages is None else messages,  # type: ignore[arg-type]
        **params,
    )


async def test_the_default_is_an_echo(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """With usage that adds up; the request is kept as it came."""
    answer = await ask(client)
    assert answer.choices[0].message.content == "You said: hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert model.requests[0]["messages"] == json.loads(model.raw_requests[0])["messages"] == HELLO
    assert model.headers[0]["Authorization"] == "Bearer sk-test"


async def test_a_stream_has_the_real_framing(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Role, deltas, finish reason, usage if asked for, end mark."""
    model.queue("one two  three\n", "one")
    chunks = [c async for c in await ask(client, stream=True, stream_options={"include_usage": True})]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "one two  three\n"
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-2].usage is None
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4
    async with httpx.AsyncClient(trust_env=False) as http:
        body = {"model": "m", "messages": HELLO, "stream": True}
        headers = {"Authorization": "Bearer sk-test"}
        raw = await http.post(f"{model.base_url}/chat/completions", json=body, headers=headers)
    events = raw.text.split("\n\n")
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert all(event.startswith("data: {") for event in events[:-2])
    assert events[-2:] == ["data: [DONE]", ""]
    assert "usage" not in raw.text


async def test_a_forced_call_is_obeyed_and_fits_its_schema(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """As with the real server its finish reason is "stop"."""
    answer = await ask(client, tools=[SAVE], tool_choice=FORCED)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "save_memory"
    assert json.loads(call.function.arguments) == {"entry": "text", "many": 0}
    assert answer.choices[0].finish_reason == "stop"


async def test_streamed_calls_can_be_put_together(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Two calls at once, the arguments in pieces by index."""
    model.queue([("save_memory", {"entry": "a" * 100, "many": 1}), ("save_memory", '{"broken')])
    arguments, names, finish = {0: "", 1: ""}, [], None
    async for chunk in await ask(client, tools=[SAVE], stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments[call.index] += call.function.arguments
            names += [call.function.name] if call.function.name else []
        finish = chunk.choices[0].finish_reason or finish
    assert names == ["save_memory"] * 2 and finish == "tool_calls"
    assert json.loads(arguments[0])["entry"] == "a" * 100 and arguments[1] == '{"broken'


async def test_litellm_reads_forced_and_streamed_calls(model: OpenAIServer) -> None:
    """The library in use rebuilds both, and sees the usage chunk."""
    litellm = await asyncio.to_thread(__import__, "litellm")
    common: Json = {
        "model": "openai/test-model",
        "api_base": model.base_url,
        "api_key": "sk-test",
        "max_retries": 0,
        "messages": HELLO,
        "tools": [SAVE],
    }
    answer = await litellm.acompletion(**common, tool_choice=FORCED)
    assert answer.choices[0].message.tool_calls[0].function.name == "save_memory"
    model.queue(Answer("Saving.", [("save_memory", {"entry": "x", "many": 1})]))
    stream = await litellm.acompletion(**common, stream=True, stream_options={"include_usage": True})
    whole = litellm.stream_chunk_builder([chunk async for chunk in stream])
    assert whole.choices[0].message.content == "Saving."
    assert json.loads(whole.choices[0].message.tool_calls[0].function.arguments)["entry"] == "x"
    assert whole.usage.prompt_tokens_details.cached_tokens > 0
    model.queue(Fault.context_length(), Fault.rate_limited())
    with pytest.raises(litellm.ContextWindowExceededError):
        await litellm.acompletion(**common)
    with pytest.raises(litellm.RateLimitError):
        await litellm.acompletion(**common)


CALL: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "save_memory", "arguments": "{}"}}],
}
RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "saved"}


async def test_a_legal_history_passes(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Call, result, next turn; the shared beginning is cached."""
    history = [{"role": "system", "content": "Be brief. " * 20}, *HELLO, CALL, RESULT]
    first = await ask(client, history, tools=[SAVE])
    second = await ask(client, [*history, *HELLO], tools=[SAVE])
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert second.usage.prompt_tokens_details.cached_tokens == first.usage.prompt_tokens
    assert model.violations == []


@pytest.mark.parametrize(
    ("messages", "params", "words"),
    [
        ([], {}, "empty array"),
        ([{"role": "robot", "content": "x"}], {}, "Supported values are"),
        ([{"role": "user", "content": None}], {}, "got null"),
        ([RESULT], {}, "must be a response to a preceeding message"),
        ([*HELLO, CALL], {}, "did not have response messages: c1"),
        ([*HELLO, CALL, *HELLO, RESULT], {}, "did not have response messages: c1"),
        ([*HELLO, CALL, RESULT, RESULT], {}, "must be a response to a preceeding message"),
        ([*HELLO, CALL, {**RESULT, "tool_call_id": "c2"}], {}, "must be a response"),
        (HELLO, {"tool_choice": FORCED}, "only allowed when 'tools' are specified"),
        (HELLO, {"tools": []}, "too short"),
        (
            HELLO,
            {"tools": [SAVE], "tool_choice": {"type": "function", "function": {"name": "no"}}},
            "not found in 'tools'",
        ),
        (
            HELLO,
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "does not match pattern",
        ),
        (HELLO, {"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, "too long"),
        (
            HELLO,
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "text"}}}]},
            "Invalid schema for function",
        ),
        (HELLO, {"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
    ],
)
async def test_an_illegal_request_is_refused_and_noted(
    model: OpenAIServer, client: AsyncOpenAI, messages: list[Json], params: Json, words: str
) -> None:
    """400 for the client, a violation for the test."""
    with pytest.raises(openai.BadRequestError, match=words) as refused:
        await ask(client, messages, **params)
    assert refused.value.type == "invalid_request_error"
    assert [violation.request for violation in model.violations] == [0]


async def test_the_window_has_a_limit(client: AsyncOpenAI, model: OpenAIServer) -> None:
    """What does not fit is refused with the code that clients look for."""
    model.max_context_tokens = 100
    await ask(client)
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(client, [{"role": "user", "content": "x" * 1000}])
    assert refused.value.code == "context_length_exceeded"
    assert model.violations == []


async def test_faults_are_the_errors_of_the_real_client(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Each is the class that its status stands for."""
    model.queue(
        Fault.rate_limited(7),
        Fault.server_error(),
        Fault.unavailable(),
        Fault.unauthorized(),
        Fault.bad_gateway(),
    )
    with pytest.raises(openai.RateLimitError) as limited:
        await ask(client)
    assert limited.value.response.headers["retry-after"] == "7"
    for kind in (openai.InternalServerError, openai.InternalServerError):
        with pytest.raises(kind):
            await ask(client)
    with pytest.raises(openai.AuthenticationError):
        await ask(client)
    with pytest.raises(openai.InternalServerError, match="502 Bad Gateway"):
        await ask(client)
    model.queue(Fault.not_json(), Empty())
    assert "Please log in" in str(await ask(client))
    assert (await ask(client)).choices == []


async def test_streams_that_end_badly(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Cut, with an error inside, stalled, empty."""
    model.queue(Cut(after_chunks=3), Cut(after_chunks=2, error={"error": {"message": "sorry"}}))
    seen: list[Any] = []
    with pytest.raises(httpx.RemoteProtocolError):
        await collect_into(seen, await ask(client, stream=True))
    assert len(seen) == 3
    with pytest.raises(openai.APIError, match="sorry"):
        await collect_into([], await ask(client, stream=True))
    model.queue(Stall(after_chunks=2), EmptyStream(), EmptyStream(done=False), Cut())
    with pytest.raises(httpx.ReadTimeout):
        await collect_into([], await ask(client, stream=True, timeout=0.05))
    await model.wait_for(lambda: model.in_flight == 0)
    for _ in range(2):
        assert await collect_into([], await ask(client, stream=True)) == []
    with pytest.raises(openai.APIConnectionError):
        await ask(client)


async def collect_into(seen: list[Any], stream: Any) -> list[Any]:
    async for chunk in stream:
        seen.append(chunk)
    return seen


async def test_odd_answers(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """Ids missing or twice, a text of many megabytes."""
    calls = [("save_memory", "{}")] * 3
    model.queue(Answer(tool_calls=calls, call_ids=["x", "x", None]), "y" * 5_000_000)
    answer = await ask(client, tools=[SAVE])
    assert [call.id for call in answer.choices[0].message.tool_calls] == ["x", "x", None]
    chunks = [chunk async for chunk in await ask(client, stream=True)]
    assert sum(len(chunk.choices[0].delta.content or "") for chunk in chunks) == 5_000_000


async def test_a_call_can_be_held(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """A test acts while a call is in flight; what is decided then counts."""
    model.hold()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(ask(client))
        await model.wait_for(lambda: model.in_flight == 1 and model.requests)
        model.script(lambda request: f"{len(request['messages'])} message")
        model.release()
    assert call.result().choices[0].message.content == "1 message"


async def test_a_cancelled_call_is_noticed(model: OpenAIServer, client: AsyncOpenAI) -> None:
    """The server sees the client go."""
    model.hold()
    call = asyncio.create_task(ask(client))
    await model.wait_for(lambda: model.in_flight == 1 and model.requests)
    call.cancel()
    await model.wait_for(lambda: model.in_flight == 0)
    with pytest.raises(asyncio.CancelledError):
        await call
    model.release()
    assert (await ask(client)).choices, "the next call is answered"
    assert len(model.requests) == 2 and model.violations == []


async def test_embeddings_are_stable_and_near_for_shared_words(client: AsyncOpenAI) -> None:
    """Through the real client, which asks for base64."""
    answer = await client.embeddings.create(model="e", input=["the red fox", "a red fox", "zebra"])
    fox, other, zebra = [item.embedding for item in answer.data]
    again = await client.embeddings.create(model="e", input="the red fox")
    assert again.data[0].embedding == fox and len(fox) == 8

    def near(one: list[float], two: list[float]) -> float:
        return sum(a * b for a, b in zip(one, two, strict=True))

    assert near(fox, other) > near(fox, zebra)


async def test_models_are_listed_and_unknown_ones_refused() -> None:
    """Only if the server was given a list, as with keys."""
    async with OpenAIServer(models=["one"], api_key="sk-right") as server:
        async with AsyncOpenAI(base_url=server.base_url, api_key="sk-right", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["one"]
            with pytest.raises(openai.NotFoundError):
                await ask(client)
        async with AsyncOpenAI(base_url=server.base_url, api_key="sk-bad", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await ask(client)
