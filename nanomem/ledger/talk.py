"""What of a proposal is not memory: a code fence around it, and talk before and behind. Pure."""

import re

from nanomem.patterns import late
from nanomem.wording import gist

_TALK = late(
    r"""\A\W*(?:
        here(?:'s|\sis|\sare|\syou)\b|sure\b|certainly\b|of\scourse\b|okay\b|ok\b|got\sit\b|all\sright\b|understood\b
        |absolutely\b|done\b|sorry\b|thanks\b|thank\syou\b|i(?:'m|\sam)\s(?:sorry|unable|afraid)|i\scan(?:no|')t\b
        |as\san\sai\b|below\sis\b|feel\sfree|i\shope|hope\sthis|that's\sall|is\sthere\sanything
        |(?:would|do|if)\syou\s(?:like|want)\b|(?:shall|should)\si\b|please\s(?:let|note|review|tell)
        |have\sa\s(?:nice|good|great)|sag(?:en\ssie)?\s(?:mir\s)?bescheid|hier\sist|gerne\b|aquí\s(?:está|tiene)|claro\b|voici\b|bien\ssûr
        |以[下上]是|好的|这是更新|已更新|已将|已根据|已经|我已|更新完成|根据(?:您的|你的|以上|本次)?对话|如需|如果您|如有
        |还有什么|希望这|希望对您|没问题|当然|其[余他]内容|更新した
        |(?:notes?|remarks?|changes?|summary|updates?|output|result)\b[^:：]{0,20}[:：]
            .*\b(?:add|remov|chang|unchang|kept|updat|merg|edit|delet))
    |请告诉我|进一步(?:的)?修改|更新后的(?:记忆|文件)|\blet\sme\sknow\b|\bas\s(?:you\s)?requested\b
    |\b(?:rewritten|updated|revised|following)\s(?:\S+\s)?(?:file|version|memory)\b
    |\b(?:nothing|no\s(?:other\s)?\w+|everything|the\srest|the\s(?:memory|file)|(?:all|the)\sother\s\w+)\s(?:\S+\s){0,2}
        (?:was|were|is|are|has\sbeen|have\sbeen)\s(?:left|kept|unchanged|chang|remov|delet|updat|add|made|as)
    |\bi(?:'ve|\shave|\sdid)?\s(?:now\s|also\s|not\s|just\s)*
        (?:updat|rewrit|rewrote|kept|left|made|add|remov|merg|preserv|chang|clean|organi)
        .*\b(?:memor|files?\b|facts?\b|entr|sections?\b|changes?\b|everything|the\srest\b|duplicat|information)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""What speaks of the work on the file, or to whom it is for."""
_STRUCTURE = re.compile(r"\s*(?:#{1,6}\s|[-*+]\s|\d{1,9}[.)]\s|\||`{3}|~{3}|<!--)")
_LIST = re.compile(r"\s*(?:[-*+]\s|\d{1,9}[.)]\s|\|)")
_VALUE = re.compile(r"[^:：]{1,60}(?::\s+\S|：\s*\S)")
_PAUSE = re.compile(r"\s*(?:[-*_=]{3,}|(?:<\|[^|>]{0,40}\|>(?:assistant|system|user)?\s*)+)?\s*\Z")
_WRAPPER = re.compile(r"\s*(`{3,}|~{3,})\s*(?:markdown|md|text|txt|plain|plaintext)?\s*\Z", re.IGNORECASE)
_NOT_MARKDOWN = re.compile(
    r"\s*(?:<(?:!doctype|html|body|head|div|ul|ol|li|p|h[1-6]|table)\b|[{\[]\s*[\"{\[])", re.IGNORECASE
)


def memory_only(text: str, base: str) -> str:
    """A proposal without a code fence around it, and without talk before and behind; the base where it is no
    Markdown at all."""
    if text == base:
        return text
    if _NOT_MARKDOWN.match(text) and not _NOT_MARKDOWN.match(base):
        return base
    lines = _unwrapped(text.splitlines(keepends=True), base)
    known = base.splitlines(keepends=True)
    lines = lines[_end_of_talk(lines, known) :]
    lines.reverse()
    known.reverse()
    lines = lines[_end_of_talk(lines, known, backwards=True) :]
    lines.reverse()
    return "".join(lines)


def _end_of_talk(lines: list[str], base: list[str], *, backwards: bool = False) -> int:
    """How many lines at one end are talk and what parts it from the rest. Backwards, both texts are turned round."""
    end = at = 0
    text = "".join(base)
    has_prose = bool(_paragraph(base, _after_pause(base, 0)))
    while at < len(lines):
        start = at
        at = _after_pause(lines, at)
        is_apart = at > start or not at or not backwards
        if any("<|" in line and line.strip() not in text for line in lines[start:at]):
            end = at
        paragraph = _paragraph(lines, at)
        at += len(paragraph)
        if backwards and at < len(lines) and not _PAUSE.match(lines[at]):
            break
        said = "".join(paragraph[::-1] if backwards else paragraph).strip()
        if not said or not is_apart or any(line.strip() in text for line in paragraph):
            break
        if not (
            _TALK().search(said)
            or _leads(said, lines[at:], backwards)
            or (not has_prose and _is_strange(said, lines[at:], backwards))
        ):
            break
        while at < len(lines) and not lines[at].strip():
            at += 1
        end = at
    return end


def _after_pause(lines: list[str], at: int) -> int:
    while at < len(lines) and _PAUSE.match(lines[at]):
        at += 1
    return at


def _paragraph(lines: list[str], at: int) -> list[str]:
    """The lines from here that no pause and no heading, list or the like comes between."""
    end = at
    while end < len(lines) and not (_PAUSE.match(lines[end]) or _STRUCTURE.match(lines[end])):
        end += 1
    return lines[at:end]


def _leads(said: str, rest: list[str], backwards: bool) -> bool:
    """Whether it announces the file."""
    return not backwards and said.endswith((":", "：")) and any(line.startswith("#") for line in rest)


def _is_strange(said: str, rest: list[str], backwards: bool) -> bool:
    """Whether a paragraph is not of the file's kind: prose before a heading or a list, or behind a list; without a
    name or number that would make it a statement."""
    beside = next(filter(_STRUCTURE.match, rest), "")
    if not beside or (backwards and not _LIST.match(beside)) or _VALUE.match(said) or any(map(str.isdigit, said)):
        return False
    found = gist(said)
    return found.tongue == "de" or not found.names


def _unwrapped(lines: list[str], base: str) -> list[str]:
    """What is in a code fence that holds all but some talk."""
    start = next((at for at, line in enumerate(lines) if _STRUCTURE.match(line)), len(lines))
    wrapper = _WRAPPER.match(lines[start]) if start < len(lines) else None
    if not wrapper or any(line.strip() and line.strip() in base for line in lines[:start]):
        return lines
    closing = [at for at in range(start + 1, len(lines)) if lines[at].strip() == wrapper[1]]
    end = closing[-1] if closing else len(lines)
    is_code = "".join(lines[start:end]).strip() in base or any(map(_STRUCTURE.match, lines[end + 1 :]))
    return lines if is_code else lines[start + 1 : end]
