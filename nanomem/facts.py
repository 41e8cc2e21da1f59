"""What a fact is: one statement a person would call one.

A list item, a `Name: value` line, a table row, or else a paragraph. Headings, rules, comments and
template placeholders are none. Pure.
"""

import re

_HEADING = re.compile(r"\s{0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s+\S")
_RULE = re.compile(r"\s{0,3}([-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"\s{0,3}\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?)?\s*$")
_VALUE = re.compile(r"\s*[^\s:|][^:|]{0,60}:\s+\S")
_COMMENT = re.compile(r"<!--.*?(-->|\Z)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\(to be filled\)", re.IGNORECASE)


def facts(text: str) -> list[str]:
    """The facts of a memory file, each as it stands there but for surrounding space."""
    found: list[str] = []
    paragraph: list[str] = []
    for line in [*_COMMENT.sub("", text).splitlines(), ""]:
        apart = not line.strip() or any(kind.match(line) for kind in (_HEADING, _RULE, _TABLE_RULE))
        single = not apart and bool(_ITEM.match(line) or _VALUE.match(line) or line.lstrip().startswith("|"))
        if paragraph and (apart or single):
            found.append(" ".join(paragraph))
            paragraph = []
        if single:
            found.append(line.strip())
        elif not apart:
            paragraph.append(line.strip())
    return [fact for fact in found if not _PLACEHOLDER.search(fact)]
