"""Reading a fact: what it says, in parts that can be compared. Pure."""

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from nanomem.patterns import late
from nanomem.wording.words import (
    AND,
    BEFORE_NAMES,
    CUES,
    DAYS,
    HAN,
    HAN_AND,
    HAN_FIRM,
    HAN_NOT,
    HAN_SAME,
    HAN_SAME_FOUND,
    HAN_SMALL,
    HAN_UNITS,
    KNOWN,
    LINKS,
    MAYBE_SECRETS,
    MONTHS,
    NOT,
    NUMBERS,
    ONLY,
    ORDINALS,
    PAUSE,
    RELATIONS,
    SAME,
    SECRETS,
    SHAKY_MONTHS,
    TENS,
    TENS_ONES,
    TITLES,
    TONGUES,
    TURNS,
    UNITS,
    VERBS,
    WAYS,
    stem_of,
)


class Gist(NamedTuple):
    """What a fact says, in parts that can be compared. Words are stems; Chinese ones are single characters."""

    tokens: tuple[str, ...]
    """What counts, in order: stems, names, numbers, units; "" where a pause or a small word is."""
    content: frozenset[str]
    """The tokens without the pauses."""
    firm: frozenset[str]
    """The particulars among them."""
    names: frozenset[str]
    """Names for sure: not those that may only begin a sentence."""
    numbers: frozenset[str]
    """Numbers, dates and times."""
    said: frozenset[str]
    """All tokens, and each word in full."""
    denied: frozenset[str]
    """The words behind a negation."""
    ways: frozenset[str]
    """Whether something goes `from`, `to`, or is done `by`."""
    negations: int
    tongue: str
    label: str
    """What stands before the colon in `Label: value`."""


_MARKER = late(r"\A\s*(?:(?:[-*+•]|\d{1,9}[.)])\s+)+")
_EMPHASIS = re.compile(r"(?<!\w)[*_`]+(?=[\w\"'(\[]|[^\x00-\x7f])|(?<=[^\s*_`])[*_`]+(?!\w)")
_CELL = re.compile(r"\s*\|\s*")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "。": ".", "、": ","})
_ENDS = " .,;:!"


def same(fact: str) -> str:
    """What two spellings of one fact have in common: form of characters, marker, emphasis and the last sign aside."""
    key = " ".join(fact.split())
    if key[:2] in ("- ", "* ", "+ "):
        key = key[2:]
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key.encode("utf-8", "replace").decode()).translate(_QUOTES)
        key = _AROUND_HAN().sub("", " ".join(key.split()))
    if not key[:1].isalpha():
        key = _MARKER().sub("", key)
        if key[:1] == "|":
            key = _CELL.sub("|", key).strip("|")
    if "*" in key or "_" in key or "`" in key:
        key = _EMPHASIS.sub("", key).strip()
    return key.rstrip(_ENDS) or key


_AROUND_HAN = late(
    rf"\s+(?=[,.;:!?])|(?<=[{HAN}.,:;!?])\s+(?=[{HAN}])|(?<=[{HAN}])\s+(?=[{HAN}.,:;!?])|(?<=[{HAN}][,:;])\s+"
)
_WORDS = rf"""(?P<code>[A-Za-z]+-?\d[A-Za-z\d-]*)
    |(?P<word>[^\W\d_{HAN}]+(?:['-][^\W\d_{HAN}]+)*)
    |(?P<mark>\ue000[^\ue001]*\ue001)
    |(?P<box>\[[ xX]\])
    |(?P<number>(?:(?<![\w.])[+-])?\d+(?:[.,:]\d+)*)
    |(?P<han>[{HAN}])
    |(?P<sign>[€£$¥%°])
    |(?P<stop>[.,;:!?()"|/–—])"""
_TOKEN = late(_WORDS, re.VERBOSE)
_LINK = rf"""(?P<link>(?:https?://|www\.)[^\s<>()\[\]{HAN}]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:[a-z\d-]+\.)+[a-z]{{2,}}(?:/\S*)?)"""
_TOKEN_OR_LINK = late(f"{_LINK}|{_WORDS}", re.VERBOSE)
_HAS_LINK = re.compile(r"[a-z]\.[a-z]|@\w")


def gist(fact: str) -> Gist:
    """What a fact, as `same` spells it, says."""
    return _Reading(fact).gist()


class _Reading:
    """A fact, read token by token."""

    def __init__(self, fact: str) -> None:
        self._fact = fact
        self._tokens: list[str] = []
        self._firm: set[str] = set()
        self._names: set[str] = set()
        self._numbers: set[str] = set()
        self._full: set[str] = set()
        self._denied: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._negations = self._scope = self._han = self._latin = 0
        self._is_secret = False
        self._ways: set[str] = set()
        self._sure: set[str] = set()  # names even in German
        self._begins = True  # a sentence
        self._was_number = False
        pattern = _TOKEN_OR_LINK if _HAS_LINK.search(fact) else _TOKEN
        self._found = [(match.lastgroup or "", match[0]) for match in pattern().finditer(_marked(fact))]
        for at, (kind, text) in enumerate(self._found):
            new = self._word(at, text) if kind == "word" else self._other(kind, text, at)
            if self._scope and new:
                self._denied.update(new)
                self._scope -= 1
            self._tokens += new or [self._pause(kind, text)]
        if self._han:
            self._read_han()

    def gist(self) -> Gist:
        tongue = _tongue(self._fact, self._han, self._latin, self._counts)
        if tongue == "zh":  # what is written in other letters there is a name
            latin = {token for token in self._tokens if token in self._full}
            self._firm |= latin
            self._names |= latin
        if tongue == "de":
            self._names &= self._sure
        content = frozenset(self._tokens) - {"", LINKS, PAUSE}
        return Gist(
            tuple(self._tokens),
            content,
            frozenset(self._firm),
            frozenset(self._names),
            frozenset(self._numbers),
            content | self._full | self._firm,
            content & self._denied,
            frozenset(self._ways),
            self._negations,
            tongue,
            _label(self._fact),
        )

    def _pause(self, kind: str, text: str) -> str:
        if kind == "stop":
            is_one = text == "," and (len(self._tokens) < 2 or PAUSE in self._tokens[-2:])  # `Ana, 34`
            return "" if text in ":/–—" or is_one else PAUSE
        return PAUSE if text.casefold() in AND or text in HAN_AND else ""

    def _word(self, at: int, text: str) -> list[str]:
        self._latin += 1
        low = text.casefold()
        begins, self._begins = self._begins, False
        was_number, self._was_number = self._was_number, False
        if low not in KNOWN and not was_number and "'" not in low and "-" not in low:
            return self._plain(at, text, low, begins)
        if low in TONGUES:
            self._counts.update(TONGUES[low])
        if low in WAYS:
            self._ways.add(WAYS[low])
        if low in CUES:
            self._counts[CUES[low]] += 2
        if low in NOT or low.endswith("n't"):
            self._counts[NOT.get(low, "en")] += 1
            self._deny()
            if low in ("no", "kein", "keine", "keinen") and self._tokens:
                self._denied.add(self._tokens[-1])
            return []
        if low in DAYS:
            return self._number(DAYS[low])
        is_month = low in MONTHS and text[0].isupper() and not (begins and low in SHAKY_MONTHS)
        if is_month or (low in MONTHS and self._is_near_number(at)):
            return self._number(MONTHS[low])
        if value := _number_word(low):
            self._was_number = True
            return self._number("#" + value) if value != "1" else ["#1"]
        if was_number and low in UNITS:
            return self._particular("u:" + UNITS[low])
        if low in ONLY:
            return self._particular("only")
        if low in TONGUES or (was_number and low in ("st", "nd", "rd", "th")):
            return [LINKS] if low in RELATIONS else []
        return self._plain(at, text, low.removesuffix("'s"), begins)

    def _deny(self) -> None:
        self._negations += 1
        self._scope = 6

    def _is_near_number(self, at: int) -> bool:
        """Whether a number is beside this word, or behind an `of`."""
        for step in (-1, 1):
            beside = at + step
            if 0 <= beside < len(self._found) and self._found[beside][1] in ("de", "of", "st", "nd", "rd", "th", "."):
                beside += step
            if 0 <= beside < len(self._found) and self._found[beside][0] == "number":
                return True
        return False

    def _plain(self, at: int, text: str, bare: str, begins: bool) -> list[str]:
        """A word that counts: a name, or one of which the stem is enough."""
        if (self._is_secret and text != text.casefold()) or _ODD_CASE.search(text):
            self._names.add(text)
            self._sure.add(text)
            return self._particular(text)
        if bare in SECRETS or (bare in MAYBE_SECRETS and self._following(at)[1] in (":", "is", "=")):
            self._is_secret = True
        words = bare.split("-") if "-" in bare else [bare]
        if words[0] in TURNS:
            self._firm.add(stem_of(words[0]))
            self._deny()
        stems = [SAME.get(stem, stem) for stem in map(stem_of, words)]
        self._full.update((bare, *words, *stems))
        if not text[0].isupper() or bare in TITLES or (begins and not self._is_subject(at, text)):
            return stems
        if not begins:
            self._names.add(bare)
            if self._found[at - 1][1] in BEFORE_NAMES:
                self._sure.add(bare)
        self._firm.add(bare)
        return [bare] if len(words) == 1 else stems

    def _is_subject(self, at: int, word: str) -> bool:
        """Whether the first word of a sentence names whom or what it is about, by the word after it."""
        kind, after = self._following(at)
        if kind != "word":
            return after == ","
        is_verb = after in VERBS or (after.endswith("s") and not word.endswith(("s", "ed", "ing")))
        return word.endswith("'s") or after[0].isupper() or (is_verb and len(after) > 2)

    def _following(self, at: int) -> tuple[str, str]:
        return self._found[at + 1] if at + 1 < len(self._found) else ("", "")

    def _other(self, kind: str, text: str, at: int) -> list[str]:
        if kind == "stop":
            self._scope, self._was_number = 0, False
            self._is_secret = self._is_secret and text in ":\"'"
            before = self._found[at - 1][1] if at else ""
            self._begins = text in ".!?" and not (before[:1].isupper() and len(before) <= 3)
            return []
        self._begins = self._begins and kind == "box"
        was_number, self._was_number = self._was_number, kind == "number" or text[:2] == "\ue000#"
        if kind == "number":
            return [token for read in _number(text) for token in self._number(read)]
        if kind == "mark":
            return self._particular(text[1:-1]) if text[1] == "u" else self._number(text[1:-1])
        if kind == "sign":
            return self._particular("u:" + UNITS[text])
        if kind == "han":
            self._han += 1
            if text in ONLY and not was_number:
                return self._particular("only")
            if text in WAYS:
                self._ways.add(WAYS[text])
            if text == "一":
                return ["#1"]
            return [] if text in HAN_SMALL else [text]
        token = _without_case(text).rstrip(".,;:") if kind in ("link", "code") else text.casefold()
        if kind != "box":
            self._names.add(token)
            self._sure.add(token)
        return self._particular(token)

    def _particular(self, token: str) -> list[str]:
        self._firm.add(token)
        return [token]

    def _number(self, token: str) -> list[str]:
        self._numbers.add(token)
        return self._particular(token)

    def _read_han(self) -> None:
        """Negations and likely names in Chinese, where no space or capital shows them."""
        for match in HAN_NOT().finditer(self._fact):
            self._negations += 1
            self._denied.update(re.split(r"[\s,.;:!?、]", self._fact[match.end() : match.end() + 6])[0])
        for match in HAN_FIRM().finditer(self._fact):
            self._firm.update(set(match[1] or match[2]) - HAN_SMALL)


def _tongue(fact: str, han: int, latin: int, counts: Counter[str]) -> str:
    if han and (han >= latin or not counts):
        return "zh"
    if not fact.isascii() and any("\u0400" <= sign <= "\u04ff" for sign in fact):
        return "ru"
    return counts.most_common(1)[0][0] if counts else ""


def _label(fact: str) -> str:
    head, colon, value = fact.partition("|" if "|" in fact else ":")
    is_label = colon and value.strip() and len(head) <= 40 and not value.startswith("//") and not head[-1:].isdigit()
    return head.strip().casefold() if is_label else ""


def _number(text: str) -> list[str]:
    """The tokens of a number, a time or a date, in one spelling."""
    if text.isdigit():
        return ["#" + (text.lstrip("0") or "0" if len(text) <= 2 else text)]
    if ":" in text:
        first, *rest = text.split(":")
        while rest and not rest[-1].strip("0"):
            rest.pop()
        return ["#" + ":".join([first.lstrip("0") or "0", *rest])]
    if re.fullmatch(r"\d{1,2}\.\d{1,2}\.\d{2,4}", text):
        day, month, year = text.split(".")
        return [f"#{int(day)}", f"m{int(month)}", f"#{year}"]
    if re.fullmatch(r"[+-]?\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*", text):
        text = re.sub("[.,]", "", text)
    elif re.fullmatch(r"\d{1,3}(?:,\d{3})+\.\d+", text):
        text = text.replace(",", "")
    text = text.lstrip("+").replace(",", ".")
    if text.endswith(".00"):
        text = text[:-3]
    return ["#" + (text.lstrip("0") or "0" if len(text) <= 2 else text)]


def _number_word(low: str) -> str:
    """The number that a word says; empty for none."""
    if found := NUMBERS.get(low) or ORDINALS.get(low):
        return found
    if "-" in low and (match := TENS_ONES().fullmatch(low)):
        return str(TENS[match[1]] + int(NUMBERS[match[2]]))
    return ""


_ODD_CASE = re.compile(r"[a-zß-ÿ][A-Z]|[A-Z]{2}.*[a-z](?<!s)")


def _without_case(text: str) -> str:
    """A link with its host in small letters; a path and a code have a case that counts."""
    if "@" in text:
        return text.casefold()
    head, slashes, rest = text.partition("://")
    host, slash, path = (rest or head).partition("/")
    if not (slashes or "." in host):
        return text
    return f"{head.casefold()}://{host.casefold()}{slash}{path}" if slashes else f"{host.casefold()}{slash}{path}"


_PAST = re.compile(r"\b(half|quarter) past (\w+)", re.IGNORECASE)
_AGED = re.compile(r"(?<=\w)[ -]years?[ -]olds?\b", re.IGNORECASE)
_NUMBER_SIGN = re.compile(r"\b(?:no|nr|num)\.\s?(?=\d)", re.IGNORECASE)
_AM_PM = re.compile(r"(?<![\d:.])(\d{1,2})(?::(\d\d))?\s?([ap])\.?m\b\.?", re.IGNORECASE)
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_HAN_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"两": 2}
_HAN_TENS = {"十": 10, "百": 100, "千": 1_000}
_HAN_NUMBER = late(
    r"(?<![周期拜])(?:[零一二两三四五六七八九]?[十百千万](?:[零一二两三四五六七八九][十百千万]?|[十百千万])*[一二两三四五六七八九十百千万](?![货达事])|[一二两三四五六七八九十]{1,3}(?=个|只|条"
    r"|本|岁|年|月|日|号|点|分钟|小时|公|元|块|次|位|人|间|层|张|台|份|天|周|度|杯|件|双|名|欧|美|英|节|遍|针|片|粒|颗|口|楼|课|步|里|斤|克|米|集"
    r"|顿|场|辆|头|匹|套|室|居|章|页|瓶|碗|包|箱|盒|门|所|支|枝|根|棵|种|把|万|百|千))(?<!一)|(?<![周期拜])一(?=[十百千万])"
)
_HAN_MULTIPLE = late(r"(\d+(?:\.\d+)?)\s?([百千万亿])(?![货达事])")
_HAN_UNIT_OF = {"百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_HAN_TIME = late(r"(上午|早上|凌晨|中午|下午|晚上|傍晚)?\s?(\d{1,2})(?:[点时](?!间)(?:(半)|(\d{1,2})分?)?|:(\d\d))")
_HAN_DAY = late(r"(?:周|星期|礼拜)([一二三四五六日天])")
_HAN_GLUED = late(rf"(?<=[a-z])(?=\d+\s?[{HAN}])")
_HAN_UNIT = late(rf"(?<=\d)\s?({'|'.join(HAN_UNITS)})")


def _marked(fact: str) -> str:
    """The fact with dates, times and Chinese numbers in one form, so that they can be found in any language."""
    if "m" in fact or "M" in fact:
        fact = _AM_PM.sub(lambda m: f"{int(m[1]) % 12 + 12 * (m[3] in 'pP')}:{m[2] or '00'} ", fact)
    if " past " in fact:
        fact = _PAST.sub(_past, fact)
    if "old" in fact:
        fact = _AGED.sub(" \ue000u:age\ue001", fact)
    if "." in fact:
        fact = _NUMBER_SIGN.sub("", fact)
    if "-" in fact:
        fact = _ISO.sub(lambda m: f" {int(m[3])} \ue000m{int(m[2])}\ue001 {m[1]} ", fact)
    if fact.isascii():
        return fact
    fact = HAN_SAME_FOUND().sub(lambda m: HAN_SAME[m[0]], fact)
    fact = _HAN_NUMBER().sub(lambda m: _from_han(m[0]), fact)
    fact = _HAN_GLUED().sub(" ", fact)
    fact = _HAN_MULTIPLE().sub(lambda m: str(round(float(m[1]) * _HAN_UNIT_OF[m[2]])), fact)
    fact = _HAN_TIME().sub(_time, fact)
    fact = re.sub(r"(\d{4})年", r"\1 ", fact)
    fact = re.sub(r"(\d{1,2})月(?:(\d{1,2})[日号]?)?", lambda m: f" \ue000m{int(m[1])}\ue001 {m[2] or ''} ", fact)
    fact = re.sub(r"(\d{1,2})[日号]", r"\1 ", fact)
    fact = _HAN_DAY().sub(lambda m: f" \ue000w{'一二三四五六日'.find(m[1].replace('天', '日')) + 1}\ue001 ", fact)
    return _HAN_UNIT().sub(lambda m: f" \ue000u:{UNITS[m[1]]}\ue001 ", fact)


def _from_han(text: str) -> str:
    if not any(sign in "十百千万" for sign in text):
        return "".join(str(_HAN_DIGITS[sign]) for sign in text)
    total = part = digit = 0
    for sign in text:
        if sign == "万":
            total, part, digit = (total + part + digit) * 10_000, 0, 0
        elif sign in _HAN_TENS:
            part, digit = part + (digit or 1) * _HAN_TENS[sign], 0
        else:
            digit = _HAN_DIGITS[sign]
    return str(total + part + digit)


def _past(match: re.Match[str]) -> str:
    hour = _number_word(match[2].casefold()) or match[2]
    return f"{hour}:{'30' if match[1].casefold() == 'half' else '15'}"


def _time(match: re.Match[str]) -> str:
    hour = int(match[2])
    if match[1] in ("下午", "晚上", "傍晚") and hour < 12:
        hour += 12
    minutes = "30" if match[3] else (match[4] or match[5] or "00").zfill(2)
    return f" {hour}:{minutes} "
