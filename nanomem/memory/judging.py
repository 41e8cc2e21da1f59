"""What a wish to change the memory comes to, with each file in the form it has. Pure.

The ledger judges plain texts. What a file has of CRLF, a byte order mark, or bytes that are no UTF-8 (lone surrogates
here) stays in it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from nanomem.evidence import screened
from nanomem.facts import MemoryFiles, facts
from nanomem.ledger import Merged, changes, merge
from nanomem.ports import LARGEST_FILE, Change
from nanomem.versions import Removal, Verdict, Version, headline, line, message
from nanomem.wording import contradicts, gist, names, overlap, same

_MARK = "\ufeff"
_SURROGATE = re.compile("[\ud800-\udfff]")
LEARNT = ("consolidation", "Dream")
"""Kinds of change that answer nobody: what they would have dropped is a version, so that a person sees it. Their
texts are a model's whole answer, which may have talk around it."""
_OF_ONE_LINE = 0.3
"""The share of words of a new fact that takes the place of another: "Lives in Rome" and "Lives in Paris"."""
_WITH_FORM = ("manual", "restore")
"""Kinds of change whose texts are taken to the letter: a person's, and those of an earlier version."""


def readable(files: MemoryFiles) -> MemoryFiles:
    """The files as a prompt can hold them."""
    return _each(_readable, files)


def made(known: Sequence[Version], trailers: Mapping[str, str]) -> Version | None:
    """The version that a change with these trailers is already."""
    wanted = trailers.get("Id")
    return next((version for version in reversed(known) if wanted and version.trailers.get("Id") == wanted), None)


def decided(change: Change, base: MemoryFiles, proposal: MemoryFiles, current: MemoryFiles) -> Merged:
    """What shall be, given what `change` proposed for `base`. With a reason, and where nothing has changed since
    `base`, exactly that."""
    if change.kind not in _WITH_FORM:
        proposal = _mended(proposal, base)
    if change.reason and base == current:
        files = proposal if change.kind in _WITH_FORM else _each(_shaped, proposal, current)
        return Merged(files, changes(_each(_plain, current), _each(_plain, files), change.reason))
    before, wanted, now = (_each(_plain, texts) for texts in (base, proposal, current))
    if change.kind in LEARNT and before != now:
        wanted = yielding(before, wanted, now, change.removed, to_added=change.kind == "Dream")
    removed = [*change.removed, *(Removal(fact, change.reason) for fact in _dropped(before, wanted) if change.reason)]
    merged = merge(before, wanted, now, removed, has_talk=change.kind in LEARNT)
    form = _each(lambda text, other: text or other, current, proposal)
    return Merged(_each(_shaped, merged.files, form), merged.verdicts)


def yielding(
    base: MemoryFiles, proposal: MemoryFiles, current: MemoryFiles, removed: Sequence[Removal], *, to_added: bool
) -> MemoryFiles:
    """The proposal without the new facts that give another value to what a person has changed or taken out since
    `base`, or with `to_added` has added: where both changed one line, or each has one of its own, the person's
    stands."""
    before, now = _facts(base), _facts(current)
    changed = [gist(fact) for fact in before.keys() - now.keys()]
    added = [gist(fact) for fact in now.keys() - before.keys()] if to_added else []
    replaced = [fact for fact in changed if any(names(gist(removal.fact), fact) for removal in removed)]

    def gives_way(text: str) -> bool:
        its = gist(text)
        return any(contradicts(its, fact) for fact in (*changed, *added)) or any(
            overlap(its, fact) >= _OF_ONE_LINE for fact in replaced
        )

    return screened(base, proposal, gives_way)


def given_way(base: MemoryFiles, proposal: MemoryFiles, result: MemoryFiles) -> int:
    """How many new facts of a proposal did not come in, since a person has changed the memory meanwhile."""
    return len(_facts(proposal).keys() - _facts(base).keys() - _facts(result).keys())


def _facts(files: MemoryFiles) -> dict[str, str]:
    return {same(fact): fact for text in astuple(files) for fact in facts(text)}


def outgrown(files: MemoryFiles, before: MemoryFiles) -> str | None:
    """The first file that has grown too large to be read again; one that shrinks may still be."""
    old = before.by_name
    sizes = {name: (_bytes(text), _bytes(old[name])) for name, text in files.by_name.items()}
    return next((name for name, (now, then) in sizes.items() if now > max(LARGEST_FILE, then)), None)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def told(change: Change, verdicts: Sequence[Verdict]) -> str:
    """The message of the version that the change becomes."""
    subject = f"[{change.kind}] {change.subject}" if change.subject else headline(change.kind, verdicts)
    return message(subject, [line(verdict) for verdict in verdicts], change.trailers)


def _each(function: Callable[..., str], *files: MemoryFiles) -> MemoryFiles:
    return MemoryFiles(*map(function, *map(astuple, files)))


def _plain(text: str) -> str:
    return text.removeprefix(_MARK).replace("\r\n", "\n")


def _readable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", _plain(text)).replace("\0", "")


def _shaped(text: str, like: str) -> str:
    """The text with the line ends and the mark of another."""
    text = _plain(text)
    if text == _plain(like):
        return like
    if like.count("\r\n") * 2 > like.count("\n"):
        text = text.replace("\n", "\r\n")
    return _MARK + text if like.startswith(_MARK) else text


def _mended(proposal: MemoryFiles, base: MemoryFiles) -> MemoryFiles:
    """The proposal with what its maker could not see put back into the lines that he left alone."""
    lines = [exact for text in astuple(base) for exact in _plain(text).split("\n")]
    whole = {_readable(exact): exact for exact in lines if _readable(exact) != exact}
    return _each(lambda text: "\n".join(whole.get(seen, seen) for seen in _readable(text).split("\n")), proposal)


def _dropped(base: MemoryFiles, proposal: MemoryFiles) -> list[str]:
    kept = {fact for text in astuple(proposal) for fact in facts(text)}
    return [fact for text in astuple(base) for fact in facts(text) if fact not in kept]
