"""What of a text is a secret: keys, tokens, passwords, PINs, card numbers.

Goes by shape and by the word in front, in English, German, French, Spanish, Chinese and Japanese as far as its lists
reach: a password that nothing announces is not seen, nor one that is a word of `_NO_VALUE` behind "is"; of two plain
words that are one only the first is. Knows nothing of memory or messages; the only place that knows detect-secrets
and python-stdnum.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detect_secrets.plugins.base import RegexBasedDetector

_PIECE = 1_000
"""Characters of one run of signs that are looked at together, so that no pattern takes long on a hostile one."""
_RUN = re.compile(r"[!-~]{8,}")
_KEY_SIGNS = re.compile(r"[\w.+/=~-]*", re.ASCII)
_SHORTEST_KEY = 16
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [^-\n]{0,60}-----|\Z)", re.DOTALL
)
_PREFIXED = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        (?:sk|rk|pk_live|gsk|hf|xai|r8|npm|pat|github_pat|shp(?:at|ca|ss)|dop_v1|xapp|lin_api|ntn|whsec|secret)[-_]
        |AIza|ya29\.|EAA(?=\w{30}))
    (?=[\w-]{0,40}\d)[\w-]{16,}""",
    re.VERBOSE | re.ASCII,
)
"""Keys that their firms begin with a mark of their own, and that detect-secrets does not know or knows too narrowly."""
_LOGIN_IN_URL = re.compile(r"://[^:/@\s]{1,100}:([^@/\s]{1,200})@")
_LONG = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_+=~-]{20,}")
_LONG_WITH_SLASH = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/])")
"""The second half of a key of Amazon's has no other mark than its length."""
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")

_DIGITS = re.compile(r"[0-9]+(?:[ \u00a0–-][0-9]+)*")
_IBAN = re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_MOMENT = re.compile(r"1[0-9]{12}|1[0-9]{15}|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9][0-9]*")
"""Thousandths or millionths of seconds since 1970, or a date and a time in one."""
_ISSUERS = {
    13: re.compile("4"),
    14: re.compile("3[0689]"),
    15: re.compile("3[47]|2131|1800"),
    16: re.compile("[02-9]|1"),
    17: re.compile("5[06-9]|6"),
    18: re.compile("5[06-9]|6"),
    19: re.compile("4|5[06-9]|6"),
}
"""How card numbers of a length begin. Of sixteen digits any may be one."""
_SHAPES = {4: ((4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 5)), 6: ((6, 13),), 8: ((8, 8),)} | {
    size: ((size,),) for size in _ISSUERS
}
"""The groups they are written in, by the size of the first."""
_DOUBLED = str.maketrans("0123456789", "0246813579")
"""Twice a digit, and the digits of that added up."""

_NEAR = 40
"""Characters before and behind a number in which a word says what it is the number of."""
_BANK = re.compile(
    r"card|karte|carte|tarjeta|visa|mastercard|amex|american express|expires|\bcv[vc]2?\b|卡|カード", re.I
)
_OTHER_NUMBER = re.compile(
    r"""(?:member(?:ship)?|loyalty|library|order|contract|tracking|invoice|reference|customer|client|booking|parcel|gift
    |(?:mitglied|bestell|auftrag|vertrag|sendung|rechnung|kunden|bibliothek)\w{0,9}|commande|fidélité|suivi|facture
    |contrato?|pedido|socio|factura|envío|会员|订单|快递|图书|合同)[ -]?(?:cards?|karte|卡)?
    [ -]?(?:no\b|nr\b|number|nummer|code|id)?号?[^\w\n]{0,4}(?:(?:is|ist|es|est)\s|是)?\Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""What makes of the number behind it one of something else than a bank card."""

_PASSWORD = r"""(?:pass|kenn)(?:word|wort|wörter|code|phrase)s?|passwd|pwd|mots?\ de\ passe|contraseñas?|senha|codice
    |zugangscode|(?:seed|recovery)[ -]phrase|clave\ (?:secreta|de\ acceso|del?\ (?:la\ )?wi-?fi)"""
_CODE = r"""(?:code\ )?pin(?:[ -]?(?:code|number|nummer))?|geheimzahl
    |(?:door|gate|alarm|garage|safe|lock|padlock|entry|access|building|keypad|unlock|key\ ?box|lockbox|locker|house
    |vault|voicemail|security)[ -]code|(?:safe|lock|padlock|locker|vault)[ -]combination
    |(?:tür|tor|alarm|haus|safe|tresor|garagen|zutritts|schloss|zahlen)-?(?:code|kombination)
    |combination(?=\ (?:to|for|of|on)\ (?:\w{2,5}\ )?(?:\w{1,12}\ )?(?:safe|lock|padlock|locker|vault))"""
_KEY = r"""(?:api|access|secret|private|license|auth)[ _-]?(?:access[ _-]?)?(?:key|token)s?
    |(?:api|lizenz|zugangs)-?schlüssel|(?<=\w_)(?:key|token|secret|password|passwd|pwd)"""
_WORD = re.compile(
    rf"""(?:(?<![^\W_])(?=[^\W\d_])(?:(?P<code>{_CODE})|(?P<cvv>cv[vc]2?)|(?P<key>{_KEY})|(?P<token>tokens?))
    |(?:(?<![^\W_])|(?<=\w)(?=passwor))(?P<password>{_PASSWORD}))(?![^\W_])
    |(?P<asian_password>密码|密碼|口令|暗号|パスワード|验证码|助记词)|(?P<asian_code>暗証番号|PIN码)|(?P<asian_key>密钥|密鑰|令牌)""",
    re.VERBOSE | re.IGNORECASE,
)
_LINK = re.compile(
    r"""(?:[ ]{1,4}(?:for|of|to|on|at|für|vom|von|der|des|zum|zur|del?|du|pour|para)
     (?:[ ]{1,4}[^\s.:;,=!?：。，]{1,20}){1,4}?)?
    (?:\s{0,8}[:=：＝]\s{0,8}
    |\s{0,8}(?:现在|目前|就|还|应该)?(?:是|为|為|は)(?=[\s!-~：“「『])\s{0,8}(?:[:：]\s{0,8})?
    |\s{1,8}(?:is|(?P<vague>was|are|war)|lautet|ist|est|es|será)\s{1,8}
     (?:(?:now|still|just|simply|jetzt|nun|maintenant|ahora)\s{1,8})?(?::\s{1,8})?)""",
    re.VERBOSE | re.IGNORECASE,
)
_BLANK = re.compile("[ ]{1,4}")
_REACH = 60
"""Characters behind the word in which its value must have begun."""
_VALUE = re.compile(
    r"""["“„«「『](?P<double>[^"”“»」』\n]{3,80})["”“»」』]|'(?P<single>[^'\n]{3,80})'|`(?P<back>[^`\n]{3,80})`
    |(?P<bare>[!#-~À-ɏ]{3,120}|[^\s"“„«「『，。；、？！]{3,40})""",
    re.VERBOSE,
)
_DIGIT_CODE = re.compile(r"""[#*"'`“„]?([0-9]{3,8}|[0-9]{1,2}(?:[ –-][0-9]{1,2}){2,7}|[0-9]{3}[ -][0-9]{3})(?![0-9])""")
_HAS_PIN = re.compile(r"\b(?:card|bank|phone|sim|app|atm|handy|karte)\b", re.I)
_PHRASE = re.compile(
    r"""(?:passphrase|(?:seed|recovery)[ -]phrase|助记词)\s{0,8}(?:is|[:=：是])\s{0,8}
    ((?:[a-z]{3,12}[ -]){3,23}[a-z]{3,12})""",
    re.IGNORECASE | re.VERBOSE,
)
_WORDS = re.compile(r"[a-zà-ɏ]{2,20}(?:[ ][a-zà-ɏ]{2,20}){0,11}(?![^\W_])")
_NO_VALUE = frozenset(
    re.findall(
        r"\w+",
        """about again also and anymore anyway as at back because been before being best better but by case changed
        changing common complex correct different done down due easy empty everything everywhere fine for forgotten from
        getting given gone good hard here hers hidden how if in insecure inside into invalid is it its just kept known
        long lost mandatory mine missing must my never none not nothing now on once only open optional or our ours
        password passwort
        please private public quite really redacted required reset ridiculous safe said same saved secret secure see
        sensitive sent set short should shown simple since so some something somewhere soon still stolen stored strong
        such sure taken taped than that the theirs then there these they this those to today too tricky under unknown
        unless unsafe until up used using valid very visible was weak we what when where which while who will with
        without working written wrong yet you your yours
        abgelaufen aber als auch auf aus bei bekannt das dasselbe dem den der die doch egal ein eine falsch für gleich
        hier ich im immer jetzt kein keine keines kurz lang leer leicht mit nach neu nicht noch nur oder richtig schon
        schwach schwer sehr seit sicher siehe stark steht und unter von war weg weil wenn wie zu zum zur
        aucun avec connu dans est et faible faux inconnu le les mais mon mot même oublié par pas perdu pour que qui sur
        très trop voir con corta débil demasiado difícil el es está fácil incorrecta larga misma muy ninguna para pero
        por secreta segura una ver""",
    )
)
"""What stands behind "password is", and is no password; and where a passphrase ends."""
_NO_SECRET = re.compile(
    r"n/a\Z|\w+://|\S+@\S+\.\w+\Z|[.…*•x_-]+\Z|\W+\Z|<|keine?\w*\Z|(?:sha|md|base|wpa|aes)-?[0-9]\S*\Z", re.I
)
_STATE = re.compile(
    r"\w{5,}ly|\w{4,}(?:ed|ée?s?|[ai]d[oa])|(?:un|ver|ge)\w{3,}(?:t|en|er|ig|lich)|\w+['’]s|\w+-\w+", re.I
)
"""The forms of words that tell what became of a password, or whose it is."""


def secrets_in(text: str) -> frozenset[str]:
    """The secrets of a text, each as it stands there. Never raises. Takes time in proportion to the length: half a
    second for a megabyte of talk, a few for one made to be slow."""
    found = {match[0] for match in _PEM.finditer(text)}
    runs = {match[0][at : at + _PIECE] for match in _RUN.finditer(text) for at in range(0, len(match[0]), _PIECE)}
    for run in runs:
        found.update(_keys(run))
    found.update(_cards(text))
    found.update(_named(text))
    return frozenset(secret for secret in found if secret.strip())


def _keys(run: str) -> Iterator[str]:
    """The keys in a run of signs without a space."""
    if "://" in run:
        yield from _LOGIN_IN_URL.findall(run)
    if len(run) < _SHORTEST_KEY or not any(map(str.isdigit, run)):
        return
    yield from (match[0] for match in _PREFIXED.finditer(run))
    for detector in _detectors():
        for start in detector.analyze_string(run):
            yield from _whole(start, run)
    if "://" in run or run.startswith("www."):
        return
    if "/" not in run:
        yield from (match[0] for match in _LONG.finditer(run) if _is_random(match[0]))
    elif run[0] not in "/.~" and "." not in run:
        yield from (match[0] for match in _LONG_WITH_SLASH.finditer(run) if _is_random(match[0]))


def _whole(start: str, run: str) -> Iterator[str]:
    """The key of which a detector may give only the beginning."""
    at = run.find(start)
    more = _KEY_SIGNS.match(run, at + len(start))
    key = run[at : more.end() if more else None].rstrip(".")
    if at >= 0 and len(key) >= _SHORTEST_KEY and any(map(str.isdigit, key)):
        yield key


@cache
def _detectors() -> tuple["RegexBasedDetector", ...]:
    """Those that know a key by its form; not those that guess by entropy or by a word, nor the one for addresses.

    Artifactory's takes many a word in capitals for a key; its real ones are long and mixed, and found without it.
    """
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.artifactory import ArtifactoryDetector
    from detect_secrets.plugins.base import BasePlugin, RegexBasedDetector
    from detect_secrets.plugins.ip_public import IPPublicDetector

    kinds: list[type[BasePlugin]] = [*get_mapping_from_secret_type_to_class().values()]
    unfit = (ArtifactoryDetector, IPPublicDetector)
    return tuple(kind() for kind in kinds if issubclass(kind, RegexBasedDetector) and not issubclass(kind, unfit))


def _is_random(token: str) -> bool:
    """Whether small and capital letters and digits change too often, in one run of them, for words that are written
    together or a name with a number in hexadecimal behind it."""
    run = max(re.split("[^A-Za-z0-9]+", token), key=len)
    letters = sum(map(str.isalpha, run))
    capitals = sum(map(str.isupper, run))
    is_mixed = letters < len(run) and 0.2 * letters <= capitals <= 0.8 * letters
    return is_mixed and len(run) >= _SHORTEST_KEY and len(_TURN.findall(run)) >= 0.4 * len(run)


def _cards(text: str) -> set[str]:
    """Card numbers, alone or among other numbers."""
    found: set[str] = set()
    for match in _DIGITS.finditer(text):
        if len(match[0]) < 13 or re.match("[A-Za-z0-9+]", text[match.start() - 1 : match.start()]):
            continue
        groups, start = re.split("[^0-9]", match[0]), match.start()
        sizes = tuple(map(len, groups))
        for at, size in enumerate(sizes):
            for shape in _SHAPES.get(size, ()):
                end = start + sum(shape) + len(shape) - 1
                if sizes[at : at + len(shape)] != shape or text[start:end] in found:
                    continue
                if _is_card(groups[at : at + len(shape)]) and _is_bank_card(text, start, end, len(shape) > 1):
                    found.add(text[start:end])
            start += size + 1
    return found


def _is_card(groups: list[str]) -> bool:
    number = "".join(groups)
    issuers = _ISSUERS.get(len(number))
    if not issuers or not issuers.match(number) or len(set(number)) < 2:
        return False
    if all(map(_YEAR.fullmatch, groups)) or (len(groups) == 1 and _MOMENT.fullmatch(number)):
        return False
    return sum(map(int, number[-1::-2] + number[-2::-2].translate(_DOUBLED))) % 10 == 0


def _is_bank_card(text: str, start: int, end: int, is_grouped: bool) -> bool:
    """Whether that number is in no IBAN, and is not another's by what stands around it. One in a piece needs a word."""
    from stdnum import iban

    before, behind = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    if _OTHER_NUMBER.search(before) or not (is_grouped or _BANK.search(before) or _BANK.search(behind)):
        return False
    return not any(iban.is_valid(match[0]) for match in _IBAN.finditer(text, max(0, start - _NEAR), end + _NEAR))


def _named(text: str) -> Iterator[str]:
    """What stands behind a word that announces a secret."""
    yield from (match[1] for match in _PHRASE.finditer(text))
    for word in _WORD.finditer(text):
        kind, end = (word.lastgroup or "").removeprefix("asian_"), word.end()
        link = _LINK.match(text, end, end + _REACH)
        if kind in ("code", "cvv"):
            start = link or (_BLANK.match(text, end) if kind == "cvv" else None)
            match = start and _DIGIT_CODE.match(text, start.end())
            if match and _is_code(match, word, kind):
                yield match[1]
        elif link:
            yield from _behind(link, kind)
        elif kind == "password" and (blank := _BLANK.match(text, end)) and (match := _VALUE.match(text, blank.end())):
            value = _trimmed(match["bare"] or "")
            if len(value) >= 6 and value[0].isalnum() and re.search("[0-9]", value) and re.search(r"[^\W\d_]", value):
                yield value


def _is_code(match: re.Match[str], word: re.Match[str], kind: str) -> bool:
    """Whether the digits are as many as such a code has; six of a "PIN code" are an Indian postcode unless a word of
    what has a PIN is near."""
    digits = sum(map(str.isdigit, match[1]))
    if digits == 6 and re.fullmatch("pin[ -]?code", word[0], re.I):
        text = word.string
        return bool(
            _HAS_PIN.search(text, max(0, word.start() - _NEAR), match.start())
            or _HAS_PIN.search(text, match.end(), match.end() + _NEAR // 2)
        )
    return digits <= 4 if kind == "cvv" else digits >= 4


def _behind(link: re.Match[str], kind: str) -> Iterator[str]:
    """The password or key that a colon or an "is" leads to."""
    match = _VALUE.match(link.string, link.end())
    if match and match["bare"] is None:
        yield next(filter(None, match.groups()))
    elif match:
        phrase = _phrase(link) if kind == "password" and not link["vague"] else ""
        value = _trimmed(match["bare"])
        if phrase or (len(value) >= 4 and value.lower() not in _NO_VALUE and _is_secret(value, kind, link)):
            yield phrase or value


def _trimmed(bare: str) -> str:
    value = bare.rstrip(".,;:?)]}\"'”")
    return "" if _NO_SECRET.match(value) else value


def _phrase(link: re.Match[str]) -> str:
    """Three or more plain words in a row, as far as they may be one passphrase."""
    match = _WORDS.match(link.string, link.end(), link.end() + 200)
    words = match[0].split(" ") if match else []
    words = words[: next((at for at, word in enumerate(words) if at and word in _NO_VALUE), len(words))]
    is_told = bool(words) and (words[0] in _NO_VALUE or bool(_STATE.fullmatch(words[0])))
    return " ".join(words) if len(words) >= 3 + is_told else ""


def _is_secret(value: str, kind: str, link: re.Match[str]) -> bool:
    digits, has_letter = len(re.findall("[0-9]", value)), bool(re.search(r"[^\W\d_]", value))
    has_sign = bool(re.search(r"[^\w'’.-]", value)) or value.count("-") > 2 or "_" in value
    if kind == "token":
        return len(value) >= 8 and digits >= 3 and has_letter and "(" not in value
    if kind == "key":
        return len(value) >= 6 and has_letter and (digits > 0 or has_sign) and "(" not in value
    if any(sign in link[0] for sign in ":=：＝") or digits or (has_sign and has_letter):
        return True
    then = link.string[link.end() + len(value) : link.end() + len(value) + 8]
    is_told = link["vague"] or _STATE.fullmatch(value) or re.match(" (?:to|than|until|enough|by) ", then)
    return bool(re.fullmatch(r"[A-Za-zÀ-ɏ'’.-]+", value)) and not is_told
