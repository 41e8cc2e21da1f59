"""The embedded model: a few rules, no key, no network. It quotes what was said and what is known, and claims no more.

Pure and deterministic: knows only the request. Other languages than English are understood a little.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nanomem.messages import PromptMessage, Reply, Request, ToolCall, ToolSchema

_HOW = (
    "A real model is set with `nanomem init`, or with `nanomem config set agents.defaults.model "
    '"anthropic/claude-sonnet-4-5"` and the api_key of its provider in config.toml.'
)
WHO = (
    "I am nanomem's offline model: a few rules, not a language model. I keep what you say and can quote it, "
    f"but I understand little. {_HOW}"
)
HELLO = "Hello! I am nanomem's offline model: I keep what you tell me and can quote it when you ask."
CANNOT = f"I cannot do that: I am only the offline model. {_HOW}"
NOTHING = f"I know nothing about that, and find nothing you said about it. {_HOW}"
NOTED = "Noted: it is kept in our conversation. Ask me about it, and I will quote it."
LATER = (
    "I cannot put that into the long-term memory yet; that comes later. But all you say is kept in this "
    "conversation's log, and you can ask me for it."
)

_MARK = r"\[(?:\d{4}-\d\d-\d\d \d\d:\d\d|\d{1,2} \w+ \d{4}, \d\d:\d\d|just now|\d+ \w+ ago)\]"
_MARKED = re.compile(rf"({_MARK}) ?(.*)", re.S)
_BETWEEN = re.compile(rf"\n\n(?={_MARK})")
_CONTEXT = re.compile(r"<context>\n(?:(?!<context>).)*</context>\s*\Z", re.S)
_NAMED = re.compile(r"([^\W\d_][^:\n]{0,39}): (.+)", re.S)
_MONTHS = ("January February March April May June", "July August September October November December")

_REMEMBER = re.compile(
    r"(?:please |bitte )?(?:remember|note down|merke?(?: dir)?|erinnere dich(?: daran)?|souviens-toi|recuerda)"
    r"[,:]?\s+(?:that |dass |que )?(.+)|请?(?:记住|记得|記住)[,,::]?\s*(.+)",
    re.I | re.S,
)
_SELF = re.compile(
    r"\b(?:what|who) are you\b|\bare you (?:an? )?(?:ai|bot|human)\b"
    r"|\b(?:what|which)(?: kind of| language)? (?:model|ai|llm)(?: (?:are you|is this|do you)|\W*\Z)"
    r"|\bw(?:er|as) bist du\b|\bwelches (?:sprach)?modell\b|你是(?:谁|誰|什么)|什么模型|\bqui es-tu\b|\bquién eres\b",
    re.I,
)
_SETUP = re.compile(r"\b(?:set|set ?up|configure|install|connect)\b.{0,80}\b(?:model|api key|llm)\b", re.I | re.S)
_GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|guten (?:tag|morgen|abend)|moin|servus|bonjour|salut"
    r"|hola|ciao|你好|您好|嗨|早上好)(?:[ ,]+\w+)?[\s!.。!,]*",
    re.I,
)
_QUESTION = re.compile(
    r"(?:who|whom|whose|what|when|where|which|why|how|tell me|show me|do you"
    r"|(?:did|do|does|is|are|was|were|have|has) (?:i|my|we|our)"
    r"|wer|wen|wem|wessen|was|wann|wo|wohin|welche[rsn]?|warum|wie|weißt du|kennst du|sag mir"
    r"|qui|quand|où|comment|quelle?|qué|quién|cuándo|dónde|cómo|cuál)\b"
    r"|.*(?:什么|什麼|谁|誰|哪|几|怎么|为什么|何时|多少|吗|嗎|呢)|.*[??؟][\s\"'»”)]*\Z",
    re.I | re.S,
)
_ORDER = re.compile(
    r"(?:please |can you |could you |bitte )?(?:write|run|execute|create|list|delete|edit|open|fetch|download|search"
    r"|read|translate|summari[sz]e|calculate|schreib\w*|übersetz\w*|lies)\b|请?(?:写|运行|翻译)",
    re.I,
)
_STOP_WORDS = """
a an and any are about at be been called can could did do does for from had has have how i in is it its know like me my
of on or our please remember recall said say show so some tell that the their them there they this to told us was
we were what when where which who whom whose why will with would you your
aber als am an auf aus bei bin bist das dass dein deine dem den der die dir du ein eine einen er es hast habe heißt
ich ihr im in ist mein meine meinen meiner mir mit sag sie sind und von was wann wer wie wir wo zu
comment de des du elle en est et il je la le les ma mes mon où pour quand que quel qui sur te tu un une vous
como cómo cuál cuándo de el en es la los las mi mis qué que quién se su tu un una y"""
_STOP = frozenset(_STOP_WORDS.casefold().split())
_CJK_STOP = re.compile("什么|什麼|哪里|哪裡|哪个|谁|誰|怎么|为什么|何时|多少|[我你您他她它们的是吗嗎呢了在叫吧啊请]")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_RUNS = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Line:
    """Something that can be quoted. `about` is what else it is found by; `intro` says where it is from."""

    text: str
    intro: str
    about: str = ""


class OfflineModel:
    """A `ports.Model` that never fails and costs nothing."""

    @property
    def name(self) -> str:
        """As in the settings."""
        return "offline"

    async def warm_up(self) -> None:
        """There is nothing to load."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """Answers at once; raises nothing."""
        reply = answer(request)
        if heard is not None and reply.text:
            for quarter in (1, 2, 3):
                end = reply.text.find(" ", len(reply.text) * quarter // 4)
                if end > 0:
                    heard(reply.text[:end])
            heard(reply.text)
        return reply


def answer(request: Request) -> Reply:
    """The whole of the rules."""
    if request.forced:
        return _forced(request)
    newest = max((i for i, m in enumerate(request.messages) if m.role == "user"), default=-1)
    if newest < 0:
        return Reply(HELLO)
    results = [m for m in request.messages[newest:] if m.role == "tool"]
    said = [body for _, body in spoken(request.messages[newest].text)]
    offered = set() if request.forced == "" else {tool.name for tool in request.tools}
    facts = [found[1] or found[2] for found in map(_REMEMBER.fullmatch, said) if found]
    if facts and not any(_is_question(text) for text in said):
        return _remember(request, facts, results, "remember" in offered)
    return _answer(request, newest, said, results, "recall" in offered)


def spoken(text: str) -> list[tuple[str, str]]:
    """The messages in a prompt's user message, each with its mark, or without one; the context block is left out."""
    parts = []
    for part in _BETWEEN.split(_CONTEXT.sub("", text)):
        marked = _MARKED.fullmatch(part.strip())
        mark, body = (marked[1][1:-1], marked[2]) if marked else ("", part)
        body = re.sub(r"\A(?:\[[^\]\n]*\]\n)+", "", body)  # what it replies to, files sent along
        parts.append((mark, body.strip()))
    return [part for part in parts if part[1]]


def terms(text: str) -> frozenset[str]:
    """What a text is found by: words that say something; of Chinese, Japanese and Korean, signs and pairs of them."""
    found: set[str] = set()
    for word in _words(text.casefold()):
        found.update([word] if word[0] < "\u3040" else [*word, *(word[i : i + 2] for i in range(len(word) - 1))])
    return frozenset(found)


def _words(text: str) -> list[str]:
    runs = _RUNS.findall(_CJK_STOP.sub(" ", text))
    return [run for run in runs if run.casefold() not in _STOP and (len(run) > 1 or not run.isascii() or run.isdigit())]


def best(question: str, lines: Sequence[Line], most: int = 3) -> list[Line]:
    """The lines that match most of the question, rare words counting more; later ones first where equal."""
    wanted = terms(question)
    asked = question.casefold()
    hits = [
        frozenset() if line.text.casefold() in asked else _shared(wanted, terms(f"{line.text} {line.about}"))
        for line in lines
    ]
    weight = {term: 1 / sum(term in hit for hit in hits) for term in frozenset().union(*hits)}
    scores = [(len(hit), sum(weight[term] for term in hit)) for hit in hits]
    count, rarity = max(scores, default=(0, 0.0))
    if not count or (len(wanted) > 4 and count < 2):
        return []
    top = [line for line, score in zip(lines, scores, strict=True) if score[0] == count and score[1] >= rarity / 2]
    return list({line.text: line for line in reversed(top)}.values())[:most]


def _answer(
    request: Request, newest: int, said: Sequence[str], results: Sequence[PromptMessage], may_recall: bool
) -> Reply:
    text = "\n".join(said)
    questions = "\n".join(part for part in said if _is_question(part))
    if results:
        quoted = best(questions or text, _recalled(results))
        return Reply(_quoted(quoted) if quoted else NOTHING)
    if _SELF.search(text):
        return Reply(WHO)
    if _SETUP.search(text):
        return Reply(_HOW)
    if said and all(_GREETING.fullmatch(part) for part in said):
        return Reply(HELLO)
    if not questions:
        return Reply(CANNOT if any(_ORDER.match(part) for part in said) else NOTED)
    quoted = best(questions, [*_known(request), *_conversation(request.messages[: newest + 1])])
    if quoted:
        return Reply(_quoted(quoted))
    if _ORDER.match(questions):
        return Reply(CANNOT)
    words = " ".join(_words(questions))
    return _calls(request, "recall", [{"query": words}]) if may_recall and words else Reply(NOTHING)


def _remember(request: Request, facts: Sequence[str], results: Sequence[PromptMessage], offered: bool) -> Reply:
    if results:
        return Reply("\n".join(result.text for result in results))
    return _calls(request, "remember", [{"fact": fact.strip()} for fact in facts]) if offered else Reply(LATER)


def _is_question(text: str) -> bool:
    return _QUESTION.match(text) is not None


def _shared(wanted: Iterable[str], having: frozenset[str]) -> frozenset[str]:
    """Words also match by their beginning, four letters at least: live and lives, Hund and Hunde(s) do not differ."""

    def same(one: str, other: str) -> bool:
        short, long = sorted((one, other), key=len)
        return len(short) > 3 and len(long) - len(short) < 4 and long.startswith(short)

    return frozenset(word for word in wanted if word in having or any(same(word, other) for other in having))


def _known(request: Request) -> list[Line]:
    """The lines of USER.md and MEMORY.md in the prompt, with what the newest message says has changed since."""
    lines, heading = [], ""
    _, _, sections = request.system.partition("## About the person\n")
    sections = sections or request.system.partition("## Long-term memory\n")[2]
    context = _CONTEXT.search(request.messages[-1].text) if request.messages else None
    changes = re.findall(r"(?m)^(?:USER|MEMORY)\.md ([+-]) (.+)$", context[0] if context else "")
    gone = {text for sign, text in changes if sign == "-"}
    new = [text for sign, text in changes if sign == "+"]
    for raw in [*sections.partition("\n## Skills")[0].splitlines(), "#", *new]:
        line = re.sub(r"\A[-*+]\s+", "", raw.strip())
        if line.startswith("#"):
            heading = line.strip("# ")
        elif line and raw.strip() not in gone and not re.fullmatch(r"\(.*\)|<!--.*|[-*_\s|:]+|```.*", line):
            lines.append(Line(line, "In your memory:", heading))
    return lines


def _conversation(messages: Sequence[PromptMessage]) -> list[Line]:
    now = re.search(r"(?m)^now: (\d{4})", messages[-1].text)
    year = now[1] if now else ""
    asker = [_NAMED.fullmatch(body) for _, body in spoken(messages[-1].text)]
    own = {named[1] for named in asker if named}
    lines = []
    for message in messages:
        for mark, body in spoken(message.text) if message.role == "user" else ():
            named = _NAMED.fullmatch(body) if own else None
            who = named[1] if named and named[1] not in own else "You"
            if not _is_question(named[2] if named else body):
                lines.append(Line(named[2] if named else body, _intro(who, mark, year)))
    return lines


def _recalled(results: Sequence[PromptMessage]) -> list[Line]:
    """The lines of a recall's result: `[10 April 2026, 09:15] Ann: text`."""
    lines = []
    for line in "\n".join(result.text for result in results).splitlines():
        if marked := _MARKED.fullmatch(line.strip()):
            named = _NAMED.fullmatch(marked[2])
            text, name = (named[2], named[1]) if named else (marked[2], "")
            if not _is_question(text):
                lines.append(Line(text, _intro("You", marked[1][1:-1], ""), name))
    return lines


def _intro(who: str, mark: str, year: str) -> str:
    when = mark or "earlier"
    if found := re.match(r"(\d{4})-(\d\d)-(\d\d)", mark):
        month = " ".join(_MONTHS).split()[(int(found[2]) - 1) % 12]
        when = f"on {int(found[3])} {month}" + ("" if found[1] == year else f" {found[1]}")
    elif found := re.match(r"(\d+ \w+) \d{4},", mark):
        when = f"on {found[1]}"
    return f"{who} said {when}:"


def _quoted(lines: Sequence[Line]) -> str:
    return "\n".join(f'{line.intro} "{" ".join(line.text.split())[:1000]}"' for line in lines)


def _calls(request: Request, name: str, arguments: Sequence[dict[str, object]]) -> Reply:
    taken = sum(len(message.tool_calls) for message in request.messages) + len(request.messages)
    texts = enumerate((json.dumps(given, ensure_ascii=False) for given in arguments), taken)
    return Reply("", tuple(ToolCall(f"offline_{i}", name, text) for i, text in texts))


def _forced(request: Request) -> Reply:
    text = "\n".join([request.system, *(message.text for message in request.messages)])
    tool = next((tool for tool in request.tools if tool.name == request.forced), ToolSchema("", "", {}))
    if request.forced == "extract_facts":
        names = ("user_updates", "memory_updates", "soul_updates", "outdated", "processed_entries")
        return _calls(request, "extract_facts", [{name: [] for name in names}])
    if request.forced != "save_memory":
        return Reply(CANNOT)
    _, _, given = text.partition("## Current Long-term Memory\n")
    memory, _, stretch = given.partition("## Conversation to Process")
    saved: dict[str, object] = {"history_entry": _summary(stretch)}
    properties = tool.parameters.get("properties", {})
    if "changes" in properties and "memory_update" not in properties:
        saved["changes"] = []
    else:
        saved["memory_update"] = memory.strip("\n")
    return _calls(request, "save_memory", [saved])


def _summary(stretch: str) -> str:
    """The first sentence of each user message, 200 characters at most, and 4,000 of all."""
    said = re.findall(r"(?m)^\[[^\]\n]*\] USER[^:\n]*: (.+)$", stretch)
    sentences = (re.split(r"(?<=[.!?])\s|(?<=[。!?])", text, maxsplit=1)[0][:200].strip() for text in said)
    return " ".join(sentences)[:4000] or "A conversation without messages from a person."
