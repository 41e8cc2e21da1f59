"""An answer in Markdown -> texts that fit Telegram's messages, and how each is shown.

Pure: the same text always gives the same parts. Knows nothing of networks or chats.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

LIMIT = 4096
"""UTF-16 units in one message: https://core.telegram.org/bots/api#sendmessage"""
EMPTY = "(empty answer)"

_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\ud800-\udfff]")
# Before paragraphs, before lines, before words: a text is cut there, and each piece begins with what set it apart.
_BORDERS = (re.compile(r"(?=\n\n)"), re.compile(r"(?=\n)"), re.compile(r"(?= )"))
_FENCED = re.compile(
    r"^[ \t]*(?P<opening>(?P<fence>`{3,32}|~{3,32})(?![`~])[^`\n]{0,80})\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
# Checked boxes, HTML entities and formulas' commands are shown, but as something else.
_REWRITTEN = re.compile(r"\[[xX]\]|&#?\w+;|\\[A-Za-z]+")


def parts(text: str) -> list[str]:
    """The text cut into messages: at paragraphs, else lines, else words; a code block is cut only if it must be.

    Never empty. Each part has at most 4,096 UTF-16 units.
    """
    text = sendable(text)
    if _units(text) <= LIMIT:
        return [text]
    return [part.strip("\n").rstrip() for part in _packed(_blocks(text), LIMIT) if _is_visible(part)]


def formatted(part: str) -> tuple[str, list[dict[str, Any]]]:
    """The text to show and its entities as the Bot API has them; as it is, where formatting would lose any of it."""
    part = sendable(part)
    if len(part) == 1:
        return part, []
    text, entities = _converted(part)
    if _units(text) > LIMIT or not _is_visible(text) or _is_lossy(part, text, entities):
        return part, []
    return text, entities


def sendable(text: str) -> str:
    """The text with what cannot be sent replaced, and a word where there is nothing to see."""
    text = _UNSENDABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n").rstrip()
    return text if _is_visible(text) else EMPTY


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _is_visible(text: str) -> bool:
    return any(not (char.isspace() or unicodedata.category(char) in ("Cc", "Cf")) for char in text)


def _converted(part: str) -> tuple[str, list[dict[str, Any]]]:
    from telegramify_markdown import RenderConfig, convert  # 25 modules, which no placeholder waits for

    style = RenderConfig.isolated()
    style.cite_expandable = False
    symbols = style.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item, symbols.task_completed, symbols.task_uncompleted = "•", "☑", "☐"
    text, entities = convert(part, latex_escape=False, config=style)
    return text, [entity.to_dict() for entity in entities]


def _is_lossy(part: str, text: str, entities: list[dict[str, Any]]) -> bool:
    """Whether a letter is gone: HTML tags, link definitions that nothing uses, links in tables and the like."""
    hidden = (str(entity.get(key, "")) for entity in entities for key in ("url", "language"))
    return bool(_letters(_REWRITTEN.sub("", part)) - _letters(" ".join([text, *hidden])))


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalpha, unicodedata.normalize("NFKC", text)))


def _blocks(text: str) -> Iterator[str]:
    """Code blocks and paragraphs; those too long for a message in pieces, each code piece a block of its own."""
    done = 0
    for block in _FENCED.finditer(text):
        yield from _pieces(text[done : block.start()])
        done = block.end()
        if _units(block[0]) <= LIMIT:
            yield block[0]
            continue
        opening, closing = f"\n{block['opening']}\n", f"\n{block['fence']}"
        room = LIMIT - _units(opening + closing)
        for code in _packed(_pieces(block["code"], room), room):
            yield opening + code.strip("\n") + closing
    yield from _pieces(text[done:])


def _pieces(text: str, room: int = LIMIT, borders: Sequence[re.Pattern[str]] = _BORDERS) -> Iterator[str]:
    """Paragraphs; the lines of one that does not fit, the words of such a line, and at last pieces of a word."""
    for piece in borders[0].split(text):
        if _units(piece) <= room:
            yield piece
        elif borders[1:]:
            yield from _pieces(piece, room, borders[1:])
        else:
            for at in range(0, len(piece), room // 2):
                yield piece[at : at + room // 2]


def _packed(pieces: Iterable[str], room: int) -> Iterator[str]:
    """As many pieces in each text as there is room for."""
    packed, size = "", 0
    for piece in pieces:
        more = _units(piece)
        if size + more > room:
            yield packed
            packed, size = "", 0
        packed += piece
        size += more
    yield packed
