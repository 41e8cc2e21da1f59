"""The embedded model: a few rules, no key, no network. It quotes what was said and what is known, and claims no more.

Pure and deterministic: knows only the request. Its rules are for English, with a little German and Chinese.
"""

import json
import re
from calendar import month_name
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nanomem.facts import facts
from nanomem.messages import Reply, Request, ToolCall
from nanomem.models.offline_learning import arguments, is_question
from nanomem.patterns import late

HOW = (
    "A real model is set with `nanomem init`, or with `nanomem config set agents.defaults.model "
    '"anthropic/claude-sonnet-4-5"` and the api_key of its provider in config.toml.'
)
WHO = (
    "I am nanomem's offline model: a few rules, not a language model. I keep what you say and can quote it, "
    f"but I understand little. {HOW}"
)
HELLO = "Hello! I am nanomem's offline model: I keep what you tell me and can quote it when you ask."
NOTHING = f"I know nothing about that, and find nothing you said about it. I am only the offline model. {HOW}"
NOTED = "Noted: it is kept in our conversation. Ask me about it, and I will quote it; more I cannot do, being offline."

IN_MEMORY = "In your memory:"

_MARK = r"\[(\d{4}-(?:0[1-9]|1[0-2])-\d\d \d\d:\d\d|\d{1,2} \w+ \d{4}, \d\d:\d\d|just now|\d+ \w+ ago)\]"
_FOUND = re.compile(rf"(?m)^{_MARK} ([^:\n]{{1,99}}): (.+?)(?: \([^()\n]+, messages? [^()\n]+\))?$")
_NOBODY = ("Assistant", "Summary")  # what people said is found beside these
_CONTEXT = re.compile(r"<context>\n(?:(?!<context>).)*</context>\s*\Z", re.S)
_BEHIND_MEMORY = re.compile(
    r"(?m)^## (?:Skills to Go By|Skills to Read When Needed|Talked About Before These Messages)$"
)
_SKILL = re.compile(r"(?m)^## Skill: ")  # behind all that the block says itself
_NOTES = re.compile(r"\A(?:\[[^\]\n]*\]\n)+")  # what a message replies to, files sent along

_REMEMBER = re.compile(
    r"(?:(?:please |bitte )?(?:remember|merke? dir)[,:]?\s+(?:that |dass )?|请?记[住得][,:\uff0c\uff1a]?\s*)(.+)",
    re.I | re.S,
)
_SELF = late(
    r"\b(?:what|who) are you\b|\bare you (?:an? )?(?:ai|bot|human)\b|\bwhich model (?:are you|is this)\b"
    r"|\bwer bist du\b|你是[谁誰]|什么模型",
    re.I,
)
_HOW_TO = late(
    r"\b(?:how|where|can|could|help|wie|wo|kann)\b.{0,60}(?:"
    r"\b(?:real|better|proper|actual|other|another|different|echte[sn]?|anderes?|richtige[sn]?)"
    r" (?:language |ai |sprach)?(?:model|modell|llm|ai|ki)\b"
    r"|\b(?:set(?: ?up)?|configure|change|switch|choose|connect|add|put|enter)\b"
    r".{0,30}\b(?:model|llm|api[ -]?key|provider)\b|\buse (?:openai|anthropic|litellm|chatgpt|gpt|claude|ollama)\b)"
    r"|(?:怎[么样]|如何).{0,20}模型",
    re.I,
)
_GREETING = late(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|guten (?:tag|morgen|abend)|[你您]好)"
    r"(?:[ ,]+\w+)?[\s!.,。\uff01\uff0c]*",
    re.I,
)
_STOP_WORDS = """
a an and any are about at be been called can could did do does for from had has have how i in is it its know like me my
of on or our please remember said say show so some tell that the their them there they this to told us was we were what
when where which who whom whose why will with would you your
als am an auf aus bei bin bist das dass dein deine dem den der die dir du ein eine einen er es habe hast heißt ich im
ist mein meine meinen mir mit sie sind und von was wann welche wer wie wir wo zu"""
_STOP = frozenset(_STOP_WORDS.split())
_CJK_STOP = re.compile("什[么麼]|怎么|为什么|何时|多少|[谁誰哪里裡个我你您他她它们的是几吗嗎呢了在叫吧啊请]")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = late(rf"[{_CJK}]|[^\W_{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Line:
    """Something that can be quoted; `intro` says where it is from."""

    text: str
    intro: str


class OfflineModel:
    """A `ports.Model` that never fails and costs nothing."""

    name = "offline"

    async def warm_up(self) -> None:
        """There is nothing to load."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """Answers at once, word by word as a real model does; raises nothing."""
        reply = answer(request)
        if heard is not None and reply.text:
            for end in re.finditer(r"\b\s", reply.text):
                heard(reply.text[: end.start()])
            heard(reply.text)
        return reply


def answer(request: Request) -> Reply:
    """The first rule that fits."""
    if request.forced:
        given = arguments(request)
        return _calls(request, request.forced, given) if given else Reply(WHO)
    newest = max((i for i, m in enumerate(request.messages) if m.role == "user"), default=-1)
    if newest < 0:
        return Reply(HELLO)
    talk = _Talk(request.messages[newest].text)
    said = [text for _, _, text in talk.messages(request.messages[newest].text)]
    results = "\n".join(message.text or "(nothing)" for message in request.messages[newest:] if message.role == "tool")
    offered = set() if request.forced == "" else {tool.name for tool in request.tools}
    wishes = [{"fact": found[1].strip()} for found in map(_REMEMBER.fullmatch, said) if found]
    question = "\n".join(filter(is_question, said))
    if wishes and not question and (results or "remember" in offered):
        return Reply(results) if results else _calls(request, "remember", *wishes)
    known = list(_known(request.system, talk.context))
    if results:
        found = talk.found(results)
        fitting = best(question, [*known, *reversed(found)])
        return Reply(_quoted(fitting or found[:1]) or NOTHING)
    if any(map(_SELF().search, said)):
        return Reply(WHO)
    if any(map(_HOW_TO().search, said)):
        return Reply(HOW)
    if not question:
        return Reply(HELLO if said and all(map(_GREETING().fullmatch, said)) else NOTED)
    earlier = [m.text for m in request.messages[: newest + 1] if m.role == "user"]
    found = best(question, [*known, *talk.lines(earlier)])
    if all(line.intro == IN_MEMORY for line in found) and words(question) and "recall" in offered:
        return _calls(request, "recall", {"query": question})  # it knows since when
    return Reply(_quoted(found) or NOTHING)


class _Talk:
    """Reads the prompt's marks of who said what when. `context` is the block behind the newest message."""

    def __init__(self, newest: str) -> None:
        found = _CONTEXT.search(newest)
        self.context = _SKILL.split(found[0])[0] if found else ""
        now = re.search(r"(?m)^now: (\d{4})", self.context)
        self._year = now[1] if now else ""
        senders = re.search(r"(?m)^sender: (.+)$", self.context)
        self._askers = senders[1].split(", ") if senders else []
        names = "|".join(map(re.escape, self._askers))
        # In a group each message begins with its sender's name.
        self._named = bool(names) and re.search(rf"(?m)^(?:{_MARK} )?(?:{names}): ", newest) is not None

    def messages(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Who said what, and the mark of when, of each message in one of the prompt's user messages."""
        first, *marked = re.split(rf"(?:\A|\n\n){_MARK} ?", _CONTEXT.sub("", text))
        for mark, part in zip(["", *marked[::2]], [first, *marked[1::2]], strict=True):
            body = _NOTES.sub("", part).strip()
            who, colon, rest = body.partition(": ") if self._named else ("", "", "")
            if body:
                yield (who, mark, rest) if colon else ("", mark, body)

    def lines(self, texts: Iterable[str]) -> list[Line]:
        """What was said in the conversation, but for questions."""
        said = [message for text in texts for message in self.messages(text)]
        return [self._line(who, mark, text) for who, mark, text in said if not is_question(text)]

    def found(self, results: str) -> list[Line]:
        """What people said in a recall's result: `[10 April 2026, 09:15] Ann: text (telegram:42, message 7)`."""
        said = [(who, mark, text) for mark, who, text in _FOUND.findall(results) if who not in _NOBODY]
        return [self._line(who, mark, text) for who, mark, text in said if not is_question(text)]

    def _line(self, who: str, mark: str, text: str) -> Line:
        who = "You" if not who or not self._askers or who in self._askers else who
        return Line(text, f"{who} said {self._when(mark)}:")

    def _when(self, mark: str) -> str:
        """`3 days ago` as it stands; of a date the day, and the year where it is another."""
        iso = re.match(r"(\d{4})-(\d\d)-(\d\d)", mark)
        day = f"{int(iso[3])} {month_name[int(iso[2])]} {iso[1]}" if iso else mark.partition(",")[0]
        return f"on {day.removesuffix(f' {self._year}')}" if day != mark else mark or "earlier"


def words(text: str) -> list[str]:
    """The words that say something; of Chinese, Japanese and Korean each sign."""
    found = _WORD().findall(_CJK_STOP.sub(" ", text))
    return [word for word in found if word.casefold() not in _STOP and (len(word) > 1 or not word.isascii())]


def best(question: str, lines: Iterable[Line], most: int = 3) -> list[Line]:
    """The lines that share most words with the question, later ones first; with a long question at least two."""
    wanted = _terms(question)
    scored = [(len(wanted & _terms(line.text)), line) for line in lines]
    top = max((score for score, _ in scored), default=0)
    if top < (2 if len(wanted) > 4 else 1):
        return []
    return list({line.text: line for score, line in reversed(scored) if score == top}.values())[:most]


def _terms(text: str) -> set[str]:
    """The words without their case and a plural's `s`."""
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in map(str.casefold, words(text))}


def _known(system: str, context: str) -> Iterator[Line]:
    """The facts of USER.md and MEMORY.md in the prompt, with what has changed since it was built."""
    changes = re.findall(r"(?m)^(?:USER|MEMORY)\.md ([+-]) (.+)$", context)
    gone = {text for sign, text in changes if sign == "-"}
    new = [text for sign, text in changes if sign == "+"]
    memory = _BEHIND_MEMORY.split(system.partition("## About the person\n")[2])[0]
    for fact in facts("\n".join([memory, "", *new])):
        text = re.sub(r"\A[-*+]\s+", "", fact)
        if fact not in gone and not re.fullmatch(r"\(.*\)", text):  # as in "(nothing yet)"
            yield Line(text, IN_MEMORY)


def _quoted(lines: Iterable[Line]) -> str:
    return "\n".join(f'{line.intro} "{" ".join(line.text.split())[:1000]}"' for line in lines)


def _calls(request: Request, name: str, *arguments: dict[str, object]) -> Reply:
    turn = len(request.messages)
    texts = [json.dumps(given, ensure_ascii=False) for given in arguments]
    return Reply("", tuple(ToolCall(f"offline_{turn}_{i}", name, text) for i, text in enumerate(texts)))
