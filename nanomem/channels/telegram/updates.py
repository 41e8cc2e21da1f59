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

KINDS = ("message", "edited_message", "callback_query", "my_chat_member")
"""The kinds of update to ask for; only the first two are messages."""

_LONGEST_QUOTE = 500
_LONGEST_NAME = 100
_LONGEST_FILE_NAME = 200
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_COMMAND = re.compile(r"(/[A-Za-z0-9_-]+)(?:@(\w+))?(?!\S)")
_PAIRING = re.compile(r"/start(?:@\w+)?\s+(\S{1,64})")
_UNKEPT = re.compile("[\x00\ud800-\udfff]")
_SERVICE = re.compile(
    "(new_chat_|left_chat_|delete_chat_|group_chat_|supergroup_chat_|channel_chat_|migrate_|pinned_|forum_topic_|"
    "general_forum_|video_chat_|voice_chat_|giveaway_created|giveaway_completed|message_auto_delete|boost_|"
    "chat_background|chat_shared|chat_owner|users_shared|user_shared|write_access|proximity|connected_website|"
    "successful_payment|refunded_payment|passport_data|web_app_data|gift|unique_gift|paid_message_price|"
    "direct_message_price|checklist_tasks|suggested_post_(?!info)|poll_option)"
)
_UNHEARD = {
    "voice": ("A voice message", "hear"),
    "audio": ("An audio file", "hear"),
    "video": ("A video", "see"),
    "video_note": ("A video message", "see"),
    "animation": ("An animation", "see"),
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
    if kind != "message":
        return None
    chat = _field(_field(message, "chat", dict) or {}, "id", int)
    old, new = _field(message, "migrate_from_chat_id", int), _field(message, "migrate_to_chat_id", int)
    if chat is None or (old is None and new is None):
        return None
    return (chat, new) if new is not None else (old or chat, chat)


def album(raw: object, me: Me, policy: GroupPolicy) -> str | None:
    """The album that this update shows to be meant for the bot. Raises Broken."""
    kind, message = _body(raw)
    return _text(message, "media_group_id") or None if kind in KINDS[:2] and _is_for(me, message, policy, ()) else None


def inbound(
    raw: object, me: Me, *, owner: bool, policy: GroupPolicy, aliases: Mapping[str, str], albums: Container[str] = ()
) -> Inbound | None:
    """The message in it; None where nothing is to be answered. Raises Broken.

    `aliases` maps a chat's id to the one that its sessions are kept under. In a group, an item of one
    of the `albums` is meant for the bot even if it alone does not say so.
    """
    kind, message = _body(raw)
    if kind in KINDS[2:]:
        return None
    if kind not in KINDS:
        raise Broken(f"unknown kind of update: {_line(kind, 40)}")
    edited = kind == "edited_message"
    if any(_SERVICE.match(key) for key in message) or (edited and "location" in message):
        return None
    if not _is_for(me, message, policy, albums):
        return None
    files, note = _attachments(message), _note(message)
    text = _addressed(_words(message), me)
    if note or not (text or files):
        text = f"{text}\n{note or '[A message of a kind that nanomem cannot read yet]'}".strip()
    return Inbound(
        address=_address(message, aliases),
        id=str(number(raw)),
        text=text,
        sender=_sender(_need(message, "from", dict)),
        sent_at=_when(_need(message, "edit_date" if edited else "date", int)),
        from_owner=owner,
        reply_to=_reply_to(message),
        forwarded_from=_origin(_field(message, "forward_origin", dict)),
        edited=edited,
        attachments=files,
        album=_text(message, "media_group_id") or None,
    )


def _body(raw: object) -> tuple[str, Raw]:
    if not isinstance(raw, Mapping):
        raise Broken("the update is no object")
    kinds = [key for key in raw if key != "update_id"]
    if len(kinds) != 1:
        raise Broken("the update has no content" if not kinds else "the update has several contents")
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


def _objects(node: Raw, key: str) -> list[Raw]:
    found = _field(node, key, list) or []
    if not all(isinstance(one, Mapping) for one in found):
        raise Broken(f"{key} holds something else than objects")
    return found


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
    named = command or _named(me).search(_words(message)) or _is_linked(me, message)
    return bool(named) or _is_reply_to(me, message) or _text(message, "media_group_id") in albums


def _named(me: Me) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)@{re.escape(me.username or '?')}(?!\w)", re.IGNORECASE)


def _is_linked(me: Me, message: Raw) -> bool:
    """Whether it is named without its @name, as clients do for those that have none."""
    entities = _objects(message, "entities") + _objects(message, "caption_entities")
    return any((_field(one, "user", dict) or {}).get("id") == me.id for one in entities)


def _is_reply_to(me: Me, message: Raw) -> bool:
    replied = _replied(message)
    return replied is not None and (_field(replied, "from", dict) or {}).get("id") == me.id


def _replied(message: Raw) -> Raw | None:
    """What it replies to; in a topic, all that replies to nothing replies to the topic's beginning."""
    replied = _field(message, "reply_to_message", dict)
    return None if replied is None or "forum_topic_created" in replied else replied


def _addressed(text: str, me: Me) -> str:
    """The text without the bot's name at its ends, or behind a command."""
    text = text.strip()
    if command := _COMMAND.match(text):
        return command[1] + text[command.end() :]
    pattern = _named(me)
    first = pattern.match(text)
    bare = text[first.end() :].lstrip(" ,:\n") if first else text
    last = [found for found in pattern.finditer(bare) if found.end() == len(bare)]
    bare = bare[: last[0].start()].rstrip() if last else bare
    return bare or text


def _sender(user: Raw) -> Sender:
    return Sender(str(_need(user, "id", int)), _name(user))


def _name(user: Raw) -> str:
    names = f"{_text(user, 'first_name')} {_text(user, 'last_name')}".strip()
    return _line(names or _text(user, "username") or str(user.get("id", "somebody")), _LONGEST_NAME)


def _origin(origin: Raw | None) -> str | None:
    """Whose message was forwarded."""
    if origin is None:
        return None
    if user := _field(origin, "sender_user", dict):
        return _name(user)
    chat = _field(origin, "sender_chat", dict) or _field(origin, "chat", dict) or {}
    name = _text(origin, "sender_user_name") or _text(chat, "title")
    signed = _text(origin, "author_signature")
    return _line(f"{name} ({signed})" if name and signed else name or signed or "somebody", _LONGEST_NAME)


def _reply_to(message: Raw) -> str | None:
    replied, outside = _replied(message), _field(message, "external_reply", dict)
    quote = _text(_field(message, "quote", dict) or {}, "text")
    if replied is not None:
        author = _field(replied, "from", dict)
        name = _name(author) if author else _text(_field(replied, "sender_chat", dict) or {}, "title") or "somebody"
    elif outside is not None:
        replied, name = outside, _origin(_field(outside, "origin", dict)) or "somebody"
    else:
        return None
    named = " ".join(f"[{one.name}]" for one in _attachments(replied))
    said = quote or _words(replied) or named or _note(replied) or "[something without text]"
    return f"{name}: {said if len(said) <= _LONGEST_QUOTE else said[: _LONGEST_QUOTE - 1] + '…'}"


def _attachments(message: Raw) -> tuple[Attachment, ...]:
    sizes = _objects(message, "photo")
    if sizes:
        best = max(sizes, key=lambda one: (_field(one, "width", int) or 0) * (_field(one, "height", int) or 0))
        return (Attachment("image", "photo.jpg", "image/jpeg", _field(best, "file_size", int), _file_id(best)),)
    document = _field(message, "document", dict)
    if document is None or "animation" in message:
        return ()
    media_type = _line(_text(document, "mime_type") or "application/octet-stream", _LONGEST_NAME)
    kind: Literal["image", "document"] = "image" if media_type in _IMAGES else "document"
    return (Attachment(kind, _file_name(document), media_type, _field(document, "file_size", int), _file_id(document)),)


def _file_id(file: Raw) -> str:
    _need(file, "file_id", str)
    return _text(file, "file_id")


def _file_name(document: Raw) -> str:
    """The last part of the name given; its end is kept, where the type is."""
    given = re.split(r"[/\\]", _text(document, "file_name"))[-1]
    name = "".join(char for char in given if char.isprintable()).strip()[-_LONGEST_FILE_NAME:]
    return name if name.strip(". ") else "document"


def _note(message: Raw) -> str:
    """What is said of something that nanomem cannot take; "" if there is no such thing."""
    for key, (what, verb) in _UNHEARD.items():
        if (found := _field(message, key, dict)) is not None:
            seconds = _field(found, "duration", int)
            return f"[{what}{'' if seconds is None else f' of {seconds} s'}, which nanomem cannot {verb} yet]"
    if (found := _field(message, "sticker", dict)) is not None:
        return f"[A sticker {_line(_text(found, 'emoji'), 8)}".rstrip() + ", which nanomem cannot see yet]"
    if (found := _field(message, "venue", dict)) is not None:
        return f"[A place: {_line(_text(found, 'title') + ', ' + _text(found, 'address'), 200)}]"
    if (found := _field(message, "location", dict)) is not None:
        return f"[A location: latitude {_degrees(found, 'latitude')}, longitude {_degrees(found, 'longitude')}]"
    if (found := _field(message, "contact", dict)) is not None:
        return f"[A contact: {_name(found)}, {_line(_text(found, 'phone_number'), 40)}]"
    if (found := _field(message, "poll", dict)) is not None:
        return f"[A poll: {_line(_text(found, 'question'), 300)}]"
    return ""


def _degrees(place: Raw, key: str) -> str:
    found = place.get(key)
    if type(found) not in (int, float):
        raise Broken(f"{key} is no number")
    return str(found)[:12]
