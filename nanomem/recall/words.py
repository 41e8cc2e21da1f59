"""The words of a text as the index knows them, and those that a question looks for.

Scripts that are written without spaces are indexed sign by sign, and asked for by signs and by pairs of them. Pure.
"""

from collections.abc import Collection
from itertools import pairwise
from unicodedata import normalize

from nanomem.patterns import late

APART = "\x1f"
"""Stands between signs of scripts without spaces in an indexed text; the index takes it for a space."""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # Kana, Han, Hangul
)
_ACCENTS = "\u0300-\u036f"  # which stand behind their letter where a text is decomposed
_SIGN = rf"[^\w\x00-\x7f{_ACCENTS}]"
"""What is part of no word. The index does not know the newer ones, and would take them for letters."""
_BETWEEN = late(rf"(?<=[{UNSPACED}])(?=\w)|(?<=\w)(?=[{UNSPACED}])|(?<=[^\W_])(?={_SIGN})|(?<={_SIGN})(?=[^\W_])")
_WORD = late(rf"[{UNSPACED}]+|(?:[^\W_{UNSPACED}][{_ACCENTS}]*)+")
_IS_UNSPACED = late(rf"[{UNSPACED}]")

_ENGLISH = """
a about all also am an and any are as at be because been being both but by can cannot could d did didn do does doesn
doing don done for from get gets getting got had has hasn have having he her here hers him his how i if in into is isn
it its itself just like ll m me mine my of on or our ours out own re s said say says so some such t tell than that the
their theirs them then there these they this those to told too us ve was wasn we were what when where which while who
whom whose why will with would you your yours"""
_GERMAN = """
aber als am an in auch auf aus bei bin bist da das dass dein deine deinen dem den der des die dir doch du ein eine einem
einen einer er es euch habe haben hat hatte hatten hast ich ihm ihn ihr im ist ja kann mein meine meinem meinen meiner
mich mir mit nach nicht noch nur ob oder sein seine sich sie sind so und uns unser vom von vor wann war waren warum
was welche welchem welchen welcher welches wer wie wir wird wo zu zum zur über"""
STOP = (frozenset(_ENGLISH.split()), frozenset(_GERMAN.split()))
"""Words that a question is put with, by language; they are looked for only where there are no others."""
_UNSPACED_STOP = late(
    "什[么麼]时候|什[么麼]|怎[么麼]样?|为什[么麼]|哪[里裡儿天个些]|何时|多少|几[点号月]|[谁誰哪我你您他她它们的是几吗嗎呢了在叫吧啊请和跟有过]"
    "|いつ|どこ|だれ|なに|です|ます|でした|ました|[はがをにでとのもかねよ何誰]"
)


def clean(text: str) -> str:
    """Without halves of surrogate pairs, which are no text to a database, nor to a model."""
    return text.encode("utf-8", "replace").decode()


def indexed(text: str) -> str:
    """The text as it is put into the index."""
    given = clean(text).replace("\0", " ").replace(APART, " ")
    return given if given.isascii() else _BETWEEN().sub(APART, given)


def plain(text: str) -> str:
    """What `indexed` was made of."""
    return text.replace(APART, "")


def terms(text: str, names: Collection[str] = ()) -> list[str]:
    """What to look for, each a word or a phrase of signs, but for stop words and names; all if nothing is left."""
    return content(text, names) or list(dict.fromkeys(_kept(text) or _words(clean(text))))


def content(text: str, names: Collection[str] = ()) -> list[str]:
    """The words, and phrases of signs, that say something, each once: no stop words, and no names."""
    words = _kept(text)
    stop = max(STOP, key=lambda language: sum(word in language for word in words))
    return list(dict.fromkeys(word for word in words if word not in stop and _folded(word) not in names))


def _kept(text: str) -> list[str]:
    return [word for word in _words(_UNSPACED_STOP().sub(" ", clean(text))) if len(word) > 1 or not word.isascii()]


def asks(text: str) -> bool:
    """Whether it ends with a question."""
    return text.rstrip(" \n\"')”»").endswith(("?", "？"))


def spoken(text: str) -> list[str]:
    """All words of a text in order, case-folded; of a script without spaces each sign."""
    found: list[str] = []
    for run in _WORD().findall(text):
        found += run if _IS_UNSPACED().match(run) else [_folded(run)]
    return found


def _folded(word: str) -> str:
    """The same for all ways to write a word. The index folds less: it keeps the German sharp s."""
    return word.casefold() if word.isascii() else normalize("NFC", word.casefold())


def _words(text: str) -> list[str]:
    found: list[str] = []
    for run in _WORD().findall(text):
        if _IS_UNSPACED().match(run):
            found += [*run, *map(APART.join, pairwise(run))]
        else:
            found.append(run.lower())
    return found
