"""How a message reads: a person's own words and what they pass on, a short yes, an order to software. Pure."""

import re
from collections.abc import Iterator

from nanomem.records import UserMessage
from nanomem.wording.words import HAN

_RULE = re.compile(r"\s*([-=*_])(?:\s*\1){2,}\s*\Z")
_BEHIND = re.compile(
    r"""\W*(?:
        begin\ forwarded\ message|(?:start\ of\ )?forwarded\ message|original\ message|-+\ ?forwarded\b
        |(?:weitergeleitete|ursprüngliche)\ (?:nachricht|mail|e-mail)|anfang\ der\ weitergeleiteten
        |message\ (?:transféré|d'origine)|mensaje\ (?:reenviado|original)
        |转发自|转发的?(?:消息|邮件|内容)|以下(?:是|为)?转发|原始邮件|転送(?:された)?メッセージ|元のメッセージ
    )|\s*[【[(（](?:转发|轉發|転送|fwd?|forwarded)[】\])）]|\s*(?:转发|轉發|転送|fwd?|wg|tr|rv)\s?[:：]
    |\s*(?:on|am|le|el)\ .{4,80}\ (?:wrote|schrieb.{0,60}|a\ écrit|escribió)\s?:\s*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")


def apart(message: UserMessage) -> tuple[str, str]:
    """A person's own words, and those they only pass on."""
    own: list[str] = []
    quoted = [message.reply_to or ""]
    behind, fenced = bool(message.forwarded_from), False
    for line in message.content.splitlines():
        behind = behind or (not fenced and bool(_RULE.match(line) or _BEHIND.match(line)))
        edge = bool(_FENCE.match(line))
        (quoted if behind or fenced or edge or line.lstrip()[:1] in (">", "＞") else own).append(line)
        fenced = fenced != edge
    return "\n".join(own).strip(), "\n".join(quoted).strip()


_YES = re.compile(
    r"""\W*(?:yes|yep|yeah|yup|ok|okay|sure|right|exactly|correct|agreed|indeed|absolutely|perfect|please\ do
    |do\ (?:it|that|so)
    |ja|jawohl|genau|stimmt|richtig|korrekt|gern|gerne|einverstanden|oui|ouais|exact|exactement|d'accord|sí|si
    |claro|vale|exacto
    |correcto|de\ acuerdo)(?![^\W_])
    |\W*(?:对|對|是的?|好|嗯|没错|沒錯|可以|行|要|当然|はい|ええ|うん|そう|お願い|もちろん|了解)""",
    re.IGNORECASE | re.VERBOSE,
)
_NO = re.compile(
    r"\b(?:no|not|never|nicht|kein\w*|pas|but|aber|mais|pero)\b|n't|不|别|根本|但|ない|ません", re.IGNORECASE
)


def is_yes(text: str) -> bool:
    """Whether it is a short yes to what was said before, and no more."""
    size = len(re.findall(rf"[{HAN}]", text)) / 2 + len(re.findall(rf"[^\W{HAN}]+", text))
    return size <= 5 and bool(_YES.match(text)) and not _NO.search(text.replace("没错", ""))


_WISH = re.compile(
    r"""\b(?:remember|memori[sz]e|note|save|keep|learn|write)\ (?:this|that|these|it|down|the|my|our|what)\b
    |\b(?:merke?\ dir|notier\w*|speicher\w*|behalte)\b|\b(?:retiens|note|garde)[zs]?[ -](?:ça|cela|ceci|le|la)\b
    |\b(?:recuerda|apunta|guarda)\ (?:esto|eso)\b|记住|记下|记一下|記住|記下|保存|覚えて|メモして""",
    re.IGNORECASE | re.VERBOSE,
)

_ASKED = re.compile(
    r"\W*(?:please|(?:can|could|would|will)\ you|kannst|könntest|peux-tu|puedes|请|能|可以|帮)", re.IGNORECASE
)


def is_wish(own: str) -> bool:
    """Whether somebody asks for what they pass on to be kept: then it is as if they had said it."""
    is_question = own.rstrip().endswith(("?", "？")) and not _ASKED.match(own)
    return bool(_WISH.search(own)) and not is_question


_SOFTWARE = re.compile(
    r"""\b(?:software|programs?|programmes?|bots?|chat\s?bots?|agents?|(?:language\ )?models?|systems?|ais?|llms?
    |gpts?
    |assistants?|automated|automatic|crawlers?|machines?|scrapers?|summari[sz]ers?|readers?\ (?:programs?|software)
    |ki(?:-\w+)?|assistent\w*|programme?n?|systemen?|modelle?n?|automatisch\w*|logiciels?|systèmes?|ia|modèles?
    |robots?|automatisé\w*
    |asistentes?|programas?|sistemas?|modelos?|automatizad\w+|agentes?)\b
    |助手|助理|机器人|機器人|程序|程式|模型|智能体|人工智能|系统|系統|软件|アシスタント|エージェント|ボット|プログラム|システム|モデル|ソフト""",
    re.IGNORECASE | re.VERBOSE,
)
_FOREVER = re.compile(
    r"""\b(?:from\ now\ on|always|henceforth|ab\ sofort|von\ nun\ an|von\ jetzt\ an|immer|désormais|dorénavant
    |toujours
    |a\ partir\ de\ ahora|de\ ahora\ en\ adelante|siempre)\b
    |从现在(?:起|开始)|从今|以后都|今后|始终|永远|今後|これから|常に""",
    re.IGNORECASE | re.VERBOSE,
)
_KEEP = re.compile(
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
_FOLLOWING = re.compile(
    r"[:：]\W*\Z|\b(?:following|below|folgend\w*|suivant\w*|siguiente\w*)\b|下面|以下|下列|次の", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_NEAR = 2
"""Sentences behind one that speaks to software in which its order may stand."""


def orders(quoted: str) -> Iterator[str]:
    """Each sentence that speaks to software, with those up to the one that says to remember."""
    sentences = [part for part in _SENTENCE_END.split(quoted) if part and part.strip()]
    for at, sentence in enumerate(sentences):
        if not (_SOFTWARE.search(sentence) or _FOREVER.search(sentence)):
            continue
        last = next((i for i in range(at, min(at + _NEAR + 1, len(sentences))) if _KEEP.search(sentences[i])), None)
        if last is not None:
            last += bool(_FOLLOWING.search(sentences[last]))
            yield "\n".join(sentences[at : last + 1])
