"""What the offline model says in forced calls: a summary, what people said of themselves, a file with more items.

Pure and deterministic: knows only the request, and quotes; nothing is concluded. English, a little German and Chinese.
"""

import re
from calendar import month_name
from collections.abc import Iterator, Mapping

from nanomem.facts import facts
from nanomem.messages import Request
from nanomem.patterns import late
from nanomem.remembering import normal

MOST_FACTS = 40
LONGEST_SENTENCE = 300
"""Characters; a longer one is not quoted."""

_ASKING = late(
    r"\A(?:who|whom|whose|what|when|where|which|why|how|tell me|show me|do i|did i"
    r"|wer|wen|wem|was|wann|wo|welche[rs]?|warum|wie)\b|什[么麼]|[谁誰哪几吗嗎呢]|怎么|为什么|何时|多少",
    re.I,
)
_ENDS = (".", "!", "。", "\uff01", "")
_BETWEEN = re.compile(r"(?<=\w{3}[.!?])\s|(?<=[。\uff01\uff1f])")  # "Ms." ends none
_DATED = re.compile(r"\[(\d{4})-(0[1-9]|1[0-2])-(\d\d)(?: \d\d:\d\d)?\] (.*)")
_SPOKEN = re.compile(r"(USER|ASSISTANT|TOOL)\b([^:]*): (.*)")
_ITEM = re.compile(r"\s*[-*+] ")
_FIRST = "hi|hello|hey|hallo|oh|yes|no|well|so|and|but|also|actually|by the way|btw|ja|nein|und|aber|übrigens"
_BEFORE = rf"(?:(?:{_FIRST})[,.!]* )*"
_OF_THEM = late(
    _BEFORE + r"(?:i(?:['’]m| (?:really |also |now |still )?(?:am|was born|live|work|like|love|hate|prefer|speak"
    r"|do(?: not|n['’]t) like))\b"
    r"|my (?:name|job|home|profession|address|birthday|favou?rite [\w ]{1,40}?)(?:['’]s| is| are)\b"
    r"|ich (?:bin|heiße|heisse|wohne|lebe|arbeite|mag|liebe|spreche)\b|mein name ist\b"
    r"|我(?:是|叫|住|在|(?:最|很|不)?喜欢|(?:最|很|不)?喜歡)|我的(?:名字|工作|家)[是在叫])",
    re.I,
)
_OF_THEIRS = late(
    _BEFORE + r"(?:i(?:['’]ve| (?:also |now |still )?(?:have|need))\b"
    r"|(?:my|our) (?:[\w'’-]+ ){1,5}(?:is|are|was|has|have|lives?|works?|likes?|loves?|hates?)\b"
    r"|we(?:['’](?:re|ve)| (?:also |now |still |both )?(?:are|have|live|work|like|love|hate|prefer|need))\b"
    r"|ich (?:habe|brauche)\b|wir (?:sind|haben|wohnen|leben|arbeiten|mögen)\b"
    r"|(?:mein|unser)e?[nrms]? (?:[\w-]+ ){1,5}(?:ist|sind|heißt|heißen|hat|wohnt|arbeitet|mag)\b"
    r"|我们?有|我们(?:是|住|在|喜欢)|我们?(?:的[^,\uff0c]{1,12}[是叫在]|妈|爸|哥|姐|弟|妹|儿子|女儿|老公|老婆|妻|先生|太太))",
    re.I,
)
_PASSING = late(
    r"\b(?:i(?:['’]m| am) (?:sorry|back|here|fine|okay?|good|wondering|asking|not sure)"
    r"|i (?:have|need) to (?:go|run|leave|know|ask|think|say)"
    r"|(?:have|need|habe|brauche) (?:\w+ ){0,2}(?:questions?|help|idea|ideas|you|frage|fragen|hilfe|dich))\b"
    r"|\bi (?:like|love|hate|prefer) (?:it|that|this|them)\W*\Z|有(?:一?个)?(?:问题|疑问)",
    re.I,
)


def is_question(text: str) -> bool:
    """By its first word, by its end, or in Chinese by any word."""
    return _ASKING().search(text) is not None or text.rstrip(" \n\"'»”)").endswith(("?", "\uff1f", "؟"))


def arguments(request: Request) -> dict[str, object] | None:
    """Those of the forced call; None for one that is not known."""
    schema = next((tool.parameters for tool in request.tools if tool.name == request.forced), {})
    properties = schema.get("properties", {})
    asked = "\n".join(message.text for message in request.messages if message.role == "user")
    match request.forced:
        case "save_memory":
            return _made_short(f"{request.system}\n{asked}", as_changes="changes" in properties)
        case "extract_facts":
            return {**_learnt(asked), "soul_updates": [], "outdated": [], "processed_entries": []}
        case "update_file":
            (path, *_) = properties.get("path", {}).get("enum") or [""]
            return {"path": path, "content": _with_items(asked), "removed": []}
    return None


def _made_short(prompt: str, as_changes: bool) -> dict[str, object]:
    memory, _, stretch = prompt.partition("## Current Long-term Memory\n")[2].partition("## Conversation to Process")
    update: dict[str, object] = {"changes": []} if as_changes else {"memory_update": memory.strip("\n")}
    return {"history_entry": _summary(stretch), **update}


def _summary(stretch: str) -> str:
    """The first sentence of each user message, 200 characters at most, and 4,000 of all; each ends as one."""
    said = re.findall(r"(?m)^\[[^\]\n]*\] USER[^:\n]*: (.+)$", stretch)
    sentences = (_BETWEEN.split(text, maxsplit=1)[0][:200].strip() for text in said)
    ended = (f"{one}." if one[-1:].isalnum() and len(one) < 200 else one for one in sentences)
    return " ".join(ended)[:4000] or "A conversation without messages from a person."


def _learnt(prompt: str) -> Mapping[str, list[str]]:
    """What people said of themselves and of theirs, quoted, each once, and not what the files quote already."""
    known, _, entries = prompt.partition("## New Since the Last Time")
    said = list(_said(entries))
    several = len({who for who, _, _ in said if who}) > 1
    found: dict[str, list[str]] = {"user_updates": [], "memory_updates": []}
    seen: set[str] = set()
    for who, day, sentence in said:
        of = "user_updates" if _OF_THEM().match(sentence) else "memory_updates" if _OF_THEIRS().match(sentence) else ""
        if not of or is_question(sentence) or _PASSING().search(sentence) or "<!--" in sentence:
            continue
        bare = sentence.rstrip("".join(_ENDS))
        if bare in seen or any(f'"{bare}{end}"' in known for end in _ENDS):
            continue
        seen.add(bare)
        by = f" by {who}" if several and who else ""
        found[of].append(f'"{sentence}" (said{by} on {day})')
        if len(seen) == MOST_FACTS:
            break
    return found


def _said(entries: str) -> Iterator[tuple[str, str, str]]:
    """Each sentence of people and of summaries: who, on what day, and the sentence; nothing that was forwarded."""
    who, day, counts = "", "", False
    for line in entries.split("\n"):
        text = line.removeprefix("- ")
        if dated := _DATED.match(line):
            day, text = f"{int(dated[3])} {month_name[int(dated[2])]} {dated[1]}", dated[4]
            spoken = _SPOKEN.match(text)
            counts = not spoken or (spoken[1] == "USER" and "forwarded from " not in spoken[2])
            who, text = (spoken[2].strip(" ()"), spoken[3]) if spoken else ("", text)
        for sentence in _BETWEEN.split(text) if counts else ():
            if len(sentence) <= LONGEST_SENTENCE:
                yield who, day, " ".join(sentence.split())


def _with_items(prompt: str) -> str:
    """The file as it stands, and below it what it does not say yet."""
    file, *behind = re.split(r"(?m)^## To Take In\n", prompt)
    file, wanted = "## To Take In\n".join([file, *behind[:-1]]), behind[-1] if behind else ""
    text = re.split(r"(?m)^## Current .*\n", file, maxsplit=1)[-1].strip("\n")
    text = "" if text == "(empty)" else text
    known = set(map(normal, facts(text)))
    items = dict.fromkeys(re.findall(r"(?m)^- (.+)$", re.split(r"(?m)^## ", wanted)[0]))
    new = "\n".join(f"- {item}" for item in items if normal(item) not in known)
    between = "\n" if _ITEM.match(text.rpartition("\n")[2]) else "\n\n"
    return text + (between if text and new else "") + new
