"""Who said what, and which facts and reasons a model must not take from it. Pure; what a secret is, it is told."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass

from nanomem.evidence.comparing import Words, weight, words, words_of_fact
from nanomem.evidence.reading import apart, is_wish, is_yes, orders
from nanomem.facts import FACTS, MemoryFiles, blocks, facts, without
from nanomem.ledger.talk import memory_only
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said
from nanomem.versions import Removal
from nanomem.wording import same

_COMMAND = re.compile(r"/[A-Za-z0-9_-]+(?:@\w+)?(?:\s|\Z)")

Finder = Callable[[str], frozenset[str]]


def _no_secrets(text: str) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The words of a stretch by whose they are, a set for each message.

    `orders` are those of each sentence among the `quoted` that tells software what to remember; `names` are those of
    the people who speak, and say nothing about who said the rest. `secrets_in` finds what a fact itself gives away.
    """

    own: frozenset[Words] = frozenset()
    quoted: frozenset[Words] = frozenset()
    answered: frozenset[Words] = frozenset()
    orders: frozenset[Words] = frozenset()
    names: Words = frozenset()
    secrets: frozenset[str] = frozenset()
    secrets_in: Finder = _no_secrets

    def __or__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            self.own | other.own,
            self.quoted | other.quoted,
            self.answered | other.answered,
            self.orders | other.orders,
            self.names | other.names,
            self.secrets | other.secrets,
            other.secrets_in if self.secrets_in is _no_secrets else self.secrets_in,
        )


def evidence_of(messages: Sequence[Said], secrets_in: Finder) -> Evidence:
    """Who said what in these messages."""
    own: list[str] = []
    quoted: list[str] = []
    answered: list[str] = []
    names: list[str] = []
    is_wished = False
    for at, message in enumerate(messages):
        match message:
            case UserMessage():
                said, passed_on = apart(message)
                is_wished = is_wish(said)
                own.append(said)
                (own if is_wished and not any(orders(passed_on)) else quoted).append(passed_on)
                names.append(message.sender.name)
            case AssistantMessage():
                following = messages[at + 1] if at + 1 < len(messages) else None
                is_endorsed = isinstance(following, UserMessage) and is_yes(apart(following)[0])
                (own if is_endorsed else answered).append(message.content)
            case ToolMessage():
                (own if is_wished and not any(orders(message.content)) else quoted).append(message.content)
    return Evidence(
        own=_each(own),
        quoted=_each(quoted),
        answered=_each(answered),
        orders=_each(order for text in quoted for order in orders(text)),
        names=words("\n".join(names)),
        secrets=frozenset(secret for text in (*own, *quoted, *answered) for secret in secrets_in(text)),
        secrets_in=secrets_in,
    )


def _each(texts: Iterable[str]) -> frozenset[Words]:
    return frozenset(map(words, texts)) - {frozenset()}


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
    ours = known.union(*evidence.own)
    if _is_from(evidence.quoted, said, ours):
        return "quoted"
    return "own words" if strict and _is_from(evidence.quoted | evidence.answered, said, ours) else None


def _is_from(others: Iterable[Words], said: Words, ours: Words) -> bool:
    """Whether one of these messages has more of its words, alone, than the person and what is known have together.

    One word in common is chance.
    """
    least = max(weight(said & ours), weight({"word"}))
    return any(weight(said & other - ours) > least for other in others)


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


def screened(base: MemoryFiles, proposal: MemoryFiles, is_unfit: Callable[[str], bool]) -> MemoryFiles:
    """The proposal without what is new in it and unfit. A fact of the base is not asked about; where nothing is unfit,
    the proposal is as it was."""
    had = {same(fact) for text in base.by_name.values() for fact in facts(text)}

    def cleared(text: str, before: str) -> str:
        found = blocks(memory_only(text, before))
        gone = [block.kind in FACTS and same(block.text) not in had and is_unfit(block.text) for block in found]
        return cleared(without(found, gone), before) if any(gone) else text

    return MemoryFiles(*(cleared(text, before) for text, before in zip(astuple(proposal), astuple(base), strict=True)))


def founded(removed: Sequence[Removal], evidence: Evidence, known: Words) -> list[Removal]:
    """The removals whose reason is not one that was only passed on. The assistant's own reasons are no matter here."""
    ours = known.union(*evidence.own)

    def is_passed_on(reason: str) -> bool:
        said = words_of_fact(reason) - evidence.names
        return _is_ordered(said, known, evidence) or _is_from(evidence.quoted, said, ours)

    return [removal for removal in removed if not is_passed_on(removal.reason)]
