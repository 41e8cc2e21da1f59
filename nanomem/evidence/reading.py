"""How a message reads: a person's own words and what they pass on, a yes, a question, an order to software. Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from nanomem.patterns import late
from nanomem.records import UserMessage
from nanomem.wording.words import HAN

_RULE = re.compile(r"\s*([-=*_])(?:\s*\1){2,}\s*\Z")
_BEHIND = late(
    r"""\W{0,60}(?:
        begin\ forwarded\ message|(?:start\ of\ )?forwarded\ message|original\ message|(?<=-)\ ?forwarded\b
        |(?:weitergeleitete|ursprüngliche)\ (?:nachricht|mail|e-mail)|anfang\ der\ weitergeleiteten
        |message\ (?:transféré|d'origine)|mensaje\ (?:reenviado|original)
        |转发自|转发的?(?:消息|邮件|内容)|以下(?:是|为)?转发|原始邮件|転送(?:された)?メッセージ|元のメッセージ
    )|\s*[【[(（](?:转发|轉發|転送|fwd?|forwarded)[】\])）]|\s*(?:转发|轉發|転送|fwd?)\s?[:：]
    |\s*(?:on|am|le|el)\ .{4,80}\ (?:wrote|schrieb.{0,60}|a\ écrit|escribió)\s?:\s*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_SUBJECT = re.compile(r"\s*(?:wg|tr|rv)\s?[:：]", re.IGNORECASE)
_SENDER = re.compile(r"\W{0,9}(?:von|de|from|da)\W{0,9}[:：]", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")
_LOOK = late(
    r"""[?？:：]\W{0,9}\Z|看|读|讀|見て|読|\b(?:look\w*|see|check|read\w*|thoughts|opinion|translat\w+|summar\w+|fwd|forward\w*
    |sent|got|found|wrote|schau\w*|sieh|lies|lesen|gefunden|regarde\w*|lis|mira|lee)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LINE = 300
"""Characters of a line that are looked at for a mark."""


def apart(message: UserMessage) -> tuple[str, str]:
    """A person's own words, and those they only pass on."""
    own: list[str] = []
    quoted = [message.reply_to or ""]
    behind, fenced = bool(message.forwarded_from), False
    lines = message.content.splitlines()
    for at, line in enumerate(lines):
        behind = behind or (not fenced and _is_mark(lines, at))
        edge = bool(_FENCE.match(line))
        (quoted if behind or fenced or edge or line.lstrip()[:1] in (">", "＞") else own).append(line)
        fenced = fenced != edge
    return "\n".join(own).strip(), "\n".join(quoted).strip()


def _is_mark(lines: Sequence[str], at: int) -> bool:
    """Whether what stands below this line is passed on."""
    line = lines[at][:_LINE]
    if _SUBJECT.match(line):
        return any(map(_SENDER.match, lines[at + 1 : at + 6]))
    return bool(_BEHIND().match(line)) or (bool(_RULE.match(line)) and _parts(lines, at))


def _parts(lines: Sequence[str], at: int) -> bool:
    """Whether a line across parts somebody else's text, and not two of the person's own."""
    below = list(islice(filter(str.strip, islice(lines, at + 1, None)), 2))
    if len(below) != 1:
        return bool(below)
    text, above = below[0].strip(), next(filter(str.strip, reversed(lines[:at])), "")[-_LINE:]
    return len(text) > 120 or text.isupper() or bool(_LOOK().search(above)) or any(orders(text))


_YES = late(
    r"""\W{0,9}(?:yes|yep|yeah|yup|ok|okay|sure|right|exactly|correct|agreed|indeed|absolutely|perfect|please\ do
    |do\ (?:it|that|so)
    |ja|jawohl|genau|stimmt|richtig|korrekt|gern|gerne|einverstanden|oui|ouais|exact|exactement|d'accord|sí|si
    |claro|vale|exacto
    |correcto|de\ acuerdo)(?![^\W_])
    |\W{0,9}(?:对|對|是的?|好|嗯|没错|沒錯|可以|行|要|当然|はい|ええ|うん|そう|お願い|もちろん|了解)""",
    re.IGNORECASE | re.VERBOSE,
)
_PLAIN_YES = late(r"\W{0,9}(?:(?:yes|yep|yeah|yup|ja|oui|sí)(?![^\W_])|是的|对[，,]|對[，,]|はい)", re.IGNORECASE)
"""What a yes of more than a few words begins with."""
_NO = late(r"\b(?:no|not|never|nicht|kein\w*|pas|but|aber|mais|pero)\b|n['’]t|不|别|根本|但|ない|ません", re.IGNORECASE)


def is_yes(text: str) -> bool:
    """Whether it is a short yes to what was said before, and no more."""
    if len(text) > _LINE or _asks(text):
        return False
    size = len(re.findall(rf"[{HAN}]", text)) / 2 + len(re.findall(rf"[^\W{HAN}]+", text))
    is_said = (size <= 5 and _YES().match(text)) or (size <= 15 and _PLAIN_YES().match(text))
    return bool(is_said) and not _NO().search(text.replace("没错", ""))


_WISH = late(
    r"""(?:\A|[.!?,;:\n。！？，：])\s{0,9}(?:(?:please|pls|and|also|just|so|ok|okay|hey|you|to|i|want|would|like|can|could|will|bitte
        |und|kannst|könntest|du|dir|mir|mal|peux-tu|tu|peux|puedes|por\ favor|s'il\ te\ plaît)[ ,]{1,3}){0,8}(?:
        (?:remember|memori[sz]e|save|store|note|keep)\ (?:this|that|it)
        |(?:merke?|notier\w{0,2}|speicher\w{0,2}|behalte?)(?:\ (?:dir|dich|bitte|mal)){0,3}\ (?:das|dies|es)
        |(?:das|dies|es)(?:\ (?:bitte|mal)){0,2}\ (?:merken|notieren|speichern|behalten)
        |(?:retiens|retenez|note[zr]?|garde[zr]?|enregistre[zr]?|mémorise[zr]?)[ -](?:bien\ )?(?:ça|cela|ceci|le)
        |(?:recuerda|apunta|anota|guarda|memoriza)\ (?:esto|eso)|(?:recuérda|apúnta|anóta|guárda)lo
    )(?:\ (?:down|please|too|also|as\ well|safe|for\ (?:me|us|later)
        |(?:in|to)\ (?:(?:your|the|my)\ )?(?:memory|mind|notes)|bitte|gut|auf|ab|für\ (?:mich|später)|im\ gedächtnis
        |s'il\ te\ plaît|pour\ (?:moi|plus\ tard)|por\ favor|para\ mí)){0,5}
        \s{0,9}(?:[.!?,;:…\n)]|\Z)
    |(?:\A|[\s，。！？：,.!?:])(?:请|麻烦|[你您]?(?:能|可以)|帮我|帮忙|就|都){0,4}(?:
        (?:记住|記住|记下|記下|记一下|保存|存下)(?:这个|这些|这条|這個|那个|它|一下|来|吧)|(?:把|将)(?:这个|这些|这条|這個|那个|它)(?:都|给我|帮我)?
        (?:记住|記住|记下|記下|记一下|保存|存下))[来來吧吗嗎啊哦好了一下]{0,4}(?:[\s，。！？：,.!?:]|\Z)
    |(?:これ|それ)を?(?:覚えて|メモして|保存して|記憶して)""",
    re.IGNORECASE | re.VERBOSE,
)
_FINDINGS = late(
    r"""\b(?:remember|memori[sz]e|save|store|note|keep)\ (?:down\ )?(?:what(?:ever)?|everything|anything|all)
        \ (?:that\ )?you\ (?:find|see|learn)
    |\b(?:merke?|notier\w{0,2}|speicher\w{0,2})(?:\ dir)?,?\ was\ du\ (?:dort\ |da\ )?findest
    |\b(?:retiens|note|garde|enregistre)\ (?:tout\ )?ce\ que\ tu\ trouves
    |\b(?:recuerda|apunta|guarda)\ (?:todo\ )?lo\ que\ encuentres
    |(?:记住|記住|记下|保存)你?(?:找到|查到)的|把你?(?:找到|查到)的[^，。\n]{0,6}(?:记|記|存)|(?:見つけた|調べた)(?:こと|もの|内容)を""",
    re.IGNORECASE | re.VERBOSE,
)


def is_wish(own: str) -> bool:
    """Whether somebody asks for what they pass on to be kept: then it is as if they had said it."""
    return bool(_WISH().search(own))


def wants_findings(own: str) -> bool:
    """Whether somebody asks for what tools bring to be kept."""
    return bool(_FINDINGS().search(own))


_SOFTWARE = late(
    r"""\b(?:software|programs?|programmes?|bots?|chat\s?bots?|agents?|(?:language\ )?models?|systems?|ais?|llms?
    |gpts?|(?:previous|prior)\ instructions
    |assistants?|automated|automatic|crawlers?|machines?|scrapers?|summari[sz]ers?|readers?\ (?:programs?|software)
    |ki(?:-\w+)?|assistent\w*|programme?n?|systemen?|modelle?n?|automatisch\w*|logiciels?|systèmes?|ia|modèles?
    |robots?|automatisé\w*
    |asistentes?|programas?|sistemas?|modelos?|automatizad\w+|agentes?)\b
    |助手|助理|机器人|機器人|程序|程式|模型|智能体|人工智能|系统|系統|软件|アシスタント|エージェント|ボット|プログラム|システム|モデル|ソフト""",
    re.IGNORECASE | re.VERBOSE,
)
_FOREVER = late(
    r"""\b(?:from\ now\ on|always|henceforth|ab\ sofort|von\ nun\ an|von\ jetzt\ an|immer|désormais|dorénavant
    |toujours
    |a\ partir\ de\ ahora|de\ ahora\ en\ adelante|siempre)\b
    |从现在(?:起|开始)|从今|以后都|今后|始终|永远|今後|これから|常に""",
    re.IGNORECASE | re.VERBOSE,
)
_KEEP = late(
    r"""\b(?:sav(?:e|es|ing)|stor(?:e|es|ed|ing)|record(?:s|ing)?|remember(?:s|ing)?|not(?:e|es|ing)|add(?:s|ing)?
    |delet\w+|forget\w*
    |remov\w+|eras\w+|memor\w+|profiles?|permanent\w*|rules?|updat\w+|keep|persist|learn|overwrit\w+|long-term
    |speicher\w*|(?:ver)?merk\w*|notier\w*|lösch\w*|vergess\w*|vergiss|eintrag\w*|einzutragen|aufnehmen
    |gedächtnis\w*|profil\w*|dauerhaft
    |hinzu\w*|enregistr\w+|mémori\w+|mémoire|souven\w+|retenir|retenez|not(?:er|ez)|ajout\w+|supprim\w+|oubli\w+
    |effac\w+
    |guard\w+|registr\w+|recuerd\w+|anot\w+|añad\w+|borr\w+|olvid\w+|elimin\w+|perfil)\b
    |记住|记下|记录|写进|写入|写到|保存|记忆|删除|忘记|忘掉|添加|加入|存入|储存|存储|档案|资料|更新|記住|寫入|記憶|刪除
    |保存|記録|削除|追加|覚え|忘れ|プロフィール|登録|書き込""",
    re.IGNORECASE | re.VERBOSE,
)
_FOLLOWING = late(
    r"[:：]\W{0,20}\Z|\b(?:following|below|folgend\w*|suivant\w*|siguiente\w*)\b|下面|以下|下列|次の", re.IGNORECASE
)
_WIPE = late(
    r"""\b(?:delet\w+|forget\w*|remov\w+|eras\w+|updat\w+|overwrit\w+|wip(?:e|es|ed|ing)|discard\w*|clear\w*|replac\w+|correct\w*
    |outdated|obsolete|wrong|false|no\ longer|any\ ?more|veraltet|falsch
    |chang\w+|lösch\w*|vergess\w*|vergiss|entfern\w*|aktualisier\w*|überschreib\w*|ersetz\w*|supprim\w+|oubli\w+|effac\w+
    |remplac\w+|borr\w+|olvid\w+|elimin\w+|actualiz\w+|reemplaz\w+)\b|删|刪|忘|清除|更新|移除|修改|改成|替换|削除|消""",
    re.IGNORECASE | re.VERBOSE,
)
_ALL = re.compile(
    r"\b(?:everything|alles|tout|todo)\b(?!\ (?:about|über|zu|sur|sobre)\b)|全部|所有|一切|すべて|全て", re.IGNORECASE
)
_NO_SUBJECT = late(
    r"""\b(?:entr(?:y|ies)|readers?|visitors?|customers?|patients?|facts?|information|data|know\w*|previous\w*|ignore|instructions?
    |earlier|existing|outdated|einträge\w*|leser\w*|nutzer\w*|kund\w+|entrées?|lecteur\w*|entradas?|lector\w*)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_LONGEST = 500
"""Characters of a sentence; a longer one is read as several."""
_NEAR = 2
"""Sentences behind one that speaks to software in which its order may stand."""


def _sentences(text: str) -> Iterator[str]:
    for part in _SENTENCE_END.split(text):
        if part and part.strip():
            yield from (part[at : at + _LONGEST] for at in range(0, len(part), _LONGEST))


def _asks(sentence: str) -> bool:
    return sentence.rstrip(" \t\n*_\"'”’)").endswith(("?", "？"))


def statements(text: str) -> str:
    """What is said in it and not asked."""
    return "\n".join(sentence for sentence in _sentences(text) if not _asks(sentence))


def last_question(text: str) -> str:
    """The question that an answer to it answers."""
    return next((sentence for sentence in reversed([*_sentences(text)]) if _asks(sentence)), "")


def passages(text: str) -> Iterator[str]:
    """It in pieces of a few sentences, none beyond a paragraph."""
    for paragraph in re.split(r"\n[ \t]{0,9}\n", text):
        piece: list[str] = []
        for sentence in _sentences(paragraph):
            if piece and (len(piece) == 3 or sum(map(len, piece)) + len(sentence) > _LINE):
                yield "\n".join(piece)
                piece = []
            piece.append(sentence)
        if piece:
            yield "\n".join(piece)


def subject(order: str) -> str | None:
    """What an order wants gone or changed, nothing if that is all there is; None if it wants nothing gone."""
    if not _WIPE().search(order):
        return None
    for idle in (_SOFTWARE, _KEEP, _WIPE, _FOREVER, _NO_SUBJECT):
        order = idle().sub(" ", order)
    return "" if _ALL.search(order) else order


def orders(quoted: str) -> Iterator[str]:
    """Each sentence that speaks to software, with those up to the one that says to remember."""
    sentences = [*_sentences(quoted)]
    for at, sentence in enumerate(sentences):
        if not (_SOFTWARE().search(sentence) or _FOREVER().search(sentence)):
            continue
        last = next((i for i in range(at, min(at + _NEAR + 1, len(sentences))) if _KEEP().search(sentences[i])), None)
        if last is not None:
            last += bool(_FOLLOWING().search(sentences[last]))
            yield "\n".join(sentences[at : last + 1])
