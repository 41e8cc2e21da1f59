"""What of a text is a secret: keys, tokens, passwords, PINs, card numbers.

Goes by shape and by the word in front: it cannot tell a password that looks like any other word and that nothing
announces. Knows nothing of memory or messages; the only place that knows detect-secrets and python-stdnum.
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

_LINK = r"""(?:\s*[:=：＝]\s*|\s*(?:现在|目前|就|还|应该)?(?:是|为|為|は)\s*[:：]?\s*
    |\s+(?:is|was|are|lautet|ist|war|est|es|será)(?:\s+(?:now|still|just|simply|jetzt|nun|maintenant|ahora))?\s*:?\s+)"""
_OF = r"(?:\s+(?:for|of|to|on|at|für|vom|von|der|des|zum|zur|del?|du|pour|para)\s[^\n.:;,=!?：。，]{1,40}?)?"
_VALUE = r"""(?:"(?P<double>[^"\n]{3,80})"|'(?P<single>[^'\n]{3,80})'|`(?P<back>[^`\n]{3,80})`
    |[“„«「『](?P<quoted>[^”“»」』\n]{3,80})[”“»」』]|(?P<bare>[!#-~À-ɏ]{3,120}|[^\s"“„«「『，。；、]{3,120}))"""
_PASSWORD = r"""(?<![^\W_])(?:(?:pass|kenn)(?:word|wort|wörter|code|phrase)s?|passwd|pwd|mots?\ de\ passe|contraseñas?
    |\w{2,12}passwort|zugangscode|codice|senha)(?![^\W_])|密码|密碼|口令|暗号|パスワード|验证码"""
_PIN = r"(?<![^\W_])(?:(?:code\ )?pin(?:[ -]?(?:code|number|nummer))?|geheimzahl|\w{2,12}-pin)(?![^\W_])|暗証番号|PIN码"
_TOKEN = r"""(?<![^\W_])(?:secrets?|(?:api|access|secret|private|license|auth)[ _-]?(?:access[ _-]?)?(?:key|token)s?
    |token|clave|schlüssel|logins?|secret[ _]key|(?<!\w)\w{1,40}_(?:key|token|secret|password|passwd|pwd))(?![^\W_])
    |密钥|密鑰|令牌"""
_NAMED = re.compile(
    rf"(?:(?P<password>{_PASSWORD})|(?P<pin>{_PIN})|(?P<token>{_TOKEN})){_OF}(?P<link>{_LINK}){_VALUE}",
    re.VERBOSE | re.IGNORECASE,
)
_PHRASE = re.compile(
    r"(?:passphrase|(?:seed|recovery)[ -]phrase|助记词)\s*(?:is|:|=|：|是)\s*((?:[a-z]{3,12}[ -]){3,23}[a-z]{3,12})",
    re.I,
)
_NO_VALUE = re.compile(
    r"""(?:none|n/?a|see|ask|same|unknown|forgotten|changed|reset|lost|secret|hidden|private|required|wrong|correct|invalid
    |not|never|kept|stored|saved|written|here|there|this|that|the|what|which|with|from|only|known|safe|empty|redacted
    |siehe|kein\w*|unbekannt|vergessen|geändert|steht|nicht|oublié|aucun|voir|olvidada|ninguna|ver|\W+)\Z
    |\w+://|\S+@\S+\.\w+\Z|[.…*•x_-]+\Z|<""",
    re.IGNORECASE | re.VERBOSE,
)
"""What stands behind a password's colon, and is no password."""


def secrets_in(text: str) -> frozenset[str]:
    """The secrets of a text, each as it stands there. Never raises; takes seconds at most for a megabyte."""
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
    """Whether small and capital letters and digits change too often for words that are written together."""
    has_all = re.search("[a-z]", token) and re.search("[A-Z]", token) and re.search("[0-9]", token)
    return bool(has_all) and len(_TURN.findall(token)) >= 0.4 * sum(map(str.isalnum, token))


def _cards(text: str) -> Iterator[str]:
    """Card numbers, alone or among other numbers."""
    from stdnum import iban

    text = _IBAN.sub(lambda match: " " if iban.is_valid(match[0]) else match[0], text)
    for match in _DIGITS.finditer(text):
        before = text[match.start() - 1 : match.start()]
        if len(match[0]) < 13 or re.match("[A-Za-z0-9+]", before):
            continue
        groups = re.split("([^0-9])", match[0])  # numbers at even places, what parts them at odd ones
        sizes = tuple(map(len, groups[::2]))
        if _is_card(groups[::2]):
            yield match[0]
        for at in range(len(sizes)):
            for shape in _SHAPES.get(sizes[at], ()):
                if sizes[at : at + len(shape)] == shape and _is_card(groups[2 * at : 2 * (at + len(shape)) : 2]):
                    yield "".join(groups[2 * at : 2 * (at + len(shape)) - 1])


def _is_card(groups: list[str]) -> bool:
    from stdnum import luhn

    number = "".join(groups)
    issuers = _ISSUERS.get(len(number))
    if not issuers or not issuers.match(number) or len(set(number)) < 2:
        return False
    if all(map(_YEAR.fullmatch, groups)) or (len(groups) == 1 and _MOMENT.fullmatch(number)):
        return False
    return bool(luhn.is_valid(number))


def _named(text: str) -> Iterator[str]:
    """What stands behind a word that announces a secret."""
    yield from (match[1] for match in _PHRASE.finditer(text))
    for match in _NAMED.finditer(text):
        kind = next(name for name in ("password", "pin", "token") if match[name])
        bare = match["bare"]
        if bare is None:
            quoted = match["double"] or match["single"] or match["back"] or match["quoted"]
            if kind != "pin" or quoted.isdigit():
                yield quoted
            continue
        value = _value(bare, kind, is_assigned=any(sign in match["link"] for sign in ":=：＝"))
        if value:
            yield value


def _value(bare: str, kind: str, *, is_assigned: bool) -> str:
    """The secret that begins there, or nothing."""
    value = bare.rstrip(".,;:?)]}\"'”")
    if kind == "pin":
        digits = re.match(r"[0-9]{4,8}(?![0-9])", value)
        return digits[0] if digits else ""
    if len(value) < 4 or _NO_VALUE.match(value):
        return ""
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    has_sign = bool(re.search(r"[^\w'’.-]", value)) or value.count("-") > 2 or "_" in value
    if kind == "token":
        return value if len(value) >= 6 and has_letter and (has_digit or has_sign) and "(" not in value else ""
    return value if is_assigned or has_digit or (has_sign and has_letter) else ""
