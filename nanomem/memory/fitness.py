"""What of a model's wishes may become memory: what a person said, holds still, and was not taken out since.

Judges facts that are new; what is known already stays the ledger's business. Reports nothing but counts: what is
refused may be a secret.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from nanomem.evidence import evidence_of, founded, screened, unfit, words
from nanomem.extraction import Extracted
from nanomem.facts import MemoryFiles
from nanomem.memory.tracing import gone_with, key, taken_out
from nanomem.session import Said
from nanomem.versions import Removal, Version
from nanomem.wording import carries, gist, names


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
        self._files = known
        self._known = words("\n".join(known.by_name.values()))
        self._said = said
        self._evidence = evidence_of(said, secrets_in)
        self._strict = strict
        oldest = min((message.timestamp for message in said), default=None)
        self._gone = taken_out(versions, oldest) if oldest else {}
        later = takewhile(lambda version: version.read_through > cursor, _consolidations(versions)) if cursor else ()
        self._overtaken = {fact for version in later for fact in gone_with(version)}

    def of_wishes(self, wanted: Extracted) -> Extracted:
        """The facts that may be taken in, and the removals that rest on something."""
        outdated = self.of_removals(wanted.outdated)
        updates = {
            name: tuple(fact for fact in found if self._admits(fact, outdated))
            for name, found in wanted.updates.items()
        }
        return replace(wanted, updates=updates, outdated=tuple(outdated))

    def of_removals(self, removed: Sequence[Removal]) -> list[Removal]:
        """Those whose reason is no order that somebody planted."""
        return list(dict.fromkeys(founded(removed, self._evidence, self._known)))

    def of_files(self, base: MemoryFiles, proposal: MemoryFiles, removed: Sequence[Removal]) -> MemoryFiles:
        """The proposal, made from `base`, without the new facts that may not be taken in."""
        return screened(base, proposal, lambda fact: not self._admits(fact, removed))

    def admits(self, text: str) -> bool:
        """Whether a person has said what it says, and it gives nothing away."""
        return not unfit(text, self._known, self._evidence, self._strict)

    def _admits(self, fact: str, removed: Sequence[Removal]) -> bool:
        is_fit = self.admits(fact) and not self._is_outdated(fact, removed)
        if not is_fit:
            self.refused.add(key(fact))
        return is_fit

    def _is_outdated(self, fact: str, removed: Sequence[Removal]) -> bool:
        """Whether the same model says that it no longer holds, or what was said later has overtaken it already, or
        somebody has taken it out since it was said."""
        its = gist(fact)
        if key(fact) in self._overtaken or any(names(gist(removal.fact), its) for removal in removed):
            return True
        gone = (at for one, at in self._gone.items() if one == key(fact) or carries([its], gist(one)))
        since = max(gone, default=None)
        return since is not None and not self._said_again(fact, since)

    def _said_again(self, fact: str, since: datetime) -> bool:
        """Whether what people have said since has the words that they had said before."""
        later = evidence_of([message for message in self._said if message.timestamp > since], lambda _: frozenset())
        wanted = words(fact).intersection(frozenset().union(*self._evidence.own))
        return bool(wanted) and wanted <= frozenset().union(*later.own)


def _consolidations(versions: Sequence[Version]) -> Iterator[Version]:
    """The newest first."""
    return (version for version in reversed(versions) if version.kind == "consolidation")
