"""What of a model's wishes may become memory: what a person said, holds still, and was not taken out since.

Judges facts that are new; what is known already stays the ledger's business. Reports nothing but counts: what is
refused may be a secret.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from nanomem.evidence import evidence_of, founded, screened, unfit, words
from nanomem.extraction import Extracted
from nanomem.facts import MemoryFiles, facts
from nanomem.memory.judging import LEARNT
from nanomem.memory.tracing import Gone, come_with, gone_with, key, taken_out
from nanomem.session import Said
from nanomem.versions import Removal, Stretch, Version
from nanomem.wording import Gist, carries, gist, names

NO_REASON = "no longer holds"
"""In place of a reason that gives something away."""


class Fitness:
    """Judges what one call, or several, made of the messages in `said`, and of history up to `cursor`. A `strict` one
    does not trust the assistant's own words either."""

    def __init__(
        self,
        known: MemoryFiles,
        versions: Sequence[Version],
        said: Sequence[Said],
        secrets_in: Callable[[str], frozenset[str]],
        *,
        strict: bool,
        cursor: int = 0,
    ) -> None:
        self.refused: set[str] = set()
        self._known = words("\n".join(known.by_name.values()))
        self._said = said
        self._evidence = evidence_of(said, secrets_in)
        self._strict = strict
        oldest = min((message.timestamp for message in said), default=None)
        self._gone = taken_out(versions, oldest) if oldest else {}
        self._standing = {key(fact) for text in known.by_name.values() for fact in facts(text)}
        self._later = [*_later(versions, said, cursor)]
        self._overtaken = {fact: version for version in self._later for fact in gone_with(version)}

    def of_wishes(self, wanted: Extracted) -> Extracted:
        """The facts that may be taken in, and the removals that rest on something and undo nothing learnt later."""
        outdated = [one for one in self.of_removals(wanted.outdated) if not self._is_newer(one)]
        updates = {
            name: tuple(fact for fact in found if self._admits(fact, outdated))
            for name, found in wanted.updates.items()
        }
        return replace(wanted, updates=updates, outdated=tuple(outdated))

    def of_removals(self, removed: Sequence[Removal]) -> list[Removal]:
        """Those whose reason is no order that somebody planted; with a plain one where it gives a secret away."""
        kept = founded(removed, self._evidence, self._known)
        return list(dict.fromkeys(replace(one, reason=self._told(one.reason)) for one in kept))

    def _told(self, reason: str) -> str:
        return NO_REASON if unfit(reason, self._known, self._evidence, strict=False) == "secret" else reason

    def _is_newer(self, removal: Removal) -> bool:
        """Whether the fact came with what was said after all that this is made of."""
        wanted = gist(removal.fact)
        versions = [one for one in self._later if not any(_is_since(one, message) for message in self._said)]
        return any(names(wanted, gist(fact)) for version in versions for fact in come_with(version))

    def of_files(self, base: MemoryFiles, proposal: MemoryFiles, removed: Sequence[Removal]) -> MemoryFiles:
        """The proposal, made from `base`, without what is new in it and may not be taken in."""
        return screened(base, proposal, lambda fact: not self._admits(fact, removed), self._is_unfit_title)

    def admits(self, text: str) -> bool:
        """Whether a person has said what it says, and it gives nothing away."""
        return not unfit(text, self._known, self._evidence, self._strict)

    def _is_unfit_title(self, title: str) -> bool:
        """A title may be in the assistant's words."""
        is_unfit = bool(unfit(title, self._known, self._evidence, strict=False))
        if is_unfit:
            self.refused.add(key(title))
        return is_unfit

    def _admits(self, fact: str, removed: Sequence[Removal]) -> bool:
        is_fit = self.admits(fact) and not self._is_outdated(fact, removed)
        if not is_fit:
            self.refused.add(key(fact))
        return is_fit

    def _is_outdated(self, fact: str, removed: Sequence[Removal]) -> bool:
        """Whether the same model says that it no longer holds, or what was said later has overtaken it already, or
        somebody has taken it out since it was said."""
        its = gist(fact)
        if any(names(gist(removal.fact), its) for removal in removed):
            return True
        overtaken = self._overtaken.get(key(fact))
        if overtaken and not self._said_again(words(fact), lambda message: _is_since(overtaken, message)):
            return True
        return any(self._is_gone(fact, one, gone) for one, gone in self._gone.items())

    def _is_gone(self, fact: str, one: str, gone: Gone) -> bool:
        its = gist(fact)
        is_same = one == key(fact) or carries([its], gist(one))
        wanted = words(fact) if is_same else self._particulars_of(its, one, gone.became)
        if not is_same and not wanted:
            return False
        return not self._said_again(wanted, lambda message: message.timestamp > gone.at)

    def _particulars_of(self, its: Gist, gone: str, became: str) -> frozenset[str]:
        """The names and numbers of a fact that is gone, where another has just these: it may be the same in other
        words. None where the fact is there in other words, or has nothing but a small number."""
        old, people = gist(gone), self._evidence.names | {"user", "only"}
        shared = (old.names | old.numbers) - people
        is_telling = bool(shared & old.names) or len(shared) > 1 or any(len(number) > 3 for number in shared)
        is_about_the_same = its.firm - people == old.firm - people and bool(its.negations) == bool(old.negations)
        is_there = gone in self._standing or (bool(became) and shared <= gist(became).said)
        return shared if is_telling and is_about_the_same and not is_there else frozenset()

    def _said_again(self, wanted: Iterable[str], is_since: Callable[[Said], bool]) -> bool:
        """Whether what people have said since has those of the words that they had said before."""
        later = evidence_of([message for message in self._said if is_since(message)], lambda _: frozenset())
        said_before = frozenset().union(*self._evidence.own).intersection(map(str.casefold, wanted))
        return bool(said_before) and said_before <= frozenset().union(*later.own)


def _later(versions: Sequence[Version], said: Sequence[Said], cursor: int) -> Iterator[Version]:
    """Those made of something that comes after some of these messages, or after that history entry."""
    times = [message.timestamp for message in said]
    oldest, newest = (min(times), max(times)) if times else (None, None)
    for version in versions:
        if version.kind not in LEARNT:
            continue
        if cursor and version.read_through > cursor:
            yield version
        elif oldest is not None and newest is not None and version.at > oldest:
            is_after_all = version.at > newest
            is_known = bool(version.heard or version.read_through)
            if (is_after_all and not is_known) or any(
                _is_behind(stretch, said, is_after_all) for stretch in version.heard
            ):
                yield version


def _is_behind(stretch: Stretch, said: Sequence[Said], is_after_all: bool) -> bool:
    """Whether a stretch ends behind some of these messages, with one that is not among them."""
    numbers = {message.n for message in said if _is_of(message, stretch)}
    return min(numbers) < stretch.last not in numbers if numbers else is_after_all


def _is_since(version: Version, message: Said) -> bool:
    """Whether a message was said after what the version was made of."""
    return message.timestamp > version.at or any(
        _is_of(message, stretch) and message.n > stretch.last for stretch in version.heard
    )


def _is_of(message: Said, stretch: Stretch) -> bool:
    """Whether it is of that session; a turn is named for it, but not in an older layout."""
    return message.turn.rpartition("#")[0] in ("", stretch.session)
