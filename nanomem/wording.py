"""Whether one fact says what another says: the same, in other words, in another language, or something else.

Judges by what must not change (numbers, dates, names, units, negations: the particulars) and by how many of the
words are there. It knows no grammar; where in doubt, one fact does not carry the other. Pure.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


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
    negations: int
    tongue: str
    label: str
    """What stands before the colon in `Label: value`."""


_MARKER = re.compile(r"\A\s*(?:(?:[-*+•]|\d{1,9}[.)])\s+)+")
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
        key = _AROUND_HAN.sub("", " ".join(key.split()))
    if not key[:1].isalpha():
        key = _MARKER.sub("", key)
        if key[:1] == "|":
            key = _CELL.sub("|", key).strip("|")
    if "*" in key or "_" in key or "`" in key:
        key = _EMPHASIS.sub("", key).strip()
    return key.rstrip(_ENDS) or key


def carries(new: Iterable[Gist], old: Gist) -> bool:
    """Whether these together say all that `old` says, or say it in another language."""
    pieces = [*new]
    if len(pieces) == 1:
        piece = pieces[0]
        if _foreign(piece, old):
            return _translates(piece, old)
        return _covers(piece, old) and not _swaps_one(piece, old)
    return bool(pieces) and not any(_foreign(piece, old) for piece in pieces) and _covers(_together(pieces), old)


def names(entry: Gist, fact: Gist) -> bool:
    """Whether `entry` is the fact in its own or nearly its own words: each carries the other."""
    return (
        not _foreign(entry, fact)
        and _covers(entry, fact, tiny=False)
        and _covers(fact, entry, tiny=False)
        and not _swaps_one(entry, fact)
    )


def contradicts(new: Gist, old: Gist) -> bool:
    """Whether both speak of one subject, and give it other values. Neither carries the other."""
    if new.label and new.label == old.label:
        return True
    if _foreign(new, old):
        same_names = bool(old.names) and old.names <= new.said and new.names <= old.said
        return same_names and bool(old.numbers and new.numbers) and old.numbers != new.numbers
    shared = old.content & new.said
    if len(shared) < 2 or len(shared) < 0.5 * len(old.content) or len(shared) < 0.5 * len(new.content):
        return False
    flipped = bool((old.denied ^ new.denied) & shared) or (old.negations > 0) != (new.negations > 0)
    return flipped or _swaps_one(new, old) or bool(old.firm - new.said and new.content - old.said)


def overlap(new: Gist, old: Gist) -> float:
    """How much of both is in both, from 0 to 1."""
    return len(new.content & old.said) / (len(new.content | old.content) or 1)


def _together(pieces: list[Gist]) -> Gist:
    def union(field: str) -> frozenset[str]:
        return frozenset[str]().union(*(getattr(piece, field) for piece in pieces))

    tokens = tuple(token for piece in pieces for token in (*piece.tokens, ""))
    fields = ("content", "firm", "names", "numbers", "said", "denied")
    negations = sum(piece.negations for piece in pieces)
    return Gist(tokens, *map(union, fields), negations, pieces[0].tongue, "")


def _covers(new: Gist, old: Gist, *, tiny: bool = True) -> bool:
    if not old.firm <= new.said or _opposed(new, old):
        return False
    total, shared = len(old.content), len(old.content & new.said)
    if total <= 2:
        return shared == total > 0 and not (tiny and _goes_on(new, old))
    return shared >= (0.7 if old.tongue == "zh" else 0.6) * total


def _goes_on(new: Gist, old: Gist) -> bool:
    """Whether a short fact is only the beginning of another one: `Has a dog` of `Has a dog allergy`."""
    last = max((at for at, token in enumerate(new.tokens) if token in old.content), default=-1)
    return new.tokens[last + 1 : last + 2] not in ((), ("",), (_LINKS,))


def _opposed(new: Gist, old: Gist) -> bool:
    """Whether one denies what the other says, or has its opposite."""
    shared = old.content & new.content
    if (old.denied ^ new.denied) & shared or (old.negations and not new.negations):
        return True
    gone, come = old.content - new.said, new.content - old.said
    if not gone or not come:
        return False
    if any(word in _POLES and _POLES[word] & come for word in gone):
        return True
    return any(
        prefix + a in come or (a.startswith(prefix) and a[len(prefix) :] in come) for a in gone for prefix in _UN
    )


def _swaps_one(new: Gist, old: Gist) -> bool:
    """Whether all is as it was but for one thing in the place of another: a value, not a wording."""
    before = [token for token in old.tokens if token in old.content]
    after = [token for token in new.tokens if token in new.content]
    changed = [at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
    if len(before) == len(after) and len(changed) == 2 and before[changed[0]] == after[changed[1]]:
        return _are_related(old.tokens, before[changed[0]], before[changed[1]])
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    while len(before) > first and len(after) > first and before[-1] == after[-1]:
        before.pop()
        after.pop()
    gone, come = before[first:], after[first:]
    if not gone or not come or set(gone) & new.said:
        return False
    most = 3 if old.tongue == "zh" else 1
    begins = first == 0 and old.tongue != "zh" and len(old.content) >= 4  # most often a verb
    return len(gone) <= most and len(come) <= most + 1 and not begins


def _are_related(tokens: tuple[str, ...], one: str, other: str) -> bool:
    """Whether it matters which of two words comes first: they do not only stand side by side in a list."""
    first = tokens.index(one)
    last = max(at for at, token in enumerate(tokens) if token == other)
    return any(tokens[min(first, last) + 1 : max(first, last)])


def _foreign(new: Gist, old: Gist) -> bool:
    """Whether they are in two languages, as far as their small words tell."""
    return bool(new.tongue and old.tongue and new.tongue != old.tongue)


def _translates(new: Gist, old: Gist) -> bool:
    if not (old.numbers or old.names or new.names) or old.numbers != new.numbers:
        return False
    if (old.negations > 0) != (new.negations > 0):
        return False
    units = {token for token in old.firm | new.firm if token.startswith("u:")}
    if not units <= old.firm & new.firm:
        return False
    # In German every noun looks like a name.
    ours = old.names if old.tongue != "de" else frozenset[str]()
    theirs = new.names if new.tongue != "de" else frozenset[str]()
    return ours <= new.said and theirs <= old.said and bool(old.numbers or ours or theirs)


# --- reading a fact -------------------------------------------------------------------------------------------------

_HAN = "\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff"
_AROUND_HAN = re.compile(
    rf"\s+(?=[,.;:!?])|(?<=[{_HAN}.,:;!?])\s+(?=[{_HAN}])|(?<=[{_HAN}])\s+(?=[{_HAN}.,:;!?])|(?<=[{_HAN}][,:;])\s+"
)
_WORDS = rf"""(?P<code>[A-Za-z]+-?\d[A-Za-z\d-]*)
    |(?P<word>[^\W\d_{_HAN}]+(?:['-][^\W\d_{_HAN}]+)*)
    |(?P<mark>\ue000[^\ue001]*\ue001)
    |(?P<box>\[[ xX]\])
    |(?P<number>(?:(?<![\w.])[+-])?\d+(?:[.,:]\d+)*)
    |(?P<han>[{_HAN}])
    |(?P<sign>[€£$¥%°])
    |(?P<stop>[.,;:!?()"|/–—])"""
_TOKEN = re.compile(_WORDS, re.VERBOSE)
_LINK = rf"""(?P<link>(?:https?://|www\.)[^\s<>()\[\]{_HAN}]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:[a-z\d-]+\.)+[a-z]{{2,}}(?:/\S*)?)"""
_TOKEN_OR_LINK = re.compile(f"{_LINK}|{_WORDS}", re.VERBOSE)
_HAS_LINK = re.compile(r"[a-z]\.[a-z]|@\w")


def _table(text: str) -> dict[str, str]:
    """`name: word word; name: word` the other way round."""
    rows = (row.split(":") for row in text.replace("\n", " ").split(";") if row.strip())
    return {word: name.strip() for name, words in rows for word in words.split()}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = _table(
    """m1: january jan januar enero janvier gennaio; m2: february feb februar febrero février febbraio;
    m3: march mar märz marzo mars; m4: april apr abril avril aprile; m5: may mai mayo maggio;
    m6: june jun juni junio juin giugno; m7: july jul juli julio juillet luglio; m8: august aug agosto août;
    m9: september sep sept septiembre septembre settembre; m10: october oct oktober octubre octobre ottobre;
    m11: november nov noviembre novembre; m12: december dec dezember diciembre décembre dicembre;
    m1: января январь; m2: февраля февраль; m3: марта март; m4: апреля апрель; m5: мая май; m6: июня июнь;
    m7: июля июль; m8: августа август; m9: сентября сентябрь; m10: октября октябрь; m11: ноября ноябрь;
    m12: декабря декабрь"""
)
_SHAKY_MONTHS = _words("jan mar march may mai mars sep dec август май март")
_DAYS = _table(
    """w1: monday mondays mon montag montags lunes lundi lunedì понедельник; w2: tuesday tuesdays tue dienstag dienstags
    martes mardi martedì вторник; w3: wednesday wednesdays wed mittwoch mittwochs miércoles mercredi mercoledì среда
    среду средам; w4: thursday thursdays thu donnerstag donnerstags jueves jeudi giovedì четверг; w5: friday fridays fri
    freitag freitags viernes vendredi venerdì пятница пятницу пятницам; w6: saturday saturdays samstag samstags sábado
    sábados samedi sabato суббота субботу субботам; w7: sunday sundays sonntag sonntags domingo domingos dimanche
    domenica воскресенье"""
)
_UNITS = _table(
    """mcg: mcg µg μg microgram micrograms 微克; mg: mg milligram milligrams 毫克; g: g gram grams gramm gramos grammes 克;
    kg: kg kilo kilos kilogram kilograms 公斤 千克; lb: lb lbs 磅; km: km kilometre kilometres kilometer kilometers
    kilómetros 公里 千米; mi: mi mile miles 英里; m: m metre metres meter meters metros mètres 米; cm: cm centimetre
    centimetres centimeters 厘米; mm: mm millimetres millimeters 毫米; l: l litre litres liter liters litros 升;
    ml: ml millilitres milliliters 毫升; deg: degree degrees grad grados degrés 度 °; pct: % percent prozent; ft: ft feet
    foot 英尺; in: inch inches 英寸; eur: € eur euro euros 欧元 евро; gbp: £ gbp pound pounds 英镑; usd: $ usd dollar
    dollars 美元; cny: ¥ cny rmb yuan 元 块 人民币; jpy: jpy yen 日元; chf: chf francs franken 法郎; min: min minute minutes
    minuten minutos 分钟; sec: sec second seconds sekunden 秒; hour: h hr hrs hour hours stunden stunde horas heures 小时;
    day: day days tage tagen días jours 天; week: week weeks wochen semanas semaines 周 星期; month: month months monate
    meses mois 个月; year: year years jahre jahren años ans 年 лет; mb: mb; gb: gb; tb: tb; kwh: kwh; kmh: km/h; mph: mph"""
)
_HAN_UNITS = sorted((unit for unit in _UNITS if re.match(f"[{_HAN}]", unit)), key=len, reverse=True)
_NUMBERS = {
    word: str(value)
    for words in (
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
        "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "- deux trois quatre cinq six sept huit neuf dix onze douze",
    )
    for value, word in enumerate(words.split(), start=1)
    if word not in ("-", "once")
} | {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100", "dozen": "12"}
_NOT = _words(
    """no not never none nobody nothing nor neither without cannot except nicht kein keine keinen keinem keiner nie
    niemals ohne weder nichts nunca jamás sin ni ningún ninguna ninguno nada nadie tampoco ne pas jamais sans aucun
    aucune rien non senza nessun nessuna não sem niet geen nooit zonder не нет без никогда ни нельзя никто ничего"""
)
_ONLY = _table("only: only solely exclusively nur ausschließlich solo sólo solamente seulement только 只 仅")
_SMALL = {
    "en": """a an the of to in on at for with and or is are was were be been being has have had do does did it its his her
    their my our your he she they we you i this that these those by from as also so who which when there than then them
    him would will s""",
    "de": """der die das ein eine einen einem einer und oder ist sind war hat haben im am an auf zu zum zur mit von vom für
    bei den dem des es sie er sich als auch wird seit""",
    "es": "el la los las un una y o es son en de del al con por para su sus se que lo le está desde",
    "fr": "le les une et ou est sont du des au aux avec pour par sa son ses qui il elle dans sur à depuis",
    "it": "il gli è sono di della nel alla con per che si da dal",
    "ru": "и в на с по у к о за из для это он она его её что как",
}
_TONGUES = {
    word: [tongue for tongue, words in _SMALL.items() if word in words.split()]
    for words in _SMALL.values()
    for word in words.split()
}
"""The small words, and the languages that have them."""
_RELATIONS = frozenset("to from for by in with than who which that".split())
_LINKS = "~"
"""Stands for a small word that says how its neighbours belong together."""
_TITLES = _words("mr mrs ms miss dr prof herr frau mme madame monsieur señor señora sr sra st uncle aunt i")
_VERBS = _words("is was has had will can does are were did went lives likes wants works plays keeps gets")
_HAN_SMALL = frozenset("每的了在是和与及也都把被为于着过会之地得")
_HAN_NOT = re.compile(r"不(?!错)|没|無|无(?!锡)|未(?!来)|勿|(?<![特区性个告分级])别(?!墅)|非(?!常|洲)|戒|禁")
_HAN_FIRM = re.compile(
    rf"(?:\A|[\s,.:;、()\"是叫由和与跟给找向请]|医生|老师)([{_HAN}]{{2}})(?=\Z|[\s,.:;、()\"]|[{_HAN}]?[,.]|先生|女士|老师|医生)"
    rf"|(?:[在到去]|住在|来自)([{_HAN}]{{2}})"
)
_UN = ("un", "in", "im", "dis", "non", "ir")


def _poles(text: str) -> dict[str, frozenset[str]]:
    """For each word those of its opposites: `a b` in one row."""
    found: dict[str, set[str]] = {}
    for row in text.split(";"):
        sides = [{_stem(word) for word in side.split()} for side in row.split("/")]
        for side in sides:
            for word in side:
                found.setdefault(word, set()).update(*(other for other in sides if other is not side))
    return {word: frozenset(others) for word, others in found.items()}


def _stem(word: str) -> str:
    """The beginning that forms of a word have in common, roughly."""
    if len(word) > 4:
        for ending in ("ings", "ing", "ied", "ies", "ed", "es", "en", "ly", "s", "e", "y"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)]
                break
    elif len(word) == 4 and word[-1] == "s" and word[-2] != "s":
        word = word[:-1]
    return word[:6]


_POLES = _poles(
    """before/after;until/since/from;above over/below under;left/right;morning/evening night afternoon;open opens/closed
    closes;more/less fewer;likes loves prefers enjoys/hates dislikes detests avoids;owes/lent paid owed owns;buys bought/
    sells sold;starts started begins began joined/ends ended stopped stops quit left finished;with/without;hot warm/cold;
    am/pm;first/last;early/late;up/down;always/sometimes rarely seldom never;big large/small;married engaged/divorced
    single widowed;accepted/declined refused rejected;often/rarely seldom;arrives arrived/leaves left departs;
    allowed/forbidden;north/south;east/west;older elder/younger;父/母;左/右;前/后;早/晚;买/卖;爱 喜/讨 厌;男/女;开/关;哥 兄/弟;姐/妹"""
)


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
        self._begins = True  # a sentence
        self._was_number = False
        pattern = _TOKEN_OR_LINK if _HAS_LINK.search(fact) else _TOKEN
        self._found = [(match.lastgroup or "", match[0]) for match in pattern.finditer(_marked(fact))]
        for at, (kind, text) in enumerate(self._found):
            new = self._word(at, text) if kind == "word" else self._other(kind, text, at)
            if self._scope and new:
                self._denied.update(new)
                self._scope -= 1
            self._tokens += new or [""]
        if self._han:
            self._read_han()

    def gist(self) -> Gist:
        tongue = _tongue(self._fact, self._han, self._latin, self._counts)
        if tongue == "zh":  # what is written in other letters there is a name
            latin = {token for token in self._tokens if token in self._full}
            self._firm |= latin
            self._names |= latin
        content = frozenset(self._tokens) - {"", _LINKS}
        return Gist(
            tuple(self._tokens),
            content,
            frozenset(self._firm),
            frozenset(self._names),
            frozenset(self._numbers),
            content | self._full | self._firm,
            content & self._denied,
            self._negations,
            tongue,
            _label(self._fact),
        )

    def _word(self, at: int, text: str) -> list[str]:
        self._latin += 1
        low = text.casefold()
        begins, self._begins = self._begins, False
        was_number, self._was_number = self._was_number, False
        if low in _TONGUES:
            self._counts.update(_TONGUES[low])
        if low in _NOT or low.endswith("n't"):
            self._negations += 1
            self._scope = 6
            return []
        if low in _DAYS:
            return self._number(_DAYS[low])
        if low in _MONTHS:
            near = was_number or self._following(at)[0] == "number"
            if near or (text[0].isupper() and not (begins and low in _SHAKY_MONTHS)):
                return self._number(_MONTHS[low])
        if low in _NUMBERS:
            self._was_number = True
            return self._number("#" + _NUMBERS[low]) if low != "one" else ["#1"]
        if was_number and low in _UNITS:
            return self._particular("u:" + _UNITS[low])
        if low in _ONLY:
            return self._particular("only")
        if low in _TONGUES or (was_number and low in ("st", "nd", "rd", "th")):
            return [_LINKS] if low in _RELATIONS else []
        return self._plain(at, text, low.removesuffix("'s"), begins)

    def _plain(self, at: int, text: str, bare: str, begins: bool) -> list[str]:
        """A word that counts: a name, or one of which the stem is enough."""
        words = bare.split("-") if "-" in bare else [bare]
        stems = [_stem(word) for word in words]
        self._full.update((bare, *words, *stems))
        if not text[0].isupper() or bare in _TITLES or (begins and not self._is_subject(at, text)):
            return stems
        if not begins:
            self._names.add(bare)
        self._firm.add(bare)
        return [bare] if len(words) == 1 else stems

    def _is_subject(self, at: int, word: str) -> bool:
        """Whether the first word of a sentence names whom or what it is about, by the word after it."""
        kind, after = self._following(at)
        if kind != "word":
            return after == ","
        is_verb = after in _VERBS or (after.endswith("s") and not word.endswith(("s", "ed", "ing")))
        return word.endswith("'s") or after[0].isupper() or (is_verb and len(after) > 2)

    def _following(self, at: int) -> tuple[str, str]:
        return self._found[at + 1] if at + 1 < len(self._found) else ("", "")

    def _other(self, kind: str, text: str, at: int) -> list[str]:
        if kind == "stop":
            self._scope, self._was_number = 0, False
            before = self._found[at - 1][1] if at else ""
            self._begins = text in ".!?" and not (before[:1].isupper() and len(before) <= 3)
            return []
        self._begins = self._begins and kind == "box"
        self._was_number = kind == "number" or text[:2] == "\ue000#"
        if kind == "number":
            return [token for read in _number(text) for token in self._number(read)]
        if kind == "mark":
            return self._particular(text[1:-1]) if text[1] == "u" else self._number(text[1:-1])
        if kind == "sign":
            return self._particular("u:" + _UNITS[text])
        if kind == "han":
            self._han += 1
            if text in _ONLY:
                return self._particular("only")
            return [] if text in _HAN_SMALL else [text]
        token = text.casefold().rstrip(".,;:")
        if kind != "box":
            self._names.add(token)
        return self._particular(token)

    def _particular(self, token: str) -> list[str]:
        self._firm.add(token)
        return [token]

    def _number(self, token: str) -> list[str]:
        self._numbers.add(token)
        return self._particular(token)

    def _read_han(self) -> None:
        """Negations and likely names in Chinese, where no space or capital shows them."""
        for match in _HAN_NOT.finditer(self._fact):
            self._negations += 1
            self._denied.update(re.split(r"[\s,.;:!?、]", self._fact[match.end() : match.end() + 6])[0])
        for match in _HAN_FIRM.finditer(self._fact):
            self._firm.update(set(match[1] or match[2]) - _HAN_SMALL)


def _tongue(fact: str, han: int, latin: int, counts: Counter[str]) -> str:
    if han > latin:
        return "zh"
    if not fact.isascii() and any("\u0400" <= sign <= "\u04ff" for sign in fact):
        return "ru"
    return counts.most_common(1)[0][0] if counts else ""


def _label(fact: str) -> str:
    head, colon, value = fact.partition(":")
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


_AM_PM = re.compile(r"(?<![\d:.])(\d{1,2})(?::(\d\d))?\s?([ap])\.?m\b\.?", re.IGNORECASE)
_ISO = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_HAN_NUMBER = re.compile(
    r"(?<![周期拜第十])([一二两三四五六七八九十]{1,3})(?=个|只|条|本|岁|年|月|日|号|点|分钟|小时|公|元|块|次|位|人|间|层|张|台|份|天|周|度|杯|件|双|名|欧|美|英)"
)
_HAN_TIME = re.compile(
    r"(上午|早上|凌晨|中午|下午|晚上|傍晚)?\s?(\d{1,2})(?:[点时](?!间)(?:(半)|(\d{1,2})分?)?|:(\d\d))"
)
_HAN_DAY = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_HAN_UNIT = re.compile(rf"(?<=\d)\s?({'|'.join(_HAN_UNITS)})")


def _marked(fact: str) -> str:
    """The fact with dates, times and Chinese numbers in one form, so that they can be found in any language."""
    if "m" in fact or "M" in fact:
        fact = _AM_PM.sub(lambda m: f"{int(m[1]) % 12 + 12 * (m[3] in 'pP')}:{m[2] or '00'} ", fact)
    if "-" in fact:
        fact = _ISO.sub(lambda m: f" {int(m[3])} \ue000m{int(m[2])}\ue001 {m[1]} ", fact)
    if fact.isascii():
        return fact
    fact = _HAN_NUMBER.sub(lambda m: _from_han(m[1]), fact)
    fact = _HAN_TIME.sub(_time, fact)
    fact = re.sub(r"(\d{4})年", r"\1 ", fact)
    fact = re.sub(r"(\d{1,2})月(?:(\d{1,2})[日号]?)?", lambda m: f" \ue000m{int(m[1])}\ue001 {m[2] or ''} ", fact)
    fact = re.sub(r"(\d{1,2})[日号]", r"\1 ", fact)
    fact = _HAN_DAY.sub(lambda m: f" \ue000w{'一二三四五六日'.find(m[1].replace('天', '日')) + 1}\ue001 ", fact)
    return _HAN_UNIT.sub(lambda m: f" \ue000u:{_UNITS[m[1]]}\ue001 ", fact)


def _from_han(text: str) -> str:
    values = {sign: value for value, sign in enumerate("一二三四五六七八九", start=1)} | {"两": 2}
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return "".join(str(values[sign]) for sign in text)
    return str((values.get(tens, 1)) * 10 + values.get(ones, 0))


def _time(match: re.Match[str]) -> str:
    hour = int(match[2])
    if match[1] in ("下午", "晚上", "傍晚") and hour < 12:
        hour += 12
    minutes = "30" if match[3] else (match[4] or match[5] or "00").zfill(2)
    return f" {hour}:{minutes} "
