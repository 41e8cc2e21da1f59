"""The words of a text, in a form in which those of a fact can be found among them. Pure."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import pairwise

from nanomem.patterns import late
from nanomem.wording import Gist, gist, same
from nanomem.wording.words import HAN, HAN_SMALL, LIGHT, LINKS, PAUSE

Words = frozenset[str]

_STOP = frozenset(
    re.findall(
        r"\S+",
        """user person users people can could should would may might must shall about into over if what how all any some
        more most very just up out off now new no not yes please one thing things but because while such only each per
        via until #1 u:age she's he's it's his her i'm i've mich mir ich du ihr wir sein ihre seine dass wenn noch nur
        man kann soll muss je tu nous vous ils elles ce cette mon ma mes leur que si plus yo mi ella ellos como pero
        más muy son fue""",
    )
)
"""Words that everybody says, besides those that `wording` passes over."""
_EMPTY = HAN_SMALL | frozenset("的了是在和与及也都把被为于着过会之地得我你您他她它们这那就还有要吗呢吧の")
_HAN_RUN = late(f"[{HAN}]+")
_HAN_SIGN = late(f"[{HAN}]")
_KANA = re.compile("[\u3040-\u309f・ー]{2}")
_NOBODY = re.compile("用户|使用|ユーザ")
_NUMBERS = re.compile(r"\+?\d[\d ()/.-]{5,30}\d")
_SHORTEST = 4
"""Letters of a word that say which word it is."""
_LONG_RUN = late(r"[^\s\u2e80-\u9fff]{200}")


def words(text: str) -> Words:
    """All that a text says, in every form a fact may say it in."""
    return frozenset(_forms(text, lambda found: found.said))


def words_of_fact(fact: str) -> Words:
    """What a fact says, each thing once."""
    return frozenset(_forms(fact, lambda found: found.content))


def particulars(fact: str) -> Words:
    """The names and numbers of a fact, and all that is Chinese."""
    return frozenset(_forms(fact, lambda found: found.firm))


def shared(fact: Words, source: AbstractSet[str]) -> Words:
    """The words of a fact that are in a text, if only by their beginnings: "teacher" by "teach"."""
    return frozenset(word for word in fact if word in source or (word.isalpha() and _begins(word, source)))


def _begins(word: str, source: AbstractSet[str]) -> bool:
    return any(word[:end] in source for end in range(_SHORTEST, len(word)))


def is_han(said: Words) -> bool:
    """Whether it speaks Chinese or Japanese."""
    return any(map(_HAN_SIGN().match, said))


def _forms(text: str, parts: Callable[[Gist], Iterable[str]]) -> Iterator[str]:
    for line in dict.fromkeys(text.splitlines()):
        line = unicodedata.normalize("NFKC", line.encode("utf-8", "replace").decode())
        for token in parts(gist(same(_LONG_RUN().sub(r"\g<0> ", line)))):
            low = token.casefold()
            if (
                low not in _STOP
                and token not in LIGHT
                and token not in ("", LINKS, PAUSE)
                and not _HAN_SIGN().match(token)
            ):
                yield low
        for match in _NUMBERS.finditer(line):
            digits = "".join(filter(str.isdigit, match[0]))
            if len(digits) >= 7:
                yield f"#{digits}"
        for match in _HAN_RUN().finditer(line):
            for pair in map("".join, pairwise(match[0])):
                if not (_EMPTY & {*pair} or _KANA.match(pair) or _NOBODY.match(pair)):
                    yield pair


def weight(said: AbstractSet[str]) -> int:
    """How much so many words say; of Chinese there are twice as many pieces."""
    return sum(1 if _HAN_SIGN().match(word) else 2 for word in said)
