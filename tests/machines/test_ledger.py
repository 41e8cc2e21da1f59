"""The ledger over many merges: a person and several models change the same files, each from what he has seen of them.

The model is what each of them asked for: a fact goes only when its owner takes it out or a proposal says why.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nanomem.facts import MemoryFiles
from nanomem.ledger import changes, merge
from nanomem.versions import Removal, Verdict
from tests.machines.playing import Machine, play
from tests.unit import test_ledger as ledger
from tests.unit.test_ledger import FILES, LINES, REMOVED

some_edits = st.lists(st.tuples(st.sampled_from(["user", "memory"]), st.floats(0, 1), st.none() | LINES), max_size=3)
"""At a place of a file a line less, or this one more."""
NOTHING = MemoryFiles()


class LedgerMachine(Machine):
    """`current` are the files; `seen` is what they were when a model was shown them, at first nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.current = NOTHING
        self.seen = [NOTHING]

    @rule()
    def is_shown(self) -> None:
        """A model begins to think about the files as they are."""
        self.seen.append(self.current)

    @rule(files=FILES)
    def begins_anew(self, files: MemoryFiles) -> None:
        """A person writes the files as he likes."""
        self.current = files

    @rule(wanted=some_edits)
    def edits(self, wanted: Sequence[tuple[str, float, str | None]]) -> None:
        """A person takes lines out and puts lines in; each fact that is gone is told so."""
        before, self.current = self.current, edited(self.current, wanted)
        told = gone(changes(before, self.current, "by hand"))
        assert keys(before) - keys(self.current) <= told

    @rule(which=st.integers(0, 9), wanted=some_edits, removed=REMOVED)
    def proposes(self, which: int, wanted: Sequence[tuple[str, float, str | None]], removed: list[Removal]) -> None:
        """A model changes some lines of what it was shown."""
        base = self.seen[which % len(self.seen)]
        self.merges(base, edited(base, wanted), removed)

    @rule(which=st.integers(0, 9), proposal=FILES, removed=REMOVED)
    def rewrites(self, which: int, proposal: MemoryFiles, removed: list[Removal]) -> None:
        """A model answers with other files altogether."""
        self.merges(self.seen[which % len(self.seen)], proposal, removed)

    @rule(which=st.integers(0, 9), removed=REMOVED)
    def leaves_all(self, which: int, removed: list[Removal]) -> None:
        """A model that changes nothing changes nothing, whatever has become of the files and whatever it names."""
        base = self.seen[which % len(self.seen)]
        done = merge(base, base, self.current, removed)
        assert (done.files, done.verdicts) == (self.current, ())

    def merges(self, base: MemoryFiles, proposal: MemoryFiles, removed: list[Removal]) -> None:
        done = merge(base, proposal, self.current, removed)
        before, after = keys(self.current), keys(done.files)
        assert before - after <= gone(done.verdicts) & keys(base), "no fact goes without a word"
        reasons = {removal.reason for removal in removed if removal.reason.strip()}
        assert {verdict.detail for verdict in done.verdicts if verdict.what == "removed"} <= reasons
        assert not (keys(base) - before) & after, "what its owner took out stays out"
        assert words(done.files) <= words(self.current) | words(proposal) | {"contradicted"}, "no word is made up"
        assert merge(base, proposal, done.files, removed).files == done.files, "once more changes nothing"
        self.current = done.files


def keys(files: MemoryFiles) -> set[str]:
    """The facts, whichever way they are written."""
    return as_told(ledger.keys(files))


def gone(verdicts: tuple[Verdict, ...]) -> set[str]:
    """Those that went with a word."""
    return as_told(ledger.gone(verdicts))


def as_told(found: set[str]) -> set[str]:
    """What is no text is told with a question mark."""
    return {key.encode("utf-8", "replace").decode() for key in found}


def words(files: MemoryFiles) -> set[str]:
    return {word for text in files.by_name.values() for word in re.findall(r"\w+", text)}


def edited(files: MemoryFiles, wanted: Sequence[tuple[str, float, str | None]]) -> MemoryFiles:
    """The files with these lines taken out and put in."""
    for name, share, line in wanted:
        lines: list[str] = getattr(files, name).split("\n")
        place = int(share * (len(lines) - 1))
        lines[place : place + (line is None)] = [] if line is None else [line]
        files = replace(files, **{name: "\n".join(lines)})
    return files


def test_the_ledger() -> None:
    """A sample, the same each time in the build."""
    play(LedgerMachine, 40, 15)
