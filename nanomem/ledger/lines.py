"""How a block of a memory file is written: its line ends, indentation, comments and mark. Pure."""

import re
from typing import NamedTuple

from nanomem.facts import COMMENT, Block, Kind
from nanomem.ledger.state import Fact

CONTRADICTED = " <!-- contradicted -->"
"""Behind a fact that another one contradicts, for the next Dream to settle."""


class Piece(NamedTuple):
    """What is written other than a block as it was. A `fresh` one may stand beside what it did not before."""

    kind: Kind
    raw: str
    fresh: bool = False


_LINE_ENDS = tuple("\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def apart(before: Kind, after: Kind) -> bool:
    """Whether there has to be a blank line between two blocks."""
    pair = {before, after}
    if pair & {"blank", "comment"}:
        return False
    if pair & {"row", "table"}:
        return (before, after) not in (("row", "row"), ("table", "row"), ("table", "table"))
    return (
        after == "heading"
        or before == after == "text"
        or (before != after and before != "heading" and not pair <= _LINES)
    )


_LINES: set[Kind] = {"item", "value", "placeholder"}


def fits(new: Fact, old: Fact) -> bool:
    """Whether one can be written where the other stands: a row of a table only where a row is."""
    return (new.block.kind == "row") == (old.block.kind == "row")


def ended(raw: str, closing: str = "") -> str:
    """With a line end; and with what closes a comment or a code fence that goes on to the end of the file."""
    raw = raw if raw.endswith(_LINE_ENDS) else raw + "\n"
    return f"{raw}{closing}\n" if closing else raw


def still_open(block: Block) -> str:
    """What would close it, if it goes on to the end of its file."""
    if block.kind == "code" or (block.kind == "rule" and _FENCE.match(block.raw)):
        lines = block.raw.strip().splitlines()
        fence = _FENCE.match(lines[0])
        is_closed = (
            fence
            and len(lines) > 1
            and len(lines[-1].strip()) >= len(fence[1])
            and not lines[-1].strip().strip(fence[1][0])
        )
        return fence[1] if fence and not is_closed else ""
    comments = COMMENT.findall(block.raw) if "<!--" in block.raw else ()
    return "-->" if comments and not comments[-1].endswith("-->") else ""


def with_comments(new: Block, old: Block | None) -> str:
    """A block of the proposal as it can be written: nothing left open, and with the comments that a person put
    there."""
    closing = still_open(new)
    raw = COMMENT.sub("", new.raw) if closing == "-->" else ended(new.raw, closing)
    for comment in COMMENT.findall(old.raw) if old and "<!--" in old.raw and "code" not in (old.kind, new.kind) else ():
        if comment != CONTRADICTED.strip() and comment not in raw:
            raw = f"{raw.rstrip()} {comment}{'' if comment.endswith('-->') else '-->'}"
    return ended(raw)


def depth_of(raw: str) -> int:
    line = raw.expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def indented(raw: str, depth: int) -> str:
    first = raw.lstrip(" \t")
    return raw if len(raw) - len(first) == depth else " " * depth + first


def marked(raw: str, kind: Kind) -> str:
    """The line with the mark; in the last cell of a table's row."""
    if CONTRADICTED.strip() in raw:
        return raw
    text = raw.rstrip()
    end = raw[len(text) :]
    if kind == "row" and text.endswith("|"):
        return f"{text[:-1].rstrip()}{CONTRADICTED} |{end}"
    return f"{text}{CONTRADICTED}{end}"
