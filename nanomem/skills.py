"""Which skills a message calls for, and how skills are shown in prompts.

Pure: knows nothing of files, nor of how a skill is written down.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import sha256

from nanomem.patterns import late
from nanomem.ports import Skill

AT_ONCE = 3
"""Skills that one turn may call for; of more, the first by name."""
LONGEST_DESCRIPTION = 200
"""Characters of it in a list."""
LOOKED_AT = 10_000
"""Characters of a message in which triggers are looked for."""

# Written without spaces between words, or (Korean) with particles joined to them.
_UNSPACED = late(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
)
_CONTEXT_MARK = re.compile(r"<(?=\s*/?\s*context\b)", re.IGNORECASE)


def triggered(skills: Iterable[Skill], messages: Iterable[str]) -> list[Skill]:
    """The skills with a trigger in a message, at most `AT_ONCE`; not those that are in every prompt anyway.

    Case does not count, and a trigger is a whole word or phrase, but in scripts that write without spaces.
    """
    said = [_folded(message[:LOOKED_AT]) for message in messages]
    wanted = (s for s in skills if not s.always and any(_says(text, _folded(t)) for t in s.triggers for text in said))
    return [skill for skill, _ in zip(wanted, range(AT_ONCE), strict=False)]


def line(skill: Skill) -> str:
    """`name: description`, the description not too long for a list."""
    text = skill.description
    return f"{skill.name}: {text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1] + '…'}"


def mark(text: str) -> str:
    """A few signs by which two texts of one skill are told apart."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def index(skills: Sequence[Skill]) -> str:
    """A line for each skill that has to be read to be known."""
    return "\n".join(line(skill) for skill in skills if not skill.always)


def fenced(text: str) -> str:
    """The text as code, whatever fences are in it: nobody shall decide about what he is not shown."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"


def within_context(text: str) -> str:
    """A text with nothing in it that looks like the beginning or the end of the block it is put into."""
    return _CONTEXT_MARK.sub("&lt;", text)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


def _says(text: str, trigger: str) -> bool:
    at = text.find(trigger) if trigger else -1
    while at >= 0:
        end = at + len(trigger)
        if not _is_one_word(text[at - 1 : at], trigger[0]) and not _is_one_word(trigger[-1], text[end : end + 1]):
            return True
        at = text.find(trigger, at + 1)
    return False


def _is_one_word(before: str, after: str) -> bool:
    """Whether two signs that stand side by side belong to one word."""
    return all(sign and _is_of_word(sign) and not _UNSPACED().match(sign) for sign in (before, after))


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_" or unicodedata.category(sign).startswith("M")
