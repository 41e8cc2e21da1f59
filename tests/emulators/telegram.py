"""A Telegram Bot API on loopback, for one bot.

What of the real contract is honoured:

- `getUpdates`: an update is forgotten only by a later call with a greater offset, and delivered
  again until then; a negative offset keeps that many from the end; an offset far beyond the next
  id is taken for none; `limit`, long polling, `allowed_updates`. A second call ends a waiting
  first one with 409.
- Texts are counted in UTF-16 units after the markup was parsed and the ends were trimmed.
  Entities, markup, replies, chats that were migrated and bots that were blocked are checked, and
  refused in the real server's words.
- Errors are the JSON bodies of the real server with the same HTTP status; 502 and 504 are the
  HTML page of the proxy in front of it.

What is not: rate limits (ask for them with `fail_next`), rights, privacy mode, links found in
texts, webhooks, and "chat not found": a bot may write to any chat here.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from aiohttp import BodyPartReader, web

from . import markup
from .loopback import LoopbackServer, cut, never_answer
from .markup import Entity, MarkupError, utf16

Json = dict[str, Any]

TEXT_LIMIT = 4096  # UTF-16 units
CAPTION_LIMIT = 1024
DOWNLOAD_LIMIT = 20 * 1024 * 1024
UPLOAD_LIMIT = 50 * 1024 * 1024

_NUMBERS = frozenset(["chat_id", "message_id", "message_thread_id", "offset", "limit", "timeout", "user_id"])
_STRUCTURES = frozenset(
    [
        "entities",
        "caption_entities",
        "allowed_updates",
        "reply_markup",
        "reply_parameters",
        "commands",
        "scope",
        "link_preview_options",
    ]
)
_ACTIONS = frozenset(
    [
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ]
)
_FOUND = re.compile(
    r"(?P<bot_command>(?<![\w/])/\w{1,64}(?:@\w+)?)|(?P<mention>(?<!\w)@\w{5,32})"
    r"|(?P<url>https?://\S+)"
)
_DESCRIPTIONS = {
    400: "Bad Request: the test asked for it",
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Call(NamedTuple):
    """One request: the method's proper name, its decoded parameters, `time.monotonic()`."""

    method: str
    params: Json
    at: float


@dataclass
class SentMessage:
    """One message of the bot's, as it stands now; `history` holds its texts, oldest first."""

    message_id: int
    chat: int
    topic: int | None
    text: str
    entities: list[Entity]
    sent_at: float
    date: int
    history: list[str] = field(default_factory=list)
    deleted: bool = False
    reply_to: int | None = None
    reply_markup: Json | None = None
    document: bytes | None = None
    document_name: str | None = None


@dataclass
class _Chat:
    id: int
    kind: str
    title: str
    next_message_id: int = 1
    sent: dict[int, SentMessage] = field(default_factory=dict)
    said: dict[int, Json] = field(default_factory=dict)
    blocked: bool = False
    migrated_to: int | None = None
    lost_topics: set[int] = field(default_factory=set)

    def take_id(self) -> int:
        self.next_message_id += 1
        return self.next_message_id - 1

    def json(self) -> Json:
        name = {"first_name" if self.kind == "private" else "title": self.title}
        return {"id": self.id, "type": self.kind, **name}


@dataclass
class _File:
    id: str
    name: str
    content: bytes
    media_type: str
    size: int
    path: str

    def json(self) -> Json:
        return {"file_id": self.id, "file_unique_id": f"u{self.id}", "file_size": self.size}


@dataclass
class _Pending:
    id: int
    update: Json
    # Delivered once more whatever offset is asked with: the confirmation got lost on the way.
    again: bool = False


@dataclass
class _Fault:
    method: str
    status: int
    retry_after: int | None
    times: int
    accept: bool
    cut: bool
    hang: bool
    description: str | None


class _Refused(Exception):
    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def _bad(description: str, **parameters: int) -> _Refused:
    return _Refused(400, f"Bad Request: {description}", **parameters)


class TelegramServer(LoopbackServer):
    """Speaks to a bot like Telegram; the public methods are what people do at the other end.

    Use as `async with TelegramServer() as telegram`. Chats and topics come into being when they
    are first named: a positive id is a private chat, `-100...` a supergroup, others a group.
    Message ids count from 1 in each chat. `delays` holds seconds by method name: the request is
    carried out at once and answered late. `told_to_wait` are the calls that were too much, and the
    seconds each was told to wait; `failed` counts those that met any fault.
    """

    _of_connections = LoopbackServer._of_connections | {"_poll", "_methods"}

    def __init__(
        self,
        token: str = "1234567:nanomem-Test_Token",
        *,
        username: str = "nanomem_bot",
        first_update_id: int = 1000,
    ) -> None:
        super().__init__()
        self.token = token
        self.username = username
        self.next_update_id = first_update_id
        self.calls: list[Call] = []
        self.delays: dict[str, float] = {}
        self.allowed_updates: list[str] = []
        self.told_to_wait: list[tuple[Call, int]] = []
        self.failed = 0
        self._bot_id = int(token.partition(":")[0])
        self._chats: dict[int, _Chat] = {}
        self._files: dict[str, _File] = {}
        self._faults: list[_Fault] = []
        self._pending: list[_Pending] = []
        self._updates: dict[int, Json] = {}
        self._last_batch: list[int] = []
        self._poll: asyncio.Future[bool] | None = None
        self._commands: dict[str, list[Json]] = {}
        self._open_queries: set[str] = set()
        methods: list[Callable[[Json], Any]] = [
            self._getMe,
            self._sendMessage,
            self._editMessageText,
            self._deleteMessage,
            self._sendChatAction,
            self._sendDocument,
            self._setMyCommands,
            self._getMyCommands,
            self._deleteMyCommands,
            self._getFile,
            self._deleteWebhook,
            self._answerCallbackQuery,
        ]
        self._methods = {method.__name__[1:].lower(): method for method in methods}

    # What a client is set up with.

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/bot"

    @property
    def base_file_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/file/bot"

    # What people do.

    def say(
        self,
        text: str = "",
        chat: int = 42,
        user: int | None = None,
        name: str = "Ann",
        *,
        username: str | None = None,
        chat_type: str | None = None,
        topic: int | None = None,
        reply_to: int | None = None,
        forward_from: int | None = None,
        entities: list[Entity] | None = None,
        edited: bool = False,
        message_id: int | None = None,
        photo: bytes | str | None = None,
        document: bytes | str | None = None,
        voice: bytes | str | None = None,
        sticker: bytes | str | None = None,
        media_group: str | None = None,
        caption: str | None = None,
    ) -> int:
        """A person writes; returns the id of the update.

        A file is given as its bytes or as the id that `add_file` returned. The user is the chat's
        own in a private chat, else 42; a channel has none. Commands, mentions and links become
        entities unless `entities` is given. `edited` changes `message_id`, or without it the last
        message a person wrote in the chat. An update of a kind that the client did not allow is
        dropped, as the real server does.
        """
        place = self._chat(chat, chat_type, name)
        if edited and message_id is None:
            message_id = max(place.said)
        number = place.take_id() if message_id is None else message_id
        message: Json = {"message_id": number, "date": int(time.time()), "chat": place.json()}
        if place.kind == "channel":
            message["sender_chat"] = place.json()
        else:
            person = chat if user is None and place.kind == "private" else user or 42
            message["from"] = _user(person, name, username)
        if edited:
            message["date"] = place.said[number]["date"]
            message["edit_date"] = int(time.time())
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
            message["chat"]["is_forum"] = True
        if reply_to is not None:
            message["reply_to_message"] = self._message_json(place, reply_to)
        if forward_from is not None:
            origin = {"type": "user", "date": int(time.time()) - 60}
            message["forward_origin"] = origin | {"sender_user": _user(forward_from, "Someone")}
        if media_group is not None:
            message["media_group_id"] = media_group
        message |= self._media(photo, document, voice, sticker)
        is_media = any(given is not None for given in (photo, document, voice, sticker))
        words = caption if is_media and caption is not None else text
        if words or not is_media:
            message["caption" if is_media else "text"] = words
            found = _find_entities(words) if entities is None else entities
            if found:
                message["caption_entities" if is_media else "entities"] = found
        place.said[number] = message
        kind = "channel_post" if place.kind == "channel" else "message"
        return self._enqueue(f"edited_{kind}" if edited else kind, message)

    def press(
        self,
        data: str,
        message_id: int,
        chat: int = 42,
        user: int | None = None,
        name: str = "Ann",
        *,
        username: str | None = None,
    ) -> int:
        """A person presses a button below one of the bot's messages; the id of the update."""
        query = f"q{self.next_update_id}"
        self._open_queries.add(query)
        body = {
            "id": query,
            "from": _user(chat if user is None else user, name, username),
            "message": self._message_json(self._chat(chat), message_id),
            "chat_instance": str(chat),
            "data": data,
        }
        return self._enqueue("callback_query", body)

    def push(self, update: Json) -> int:
        """Deliver this very object, however broken; the id under which it is confirmed.

        Without `update_id` it gets the next one. One that is not a number cannot be confirmed
        and is delivered once.
        """
        given = update.get("update_id", self.next_update_id)
        number = given if type(given) is int else self.next_update_id
        body = update if "update_id" in update else {"update_id": number, **update}
        self.next_update_id = max(self.next_update_id, number) + 1
        self._add(_Pending(number, body, again=type(given) is not int))
        return number

    def update(self, update_id: int) -> Json:
        """The update with this id, as it is or was delivered."""
        return self._updates[update_id]

    def redeliver(self, update_id: int | None = None) -> None:
        """Deliver an update again although it was confirmed; without id the whole last batch."""
        for number in self._last_batch if update_id is None else [update_id]:
            self._pending = [entry for entry in self._pending if entry.id != number]
            self._add(_Pending(number, self._updates[number], again=True))

    def migrate(self, old_chat: int, new_chat: int) -> tuple[int, int]:
        """A group becomes a supergroup: two service messages; sending to the old one fails."""
        old, new = self._chat(old_chat), self._chat(new_chat, "supergroup")
        new.title = old.title
        common = {"date": int(time.time()), "from": _user(42, "Ann")}
        leave = {**common, "message_id": old.take_id(), "chat": old.json()}
        enter = {**common, "message_id": new.take_id(), "chat": new.json()}
        old.migrated_to = new_chat
        return (
            self._enqueue("message", {**leave, "migrate_to_chat_id": new_chat}),
            self._enqueue("message", {**enter, "migrate_from_chat_id": old_chat}),
        )

    def add_file(
        self,
        content: bytes,
        name: str,
        *,
        media_type: str = "application/octet-stream",
        size: int | None = None,
    ) -> str:
        """Store a file; its id. `name`, `media_type` and `size` are told as given, true or not."""
        number = len(self._files)
        file_id = f"file{number:06d}"
        self._files[file_id] = _File(
            file_id,
            name,
            content,
            media_type,
            len(content) if size is None else size,
            f"documents/file_{number}",
        )
        return file_id

    def block(self, chat: int, *, blocked: bool = True) -> None:
        """The person blocks the bot, or lets it in again."""
        self._chat(chat).blocked = blocked

    def delete_topic(self, chat: int, topic: int) -> None:
        """Sending to this topic fails from now on."""
        self._chat(chat).lost_topics.add(topic)

    # What people see.

    def messages(self, chat: int = 42, topic: int | None = None) -> list[SentMessage]:
        """All the bot ever sent to the chat, deleted ones too; of one topic if it is given."""
        sent = self._chats[chat].sent.values() if chat in self._chats else ()
        return [message for message in sent if topic is None or message.topic == topic]

    def visible(self, chat: int = 42, topic: int | None = None) -> list[str]:
        """The bot's texts as the chat shows them now; for a document its caption."""
        return [message.text for message in self.messages(chat, topic) if not message.deleted]

    def commands(self, **scope: Any) -> list[Json]:
        """The menu of commands as last set for this scope."""
        return self._commands.get(_scope({"scope": scope or None}), [])

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method.lower() == method.lower()]

    @property
    def polling(self) -> bool:
        """Whether a getUpdates is waiting for something to happen."""
        return self._poll is not None and not self._poll.done()

    @property
    def unconfirmed(self) -> list[int]:
        """The ids of updates that no later offset has confirmed."""
        return [entry.id for entry in self._pending]

    # What goes wrong.

    def fail_next(
        self,
        method: str,
        status: int = 500,
        *,
        retry_after: int | None = None,
        times: int = 1,
        accept: bool = False,
        cut: bool = False,
        hang: bool = False,
        description: str | None = None,
    ) -> None:
        """The next `times` calls of `method` ("*" for any) fail.

        `accept`: the request is carried out nevertheless. `cut`: the connection is closed instead
        of an answer; `hang`: there is no answer at all. Faults are used up in the order given.
        """
        self._faults.append(_Fault(method.lower(), status, retry_after, times, accept, cut, hang, description))

    def heal(self) -> None:
        """Forget the faults that are still to come."""
        self._faults.clear()

    # The server.

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            path = re.fullmatch(r"/(file/)?bot([^/]+)/(.+)", request.path)
            if path is None or not re.fullmatch(r"\d+:[\w-]+", path[2]):
                raise _Refused(404, "Not Found")
            if path[2] != self.token:
                raise _Refused(401, "Unauthorized")
            if path[1]:
                return self._download(path[3])
            return await self._call(request, path[3])
        except _Refused as refusal:
            return _refusal(refusal)

    async def _call(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        method = self._methods.get(name.lower())
        if method is not None:
            name = method.__name__[1:]
        elif name.lower() == "getupdates":
            name = "getUpdates"
        params = await _params(request)
        call = Call(name, params, time.monotonic())
        self.calls.append(call)
        fault = self._take_fault(name)
        answer: web.StreamResponse | None = None
        if fault is None or fault.accept:
            try:
                if name == "getUpdates":
                    self._notify()
                    result = await self._get_updates(params)
                elif method is None:
                    raise _Refused(404, "Not Found")
                else:
                    result = method(params)
                answer = web.json_response({"ok": True, "result": result})
            except MarkupError as error:
                answer = _refusal(_bad(str(error)))
            except _Refused as refusal:
                answer = _refusal(refusal)
        self._notify()
        if delay := self.delays.get(name):
            await asyncio.sleep(delay)
        if fault is None:
            assert answer is not None
            return answer
        if fault.hang:
            return await never_answer()
        if fault.status == 429 and not fault.cut:
            self.told_to_wait.append((call, 1 if fault.retry_after is None else fault.retry_after))
        return cut(request) if fault.cut else _broken(fault)

    def _take_fault(self, name: str) -> _Fault | None:
        for fault in self._faults:
            if fault.method in ("*", name.lower()):
                self.failed += 1
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    def _download(self, path: str) -> web.Response:
        for file in self._files.values():
            if file.path == path:
                return web.Response(body=file.content, content_type="application/octet-stream")
        raise _Refused(404, "Not Found")

    # Updates.

    async def _get_updates(self, params: Json) -> list[Json]:
        offset = params.get("offset", 0)
        limit = min(max(params.get("limit", 100), 1), 100)
        if "allowed_updates" in params:
            self.allowed_updates = params["allowed_updates"] or []
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(False)
        poll: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._poll = poll
        try:
            if offset < 0:
                self._pending = self._pending[offset:]
                offset = 0
            elif offset > self.next_update_id + 10:
                offset = 0
            else:
                self._pending = [e for e in self._pending if e.id >= offset or e.again]
            if not self._pending and params.get("timeout", 0) > 0:
                try:
                    async with asyncio.timeout(min(params["timeout"], 50)):
                        if not await poll:
                            raise _Refused(409, _DESCRIPTIONS[409])
                except TimeoutError:
                    pass
            batch = self._pending[:limit]
        finally:
            if self._poll is poll:
                self._poll = None
        for entry in batch:
            entry.again = False
        # What cannot be confirmed would come for ever.
        self._pending = [e for e in self._pending if e not in batch or type(e.update["update_id"]) is int]
        if batch:
            self._last_batch = [entry.id for entry in batch]
        return [entry.update for entry in batch]

    def _enqueue(self, kind: str, body: Json) -> int:
        number = self.next_update_id
        self.next_update_id += 1
        if not self.allowed_updates or kind in self.allowed_updates:
            self._add(_Pending(number, {"update_id": number, kind: body}))
        return number

    def _add(self, entry: _Pending) -> None:
        self._updates[entry.id] = entry.update
        self._pending.append(entry)
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(True)
        self._notify()

    # Methods, named as the API names them.

    def _getMe(self, params: Json) -> Json:
        return self._bot() | {
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    def _sendMessage(self, params: Json) -> Json:
        text, entities = _formatted(params, "text", "entities")
        if utf16(text) > TEXT_LIMIT:
            raise _bad("message is too long")
        return self._send(params, text, entities)

    def _editMessageText(self, params: Json) -> Json:
        text, entities = _formatted(params, "text", "entities")
        chat = self._target(params)
        message = chat.sent.get(params.get("message_id", 0))
        if message is None or message.deleted:
            if params.get("message_id") in chat.said:
                raise _bad("message can't be edited")
            raise _bad("message to edit not found")
        if message.document is not None:
            raise _bad("there is no text in the message to edit")
        if utf16(text) > TEXT_LIMIT:
            raise _bad("MESSAGE_TOO_LONG")
        buttons = params.get("reply_markup")
        if (text, entities, buttons) == (message.text, message.entities, message.reply_markup):
            raise _bad(
                "message is not modified: specified new message content and reply markup are "
                "exactly the same as a current content and reply markup of the message"
            )
        message.text, message.entities, message.reply_markup = text, entities, buttons
        message.history.append(text)
        return self._message_json(chat, message.message_id) | {"edit_date": int(time.time())}

    def _deleteMessage(self, params: Json) -> bool:
        chat = self._target(params)
        number = params.get("message_id", 0)
        message = chat.sent.get(number)
        if message is not None and not message.deleted:
            message.deleted = True
        elif chat.said.pop(number, None) is None:
            raise _bad("message to delete not found")
        return True

    def _sendChatAction(self, params: Json) -> bool:
        self._target(params)
        if params.get("action") not in _ACTIONS:
            raise _bad("wrong parameter action in request")
        return True

    def _sendDocument(self, params: Json) -> Json:
        given = params.get("document")
        if isinstance(given, _File):
            file = given
            self._files[file.id] = file
        elif isinstance(given, str) and given in self._files:
            file = self._files[given]
        elif given:
            raise _bad("wrong remote file identifier specified: Wrong string length")
        else:
            raise _bad("there is no document in the request")
        if not file.content:
            raise _bad("file must be non-empty")
        if len(file.content) > UPLOAD_LIMIT:
            raise _Refused(413, "Request Entity Too Large")
        text, entities = _formatted(params, "caption", "caption_entities", required=False)
        if utf16(text) > CAPTION_LIMIT:
            raise _bad("message caption is too long")
        return self._send(params, text, entities, file)

    def _setMyCommands(self, params: Json) -> bool:
        commands = params.get("commands")
        if not isinstance(commands, list):
            raise _bad("can't parse commands: Expected an Array of BotCommand")
        if len(commands) > 100:
            raise _bad("BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", str(command.get("command", ""))):
                raise _bad("BOT_COMMAND_INVALID")
            if not 1 <= len(str(command.get("description", ""))) <= 256:
                raise _bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self._commands[_scope(params)] = commands
        return True

    def _getMyCommands(self, params: Json) -> list[Json]:
        return self._commands.get(_scope(params), [])

    def _deleteMyCommands(self, params: Json) -> bool:
        self._commands.pop(_scope(params), None)
        return True

    def _getFile(self, params: Json) -> Json:
        file = self._files.get(str(params.get("file_id", "")))
        if file is None:
            raise _bad("wrong file_id or the file is temporarily unavailable")
        if file.size > DOWNLOAD_LIMIT:
            raise _bad("file is too big")
        return file.json() | {"file_path": file.path}

    def _deleteWebhook(self, params: Json) -> bool:
        if str(params.get("drop_pending_updates", "")).lower() == "true":
            self._pending.clear()
        return True

    def _answerCallbackQuery(self, params: Json) -> bool:
        if params.get("callback_query_id") not in self._open_queries:
            raise _bad("query is too old and response timeout expired or query ID is invalid")
        self._open_queries.remove(params["callback_query_id"])
        return True

    # Parts of them.

    def _target(self, params: Json) -> _Chat:
        chat_id = params.get("chat_id", "")
        if chat_id == "":
            raise _bad("chat_id is empty")
        if not isinstance(chat_id, int):
            raise _bad("chat not found")
        chat = self._chat(chat_id)
        if chat.migrated_to is not None:
            raise _bad(
                "group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.migrated_to,
            )
        if chat.blocked:
            raise _Refused(403, _DESCRIPTIONS[403])
        return chat

    def _send(self, params: Json, text: str, entities: list[Entity], file: _File | None = None) -> Json:
        chat = self._target(params)
        topic = params.get("message_thread_id")
        if topic in chat.lost_topics:
            raise _bad("message thread not found")
        reply = params.get("reply_parameters") or {}
        reply_to = reply.get("message_id")
        if reply_to is not None and reply_to not in chat.said and reply_to not in chat.sent:
            if not reply.get("allow_sending_without_reply"):
                raise _bad("message to be replied not found")
            reply_to = None
        message = SentMessage(
            message_id=chat.take_id(),
            chat=chat.id,
            topic=topic,
            text=text,
            entities=entities,
            sent_at=time.monotonic(),
            date=int(time.time()),
            history=[text],
            reply_to=reply_to,
            reply_markup=params.get("reply_markup"),
            document=file.content if file else None,
            document_name=file.name if file else None,
        )
        chat.sent[message.message_id] = message
        answer = self._message_json(chat, message.message_id)
        if file:
            answer["document"] = _document(file)
        return answer

    def _message_json(self, chat: _Chat, number: int) -> Json:
        if number in chat.said:
            return {k: v for k, v in chat.said[number].items() if k != "reply_to_message"}
        message = chat.sent[number]
        body: Json = {"message_id": number, "date": message.date, "chat": chat.json()}
        body["from"] = self._bot()
        word = "text" if message.document is None else "caption"
        if message.text:
            body[word] = message.text
        if message.entities:
            body["entities" if word == "text" else "caption_entities"] = message.entities
        if message.topic is not None:
            body |= {"message_thread_id": message.topic, "is_topic_message": True}
        if message.reply_to is not None and message.reply_to in chat.said:
            body["reply_to_message"] = self._message_json(chat, message.reply_to)
        if message.reply_markup and "inline_keyboard" in message.reply_markup:
            body["reply_markup"] = message.reply_markup
        return body

    def _chat(self, chat: int, kind: str | None = None, name: str = "Ann") -> _Chat:
        if chat not in self._chats:
            supergroup = str(chat).startswith("-100")
            guess = "private" if chat > 0 else "supergroup" if supergroup else "group"
            kind = kind or guess
            title = name if kind == "private" else f"Chat {chat}"
            self._chats[chat] = _Chat(chat, kind, title)
        return self._chats[chat]

    def _bot(self) -> Json:
        return {
            "id": self._bot_id,
            "is_bot": True,
            "first_name": "nanomem",
            "username": self.username,
        }

    def _media(
        self,
        photo: bytes | str | None,
        document: bytes | str | None,
        voice: bytes | str | None,
        sticker: bytes | str | None,
    ) -> Json:
        def stored(given: bytes | str, name: str, media_type: str) -> _File:
            if isinstance(given, bytes):
                given = self.add_file(given, name, media_type=media_type)
            return self._files[given]

        media: Json = {}
        if photo is not None:
            image = stored(photo, "photo.jpg", "image/jpeg").json()
            thumbnail = image | {"file_unique_id": "s" + image["file_unique_id"]}
            media["photo"] = [
                thumbnail | {"width": 90, "height": 67},
                image | {"width": 1280, "height": 960},
            ]
        if document is not None:
            media["document"] = _document(stored(document, "file.bin", "application/octet-stream"))
        if voice is not None:
            file = stored(voice, "voice.ogg", "audio/ogg")
            media["voice"] = file.json() | {"duration": 1, "mime_type": file.media_type}
        if sticker is not None:
            media["sticker"] = stored(sticker, "sticker.webp", "image/webp").json() | {
                "type": "regular",
                "width": 512,
                "height": 512,
                "is_animated": False,
                "is_video": False,
                "emoji": "🙂",
            }
        return media


def _user(number: int, name: str, username: str | None = None) -> Json:
    user: Json = {"id": number, "is_bot": False, "first_name": name, "language_code": "en"}
    return user | ({"username": username} if username else {})


def _document(file: _File) -> Json:
    return file.json() | {"file_name": file.name, "mime_type": file.media_type}


def _scope(params: Json) -> str:
    scope = params.get("scope") or {"type": "default"}
    return json.dumps([scope, params.get("language_code") or ""], sort_keys=True)


def _find_entities(text: str) -> list[Entity]:
    return [
        {
            "type": found.lastgroup,
            "offset": utf16(text[: found.start()]),
            "length": utf16(found[0]),
        }
        for found in _FOUND.finditer(text)
    ]


def _formatted(params: Json, text_key: str, entities_key: str, *, required: bool = True) -> tuple[str, list[Entity]]:
    text = params.get(text_key, "")
    if not isinstance(text, str):
        text = json.dumps(text)
    if not text and required:
        raise _bad("message text is empty")
    if len(text.encode()) > 1 << 15:
        raise _bad("text is too long" if required else "message caption is too long")
    plain, entities = markup.parse(text, str(params.get("parse_mode", "")))
    if not params.get("parse_mode"):
        entities = markup.check_entities(plain, params.get(entities_key) or [])
    plain, entities = markup.trim(plain, entities)
    if not plain and required:
        raise _bad("text must be non-empty")
    return plain, entities


async def _params(request: web.BaseRequest) -> Json:
    """Parameters from the address and the body, be it a form, JSON or multipart.

    Numbers and structures are decoded; an uploaded file is in the place that refers to it.
    """
    pairs: list[tuple[str, Any]] = list(request.query.items())
    uploads: dict[str, _File] = {}
    try:
        if request.content_type.startswith("multipart/"):
            reader = await request.multipart()
            while (part := await reader.next()) is not None:
                if not isinstance(part, BodyPartReader):
                    continue
                content, name, filename = bytes(await part.read()), part.name, part.filename
                if filename is None:
                    pairs.append((name or "", content.decode()))
                else:
                    media_type = part.headers.get("Content-Type", "application/octet-stream")
                    file_id = f"upload{time.monotonic_ns()}"
                    uploads[name or ""] = _File(
                        file_id, filename, content, media_type, len(content), f"documents/{file_id}"
                    )
        else:
            body = (await request.content.read()).decode()
            if request.content_type == "application/json":
                decoded = json.loads(body or "{}")
                if not isinstance(decoded, dict):
                    raise _bad("can't parse JSON object")
                pairs += decoded.items()
            else:
                pairs += parse_qsl(body, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise _bad("strings must be encoded in UTF-8") from None
    except json.JSONDecodeError:
        raise _bad("can't parse JSON object") from None
    params = {name: _decoded(name, value) for name, value in pairs}
    if not _is_text(params.values()):
        raise _bad("strings must be encoded in UTF-8")
    for name, file in uploads.items():
        places = [key for key, value in params.items() if value == f"attach://{name}"]
        for place in places or [name]:
            params[place] = file
    return params


def _decoded(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if name in _STRUCTURES:
        try:
            return json.loads(value) if value else None
        except json.JSONDecodeError:
            raise _bad(f"can't parse {name} JSON object") from None
    if name in _NUMBERS and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    return value


def _is_text(values: Iterable[Any]) -> bool:
    """Whether all strings within can be written as UTF-8: no half of a surrogate pair."""
    try:
        json.dumps(list(values), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(refusal: _Refused) -> web.Response:
    body: Json = {"ok": False, "error_code": refusal.code, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    return web.json_response(body, status=refusal.code)


def _broken(fault: _Fault) -> web.Response:
    if fault.status in (502, 504) and fault.description is None:
        words = "Bad Gateway" if fault.status == 502 else "Gateway Time-out"
        page = f"<html>\r\n<head><title>{fault.status} {words}</title></head>\r\n<body></body></html>"
        return web.Response(status=fault.status, text=page, content_type="text/html")
    if fault.status == 429:
        wait = 1 if fault.retry_after is None else fault.retry_after
        words = fault.description or f"Too Many Requests: retry after {wait}"
        return _refusal(_Refused(429, words, retry_after=wait))
    words = fault.description or _DESCRIPTIONS.get(fault.status, "Unknown")
    return _refusal(_Refused(fault.status, words))
