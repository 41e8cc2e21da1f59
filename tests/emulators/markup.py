"""Telegram's three markups and its message entities, as far as a bot can notice.

Pure functions. Offsets and lengths are in UTF-16 units, the offsets in error texts in UTF-8
bytes. Entities that Telegram finds by itself (links, hashtags) are not added.
"""

from __future__ import annotations

import re
from typing import Any

Entity = dict[str, Any]
Formatted = tuple[str, list[Entity]]

# The types a bot may send; others are refused.
ENTITY_TYPES = frozenset(
    [
        "mention",
        "hashtag",
        "cashtag",
        "bot_command",
        "url",
        "email",
        "phone_number",
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
        "date_time",
    ]
)

_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "span": "spoiler",
    "tg-spoiler": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
_TAG = re.compile(r"<(/?)([A-Za-z0-9-]*)([^>]*)>?")
_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}

_V2_RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
_V2_MARKS = {
    "*": "bold",
    "_": "italic",
    "__": "underline",
    "~": "strikethrough",
    "||": "spoiler",
}
_LEGACY_MARKS = {"*": "bold", "_": "italic"}

_INVISIBLE = " \t\r\n\v\f\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


class MarkupError(ValueError):
    """The text is refused; the message is the tail of Telegram's own description."""


def utf16(text: str) -> int:
    """Length in UTF-16 units, the unit Telegram counts in."""
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


def _at(text: str, position: int) -> int:
    return len(text[:position].encode())


def parse(text: str, mode: str) -> Formatted:
    """The plain text and its entities. Raises MarkupError like "can't parse entities: ..."."""
    match mode.lower():
        case "" | "none":
            return text, []
        case "html":
            return _html(text)
        case "markdownv2":
            return _markdown_v2(text)
        case "markdown":
            return _markdown(text)
    raise MarkupError("unsupported parse_mode")


def check_entities(text: str, entities: object) -> list[Entity]:
    """The entities in order. Raises MarkupError for one that is malformed or leaves the text."""
    if not isinstance(entities, list):
        raise MarkupError("can't parse entities JSON object")
    units = text.encode("utf-16-le")
    checked: list[Entity] = []
    for entity in entities:
        if not isinstance(entity, dict) or entity.get("type") not in ENTITY_TYPES:
            raise MarkupError("can't parse MessageEntity: Unsupported type specified")
        offset, length = entity.get("offset"), entity.get("length")
        if not isinstance(offset, int) or not isinstance(length, int):
            raise MarkupError('can\'t parse MessageEntity: Field "offset" must be of type Number')
        if entity["type"] == "text_link" and not entity.get("url"):
            raise MarkupError("can't parse MessageEntity: Can't find field \"url\"")
        if offset < 0 or length <= 0:
            continue  # ignored by the real server too
        end = offset + length
        if offset * 2 > len(units):
            raise MarkupError(f"entity begins after the end of the text at UTF-16 offset {offset}")
        if end * 2 > len(units):
            raise MarkupError(
                f"entity beginning at UTF-16 offset {offset} ends after the end of the text at UTF-16 offset {end}"
            )
        for position, verb in ((offset, "begins"), (end, "ends")):
            if 0xDC <= (units[position * 2 + 1] if position * 2 < len(units) else 0) <= 0xDF:
                raise MarkupError(f"entity {verb} in a middle of a UTF-16 symbol at UTF-16 offset {position}")
        checked.append(entity)
    return sorted(checked, key=lambda entity: (entity["offset"], -entity["length"]))


def trim(text: str, entities: list[Entity]) -> Formatted:
    """Without white space at either end; entities follow. Empty if nothing can be seen."""
    if not text.strip(_INVISIBLE):
        return "", []
    body = text.lstrip(" \t\r\n")
    lead = utf16(text) - utf16(body)
    body = body.rstrip(" \t\r\n")
    size = utf16(body)
    moved: list[Entity] = []
    for entity in entities:
        start = max(0, entity["offset"] - lead)
        end = min(size, entity["offset"] + entity["length"] - lead)
        if end > start:
            moved.append({**entity, "offset": start, "length": end - start})
    return body, moved


class _Builder:
    """Plain text so far, the entities closed and those still open."""

    def __init__(self) -> None:
        self.text = ""
        self.size = 0
        self.entities: list[Entity] = []

    def add(self, text: str) -> None:
        self.text += text
        self.size += utf16(text)

    def close(self, kind: str, start: int, **extra: str) -> None:
        # What is around nothing, or leads nowhere, is dropped by the real server too.
        if self.size > start and (kind != "text_link" or extra.get("url")):
            entity = {"type": kind, "offset": start, "length": self.size - start, **extra}
            self.entities.append(entity)

    def done(self) -> Formatted:
        order = sorted(self.entities, key=lambda e: (e["offset"], -e["length"], e["type"]))
        return self.text, order


def _html(text: str) -> Formatted:
    out = _Builder()
    open_tags: list[tuple[str, str, int, dict[str, str]]] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "&" and (reference := _REFERENCE.match(text, position)):
            out.add(_character(reference))
            position = reference.end()
        elif char == "<":
            tag = _TAG.match(text, position)
            assert tag is not None
            closing, name, rest = tag[1], tag[2].lower(), tag[3]
            where = _at(text, position)
            if closing:
                if not open_tags:
                    raise MarkupError(f"can't parse entities: Unexpected end tag at byte offset {where}")
                wanted, kind, start, extra = open_tags.pop()
                if name and name != wanted:
                    raise MarkupError(
                        f"can't parse entities: Unmatched end tag at byte offset {where}, "
                        f'expected "</{wanted}>", found "</{name}>"'
                    )
                out.close(kind, start, **extra)
            else:
                if name not in _TAGS or (name == "span" and "tg-spoiler" not in rest):
                    raise MarkupError(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {where}')
                if not tag[0].endswith(">"):
                    raise MarkupError(f"can't parse entities: Unclosed start tag at byte offset {where}")
                value = re.search(r"(?:href|class|emoji-id)\s*=\s*[\"']?([^\"'\s>]+)", rest)
                details: dict[str, str] = {}
                kind = _TAGS[name]
                if kind == "text_link" and value:
                    details["url"] = value[1]
                elif kind == "custom_emoji" and value:
                    details["custom_emoji_id"] = value[1]
                elif name == "code" and value and open_tags and open_tags[-1][0] == "pre":
                    open_tags[-1][3]["language"] = value[1].removeprefix("language-")
                elif kind == "blockquote" and "expandable" in rest:
                    kind = "expandable_blockquote"
                open_tags.append((name, kind, out.size, details))
            position = tag.end()
        else:
            out.add(char)
            position += 1
    if open_tags:
        raise MarkupError(f"can't parse entities: Can't find end tag corresponding to start tag \"{open_tags[-1][0]}\"")
    body, entities = out.done()
    # `<pre><code class=...>` is one entity.
    blocks = {(e["offset"], e["length"]) for e in entities if e["type"] == "pre"}
    return body, [e for e in entities if e["type"] != "code" or (e["offset"], e["length"]) not in blocks]


def _character(reference: re.Match[str]) -> str:
    name, decimal, hexadecimal = reference.groups()
    if name:
        return _NAMED[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else reference[0]


def _code(text: str, position: int, out: _Builder, *, escapes: bool) -> int:
    """Read one code span or block; the position after it."""
    fence = "```" if text.startswith("```", position) else "`"
    start, where = out.size, _at(text, position)
    position += len(fence)
    extra: dict[str, str] = {}
    if fence == "```" and (language := re.compile(r"([^\s`]*)\n").match(text, position)):
        if language[1]:
            extra["language"] = language[1]
        position = language.end()
    while position < len(text) and not text.startswith(fence, position):
        if escapes and text[position] == "\\" and position + 1 < len(text):
            position += 1
        out.add(text[position])
        position += 1
    if position >= len(text):
        kind = "PreCode" if extra else "Pre" if fence == "```" else "Code"
        raise MarkupError(f"can't parse entities: Can't find end of {kind} entity at byte offset {where}")
    out.close("pre" if fence == "```" else "code", start, **extra)
    return position + len(fence)


def _markdown_v2(text: str) -> Formatted:
    out = _Builder()
    marks: list[tuple[str, int, int]] = []
    quote: int | None = None
    position = 0
    while position < len(text):
        char = text[position]
        line_start = position == 0 or text[position - 1] == "\n"
        if quote is not None and line_start and char != ">":
            out.close("blockquote", quote)
            quote = None
        if char == "\\" and position + 1 < len(text) and ord(text[position + 1]) < 127:
            out.add(text[position + 1])
            position += 2
        elif char not in _V2_RESERVED:
            out.add(char)
            position += 1
        elif char == "`":
            position = _code(text, position, out, escapes=True)
        elif char == ">" and line_start:
            quote = out.size if quote is None else quote
            position += 1
        elif char == "[" or text.startswith("![", position):
            marks.append(("[", out.size, position))
            position += 1 if char == "[" else 2
        elif char == "]" and marks and marks[-1][0] == "[":
            _, start, opened = marks.pop()
            link = re.compile(r"\(((?:\\.|[^\\)])*)\)").match(text, position + 1)
            if link is None:
                raise MarkupError(f"can't parse entities: Can't find end of a URL at byte offset {_at(text, position)}")
            if text[opened] == "!":
                out.close("custom_emoji", start, custom_emoji_id=link[1].rpartition("=")[2])
            else:
                out.close("text_link", start, url=re.sub(r"\\(.)", r"\1", link[1]))
            position = link.end()
        else:
            mark = next((m for m in ("__", "||") if text.startswith(m, position)), char)
            if mark not in _V2_MARKS:
                raise MarkupError(
                    f"can't parse entities: Character '{char}' is reserved and must be escaped with the preceding '\\'"
                )
            if marks and marks[-1][0] == mark:
                _, start, _ = marks.pop()
                out.close(_V2_MARKS[mark], start)
            else:
                marks.append((mark, out.size, position))
            position += len(mark)
    if marks:
        mark, _, opened = marks[-1]
        kind = _V2_MARKS.get(mark, "text_url").title().replace("_", "")
        raise MarkupError(f"can't parse entities: Can't find end of {kind} entity at byte offset {_at(text, opened)}")
    if quote is not None:
        out.close("blockquote", quote)
    return out.done()


def _markdown(text: str) -> Formatted:
    out = _Builder()
    position = 0
    while position < len(text):
        char = text[position]
        error = MarkupError(
            f"can't parse entities: Can't find end of the entity starting at byte offset {_at(text, position)}"
        )
        if char == "\\" and text[position + 1 : position + 2] in {"_", "*", "`", "["}:
            out.add(text[position + 1])
            position += 2
        elif char == "`":
            position = _code(text, position, out, escapes=False)
        elif char in _LEGACY_MARKS:
            end = text.find(char, position + 1)
            if end < 0:
                raise error
            start = out.size
            out.add(text[position + 1 : end])
            out.close(_LEGACY_MARKS[char], start)
            position = end + 1
        elif char == "[":
            end = text.find("]", position)
            if end < 0:
                raise error
            start = out.size
            out.add(text[position + 1 : end])
            position = end + 1
            if link := re.compile(r"\(([^)]*)\)").match(text, position):
                out.close("text_link", start, url=link[1])
                position = link.end()
        else:
            out.add(char)
            position += 1
    return out.done()
