"""What becomes of each fact of the base, and what of a proposal is news. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from nanomem.facts import NAMES
from nanomem.ledger.state import CODE, Fact, State, code_key, exactly, pairs, sections, written
from nanomem.remembering import bare, normal
from nanomem.versions import Removal, Verdict, flat
from nanomem.wording import Gist, carries, contradicts, gist, names, overlap, same

_MOST_CANDIDATES = 12
"""New facts that one is compared with: those that share its rarest words."""
_LONGEST_JUDGED = 4_000
"""Characters of a fact that is judged by its words; a longer one is only the same or not."""


class Judged:
    """What becomes of each fact of the base, and what in the proposal is news."""

    def __init__(
        self, base: State, wanted: State, now: State, removed: Sequence[Removal], every_reason: str = ""
    ) -> None:
        self.base, self.wanted, self.now, self._every_reason = base, wanted, now, every_reason
        self._gists: dict[str, Gist] = {}
        self._rearranged: dict[str, bool] = {}
        wanted_as = pairs(base, base.facts, wanted, wanted.facts)
        self.here = {fact: fact for fact in base.facts} if base is now else pairs(base, base.facts, now, now.facts)
        self.source = {new: old for old, new in wanted_as.items()}
        known = set(self.here.values())
        strange = [fact for fact in wanted.facts if fact not in self.source]
        added = [fact for fact in now.facts if fact not in known]
        by_both = pairs(wanted, strange, now, added)
        self.there = by_both | {new: self.here[old] for new, old in self.source.items() if old in self.here}
        """What the current files have of the proposal."""
        dropped = [fact for fact in base.facts if fact not in wanted_as]
        self.doubles = self._doubled(dropped, wanted_as)
        elsewhere = {fact for fact in dropped if fact.key in wanted.by_key and fact not in self.doubles}
        dropped = [fact for fact in dropped if fact.key not in wanted.by_key]
        self.reasons = self._explained(dropped, removed)
        """Of the base's facts, those that go, and why."""
        self.reworded: dict[Fact, list[Fact]] = {}
        """Of the base's facts, those that the current files still have, in the words of the proposal."""
        self.against: dict[Fact, list[Fact]] = {}
        """News, and the facts of the base that they contradict."""
        still_open = [fact for fact in dropped if fact not in self.reasons]
        self.kept, self.news = self._weighed(still_open, self._novel(strange, by_both), added)
        self.kept |= {fact for fact in elsewhere & self.here.keys() if not self.is_rearranged(fact.key)}
        self._now_at = sections(self.base, self.now, self.here) if base is not now else None
        self._map_sections(wanted_as)
        self.moved = {new for new in self.there if self._is_moved(new)}
        """Of the proposal's facts, those that are elsewhere in the current files."""

    def gist(self, fact: Fact) -> Gist:
        found = self._gists.get(fact.key)
        if found is None:
            is_judged = len(fact.key) <= _LONGEST_JUDGED and fact.block.kind != "code"
            found = self._gists[fact.key] = gist(fact.key if is_judged else "")
        return found

    def _doubled(self, dropped: list[Fact], wanted_as: dict[Fact, Fact]) -> set[Fact]:
        """What the base has twice, and the proposal once; what belongs to another list item is another fact."""
        doubled = [fact for fact in dropped if fact.key in self.wanted.by_key and not self.is_rearranged(fact.key)]
        stay = [other for key in {fact.key for fact in doubled} for other in self.base.by_key[key]]
        stay = [other for other in stay if other in wanted_as and other in self.here]
        anywhere = {other.key for other in stay}
        alike = {(other.key, self.base.parent(other)) for other in stay}
        return {
            fact
            for fact in doubled
            if ((fact.key, parent) in alike if (parent := self.base.parent(fact)) else fact.key in anywhere)
        }

    def is_rearranged(self, key: str) -> bool:
        """Whether the owner has taken, put or moved one of several copies of a fact."""
        if key not in self._rearranged:
            old, now = self.base.by_key.get(key, []), self.now.by_key.get(key, [])
            before = sorted(exactly(self.base, fact) for fact in old)
            after = sorted(exactly(self.now, fact) for fact in now)
            self._rearranged[key] = max(len(old), len(now)) > 1 and before != after
        return self._rearranged[key]

    def _novel(self, strange: list[Fact], by_both: dict[Fact, Fact]) -> list[Fact]:
        """What the proposal adds; not one more copy of what is known, unless it is said of another thing."""
        found: list[Fact] = []
        seen: set[tuple[str, str]] = set()
        for fact in strange:
            if fact in by_both:
                continue
            parent = self.wanted.parent(fact)
            copies = {state.parent(copy) for state in (self.base, self.now) for copy in state.by_key.get(fact.key, ())}
            is_copy = copies and (not parent or parent in copies)
            if not is_copy and (fact.key, parent) not in seen:
                found.append(fact)
            seen.add((fact.key, parent))
        return found

    def _explained(self, dropped: list[Fact], removed: Sequence[Removal]) -> dict[Fact, str]:
        found: dict[Fact, str] = {}
        open_keys: dict[str, list[Fact]] = defaultdict(list)
        for fact in dropped:
            open_keys[fact.key].append(fact)
        for entry in removed:
            if entry.reason.strip():
                for key in self._named(entry.fact, open_keys):
                    found |= dict.fromkeys(open_keys[key], entry.reason)
        return found

    def _named(self, text: str, open_keys: dict[str, list[Fact]]) -> list[str]:
        """Which of the dropped facts this text names, in their own or nearly their own words."""
        text = text.strip()
        key = code_key(text) if text.startswith((CODE, "~~~")) else same(text.strip("\"'“”„«»「」"))
        if key in self.base.by_key:
            return [key] if key in open_keys else []
        unboxed = [found for found in self.base.by_key if _unboxed(found) == _unboxed(key)]
        if len(unboxed) == 1:
            return [found for found in unboxed if found in open_keys]
        one = self._nearly_named(key, open_keys)
        pieces = [piece for piece in re.split(r"[\n;；]", text) if piece.strip()]
        if one or len(pieces) < 2:
            return [one] if one else []
        return [found for piece in pieces[:_MOST_CANDIDATES] for found in self._named(piece, open_keys)]

    def _nearly_named(self, key: str, open_keys: dict[str, list[Fact]]) -> str:
        entry = gist(key[:_LONGEST_JUDGED])
        shortened = key.rstrip("…. ")
        fits: list[tuple[float, str]] = []
        for other, (fact, *_) in open_keys.items():
            if fact.block.kind == "code":
                continue  # only word for word
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

    def _weighed(self, dropped: list[Fact], news: list[Fact], added: list[Fact]) -> tuple[set[Fact], list[Fact]]:
        """The dropped facts that stay, and the news that come in. Finds what is reworded or contradicted."""
        stale = self._cut_off(dropped)
        index = Index(self, [new for new in news if new not in stale])
        carriers = self._each_its_own({fact: self._carriers(fact, index) for fact in dropped})
        wanted = {new for fact, found in carriers.items() if fact in self.here for new in found}
        claims = self._claims(dropped, carriers, index)
        for fact in dropped:
            if fact not in self.here:  # what the owner took out does not come back in other words
                stale.update(carriers.get(fact, ()), claims.get(fact, ()))
                near = [new for new in index.near(self.gist(fact)) if new not in wanted]
                stale.update(new for new in near if self._adds_nothing(new, [fact]) or self._is_blurred(new, fact))
        for fact in dropped:
            if fact in self.here and fact in claims and stale.isdisjoint(claims[fact]):
                self.reworded[fact] = claims[fact]
        used = {new for found in self.reworded.values() for new in found}
        kept = [fact for fact in dropped if fact in self.here and fact not in self.reworded]
        stays = Index(self, [*kept, *added] if len(news) > len(used) else [])
        coming: list[Fact] = []
        shown = {(fact.file, fact.at) for fact, place in self.there.items() if place.file == fact.file}
        for new in news:
            is_stale = new in stale or self._is_copy(new, shown)
            if new in used or not (is_stale or self._adds_nothing(new, stays.near(self.gist(new)))):
                coming.append(new)
                shown.add((new.file, new.at))
        self._oppose(kept, Index(self, [new for new in coming if new not in used]))
        return set(kept), coming

    def _is_copy(self, new: Fact, shown: set[tuple[int, int]]) -> bool:
        """Whether it is known, and the owner took it out or what it belongs to is not shown."""
        olds = self.base.by_key.get(new.key, ())
        has_place = (new.file, new.block.parent) in shown and all(old in self.here for old in olds)
        return not has_place and (bool(olds) or new.key in self.now.by_key)

    def _carriers(self, fact: Fact, index: "Index") -> list[Fact]:
        """The news that carry a fact alone: one of its language, or any translations."""
        old = self.gist(fact)
        found: list[Fact] = []
        for new in index.near(old):
            if carries([self.gist(new)], old):
                if self.gist(new).tongue == old.tongue:
                    return [new]
                found.append(new)
        return found

    def _each_its_own(self, carriers: dict[Fact, list[Fact]]) -> dict[Fact, list[Fact]]:
        """Where one new fact carries several, most of what each says beyond the one it is most like has to be in it:
        else it is that one's rewording alone."""
        best: dict[Fact, Fact] = {}
        for fact, found in carriers.items():
            for new in found:
                like = overlap(self.gist(new), self.gist(fact))
                if new not in best or like > overlap(self.gist(new), self.gist(best[new])):
                    best[new] = fact

        def belongs(new: Fact, fact: Fact) -> bool:
            own = self.gist(fact).content - self.gist(best[new]).said
            return len(own & self.gist(new).said) * 3 >= len(own) * 2

        own = {fact: [new for new in found if belongs(new, fact)] for fact, found in carriers.items()}
        return {fact: found for fact, found in own.items() if found}

    def _claims(self, dropped: list[Fact], carriers: dict[Fact, list[Fact]], index: "Index") -> dict[Fact, list[Fact]]:
        """What each fact has become: one new fact, or several that together carry it. Several facts may become one,
        but a piece of one is no other's."""
        taken = {new for found in carriers.values() for new in found}
        found: dict[Fact, list[Fact]] = {}
        for fact in dropped:
            old, one = self.gist(fact), carriers.get(fact, [])
            if len(one) > 1 and len(old.names | old.numbers) < 2:
                continue  # which of the translations it is cannot be told
            pieces = one[:1]
            said = frozenset[str]().union(*(self.gist(new).said for new in pieces))
            for new in index.near(old):
                piece = self.gist(new)
                shared = piece.content & old.said
                is_of_it = piece.firm <= old.said and len(shared) * 3 >= len(piece.content) * 2
                if new not in taken and is_of_it and shared - said:
                    pieces.append(new)
                    said |= piece.said
            if one or (len(pieces) > 1 and carries(map(self.gist, pieces), old)):
                found[fact] = sorted(pieces, key=lambda new: (new.file, new.at))
                taken.update(pieces)
        return found

    def _is_blurred(self, new: Fact, fact: Fact) -> bool:
        """Whether it says a fact again without one of its particulars, and brings none of its own."""
        piece, old = self.gist(new), self.gist(fact)
        shared = piece.content & old.said
        if not piece.firm <= old.said or old.firm <= piece.said or (piece.negations > 0) != (old.negations > 0):
            return False
        who_and_when = old.names | old.numbers | piece.names
        return bool(shared & who_and_when and shared - who_and_when) and len(shared) * 3 >= len(piece.content) * 2

    def _adds_nothing(self, new: Fact, others: Sequence[Fact]) -> bool:
        """Whether these say all of it already."""
        piece = self.gist(new)
        known = [gist for gist in map(self.gist, others) if piece.content <= gist.said]
        return any(carries([gist], piece) for gist in known)

    def _cut_off(self, dropped: list[Fact]) -> set[Fact]:
        """The last fact of each file, where the proposal broke off within a fact of the base."""
        last = {fact.file: fact for fact in self.wanted.facts}.values()
        return {new for new in last if any(fact.key.startswith(new.key) and fact.key != new.key for fact in dropped)}

    def _oppose(self, kept: list[Fact], index: "Index") -> None:
        labels = self._labels(kept)
        for fact in kept:
            old = self.gist(fact)
            if labels[fact.file, old.label] > 1:
                old = old._replace(label="")
            for new in index.near(old):
                if contradicts(self.gist(new), old):
                    self.against.setdefault(new, []).append(fact)
                    break

    def _labels(self, kept: list[Fact]) -> Counter[tuple[int, str]]:
        """How many facts of the base have the labels of these."""
        labels = tuple({gist.label for gist in map(self.gist, kept) if gist.label})
        facts = self.base.facts if labels else []
        alike = [fact for fact in facts if fact.key.lstrip("| ").casefold().startswith(labels)]
        return Counter((fact.file, self.gist(fact).label) for fact in alike)

    def _map_sections(self, wanted_as: dict[Fact, Fact]) -> None:
        """For each heading of the proposal the one in the current files that it stands for, or None."""
        alike = wanted_as | {old: found[0] for old, found in self.reworded.items()}
        to_base = {new: old for old, new in sections(self.base, self.wanted, alike).items()}
        shown = {fact: new for new, fact in self.there.items()}
        named = sections(self.now, self.wanted, shown, only_by_title=True) if self._now_at else {}
        direct = {new: old for old, new in named.items()}
        self._targets: dict[tuple[int, int], int | None] = {}
        for file in range(len(NAMES)):
            self._targets[file, -1] = -1
            for heading in self.wanted.headings(file):
                place = (file, heading)
                at = direct.get(place)
                if at is None and place in to_base:
                    at = self._now_at.get(to_base[place]) if self._now_at is not None else to_base[place]
                    at = None if at in named else at  # each stands for one alone
                self._targets[place] = at[1] if at else None
        self._meant = [
            {at for (of, _), at in self._targets.items() if of == file and at is not None} for file in range(len(NAMES))
        ]

    def target(self, fact: Fact) -> int | None:
        """The heading of the current file that a fact of the proposal belongs under; None: a new one."""
        return self._targets[fact.file, fact.block.under]

    def heading_target(self, file: int, heading: int) -> int | None:
        return self._targets[file, heading]

    def _is_moved(self, new: Fact) -> bool:
        """Whether the proposal has put a known fact to another place, and the owner has not."""
        fact = self.there[new]
        if new.file == fact.file and self._targets[new.file, new.block.under] == fact.block.under:
            return False
        if len(self.now.by_key[fact.key]) > 1 and exactly(self.now, fact) == exactly(self.wanted, new):
            return False  # headings of one name, and copies under each: nothing tells them apart
        if self.is_rearranged(fact.key):
            return False
        old = self.source.get(new)
        if old is None or old.file != fact.file:
            return False
        if new.file != fact.file:
            return True
        return self.is_at_home(old) and not self.is_flattened(new, fact)

    def is_at_home(self, old: Fact) -> bool:
        """Whether a fact of the base is still where it was."""
        fact, home = self.here[old], old.block.under
        if self._now_at is not None and home >= 0:
            home = self._now_at.get((old.file, home), (0, -2))[1]
        return old.file == fact.file and home == fact.block.under

    def is_flattened(self, new: Fact, fact: Fact) -> bool:
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
        pieces: dict[Fact, list[Fact]] = defaultdict(list)
        for old, carriers in self.reworded.items():
            for new in carriers:
                pieces[new].append(old)
        news = set(self.news)
        for new in self.wanted.facts:
            if new in pieces:
                found += [Verdict("reworded", _said(old), _said(new)) for old in pieces[new]]
            elif new in news:
                found.append(Verdict("new", _said(new)))
            elif (known := self.source.get(new)) and (new in self.moved or new.block.text != known.block.text):
                found += self._verdict_on_known(new, known)
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

    def _verdict_on_known(self, new: Fact, old: Fact) -> list[Verdict]:
        fact = self.there.get(new)
        if new in self.moved:
            return [Verdict("moved", _said(old), NAMES[new.file])]
        is_as_it_was = fact and written(fact.block) == written(old.block)
        is_respelt = is_as_it_was and normal(new.block.text) != normal(old.block.text)
        return [Verdict("reworded", _said(old), _said(new))] if is_respelt else []


class Index:
    """Facts by their words, to find those that may say the same as another."""

    def __init__(self, judged: Judged, facts: Sequence[Fact]) -> None:
        self._judged = judged
        self._facts: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            for word in judged.gist(fact).content:
                self._facts[word].append(fact)

    def near(self, wanted: Gist) -> list[Fact]:
        """Those that share its rarest words, the most alike first."""
        lists = sorted((self._facts[word] for word in wanted.content if word in self._facts), key=len)
        counts: Counter[Fact] = Counter()
        looked_at = 0
        for facts in lists:
            counts.update(facts[:50])
            looked_at += len(facts)
            if looked_at > 200:
                break
        likely = [fact for fact, _ in counts.most_common(_MOST_CANDIDATES)]
        return sorted(likely, key=lambda fact: -overlap(self._judged.gist(fact), wanted))


def _said(fact: Fact) -> str:
    return flat(fact.block.text) if fact.block.kind == "code" else bare(fact.block.text)


def _unboxed(key: str) -> str:
    """A thing to do without its box, of which a person who names it says nothing."""
    return key[3:].lstrip() if key[:3] in ("[ ]", "[x]", "[X]") else key


def _alike(words: set[str], key: str) -> float:
    others = set(key.casefold().split())
    return len(words & others) / (len(words | others) or 1)
