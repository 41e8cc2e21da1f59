"""A fact that somebody asks to be kept: how it is put into MEMORY.md, and the words about it.

Pure: makes the wish and reads the receipt; asking the memory is the caller's.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nanomem.errors import Refused
from nanomem.facts import MemoryFiles, facts
from nanomem.ports import Change, Receipt
from nanomem.versions import flat

SECTION = "to keep in mind"
"""The heading of MEMORY.md under which it goes, if there is one."""
LONGEST = 2_000
"""Characters of one fact."""

_MARKER = re.compile(r"\A(?:[-*+]|\d{1,9}[.)])\s+")
_MARK = re.compile(r"\s*<!--(?:(?!-->).)*-->\s*\Z")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)[\s#]*\Z")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\s*(?:[-*+]\s+)?\(to be filled\)\s*\Z", re.IGNORECASE)


def bare(fact: str) -> str:
    """A fact for people: on one line, without its list marker and a mark behind it."""
    fact = _MARKER.sub("", flat(fact))
    return _MARK.sub("", fact) if fact.endswith("-->") else fact


def normal(fact: str) -> str:
    """What two spellings of one fact have in common."""
    return bare(fact if fact.isascii() else unicodedata.normalize("NFKC", fact))


def one_fact(text: str) -> str:
    """The text as one fact, on one line. Raises Refused: it is none."""
    fact = _MARKER.sub("", flat(text)).replace("<!--", "<! --")  # a comment could hide what stands behind it
    says = any(sign.isalnum() or not sign.isascii() for sign in fact)
    if not says or facts(f"- {fact}") != [f"- {fact}"]:
        raise Refused("There is nothing in it to remember.")
    if len(fact) > LONGEST:
        raise Refused(f"That is too long for one fact: at most {LONGEST:,} characters.")
    return fact


def remembered(fact: str, trailers: Mapping[str, str]) -> Change:
    """The wish to keep `one_fact`."""
    return Change(kind="agent", propose=lambda files: with_fact(files, fact), trailers=trailers)


def told(receipt: Receipt, fact: str) -> str:
    """The answer to it: what was written, not what was meant."""
    return f"Saved (version {receipt.version.number}): {fact}" if receipt.version else f"Already known: {fact}"


def with_fact(files: MemoryFiles, fact: str) -> MemoryFiles:
    """The files with one more item in MEMORY.md; unchanged where any of them has it already."""
    if any(normal(known) == normal(fact) for text in files.by_name.values() for known in facts(text)):
        return files
    return replace(files, memory=_with_item(files.memory, f"- {fact}"))


def _with_item(text: str, item: str) -> str:
    """In the first place where it changes nothing else; the beginning of the file is always one."""
    lines = text.splitlines()
    wanted = sorted([*facts(text), *facts(item)])
    ways = map(_joined, _ways(lines, item))
    return next((way for way in ways if sorted(facts(way)) == wanted), _joined([item, "", *lines]))


def _ways(lines: list[str], item: str) -> Iterator[list[str]]:
    """Under the heading where there is one, else behind the last list of the file."""
    is_open = _open_lines(lines)
    first, end = _section(lines, is_open)
    for at in range(first, end):
        if first and is_open[at] and _PLACEHOLDER.match(lines[at]):
            yield [*lines[:at], item, *lines[at + 1 :]]
    items = [at for at in range(first, end) if is_open[at] and _ITEM.match(lines[at])]
    if items:
        at = _end_of_block(lines, is_open, items[-1], end)
        yield [*lines[:at], item, *lines[at:]]
    at = _end_of_text(lines, is_open, first, end)
    before = ["", item] if at and lines[at - 1].strip() else [item]
    after = ["", *lines[at:]] if at < len(lines) and lines[at].strip() else lines[at:]
    yield [*lines[:at], *before, *after]


def _open_lines(lines: list[str]) -> list[bool]:
    """For each line whether it is plain text: in no code fence, and in no comment that goes over several lines."""
    commented = _commented(lines)
    found: list[bool] = []
    fence = ""
    for at, line in enumerate(lines):
        mark = None if at in commented else _FENCE.match(line)
        found.append(not fence and not mark and at not in commented)
        if fence and mark:
            fence = "" if mark[1].startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif mark:
            fence = mark[1]
    return found


def _commented(lines: list[str]) -> set[int]:
    """The lines of comments that are not closed where they began."""
    text = "\n".join(lines)
    found: set[int] = set()
    for comment in _COMMENT.finditer(text):
        first, last = (text.count("\n", 0, end) for end in comment.span())
        if last > first or not comment[0].endswith("-->"):
            found.update(range(first, last + 1))
    return found


def _section(lines: list[str], is_open: list[bool]) -> tuple[int, int]:
    """The lines under the heading, up to the next one; all of them, from 0, where there is none."""
    headings = [(at, found[1]) for at, line in enumerate(lines) if is_open[at] and (found := _HEADING.match(line))]
    for place, (at, title) in enumerate(headings):
        if title.casefold() == SECTION:
            return at + 1, headings[place + 1][0] if place + 1 < len(headings) else len(lines)
    return 0, len(lines)


def _end_of_block(lines: list[str], is_open: list[bool], item: int, end: int) -> int:
    """Behind an item and all that belongs to it, code too; before it where that is never closed."""
    at = item + 1
    while at < end and not (is_open[at] and (not lines[at].strip() or _HEADING.match(lines[at]))):
        at += 1
    return item if at == len(lines) and not _is_closed(lines) else at


def _end_of_text(lines: list[str], is_open: list[bool], first: int, end: int) -> int:
    """Behind the last line that says something, but before a block with a fence or comment that is never closed."""
    while end > first and not lines[end - 1].strip():
        end -= 1
    if end == first or is_open[end - 1] or _is_closed(lines):
        return end
    while end > first and not is_open[end - 1]:
        end -= 1
    while end > first and lines[end - 1].strip() and not _HEADING.match(lines[end - 1]):
        end -= 1
    return _end_of_text(lines, is_open, first, end)


def _is_closed(lines: list[str]) -> bool:
    """Whether what were written below would be plain text."""
    return _open_lines([*lines, ""])[-1]


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
