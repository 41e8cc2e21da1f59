"""What a fact is: one statement a person would call one.

A list item with its indented further lines, a `Name: value` line, a table row, a code fence, or else a paragraph.
Headings, rules, dots for what is left out, comments, heads of tables and template placeholders are none. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple

NAMES = ("SOUL.md", "USER.md", "memory/MEMORY.md")
"""The files of a memory, as they are named in a space and in its versions."""


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The three files of a space as texts; a file that is missing is empty."""

    soul: str = ""
    user: str = ""
    memory: str = ""

    @property
    def by_name(self) -> dict[str, str]:
        """Each text by the file's name."""
        return dict(zip(NAMES, astuple(self), strict=True))


Kind = Literal["item", "value", "row", "text", "code", "heading", "placeholder", "table", "rule", "comment", "blank"]
FACTS: frozenset[Kind] = frozenset({"item", "value", "row", "text", "code"})
"""The kinds of block that are facts; `table` is the head of one, and the rule below it."""

Piece = tuple[Kind, str, str]
"""Kind, whole text, and what is to be read of it."""


class Block(NamedTuple):
    """A piece of a file. `raw` is all of it, with line ends: the blocks of a file put together are the file.

    `text` is what it says on one line, without comments; of a heading, its title. `depth` is the level of a heading,
    else the columns it is indented by. `under` and `parent` are the places of its heading and of the list item it
    belongs to among the blocks, or -1.
    """

    kind: Kind
    raw: str
    text: str
    depth: int
    under: int
    parent: int


_HEADING = re.compile(r"\s{0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+\S")
_RULE = re.compile(r"\s{0,3}([-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"\s{0,3}\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?)?\s*$")
_VALUE = re.compile(
    r"""[^\s:|][^:|]{0,60}:[*_]{0,3}\s+[^\s*_]
    |[^\s:：|][^:：|,.;!?，。；！？]{0,30}(?:：(?!(?<=\d：)\d)|(?<=[^\x00-\x7f]):)[*_]{0,3}\s*[^\s*_/]""",
    re.VERBOSE,
)
"""A label and what it says; behind a full-width colon, or in Chinese, without a space. No address, no time of day."""
_FENCE = re.compile(r"`{3,}[^`]*\Z|~{3,}")
_PLACEHOLDER = re.compile(r"[(（]\s*to be filled\s*[)）]", re.IGNORECASE)
_LEFT_OUT = " -*+.…()[]（）"
"""The signs of a line that only says that something is left out."""
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def facts(text: str) -> list[str]:
    """The facts of a memory file, each on one line, as it stands there but for surrounding space."""
    return [block.text for block in blocks(text) if block.kind in FACTS]


def blocks(text: str) -> list[Block]:
    """A memory file in its pieces, in order."""
    found: list[Block] = []
    more: list[tuple[str, str]] = []  # further lines of the last one
    under = -1
    items: list[tuple[int, int]] = []  # the list items that the next one may belong to: depth, place
    for kind, raw, said in _pieces(text):
        shown = said.strip()
        if kind == "text" and found and (found[-1].kind == "text" or (found[-1].kind == "item" and said[0].isspace())):
            more.append((raw, shown))
            continue
        if more:
            found[-1] = _longer(found[-1], more)
            more = []
        depth, parent = 0, -1
        if kind in FACTS:
            depth = _depth(said) if said[0].isspace() else 0
            while items and items[-1][0] >= depth:
                items.pop()
            if items:
                parent = items[-1][1]
            if kind == "item":
                items.append((depth, len(found)))
            if kind != "code" and _is_placeholder(shown):
                kind = "placeholder"
        elif kind == "heading":
            title = shown.lstrip("#")
            depth, shown = len(shown) - len(title), " ".join(title.rstrip("# \t").split())
            while under >= 0 and found[under].depth >= depth:
                under = found[under].under
            items.clear()
        elif kind == "table" and found and found[-1].kind == "row":
            found[-1] = found[-1]._replace(kind="table")
        found.append(Block(kind, raw, shown, depth, under, parent))
        if kind == "heading":
            under = len(found) - 1
    return [*found[:-1], _longer(found[-1], more)] if more else found


def without(found: Sequence[Block], gone: Sequence[bool]) -> str:
    """A file without some of its blocks, and with a pause in their place where their neighbours would become one."""
    kept = [block.text for block, is_gone in zip(found, gone, strict=True) if block.kind in FACTS and not is_gone]
    text = "".join("" if is_gone else block.raw for block, is_gone in zip(found, gone, strict=True))
    if facts(text) == kept:
        return text
    return "".join("\n\n" if is_gone else block.raw for block, is_gone in zip(found, gone, strict=True))


def _longer(block: Block, more: list[tuple[str, str]]) -> Block:
    """A paragraph or a list item with its further lines."""
    raw = "".join((block.raw, *(raw for raw, _ in more)))
    text = " ".join((block.text, *(shown for _, shown in more)))
    return block._replace(raw=raw, text=text, kind="placeholder" if _is_placeholder(text) else block.kind)


def _is_placeholder(shown: str) -> bool:
    return ("(" in shown or "（" in shown) and bool(_PLACEHOLDER.search(shown))


def _pieces(text: str) -> Iterator[Piece]:
    """Each line, and several as one where a comment or a fence holds them together."""
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        raw, said = line, line
        if "<!--" in line:
            raw = _with_whole_comment(line, lines)
            said = COMMENT.sub("", raw)
            if not said.strip():
                yield "comment", raw, ""
                continue
        kind: Kind = "item" if said[:2] == "- " and said[2:3].isalnum() else _kind(said)
        if kind == "code":
            raw = _with_whole_fence(raw, lines)
            said = said[: len(said) - len(said.lstrip())] + " ".join(raw.split())
            if not said.strip("`~ "):
                kind = "rule"
        yield kind, raw, said


def _kind(line: str) -> Kind:
    shown = line.strip()
    if not shown:
        return "blank"
    if shown[-1] in ".…)]）" and not shown.strip(_LEFT_OUT):
        return "rule"
    first = shown[0]
    if first == "#":
        return "heading" if _HEADING.match(line) else "text"
    if first in "-*_=|:":
        if "|" in shown and _TABLE_RULE.match(line):
            return "table"
        if _RULE.match(line):
            return "rule"
    if first == "|":
        return "row"
    if first in "`~" and _FENCE.match(shown):
        return "code"
    if _ITEM.match(shown):
        return "item"
    return "value" if _VALUE.match(shown) else "text"


def _depth(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _with_whole_comment(line: str, lines: Iterator[str]) -> str:
    """The line and those after it that a comment goes on to."""
    parts: list[str] = []
    inside = False
    while True:
        parts.append(line)
        at = 0
        while (at := line.find("-->" if inside else "<!--", at)) >= 0:
            at += 3 if inside else 4
            inside = not inside
        following = next(lines, None) if inside else None
        if following is None:
            return "".join(parts)
        line = following


def _with_whole_fence(line: str, lines: Iterator[str]) -> str:
    """The line that opens a code fence and those up to the one that closes it."""
    opened = line.strip()
    sign = opened[0]
    length = len(opened) - len(opened.lstrip(sign))
    parts = [line]
    for following in lines:
        parts.append(following)
        shown = following.strip()
        if len(shown) >= length and not shown.strip(sign):
            break
    return "".join(parts)
