"""An answer in Markdown -> texts that fit Telegram's messages, and how each is shown.

Pure: the same text always gives the same parts. Knows nothing of networks or chats.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyromark
from telegramify_markdown import RenderConfig, convert, utf16_len
from telegramify_markdown.converter import STANDARD_OPTIONS

LIMIT = 4096
"""UTF-16 units in one message: https://core.telegram.org/bots/api#sendmessage"""
EMPTY = "(empty answer)"

_PARAGRAPH, _LINE, _IN_FENCE, _WORD = 3, 2, 1, 0
_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_FENCE = re.compile(r"\s*(`{3,32}(?=[^`]*$)|~{3,32})\s*((?![`~])\S{0,40})")
# The numbers and ticks of lists, entities, formulas' commands: shown, but as something else.
_REWRITTEN = re.compile(r"^[\s>]*\d{1,9}[.)]|\[[xX]\]|&#?\w+;|\\[A-Za-z]+", re.MULTILINE)
_HTML = re.compile(rb"<(?!/?tg-spoiler>)")


def parts(text: str) -> list[str]:
    """The text cut into messages: at paragraphs, else lines, else words; a cut code fence is closed and reopened.

    Never empty. Each part has at most 4,096 UTF-16 units, shown with its formatting and as it is.
    """
    text = sendable(text)
    if _fits(text):
        return [text]
    atoms = list(_atoms(text.split("\n")))
    found, start = [], _past_blank(atoms, 0)
    while start < len(atoms):
        part, start = _fitting(atoms, start)
        if _is_visible(part):
            found.append(part.rstrip())
    return found


def formatted(part: str) -> tuple[str, list[dict[str, Any]]]:
    """The text to show and its entities as the Bot API has them; as it is, where formatting would lose any of it."""
    part = sendable(part)
    text, entities = _converted(part)
    if utf16_len(text) > LIMIT or not _is_visible(text) or _is_lossy(part, text, entities):
        return part, []
    return text, entities


def sendable(text: str) -> str:
    """The text with what cannot be sent replaced, and a word where there is nothing to see."""
    text = _UNSENDABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n").rstrip()
    return text if _is_visible(text) else EMPTY


def _fits(part: str) -> bool:
    return utf16_len(part) <= LIMIT and utf16_len(_converted(part)[0]) <= LIMIT


def _is_visible(text: str) -> bool:
    return any(not (char.isspace() or unicodedata.category(char) in ("Cc", "Cf")) for char in text)


def _converted(part: str) -> tuple[str, list[dict[str, Any]]]:
    style = RenderConfig.isolated()
    style.cite_expandable = False
    symbols = style.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item, symbols.task_completed, symbols.task_uncompleted = "•", "☑", "☐"
    text, entities = convert(_with_html_as_text(part), latex_escape=False, config=style)
    return text, [entity.to_dict() for entity in entities]


def _with_html_as_text(markdown: str) -> str:
    """HTML would be left out, so its tags are escaped."""
    if "<" not in markdown:
        return markdown
    source, done, found = markdown.encode(), 0, []
    for event, place in pyromark.events_with_range(markdown, options=STANDARD_OPTIONS):
        if isinstance(event, dict) and ("Html" in event or "InlineHtml" in event):
            found += [source[done : place["start"]], _HTML.sub(rb"\\<", source[place["start"] : place["end"]])]
            done = place["end"]
    return b"".join([*found, source[done:]]).decode()


def _is_lossy(part: str, text: str, entities: list[dict[str, Any]]) -> bool:
    """Whether a letter or digit is gone: link definitions that nothing uses, links in tables and the like."""
    hidden = (str(entity.get(key, "")) for entity in entities for key in ("url", "language"))
    return bool(_letters(_REWRITTEN.sub("", part)) - _letters(" ".join([text, *hidden])))


def _letters(text: str) -> Counter[str]:
    return Counter(char for char in unicodedata.normalize("NFKC", text) if char.isalnum())


@dataclass(frozen=True, slots=True)
class _Atom:
    """What is never cut: a line, or a piece of one too long for a message.

    `glue` stood between it and the one before; `grade` says how good a cut before it is. `before` and
    `after` are the opening lines of the code fence that it begins and ends in, "" outside.
    """

    text: str
    glue: str
    grade: int
    before: str
    after: str

    @property
    def size(self) -> int:
        return utf16_len(self.glue + self.text)

    @property
    def closing(self) -> str:
        """What ends a part after it."""
        return "\n" + _marker(self.after) if self.after else ""

    @property
    def opens(self) -> bool:
        """Whether it is the opening line of a fence."""
        return bool(self.after) and not self.before


def _marker(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[0]))]


def _atoms(lines: list[str]) -> Iterator[_Atom]:
    fence, grade = "", _PARAGRAPH
    for line in lines:
        before, fence = fence, _fence_after(fence, line)
        if fence or before:
            grade = _IN_FENCE if before else _PARAGRAPH
        inside, glue = before, "\n"
        for piece, following in _pieces(line, LIMIT - 2 * utf16_len(before or fence) - 2):
            yield _Atom(piece, glue, grade, inside, fence)
            inside, glue, grade = fence, following, _WORD
        grade = _PARAGRAPH if before or not line.strip() else _LINE


def _fence_after(fence: str, line: str) -> str:
    """The opening line of the fence that is open after this line."""
    if fence:
        closes = line.strip().startswith(_marker(fence)) and not line.strip().strip(fence[0])
        return "" if closes else fence
    opening = _FENCE.match(line)
    return opening[1] + opening[2] if opening else ""


def _pieces(line: str, room: int) -> Iterator[tuple[str, str]]:
    """The line cut at spaces, or where there are none before the letter that is too much; what follows each piece."""
    start = 0
    while (end := _reach(line, start, room)) < len(line):
        space = line.rfind(" ", start + 1, end + 1)
        if space > 0:
            yield line[start:space], " "
            start = space + 1
        else:
            end = _before_marks(line, start, end)
            yield line[start:end], ""
            start = end
    yield line[start:], "\n"


def _reach(line: str, start: int, room: int) -> int:
    """The end of the longest piece from `start` that has at most `room` UTF-16 units."""
    for at in range(start, len(line)):
        room -= 2 if line[at] > "\uffff" else 1
        if room < 0:
            return at
    return len(line)


def _before_marks(line: str, start: int, end: int) -> int:
    """`end`, or a little before it, so that accents and joined emoji stay with what they belong to."""
    for at in range(end, max(start, end - 32), -1):
        if unicodedata.category(line[at]) not in ("Mn", "Me", "Cf", "Sk") and line[at - 1] != "\u200d":
            return at
    return end


def _fitting(atoms: list[_Atom], start: int) -> tuple[str, int]:
    """The part that begins with this atom, and where the next one begins.

    Formatting can make a text longer (a table is padded), so shorter parts are tried before it is given up.
    """
    for limit in (LIMIT, LIMIT * 3 // 4, LIMIT // 2, LIMIT // 4):
        part, following = _part(atoms, start, limit)
        if _fits(part):
            return part, following
    return _part(atoms, start, LIMIT)


def _part(atoms: list[_Atom], start: int, limit: int) -> tuple[str, int]:
    opening = atoms[start].before and atoms[start].before + "\n"
    size, sizes, end = utf16_len(opening + atoms[start].text), [0], start + 1
    while end < len(atoms) and size + atoms[end].size + len(atoms[end].closing) <= limit:
        sizes.append(size)
        size, end = size + atoms[end].size, end + 1
    if end < len(atoms):
        end = _cut(atoms, start, end, [*sizes, size], limit)
        if end == start + 1 and atoms[start].opens and atoms[start].text.split() == atoms[start].after.split():
            return "", end  # nothing is in it yet, and the next part opens it again
    body = atoms[start].text + "".join(atom.glue + atom.text for atom in atoms[start + 1 : end])
    return opening + body.rstrip("\n") + atoms[end - 1].closing, _past_blank(atoms, end)


def _cut(atoms: list[_Atom], start: int, end: int, sizes: list[int], limit: int) -> int:
    """The best place to cut in front of `end` or earlier: before a fence that fits whole, else the best border."""
    if atoms[end - 1].opens and end - 1 > start:
        return end - 1
    if atoms[end].before:
        opens = next((at for at in range(end - 1, start, -1) if atoms[at].opens), start)
        if opens > start and _fence_size(atoms, opens, limit) <= limit:
            return opens
    borders = [at for at in range(start + 1, end + 1) if at == end or sizes[at - start] >= limit // 4]
    return max(borders, key=lambda at: (atoms[at].grade, at))


def _fence_size(atoms: list[_Atom], start: int, limit: int) -> int:
    """The size of the code block that begins here, as far as it matters."""
    size = -len(atoms[start].glue)
    for atom in islice(atoms, start, None):
        size += atom.size
        if not atom.after or size > limit:
            break
    return size


def _past_blank(atoms: list[_Atom], at: int) -> int:
    """The next atom with something to see; neither are a fence's closing line and what is blank around it."""
    while at < len(atoms) and not atoms[at].after and (atoms[at].before or not atoms[at].text.strip()):
        at += 1
    return at
