"""Who said what, and which facts and reasons a model must not take from it. Pure; what a secret is, it is told."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import zip_longest

from nanomem.evidence.comparing import Words, is_han, particulars, shared, weight, words, words_of_fact
from nanomem.evidence.reading import (
    apart,
    is_wish,
    is_yes,
    last_question,
    orders,
    passages,
    statements,
    subject,
    wants_findings,
)
from nanomem.facts import COMMENT, FACTS, Block, MemoryFiles, blocks, without
from nanomem.ledger.talk import memory_only
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said
from nanomem.versions import Removal
from nanomem.wording import same

_COMMAND = re.compile(r"/[A-Za-z0-9_-]+(?:@\w+)?(?:\s|\Z)")

Finder = Callable[[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The words of a stretch by whose they are: a set for each message of a person, and for each passage of others.

    `stated` are the person's without what they only asked, `asked` the assistant's questions that they answered.
    `orders` are those of each sentence among the `quoted` that tells software what to remember, `wiped` what such ones
    want gone; `names` are those of the people who speak, and say nothing about who said the rest. `secrets_in` finds
    what a fact itself gives away.
    """

    own: frozenset[Words]
    stated: frozenset[Words]
    quoted: frozenset[Words]
    answered: frozenset[Words]
    asked: frozenset[Words]
    orders: frozenset[Words]
    wiped: frozenset[Words]
    names: Words
    secrets: frozenset[str]
    secrets_in: Finder


def evidence_of(messages: Sequence[Said], secrets_in: Finder) -> Evidence:
    """Who said what in these messages."""
    own: list[str] = []
    stated: list[str] = []
    quoted: list[str] = []
    answered: list[str] = []
    asked: list[str] = []
    names: list[str] = []
    searching: str | None = None  # the turn whose findings shall be kept
    for message, following in zip_longest(messages, messages[1:]):
        match message:
            case UserMessage():
                said, passed_on = apart(message)
                searching = message.turn if wants_findings(said) else None
                own.append(said)
                stated.append(statements(said))
                is_reply = passed_on == (message.reply_to or "").strip()
                is_taken = (is_wish(said) or (is_reply and is_yes(said))) and not any(orders(passed_on))
                (own if is_taken else quoted).append(passed_on)
                names.append(message.sender.name)
            case AssistantMessage():
                answer = apart(following)[0] if isinstance(following, UserMessage) else ""
                if is_yes(answer):
                    own.append(message.content)
                    stated.append(message.content)
                else:
                    answered.append(message.content)
                    asked.append(last_question(message.content) if statements(answer) else "")
            case ToolMessage():
                is_taken = message.turn == searching and not any(orders(message.content))
                (own if is_taken else quoted).append(message.content)
    ordered = [order for text in quoted for order in orders(text)]
    wiped = [gone for gone in map(subject, ordered) if gone is not None]
    who = words("\n".join(names))
    return Evidence(
        own=_each(own),
        stated=_each(stated) if ordered else frozenset(),
        quoted=_each(passage for text in quoted for passage in passages(text)),
        answered=_each(passage for text in answered for passage in passages(text)),
        asked=_each(asked),
        orders=_each(ordered),
        wiped=frozenset(words(gone) - who for gone in frozenset(wiped)),
        names=who,
        secrets=frozenset(secret for text in (*own, *quoted, *answered) for secret in secrets_in(text)),
        secrets_in=secrets_in,
    )


def _each(texts: Iterable[str]) -> frozenset[Words]:
    return frozenset(map(words, frozenset(texts))) - {frozenset()}


def unfit(fact: str, known: Words, evidence: Evidence, strict: bool) -> str | None:
    """Why a new fact may not be learnt: `secret`, `command`, `quoted`, with `strict` also `own words`; else None.

    `known` are the words of what is known already. Not strict, what the assistant has said may be learnt.
    """
    if any(_holds(fact, secret) for secret in evidence.secrets) or evidence.secrets_in(fact):
        return "secret"
    if _COMMAND.match(same(fact)):
        return "command"
    said = words_of_fact(fact) - evidence.names
    if _is_ordered(said, known, evidence):
        return "quoted"
    ours, firm = known.union(*evidence.own), particulars(fact)
    if _is_from(evidence.quoted, said, ours, firm):
        return "quoted"
    ours = ours.union(*evidence.asked)
    return "own words" if strict and _is_from(evidence.quoted | evidence.answered, said, ours, firm) else None


def _is_from(others: Iterable[Words], said: Words, ours: Words, firm: Words) -> bool:
    """Whether one of these passages has more of its words, alone, than the person and what is known have together.

    One word in common is chance; of words that are no names or numbers, two are, and a few more than the person's.
    """
    mine = shared(said, ours)
    rest, own = said - mine, weight(mine)
    for other in others:
        theirs = rest & other
        if weight(theirs) > (max(own, 2) if theirs & firm else max(3 * own, 4)):
            return True
    return False


def _is_ordered(said: Words, known: Words, evidence: Evidence) -> bool:
    """Whether it comes from a sentence that tells software what to remember: most of its words are from there, and
    no single message of the person, nor what is known, has most of those."""
    if not evidence.orders:
        return False
    all_said = known.union(*evidence.own, *evidence.quoted)
    for order in evidence.orders:
        theirs = said & order
        is_most = weight(theirs) > weight(said & all_said - order)
        if is_most and not any(2 * weight(theirs & source) > weight(theirs) for source in (known, *evidence.own)):
            return True
    return False


_SHORT = 8
"""A secret of fewer letters and digits, or without a digit, must stand in a fact as words of its own."""


def _holds(fact: str, secret: str) -> bool:
    """Whether the secret is in the fact, whatever space, dash or case is put in or left out."""
    core = _core(secret)
    if len(core) < 3:
        return secret in fact
    if len(core) >= _SHORT and any(map(str.isdigit, core)):
        return core in _core(fact)
    if secret.isalpha():
        return bool(re.search(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", fact))
    spaced = r"[\W_]*".join(map(re.escape, core))
    return bool(re.search(rf"(?<![^\W_]){spaced}(?![^\W_])", unicodedata.normalize("NFKC", fact).casefold()))


def _core(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def screened(
    base: MemoryFiles,
    proposal: MemoryFiles,
    is_unfit: Callable[[str], bool],
    is_unfit_title: Callable[[str], bool] | None = None,
) -> MemoryFiles:
    """The proposal without what is new in it and unfit; where nothing is, it is as it was. Nothing of the base is asked
    about. Titles, heads of tables and comments are `is_unfit_title`'s to judge, and what is long enough for a fact
    `is_unfit`'s as well; without the former nobody's."""
    had = {same(block.text) for text in base.by_name.values() for block in blocks(text)}
    had.update(same(line) for text in base.by_name.values() for line in _comments(text))

    def is_bad(text: str, *, is_fact: bool) -> bool:
        if not text.strip() or same(text) in had:
            return False
        if is_fact:
            return is_unfit(text)
        is_long = weight(words_of_fact(text)) > _TITLE
        return is_unfit_title is not None and (is_unfit_title(text) or (is_long and is_unfit(text)))

    def uncommented(block: Block) -> Block:
        is_told = any(is_bad(line, is_fact=False) for line in _comments(block.raw))
        return block._replace(raw=COMMENT.sub("", block.raw)) if is_told and block.kind != "code" else block

    def cleared(text: str, before: str) -> str:
        all_found = blocks(memory_only(text, before))
        found = [*map(uncommented, all_found)]
        gone = [is_bad(block.text, is_fact=block.kind in FACTS) for block in found]
        return cleared(without(found, gone), before) if any(gone) or found != all_found else text

    return MemoryFiles(*(cleared(text, before) for text, before in zip(astuple(proposal), astuple(base), strict=True)))


_TITLE = 4
"""What a plain heading says at most: two words."""


def _comments(text: str) -> list[str]:
    """The lines of its comments."""
    return [line for comment in COMMENT.findall(text) for line in comment.strip("<!->").splitlines()]


def founded(removed: Sequence[Removal], evidence: Evidence, known: Words) -> list[Removal]:
    """The removals whose reason is not one that was only passed on, and, of facts that somebody else wants gone, those
    that the person speaks of. The assistant's own reasons are no matter here."""
    ours = known.union(*evidence.own)

    def is_founded(removal: Removal) -> bool:
        fact, reason = (words_of_fact(text) - evidence.names for text in (removal.fact, removal.reason))
        if _is_ordered(reason, known, evidence) or _is_from(evidence.quoted, reason, ours, particulars(removal.reason)):
            return False
        if not _is_wanted_gone(fact, evidence):
            return True
        reason = reason.difference(*evidence.orders)
        return any(2 * len(shared(fact, said)) + len(shared(reason, said)) > 1 for said in evidence.stated)

    return [removal for removal in removed if is_founded(removal)]


def _is_wanted_gone(fact: Words, evidence: Evidence) -> bool:
    """Whether an order that was passed on speaks of it, or of all there is, or in another script."""
    if any(2 * weight(shared(fact, order)) > weight(fact) for order in evidence.orders):
        return True
    return any(not gone or shared(fact, gone) or is_han(gone) != is_han(fact) for gone in evidence.wiped)
