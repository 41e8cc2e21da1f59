"""The fact ledger: what a rewrite of the memory may change.

A rewrite is a proposal against a base, applied to what the files are by now: a three-way merge by facts, over the
three files as one set. A fact goes only for a stated reason. Pure.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from nanomem.facts import COMMENT, FACTS, NAMES, Block, Kind, MemoryFiles, blocks
from nanomem.remembering import bare, normal
from nanomem.versions import Removal, Verdict
from nanomem.wording import Gist, carries, contradicts, gist, names, overlap, same

CONTRADICTED = " <!-- contradicted -->"
"""Behind a fact that another one contradicts, for the next Dream to settle."""

_MOST_CANDIDATES = 12
"""New facts that one is compared with: those that share its rarest words."""
_LONGEST_JUDGED = 4_000
"""Characters of a fact that is judged by its words; a longer one is only the same or not."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What the files shall be, and what happened to each fact."""

    files: MemoryFiles
    verdicts: tuple[Verdict, ...] = ()


@dataclass(slots=True, eq=False)
class _Fact:
    """A fact at its place: `file` by number, `at` among its blocks."""

    file: int
    at: int
    block: Block
    key: str


class _State:
    """The three files as they are at one time, read."""

    def __init__(self, files: MemoryFiles, keys: dict[str, str]) -> None:
        self.files = [blocks(text) for text in astuple(files)]
        self.facts = [
            _Fact(file, at, block, _key(block, keys))
            for file, found in enumerate(self.files)
            for at, block in enumerate(found)
            if block.kind in FACTS
        ]
        self.by_key: dict[str, list[_Fact]] = defaultdict(list)
        for fact in self.facts:
            self.by_key[fact.key].append(fact)
        self._keys = keys
        self._headings = [[at for at, block in enumerate(found) if block.kind == "heading"] for found in self.files]
        self._paths: dict[tuple[int, int], tuple[str, ...]] = {}

    def path(self, file: int, heading: int) -> tuple[str, ...]:
        """The titles of a heading and of those it is under."""
        if heading < 0:
            return ()
        found = self._paths.get((file, heading))
        if found is None:
            block = self.files[file][heading]
            found = self._paths[file, heading] = (*self.path(file, block.under), same(block.text).casefold())
        return found

    def parent(self, fact: _Fact) -> str:
        """The list item that it belongs to; empty for none."""
        return _key(self.files[fact.file][fact.block.parent], self._keys) if fact.block.parent >= 0 else ""

    def headings(self, file: int) -> list[int]:
        return self._headings[file]


def _key(block: Block, keys: dict[str, str]) -> str:
    """What two spellings of a fact have in common; `keys` are those found so far."""
    key = keys.get(block.text)
    if key is None:
        key = keys[block.text] = block.text.strip("`~ ") if block.kind == "code" else same(block.text)
    return key


def merge(base: MemoryFiles, proposal: MemoryFiles, current: MemoryFiles, removed: Sequence[Removal] = ()) -> Merged:
    """Apply `proposal`, made from `base`, to `current`. What it drops without a reason stays; what was taken out of
    `current` meanwhile stays out."""
    proposal = MemoryFiles(*map(_memory_only, astuple(proposal), astuple(base)))
    if proposal == base:
        return Merged(current)
    keys: dict[str, str] = {}
    states = {files: _State(files, keys) for files in (base, proposal, current)}
    judged = _Judged(states[base], states[proposal], states[current], removed)
    texts = [_Page(judged, file).text() for file in range(len(NAMES))]
    return Merged(MemoryFiles(*texts), tuple(judged.verdicts()))


def changes(before: MemoryFiles, after: MemoryFiles, reason: str) -> tuple[Verdict, ...]:
    """What happened to each fact between two states, where every loss has that reason."""
    if before == after:
        return ()
    keys: dict[str, str] = {}
    old = _State(before, keys)
    judged = _Judged(old, _State(after, keys), old, (), reason)
    return tuple(judged.verdicts())


# --- judging --------------------------------------------------------------------------------------------------------


class _Judged:
    """What becomes of each fact of the base, and what in the proposal is news."""

    def __init__(
        self, base: _State, wanted: _State, now: _State, removed: Sequence[Removal], every_reason: str = ""
    ) -> None:
        self.base, self.wanted, self.now, self._every_reason = base, wanted, now, every_reason
        self._gists: dict[str, Gist] = {}
        wanted_as = _pairs(base, base.facts, wanted, wanted.facts)
        self.here = {fact: fact for fact in base.facts} if base is now else _pairs(base, base.facts, now, now.facts)
        self.source = {new: old for old, new in wanted_as.items()}
        known = set(self.here.values())
        strange = [fact for fact in wanted.facts if fact not in self.source]
        added = [fact for fact in now.facts if fact not in known]
        by_both = _pairs(wanted, strange, now, added)
        self.there = by_both | {new: self.here[old] for new, old in self.source.items() if old in self.here}
        """What the current files have of the proposal."""
        dropped = [fact for fact in base.facts if fact not in wanted_as]
        self.doubles = self._doubled(dropped, wanted_as)
        elsewhere = {fact for fact in dropped if fact.key in wanted.by_key and fact not in self.doubles}
        dropped = [fact for fact in dropped if fact.key not in wanted.by_key]
        self.reasons = self._explained(dropped, removed)
        """Of the base's facts, those that go, and why."""
        self.reworded: dict[_Fact, list[_Fact]] = {}
        """Of the base's facts, those that the current files still have, in the words of the proposal."""
        self.against: dict[_Fact, list[_Fact]] = {}
        """News, and the facts of the base that they contradict."""
        still_open = [fact for fact in dropped if fact not in self.reasons]
        self.kept, self.news = self._weighed(still_open, self._novel(strange, by_both), added)
        self.kept |= {fact for fact in elsewhere & self.here.keys() if not self._is_rearranged(fact.key)}
        self._now_at = _sections(self.base, self.now, self.here) if base is not now else None
        self._map_sections(wanted_as)
        self.moved = {new for new in self.there if self._is_moved(new)}
        """Of the proposal's facts, those that are elsewhere in the current files."""

    def gist(self, fact: _Fact) -> Gist:
        found = self._gists.get(fact.key)
        if found is None:
            found = self._gists[fact.key] = gist(fact.key if len(fact.key) <= _LONGEST_JUDGED else "")
        return found

    def _doubled(self, dropped: list[_Fact], wanted_as: dict[_Fact, _Fact]) -> set[_Fact]:
        """What the base has twice, and the proposal once; what belongs to another list item is another fact."""
        doubled = [fact for fact in dropped if fact.key in self.wanted.by_key and not self._is_rearranged(fact.key)]
        stay = [other for key in {fact.key for fact in doubled} for other in self.base.by_key[key]]
        stay = [other for other in stay if other in wanted_as and other in self.here]
        anywhere = {other.key for other in stay}
        alike = {(other.key, self.base.parent(other)) for other in stay}
        return {
            fact
            for fact in doubled
            if ((fact.key, parent) in alike if (parent := self.base.parent(fact)) else fact.key in anywhere)
        }

    def _is_rearranged(self, key: str) -> bool:
        """Whether the owner has taken, put or moved one of several copies of a fact."""
        old, now = self.base.by_key.get(key, []), self.now.by_key.get(key, [])
        places = [
            sorted(_exactly(state, fact) for fact in facts) for state, facts in ((self.base, old), (self.now, now))
        ]
        return max(len(old), len(now)) > 1 and places[0] != places[1]

    def _novel(self, strange: list[_Fact], by_both: dict[_Fact, _Fact]) -> list[_Fact]:
        """What the proposal adds; not one more copy of what is known, unless it is said of another thing."""
        found: list[_Fact] = []
        seen: set[tuple[str, str]] = set()
        shown = {(fact.file, fact.at) for fact in self.there}
        for fact in strange:
            if fact in by_both:
                continue
            parent = self.wanted.parent(fact)
            copies = {state.parent(copy) for state in (self.base, self.now) for copy in state.by_key.get(fact.key, ())}
            is_copy = copies and (not parent or parent in copies or (fact.file, fact.block.parent) not in shown)
            if not is_copy and (fact.key, parent) not in seen:
                found.append(fact)
                shown.add((fact.file, fact.at))
            seen.add((fact.key, parent))
        return found

    def _explained(self, dropped: list[_Fact], removed: Sequence[Removal]) -> dict[_Fact, str]:
        found: dict[_Fact, str] = {}
        open_keys: dict[str, list[_Fact]] = defaultdict(list)
        for fact in dropped:
            open_keys[fact.key].append(fact)
        for entry in removed:
            if entry.reason.strip():
                for key in self._named(entry.fact, open_keys):
                    found |= dict.fromkeys(open_keys[key], entry.reason)
        return found

    def _named(self, text: str, open_keys: dict[str, list[_Fact]]) -> list[str]:
        """Which of the dropped facts this text names, in their own or nearly their own words."""
        key = same(text.strip().strip("\"'“”„«»「」"))
        if key in self.base.by_key or text.strip() in self.base.by_key:
            return [found for found in (key, text.strip()) if found in open_keys]
        one = self._nearly_named(key, open_keys)
        pieces = [piece for piece in re.split(r"[\n;；]", text) if piece.strip()]
        if one or len(pieces) < 2:
            return [one] if one else []
        return [found for piece in pieces[:_MOST_CANDIDATES] for found in self._named(piece, open_keys)]

    def _nearly_named(self, key: str, open_keys: dict[str, list[_Fact]]) -> str:
        entry = gist(key[:_LONGEST_JUDGED])
        shortened = key.rstrip("…. ")
        fits: list[tuple[float, str]] = []
        for other, (fact, *_) in open_keys.items():
            if shortened and other.startswith(shortened) and len(shortened) >= 0.6 * len(other):
                fits.append((1.0, other))
            elif entry.content and names(entry, self.gist(fact)):
                fits.append((overlap(entry, self.gist(fact)), other))
        fits.sort(reverse=True)
        if not fits or (len(fits) > 1 and fits[0][0] == fits[1][0]):
            return ""
        words = set(key.casefold().split())
        best = fits[0][1]
        score = _alike(words, best)
        stays = (other for other in self.base.by_key if other not in open_keys)
        return "" if any(_alike(words, other) > score for other in stays) else best

    def _weighed(self, dropped: list[_Fact], news: list[_Fact], added: list[_Fact]) -> tuple[set[_Fact], list[_Fact]]:
        """The dropped facts that stay, and the news that come in. Finds what is reworded or contradicted."""
        stale = self._cut_off(dropped)
        index = _Index(self, [new for new in news if new not in stale])
        claims = {fact: found for fact in dropped if (found := self._carriers(fact, dropped, index))}
        for fact in dropped:
            if fact not in self.here:  # what the owner took out does not come back in other words
                stale.update(claims.get(fact, ()))
                stale.update(new for new in index.near(self.gist(fact)) if self._adds_nothing(new, [fact]))
        for fact in dropped:
            if fact in self.here and fact in claims and stale.isdisjoint(claims[fact]):
                self.reworded[fact] = claims[fact]
        used = {new for found in self.reworded.values() for new in found}
        kept = [fact for fact in dropped if fact in self.here and fact not in self.reworded]
        stays = _Index(self, [*kept, *added] if len(news) > len(used) else [])
        coming = [
            new
            for new in news
            if new in used or not (new in stale or self._adds_nothing(new, stays.near(self.gist(new))))
        ]
        self._oppose(kept, _Index(self, [new for new in coming if new not in used]))
        return set(kept), coming

    def _carriers(self, fact: _Fact, dropped: list[_Fact], index: "_Index") -> list[_Fact]:
        """The news, one or several, that carry a fact; none if none do."""
        old = self.gist(fact)
        near = index.near(old)
        one = [new for new in near if carries([self.gist(new)], old)]
        if one:
            foreign = {self.gist(new).tongue for new in one} != {old.tongue}
            return [] if foreign and len(one) > 1 and len(old.names | old.numbers) < 2 else one[:1]
        pieces: list[_Fact] = []
        said: frozenset[str] = frozenset()
        for new in near:
            piece = self.gist(new)
            shared = piece.content & old.content
            if piece.firm <= old.said and len(shared) * 2 >= len(piece.content) and shared - said:
                pieces.append(new)
                said |= shared
                if len(pieces) > 1 and carries([self.gist(one) for one in pieces], old):
                    return sorted(pieces, key=lambda new: (new.file, new.at))
        return []

    def _adds_nothing(self, new: _Fact, others: Sequence[_Fact]) -> bool:
        """Whether these say all of it already."""
        piece = self.gist(new)
        known = [gist for gist in map(self.gist, others) if piece.content <= gist.said]
        return any(carries([gist], piece) for gist in known)

    def _cut_off(self, dropped: list[_Fact]) -> set[_Fact]:
        """The last fact of each file, where the proposal broke off within a fact of the base."""
        last = {fact.file: fact for fact in self.wanted.facts}.values()
        return {new for new in last if any(fact.key.startswith(new.key) and fact.key != new.key for fact in dropped)}

    def _oppose(self, kept: list[_Fact], index: "_Index") -> None:
        labels = Counter((fact.file, self.gist(fact).label) for fact in kept)
        for fact in kept:
            old = self.gist(fact)
            if old.label and labels[fact.file, old.label] > 1:
                old = old._replace(label="")
            for new in index.near(old):
                if contradicts(self.gist(new), old):
                    self.against.setdefault(new, []).append(fact)
                    break

    def _map_sections(self, wanted_as: dict[_Fact, _Fact]) -> None:
        """For each heading of the proposal the one in the current files that it stands for, or None."""
        alike = wanted_as | {old: found[0] for old, found in self.reworded.items()}
        to_base = {new: old for old, new in _sections(self.base, self.wanted, alike).items()}
        direct = {new: old for old, new in _sections(self.now, self.wanted, {}).items()} if self._now_at else {}
        self._targets: dict[tuple[int, int], int | None] = {}
        for file in range(len(NAMES)):
            self._targets[file, -1] = -1
            for heading in self.wanted.headings(file):
                place = (file, heading)
                at = direct.get(place)
                if at is None and place in to_base:
                    at = self._now_at.get(to_base[place]) if self._now_at is not None else to_base[place]
                self._targets[place] = at[1] if at else None
        self._meant = [
            {at for (of, _), at in self._targets.items() if of == file and at is not None} for file in range(len(NAMES))
        ]

    def target(self, fact: _Fact) -> int | None:
        """The heading of the current file that a fact of the proposal belongs under; None: a new one."""
        return self._targets[fact.file, fact.block.under]

    def heading_target(self, file: int, heading: int) -> int | None:
        return self._targets[file, heading]

    def _is_moved(self, new: _Fact) -> bool:
        """Whether the proposal has put a known fact to another place, and the owner has not."""
        fact = self.there.get(new)
        target = self.target(new)
        if fact is None or (new.file == fact.file and target == fact.block.under):
            return False
        if self._is_rearranged(fact.key):
            return False
        old = self.source.get(new)
        if old is None or old.file != fact.file:
            return False
        if new.file != fact.file:
            return True
        return self.is_at_home(old) and not self.is_flattened(new, fact)

    def is_at_home(self, old: _Fact) -> bool:
        """Whether a fact of the base is still where it was."""
        fact, home = self.here[old], old.block.under
        if self._now_at is not None and home >= 0:
            home = self._now_at.get((old.file, home), (0, -2))[1]
        return old.file == fact.file and home == fact.block.under

    def is_flattened(self, new: _Fact, fact: _Fact) -> bool:
        """Whether only the heading of a fact is missing in the proposal."""
        target = self.target(new)
        above = fact.block.under
        if above in self._meant[fact.file] and new.block.under >= 0:
            return False
        blocks = self.now.files[fact.file]
        while above >= 0:
            above = blocks[above].under
            if above == target:
                return True
        return False

    def verdicts(self) -> list[Verdict]:
        found: list[Verdict] = []
        pieces: dict[_Fact, list[_Fact]] = defaultdict(list)
        for old, carriers in self.reworded.items():
            for new in carriers:
                pieces[new].append(old)
        news = set(self.news)
        for new in self.wanted.facts:
            if new in pieces:
                found += [Verdict("reworded", _said(old), _said(new)) for old in pieces[new]]
            elif new in news:
                found.append(Verdict("new", _said(new)))
            elif new in self.there and new in self.source:
                found += self._verdict_on_known(new)
        for old in self.base.facts:
            if old not in self.here:
                continue
            if old in self.reasons:
                found.append(Verdict("removed", _said(old), self.reasons[old]))
            elif old in self.kept:
                found.append(
                    Verdict("removed", _said(old), self._every_reason)
                    if self._every_reason
                    else Verdict("kept", _said(old))
                )
        return found

    def _verdict_on_known(self, new: _Fact) -> list[Verdict]:
        old, fact = self.source[new], self.there[new]
        if new in self.moved:
            return [Verdict("moved", _said(old), NAMES[new.file])]
        if new.block.text == old.block.text:
            return []
        is_respelt = fact.block.raw == old.block.raw and normal(new.block.text) != normal(old.block.text)
        return [Verdict("reworded", _said(old), _said(new))] if is_respelt else []


class _Index:
    """Facts by their words, to find those that may say the same as another."""

    def __init__(self, judged: _Judged, facts: Sequence[_Fact]) -> None:
        self._judged = judged
        self._facts: dict[str, list[_Fact]] = defaultdict(list)
        for fact in facts:
            for word in judged.gist(fact).content:
                self._facts[word].append(fact)

    def near(self, wanted: Gist) -> list[_Fact]:
        """Those that share its rarest words, the most alike first."""
        lists = sorted((self._facts[word] for word in wanted.content if word in self._facts), key=len)
        counts: Counter[_Fact] = Counter()
        looked_at = 0
        for facts in lists:
            counts.update(facts[:100])
            looked_at += len(facts)
            if looked_at > 300:
                break
        likely = [fact for fact, _ in counts.most_common(_MOST_CANDIDATES)]
        return sorted(likely, key=lambda fact: -overlap(self._judged.gist(fact), wanted))


def _said(fact: _Fact) -> str:
    return bare(fact.block.text)


def _alike(words: set[str], key: str) -> float:
    others = set(key.casefold().split())
    return len(words & others) / (len(words | others) or 1)


def _pairs(old: _State, olds: Sequence[_Fact], new: _State, news: Sequence[_Fact]) -> dict[_Fact, _Fact]:
    """The facts that both have, each with one in the other: at the same place where there are several."""
    places: dict[str, list[_Fact]] = defaultdict(list)
    for fact in news:
        places[fact.key].append(fact)
    counts = Counter(fact.key for fact in olds)
    found: dict[_Fact, _Fact] = {}
    several: dict[str, list[_Fact]] = defaultdict(list)
    for fact in olds:
        others = places.get(fact.key)
        if others and len(others) == 1 and counts[fact.key] == 1:
            found[fact] = others[0]
        elif others:
            several[fact.key].append(fact)
    for key, facts in several.items():
        left, right = facts, places[key]
        for place in (_exactly, _in_file, _anywhere):
            free: dict[object, list[_Fact]] = defaultdict(list)
            for fact in reversed(right):
                free[place(new, fact)].append(fact)
            for fact in left:
                if free[place(old, fact)]:
                    found[fact] = free[place(old, fact)].pop()
            taken = {found[fact] for fact in left if fact in found}
            left = [fact for fact in left if fact not in found]
            right = [fact for fact in right if fact not in taken]
    return found


def _exactly(state: _State, fact: _Fact) -> tuple[int, tuple[str, ...], str]:
    return fact.file, state.path(fact.file, fact.block.under), state.parent(fact)


def _in_file(state: _State, fact: _Fact) -> object:
    return fact.file


def _anywhere(state: _State, fact: _Fact) -> object:
    return None


_Place = tuple[int, int]
"""A file, and a heading in it."""


def _sections(old: _State, new: _State, alike: dict[_Fact, _Fact]) -> dict[_Place, _Place]:
    """Which headings are the same: by title, or else by most of the facts under them."""
    found: dict[_Place, _Place] = {}
    taken: set[_Place] = set()
    for file in range(len(NAMES)):
        for depth in (None, -1):  # with the titles above, then without
            titles: dict[object, list[_Place]] = defaultdict(list)
            for heading in reversed(new.headings(file)):
                if (file, heading) not in taken:
                    titles[new.path(file, heading)[depth:]].append((file, heading))
            for heading in old.headings(file):
                others = titles.get(old.path(file, heading)[depth:])
                if others and (file, heading) not in found:
                    found[file, heading] = others.pop()
                    taken.add(found[file, heading])
    counts: Counter[tuple[_Place, _Place]] = Counter()
    for a, b in alike.items():
        if a.file == b.file:
            counts.update(
                (one, other)
                for one in _around(old, a)
                if one not in found
                for other in _around(new, b)
                if other not in taken
            )
    if counts:
        sizes = Counter(place for fact in old.facts for place in _around(old, fact))
        origins = Counter(place for fact in alike.values() for place in _around(new, fact))
        for (one, other), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if count * 2 > sizes[one] and count * 2 > origins[other] and one not in found and other not in taken:
                found[one] = other
                taken.add(other)
    return found


def _around(state: _State, fact: _Fact) -> Iterable[_Place]:
    heading = fact.block.under
    while heading >= 0:
        yield fact.file, heading
        heading = state.files[fact.file][heading].under


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Piece:
    """What is written: a block as it was, or a fresh one."""

    kind: Kind
    raw: str
    fresh: bool = False


class _Page:
    """A current file, and what the judgement changes in it."""

    def __init__(self, judged: _Judged, file: int) -> None:
        self._judged, self._file = judged, file
        self._blocks = judged.now.files[file]
        self._wanted = judged.wanted.files[file]
        self._pieces: list[_Piece | None] = [_Piece(block.kind, block.raw) for block in self._blocks]
        self._open_end = _still_open(self._blocks[-1]) if self._blocks else ""
        self._before: dict[int, list[_Piece]] = defaultdict(list)
        self._after: dict[int, list[_Piece]] = defaultdict(list)
        self._tails: dict[int, list[list[_Piece]]] = defaultdict(list)
        self._opened: dict[int, tuple[int, list[_Piece]]] = {}  # new headings: where, and what is under them
        self._depths: dict[int, int] = {}  # of the proposal's facts, as they are shown
        self._here = {fact.at: fact for fact in judged.wanted.facts if fact.file == file}
        self._news = {fact for fact in judged.news if fact.file == file}
        self._placeholders = [at for at, block in enumerate(self._blocks) if block.kind == "placeholder"]
        self._left: set[int] = set()  # headings that a fact has left

    def text(self) -> str:
        """The file as it shall be."""
        stays = self._settle()
        self._adopt_headings()
        self._write_news(stays)
        self._indent_what_stays()
        self._mark()
        self._tidy()
        return self._joined()

    def _settle(self) -> dict[int, int]:
        """Takes out what goes, puts new words in place of old ones; gives the place of each of the proposal's facts
        that is there."""
        judged = self._judged
        stays: dict[int, int] = {}
        for new in self._here.values():
            fact = judged.there.get(new)
            if fact is None or new in judged.moved:
                continue
            if fact.file == self._file:
                stays[new.at] = fact.at
        for new in judged.moved:
            self._take_out(judged.there[new])
        for old in judged.doubles & judged.here.keys():
            self._leave_comments(judged.here[old])
        for old in judged.reasons.keys() & judged.here.keys():
            for copy in judged.now.by_key[old.key]:
                self._leave_comments(copy)
        for old, (new, *_) in judged.reworded.items():
            for copy in judged.now.by_key[old.key]:
                self._leave_comments(copy)
            fact = judged.here[old]
            is_home = judged.target(new) == fact.block.under or judged.is_flattened(new, fact)
            if self._file == new.file == fact.file and is_home and _fits(new, fact) and new.at not in stays:
                stays[new.at] = fact.at
                self._pieces[fact.at] = _Piece(fact.block.kind, fact.block.raw, fresh=True)
        return stays

    def _take_out(self, fact: _Fact) -> None:
        if fact.file == self._file:
            self._pieces[fact.at] = None
            self._left.add(fact.block.under)

    def _leave_comments(self, fact: _Fact) -> None:
        """Takes out a fact, but not what a person wrote beside it."""
        self._take_out(fact)
        if fact.file == self._file and "<!--" in fact.block.raw and fact.block.kind != "code":
            comments = [found for found in COMMENT.findall(fact.block.raw) if found != CONTRADICTED.strip()]
            if comments:
                self._pieces[fact.at] = _Piece("comment", "\n".join(comments) + "\n")

    def _indent_what_stays(self) -> None:
        """Lets list items go along with the one they belong to: with its new indentation, or up where it is gone."""
        shown: dict[int, int] = {}
        beside: dict[tuple[int, int], int] = {}
        for at, block in enumerate(self._blocks):
            piece, above = self._pieces[at], block.parent
            shown[at] = block.depth
            if piece and piece.raw is not block.raw:
                shown[at] = beside[above, block.depth] = _depth(piece.raw)
            elif piece and above >= 0 and self._is_shifted(above, shown) | ((above, block.depth) in beside):
                step = block.depth - self._blocks[above].depth if self._pieces[above] else 0
                shown[at] = beside.get((above, block.depth), shown[above] + step)
                piece.raw = _indented(piece.raw, shown[at])

    def _is_shifted(self, at: int, shown: dict[int, int]) -> bool:
        return self._pieces[at] is None or shown[at] != self._blocks[at].depth

    def _adopt_headings(self) -> None:
        """New titles and levels, where the owner has not changed the old ones."""
        old = {block.raw for block in self._judged.base.files[self._file] if block.kind == "heading"}
        for heading in self._judged.wanted.headings(self._file):
            at = self._judged.heading_target(self._file, heading)
            if at is not None and self._blocks[at].raw in old:
                self._pieces[at] = _Piece("heading", _with_comments(self._wanted[heading], self._blocks[at]))

    def _write_news(self, stays: dict[int, int]) -> None:
        """Puts in what is new or moved, in the proposal's order, behind what stands before it there."""
        judged = self._judged
        is_flat = not judged.wanted.headings(self._file) and bool(judged.now.headings(self._file))
        section: int | None = judged.now.headings(self._file)[-1] if is_flat else -1
        first: dict[int, int] = {}
        for at in stays.values():
            under = self._blocks[at].under
            first[under] = min(at, first.get(under, at))
        anchors: dict[int | None, tuple[list[_Piece], int]] = {}
        for at, new in self._here.items():
            if not is_flat:
                section = judged.target(new)
            if at in stays:
                there = stays[at]
                section = self._blocks[there].under
                anchors[section] = (self._after[there], there)
                self._depths[at] = self._write_in_place(new, there)
                continue
            raw = self._raw(new)
            if raw is None:
                continue
            opposed = [judged.here[old] for old in judged.against.get(new, ())]
            there = next((fact.at for fact in opposed if self._stands_for(fact, new, section)), -1)
            if section is None:
                self._write_in_new_section(new, raw)
            elif there >= 0:
                self._before[there].append(
                    _Piece(new.block.kind, _indented(raw, self._blocks[there].depth), fresh=True)
                )
                self._depths[at] = self._blocks[there].depth
                anchors[section] = (self._after[there], there)
            else:
                anchors[section] = self._write_in_section(new, raw, section, anchors.get(section), first.get(section))

    def _write_in_place(self, new: _Fact, at: int) -> int:
        """Gives a fact that stays where it is the proposal's spelling, if the owner has not changed it; returns how
        far it is indented."""
        block, piece, old = self._blocks[at], self._pieces[at], self._judged.source.get(new)
        is_old = old is None or (old.block.raw == block.raw != new.block.raw and self._judged.is_at_home(old))
        if piece is None or not is_old or (new.block.kind == "row") != (block.kind == "row"):
            return block.depth
        if old is None and not piece.fresh:  # both have put it in
            return block.depth
        depth = self._depth(new)
        piece.kind, piece.raw = new.block.kind, _indented(_with_comments(new.block, block), depth)
        return depth

    def _stands_for(self, fact: _Fact, new: _Fact, section: int | None) -> bool:
        return fact.file == self._file and fact.block.under == section and _fits(new, fact)

    def _raw(self, new: _Fact) -> str | None:
        """How a fact is written that shall be put in; None for one that shall not."""
        if new in self._news:
            return _with_comments(new.block, None)
        if new not in self._judged.moved:
            return None
        fact, old = self._judged.there[new], self._judged.source[new]
        return _with_comments(new.block if fact.block.raw == old.block.raw else fact.block, fact.block)

    def _depth(self, new: _Fact) -> int:
        parent = new.block.parent
        while parent >= 0 and parent not in self._depths:
            parent = self._wanted[parent].parent
        if parent >= 0:
            return self._depths[parent] + new.block.depth - self._wanted[new.block.parent].depth
        return new.block.depth if new.block.parent < 0 else 0

    def _write_in_section(
        self, new: _Fact, raw: str, section: int, anchor: tuple[list[_Piece], int] | None, first: int | None
    ) -> tuple[list[_Piece], int]:
        depth = self._depths[new.at] = self._depth(new)
        piece = _Piece(new.block.kind, _indented(raw, depth), fresh=True)
        end = self._end(section)
        filled = self._placeholder(new, section, end)
        if filled is not None:
            self._pieces[filled] = None
            anchor = (self._after[filled], filled)
        if anchor is None:
            if first is not None:
                while (
                    first
                    and self._blocks[first].kind in ("row", "table")
                    and self._blocks[first - 1].kind in ("row", "table")
                ):
                    first -= 1
                anchor = (self._before[first], -1)
            else:
                at = end - 1
                while at > section and self._blocks[at].kind == "blank":
                    at -= 1
                anchor = (self._after[at], at)
        where, at = anchor
        if at >= 0:
            following = at + 1
            while following < end and self._goes_with(following, depth, piece.kind):
                following += 1
            if following - 1 > at:
                at = following - 1
                where = self._after[at]
        where.extend(self._table_head(new, where, at))
        where.append(piece)
        return where, at

    def _goes_with(self, at: int, depth: int, kind: Kind) -> bool:
        """Whether a block belongs to what stands before it, so that nothing can come between them."""
        block = self._blocks[at]
        if block.kind in ("row", "table"):
            return kind != "row" or block.kind == "table"
        return block.kind in FACTS and block.depth > depth

    def _table_head(self, new: _Fact, where: list[_Piece], at: int) -> list[_Piece]:
        """The head of the table that a row needs, where it is not written into one."""
        before = where[-1].kind if where else self._blocks[at].kind if at >= 0 else "blank"
        if new.block.kind != "row" or before in ("row", "table"):
            return []
        first = new.at
        while first > 0 and self._wanted[first - 1].kind in ("row", "table"):
            first -= 1
        return [
            _Piece("table", _ended(block.raw), fresh=True)
            for block in self._wanted[first : new.at]
            if block.kind == "table"
        ]

    def _placeholder(self, new: _Fact, section: int, end: int) -> int | None:
        """The placeholder that a fact takes the place of: that of its label, or any under its heading."""
        label = new.block.text.partition(":")[0]
        for at in self._placeholders[bisect_right(self._placeholders, section) :]:
            block = self._blocks[at]
            if at < end and self._pieces[at]:
                head, colon, _ = block.text.partition(":")
                if (same(head) == same(label)) if colon else True:
                    return at
        return None

    def _write_in_new_section(self, new: _Fact, raw: str) -> None:
        under = self._open(new.block.under)
        depth = self._depths[new.at] = self._depth(new)
        under.extend(self._table_head(new, under, -1))
        under.append(_Piece(new.block.kind, _indented(raw, depth), fresh=True))

    def _open(self, heading: int) -> list[_Piece]:
        """The new section, written where it stands in the proposal; with those it is in."""
        if heading in self._opened:
            return self._opened[heading][1]
        above = self._wanted[heading].under
        if above >= 0 and self._judged.heading_target(self._file, above) is None:
            self._open(above)
        at = self._place_of(heading)
        pieces = [_Piece("heading", _with_comments(self._wanted[heading], None), fresh=True)]
        self._opened[heading] = (at, pieces)
        self._tails[at].append(pieces)
        return pieces

    def _place_of(self, heading: int) -> int:
        """The block of the current file that a new heading comes behind."""
        level = self._wanted[heading].depth
        headings = self._judged.wanted.headings(self._file)
        for other in reversed([at for at in headings if at < heading]):
            target = self._judged.heading_target(self._file, other)
            if other in self._opened:
                return self._opened[other][0]
            if target is not None:
                end = target + 1
                while end < len(self._blocks) and not (
                    self._blocks[end].kind == "heading" and self._blocks[end].depth <= level
                ):
                    end += 1
                return end - 1
        for other in headings:
            target = self._judged.heading_target(self._file, other)
            if other > heading and target is not None:
                return target - 1
        return len(self._blocks) - 1

    def _end(self, section: int) -> int:
        headings = self._judged.now.headings(self._file)
        following = bisect_right(headings, section)
        return headings[following] if following < len(headings) else len(self._blocks)

    def _mark(self) -> None:
        news = set(self._judged.news)
        for new, olds in self._judged.against.items():
            for old in olds if new in news else ():
                fact = self._judged.here[old]
                piece = self._pieces[fact.at] if fact.file == self._file else None
                if piece and piece.kind != "code" and "<!--" not in COMMENT.sub("", piece.raw):
                    piece.raw = _marked(piece.raw, piece.kind)

    def _tidy(self) -> None:
        """Takes out heads of tables without rows, and headings that nothing is left under, as the proposal did."""
        heads = {same(block.text) for block in self._wanted if block.kind == "table"}
        for at, block in enumerate(self._blocks):
            if block.kind == "table" and same(block.text) not in heads and not self._has_rows(at):
                self._pieces[at] = None
        meant = {self._judged.heading_target(self._file, at) for at in self._judged.wanted.headings(self._file)}
        for at in reversed(range(len(self._blocks))):
            if self._blocks[at].kind == "heading" and at in self._left and at not in meant and self._is_bare(at):
                self._pieces[at] = None
                self._left.add(self._blocks[at].under)

    def _has_rows(self, at: int) -> bool:
        while at < len(self._blocks) and self._blocks[at].kind in ("row", "table"):
            if (self._blocks[at].kind == "row" and self._pieces[at]) or any(
                piece.kind == "row" for piece in self._after.get(at, ())
            ):
                return True
            at += 1
        return False

    def _is_bare(self, heading: int) -> bool:
        """Whether nothing is left under a heading, nor under those within it."""
        at = heading
        if self._after.get(at) or self._tails.get(at):
            return False
        at += 1
        while at < len(self._blocks):
            block, piece = self._blocks[at], self._pieces[at]
            if block.kind == "heading" and block.depth <= self._blocks[heading].depth:
                break
            if (piece and piece.kind != "blank") or self._before.get(at) or self._after.get(at):
                return False
            at += 1
        return True

    def _joined(self) -> str:
        pieces: list[_Piece | None] = [
            *self._after.get(-1, ()),
            *(one for tail in self._tails.get(-1, ()) for one in tail),
        ]
        for at, piece in enumerate(self._pieces):
            pieces += [*self._before.get(at, ()), piece, *self._after.get(at, ())]
            pieces += [one for tail in self._tails.get(at, ()) for one in tail]
        ends_at = self._pieces[-1] if self._pieces else None
        lines: list[str] = []
        last: _Piece | None = None
        gap = False  # something is missing here
        for piece in pieces:
            if piece is None:
                gap = True
                continue
            if piece.kind == "blank" and gap and (last is None or last.kind == "blank"):
                continue
            if last is not None:
                if piece.fresh or last.fresh or gap:
                    lines[-1] = _ended(lines[-1], self._open_end if last is ends_at else "")
                    if _apart(last.kind, piece.kind):
                        lines.append("\n")
            lines.append(piece.raw)
            last, gap = piece, False
        return "".join(lines)


_LINE_ENDS = tuple("\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def _apart(before: Kind, after: Kind) -> bool:
    """Whether there has to be a blank line between two blocks."""
    if "blank" in (before, after) or "comment" in (before, after):
        return False
    table = ("row", "table")
    if before in table or after in table:
        return not (before in table and after in table)
    return (
        (before != after and not {before, after} <= {"item", "value", "placeholder"} and before != "heading")
        or before == after == "text"
        or after == "heading"
    )


def _fits(new: _Fact, old: _Fact) -> bool:
    """Whether one can be written where the other stands: a row of a table only where a row is."""
    return (new.block.kind == "row") == (old.block.kind == "row")


def _ended(raw: str, closing: str = "") -> str:
    """With a line end; and with what closes a comment or a code fence that goes on to the end of the file."""
    raw = raw if raw.endswith(_LINE_ENDS) else raw + "\n"
    return f"{raw}{closing}\n" if closing else raw


def _still_open(block: Block) -> str:
    """What would close it, if it goes on to the end of its file."""
    if block.kind == "code" or (block.kind == "rule" and _FENCE.match(block.raw)):
        lines = block.raw.strip().splitlines()
        fence = _FENCE.match(lines[0])
        is_closed = (
            fence
            and len(lines) > 1
            and len(lines[-1].strip()) >= len(fence[1])
            and not lines[-1].strip().strip(fence[1][0])
        )
        return fence[1] if fence and not is_closed else ""
    comments = COMMENT.findall(block.raw) if "<!--" in block.raw else ()
    return "-->" if comments and not comments[-1].endswith("-->") else ""


def _with_comments(new: Block, old: Block | None) -> str:
    """A block of the proposal as it can be written: nothing left open, and with the comments that a person put
    there."""
    closing = _still_open(new)
    raw = COMMENT.sub("", new.raw) if closing == "-->" else _ended(new.raw, closing)
    for comment in COMMENT.findall(old.raw) if old and "<!--" in old.raw and "code" not in (old.kind, new.kind) else ():
        if comment != CONTRADICTED.strip() and comment not in raw:
            raw = f"{raw.rstrip()} {comment}{'' if comment.endswith('-->') else '-->'}"
    return _ended(raw)


def _depth(raw: str) -> int:
    line = raw.expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def _indented(raw: str, depth: int) -> str:
    first = raw.lstrip(" \t")
    return raw if len(raw) - len(first) == depth else " " * depth + first


def _marked(raw: str, kind: Kind) -> str:
    """The line with the mark; in the last cell of a table's row."""
    if CONTRADICTED.strip() in raw:
        return raw
    text = raw.rstrip()
    end = raw[len(text) :]
    if kind == "row" and text.endswith("|"):
        return f"{text[:-1].rstrip()}{CONTRADICTED} |{end}"
    return f"{text}{CONTRADICTED}{end}"


# --- what is not memory ---------------------------------------------------------------------------------------------

_TALK = re.compile(
    r"""\A\W*(?:here(?:'s|\sis|\sare)\b|sure\b|certainly\b|of\scourse\b|okay\b|ok\b|understood\b|absolutely\b|done\b|sorry\b|as\san\sai\b|
    below\sis\b|please\s(?:let|note|review)|feel\sfree|i\shope|hope\sthis|is\sthere\sanything|以下是|好的|这是更新|已更新|已将|已经|如需|如果您|如有|
    希望这|没问题|当然|hier\sist|gerne\b|aquí\s(?:está|tiene)|claro\b|voici\b|bien\ssûr)
    |请告诉我|进一步(?:的)?修改|更新后的(?:记忆|文件)|\blet\sme\sknow\b|\b(?:rewritten|updated|revised|following)\s(?:\S+\s)?(?:file|version|memory)\b|\bas\s(?:you\s)?requested\b
    |\bi(?:'ve|\shave|\sdid)?\s(?:now\s|also\s|not\s|just\s)*(?:updat|rewrit|rewrote|kept|left|made|add|remov|merg|preserv|chang|clean|organi)
    .*\b(?:memor|files?\b|facts?\b|entr|sections?\b|changes?\b|everything|the\srest\b|duplicat)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_STRUCTURE = re.compile(r"\s*(?:#{1,6}\s|[-*+]\s|\d{1,9}[.)]\s|\||`{3}|~{3}|<!--)")
_PAUSE = re.compile(r"\s*(?:[-*_=]{3,}|(?:<\|[^|>]{0,40}\|>(?:assistant|system|user)?\s*)+)?\s*\Z")
_WRAPPER = re.compile(r"\s*(`{3,}|~{3,})\s*(?:markdown|md|text|txt|plain|plaintext)?\s*\Z", re.IGNORECASE)
_NOT_MARKDOWN = re.compile(
    r"\s*(?:<(?:!doctype|html|body|head|div|ul|ol|li|p|h[1-6]|table)\b|[{\[]\s*[\"{\[])", re.IGNORECASE
)


def _memory_only(text: str, base: str) -> str:
    """A proposal without a code fence around it, and without talk before and behind; the base where it is no
    Markdown at all."""
    if text == base:
        return text
    if _NOT_MARKDOWN.match(text) and not _NOT_MARKDOWN.match(base):
        return base
    lines = _unwrapped(text.splitlines(keepends=True), base)
    first = _end_of_talk(lines, base)
    lines = lines[first:]
    lines.reverse()
    lines = lines[_end_of_talk(lines, base, backwards=True) :]
    lines.reverse()
    return "".join(lines)


def _end_of_talk(lines: list[str], base: str, *, backwards: bool = False) -> int:
    """How many lines at one end are talk and what parts it from the rest."""
    end = at = 0
    while at < len(lines):
        start = at
        while at < len(lines) and _PAUSE.match(lines[at]):
            at += 1
        is_apart = at > start or not at or not backwards
        if any("<|" in line and line.strip() not in base for line in lines[start:at]):
            end = at
        start = at
        while at < len(lines) and not (_PAUSE.match(lines[at]) or _STRUCTURE.match(lines[at])):
            at += 1
        paragraph = lines[start:at][::-1] if backwards else lines[start:at]
        said = "".join(paragraph).strip()
        if not said or not is_apart or paragraph[0].strip() in base:
            break
        if backwards and at < len(lines) and not _PAUSE.match(lines[at]):
            break
        leads = not backwards and said.endswith((":", "：")) and any(line.startswith("#") for line in lines[at:])
        if not leads and not _TALK.search(said):
            break
        while at < len(lines) and not lines[at].strip():
            at += 1
        end = at
    return end


def _unwrapped(lines: list[str], base: str) -> list[str]:
    """What is in a code fence that holds all but some talk."""
    start = next((at for at, line in enumerate(lines) if _STRUCTURE.match(line)), len(lines))
    wrapper = _WRAPPER.match(lines[start]) if start < len(lines) else None
    if not wrapper or any(line.strip() and line.strip() in base for line in lines[:start]):
        return lines
    closing = [at for at in range(start + 1, len(lines)) if lines[at].strip() == wrapper[1]]
    end = closing[-1] if closing else len(lines)
    is_code = "".join(lines[start:end]).strip() in base or any(map(_STRUCTURE.match, lines[end + 1 :]))
    return lines if is_code else lines[start + 1 : end]
