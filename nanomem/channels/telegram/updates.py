"""A Telegram update, as raw JSON, -> what it means to nanomem.

Pure: no network, clock or library. An update may be any JSON at all: what cannot be read raises
`Broken`, and nothing else is ever raised.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from nanomem.messages import Attachment, Inbound, Sender

Raw = Mapping[str, Any]
GroupPolicy = Literal["mention", "all", "off"]
T = TypeVar("T")

_MESSAGES = ("message", "edited_message")
KINDS = (*_MESSAGES, "callback_query", "my_chat_member")
"""The kinds of update to ask for."""

_LONGEST_QUOTE = 500
_LONGEST_NAME = 100
_LONGEST_FILE_NAME = 200
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_COMMAND = re.compile(r"(/[A-Za-z0-9_-]+)(?:@(\w+))?(?!\S)")
_PAIRING = re.compile(r"/start(?:@\w+)?\s+(\S{1,64})")
_UNKEPT = re.compile("[\x00\ud800-\udfff]")
# What only happened, and nobody said.
_SERVICE = re.compile(
    "chat_|pinned_|forum_topic_|message_auto_delete|boost_added|users_shared|write_access|proximity|connected_website|"
    "payment|web_app_data|gift|giveaway_c|checklist_tasks|^poll_option"
)
_UNREADABLE = {
    "voice": "A voice message",
    "audio": "An audio file",
    "video": "A video",
    "video_note": "A video message",
    "animation": "An animation",
    "sticker": "A sticker",
}


class Broken(ValueError):
    """This update is not what Telegram's documents promise."""


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself."""

    id: int
    username: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who is behind an update. Not a `person`: a bot, a channel, a group's anonymous admin, or nobody."""

    user: int | None
    person: bool


def number(raw: object) -> int | None:
    """The update's id, None where there is none that could be confirmed."""
    found = raw.get("update_id") if isinstance(raw, Mapping) else None
    return found if type(found) is int and 0 <= found < 2**63 else None


def speaker(raw: object) -> Speaker:
    """To be asked before anything else is read. Raises Broken."""
    _, body = _body(raw)
    author = _field(body, "from", dict) or {}
    user = _field(author, "id", int)
    return Speaker(user, user is not None and author.get("is_bot", False) is False and "sender_chat" not in body)


def pairing_code(raw: object) -> str | None:
    """What follows `/start` in a private chat. Raises Broken."""
    kind, message = _body(raw)
    if kind != "message" or _text(_field(message, "chat", dict) or {}, "type") != "private":
        return None
    found = _PAIRING.fullmatch(_text(message, "text").strip())
    return found[1] if found else None


def migration(raw: object) -> tuple[int, int] | None:
    """The old and the new id of a group that became a supergroup. Raises Broken."""
    kind, message = _body(raw)
    chat = _field(_field(message, "chat", dict) or {}, "id", int)
    old, new = _field(message, "migrate_from_chat_id", int), _field(message, "migrate_to_chat_id", int)
    if kind != "message" or chat is None or (old is None and new is None):
        return None
    return (chat, new) if new is not None else (old or chat, chat)


def album(raw: object, me: Me, policy: GroupPolicy) -> str | None:
    """The album that this update shows to be meant for the bot. Raises Broken."""
    kind, message = _body(raw)
    return _text(message, "media_group_id") or None if kind in _MESSAGES and _is_for(me, message, policy, ()) else None


def inbound(
    raw: object, me: Me, *, owner: bool, policy: GroupPolicy, aliases: Mapping[str, str], albums: Container[str] = ()
) -> Inbound | None:
    """The message in it; None where nothing is to be answered. Raises Broken.

    `aliases` maps a chat's id to the one that its sessions are kept under. In a group, an item of one
    of the `albums` is meant for the bot even if it alone does not say so.
    """
    kind, message = _body(raw)
    if kind not in KINDS:
        raise Broken(f"unknown kind of update: {_line(kind, 40)}")
    edited = kind == "edited_message"
    if kind not in _MESSAGES or any(_SERVICE.search(key) for key in message):
        return None
    if not _is_for(me, message, policy, albums) or (edited and "location" in message):  # it moves on by itself
        return None
    files, text = _attachments(message), _addressed(_words(message), me)
    if _unreadable(message) or not (text or files):
        text = f"{text}\n[{_unreadable(message) or 'Something'} that nanomem cannot read yet]".strip()
    origin = _field(message, "forward_origin", dict)
    sender = _need(message, "from", dict)
    return Inbound(
        address=_address(message, aliases),
        id=str(number(raw)),
        text=text,
        sender=Sender(str(_need(sender, "id", int)), _name(sender)),
        sent_at=_when(_need(message, "edit_date" if edited else "date", int)),
        from_owner=owner,
        reply_to=_reply_to(message),
        forwarded_from=None if origin is None else _author(origin),
        edited=edited,
        attachments=files,
        album=_text(message, "media_group_id") or None,
    )


def _body(raw: object) -> tuple[str, Raw]:
    if not isinstance(raw, Mapping):
        raise Broken("the update is no object")
    kinds = [key for key in raw if key != "update_id"]
    if len(kinds) != 1:
        raise Broken("the update has no content, or several")
    return kinds[0], _need(raw, kinds[0], dict)


def _field(node: Raw, key: str, kind: type[T]) -> T | None:
    found = node.get(key)
    if found is not None and type(found) is not kind:
        raise Broken(f"{_line(key, 40)} is no {kind.__name__}")
    return found


def _need(node: Raw, key: str, kind: type[T]) -> T:
    found = _field(node, key, kind)
    if found is None:
        raise Broken(f"{_line(key, 40)} is missing")
    return found


def _text(node: Raw, key: str) -> str:
    return _UNKEPT.sub("\ufffd", _field(node, key, str) or "")


def _line(text: str, longest: int) -> str:
    """On one line, and not longer than that."""
    text = " ".join(_UNKEPT.sub("\ufffd", text).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _when(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise Broken("the date is out of range") from None


def _words(message: Raw) -> str:
    return _text(message, "text") or _text(message, "caption")


def _address(message: Raw, aliases: Mapping[str, str]) -> str:
    chat = str(_need(_need(message, "chat", dict), "id", int))
    topic = _field(message, "message_thread_id", int) if message.get("is_topic_message") is True else None
    return f"telegram:{aliases.get(chat, chat)}" + (f":{topic}" if topic is not None else "")


def _is_for(me: Me, message: Raw, policy: GroupPolicy, albums: Container[str]) -> bool:
    command = _COMMAND.match(_words(message).strip())
    if command and command[2] and command[2].lower() != me.username.lower():
        return False
    if _text(_need(message, "chat", dict), "type") == "private":
        return True
    if policy != "mention":
        return policy == "all"
    is_named = command or re.search(rf"(?<!\w){_named(me)}", _words(message), re.IGNORECASE)
    replied_to = _field(_replied(message) or {}, "from", dict) or {}
    return bool(is_named) or replied_to.get("id") == me.id or _text(message, "media_group_id") in albums


def _named(me: Me) -> str:
    return rf"@{re.escape(me.username or '?')}(?!\w)"


def _replied(message: Raw) -> Raw | None:
    """What it replies to; in a topic, all that replies to nothing replies to the topic's beginning."""
    replied = _field(message, "reply_to_message", dict)
    return None if replied is None or "forum_topic_created" in replied else replied


def _addressed(text: str, me: Me) -> str:
    """The text without the bot's name at its ends, or behind a command."""
    text = text.strip()
    if command := _COMMAND.match(text):
        return command[1] + text[command.end() :]
    bare = re.sub(rf"\A{_named(me)}[\s,:]*|(?<!\w){_named(me)}\Z", "", text, flags=re.IGNORECASE)
    return bare.strip() or text


def _author(message: Raw) -> str:
    """The name of whoever a message, or the origin of a forwarded one, is from."""
    for key in ("from", "sender_user", "sender_chat", "chat"):
        if found := _field(message, key, dict):
            return _name(found)
    return _line(_text(message, "sender_user_name") or "somebody", _LONGEST_NAME)


def _name(somebody: Raw) -> str:
    names = f"{_text(somebody, 'first_name')} {_text(somebody, 'last_name')}".strip()
    return _line(names or _text(somebody, "title") or _text(somebody, "username") or "somebody", _LONGEST_NAME)


def _reply_to(message: Raw) -> str | None:
    """Whose words it replies to, and which: those marked, or else all; of a message elsewhere what is told of it."""
    elsewhere = _field(message, "external_reply", dict)
    replied = _replied(message) or elsewhere
    if replied is None:
        return None
    name = _author(_field(replied, "origin", dict) or replied)
    quote = _text(_field(message, "quote", dict) or {}, "text")
    files = " ".join(f"[{one.name}]" for one in _attachments(replied))
    said = quote or _words(replied) or files or f"[{_unreadable(replied) or 'something without text'}]"
    return f"{name}: {said if len(said) <= _LONGEST_QUOTE else said[: _LONGEST_QUOTE - 1] + '…'}"


def _unreadable(message: Raw) -> str:
    """What there is in it that has no words; "" if there is nothing."""
    return next((what for key, what in _UNREADABLE.items() if message.get(key)), "")


def _attachments(message: Raw) -> tuple[Attachment, ...]:
    sizes, document = _field(message, "photo", list), _field(message, "document", dict)
    if sizes:
        return (_attachment(sizes[-1], "photo.jpg", "image/jpeg"),)  # the largest is the last
    if document is None or "animation" in message:
        return ()
    media_type = _line(_text(document, "mime_type") or "application/octet-stream", _LONGEST_NAME)
    return (_attachment(document, _file_name(document), media_type),)


def _attachment(file: object, name: str, media_type: str) -> Attachment:
    if not isinstance(file, Mapping) or not _text(file, "file_id"):
        raise Broken("a file cannot be fetched")
    kind: Literal["image", "document"] = "image" if media_type in _IMAGES else "document"
    return Attachment(kind, name, media_type, _field(file, "file_size", int), _text(file, "file_id"))


def _file_name(document: Raw) -> str:
    """The last part of the name given; its end is kept, where the type is."""
    given = re.split(r"[/\\]", _text(document, "file_name"))[-1]
    name = "".join(char for char in given if char.isprintable()).strip()[-_LONGEST_FILE_NAME:]
    return name if name.strip(". ") else "document"
