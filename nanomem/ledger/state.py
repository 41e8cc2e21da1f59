"""The three files as facts at their places, and which facts and headings of two times are the same. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from nanomem.facts import FACTS, NAMES, Block, MemoryFiles, blocks
from nanomem.wording import same

CODE = "```"
"""Begins the key of a code fence, which is never the same as other words."""


@dataclass(slots=True, eq=False)
class Fact:
    """A fact at its place: `file` by number, `at` among its blocks."""

    file: int
    at: int
    block: Block
    key: str


class State:
    """The three files as they are at one time, read."""

    def __init__(self, files: MemoryFiles, keys: dict[str, str]) -> None:
        self.files = [blocks(text) for text in astuple(files)]
        self.facts = [
            Fact(file, at, block, keys.get(block.text) or _key(block, keys))
            for file, found in enumerate(self.files)
            for at, block in enumerate(found)
            if block.kind in FACTS
        ]
        self.by_key: dict[str, list[Fact]] = {}
        for fact in self.facts:
            self.by_key.setdefault(fact.key, []).append(fact)
        self._keys = keys
        self._headings = [[at for at, block in enumerate(found) if block.kind == "heading"] for found in self.files]
        self._paths: dict[tuple[int, int], tuple[str, ...]] = {}

    @property
    def has_copies(self) -> bool:
        """Whether a fact, or a heading, stands there more than once."""
        titles = [found[at].text for found, places in zip(self.files, self._headings, strict=True) for at in places]
        return len(self.by_key) < len(self.facts) or len(set(titles)) < len(titles)

    def path(self, file: int, heading: int) -> tuple[str, ...]:
        """The titles of a heading and of those it is under."""
        if heading < 0:
            return ()
        found = self._paths.get((file, heading))
        if found is None:
            block = self.files[file][heading]
            found = self._paths[file, heading] = (*self.path(file, block.under), same(block.text).casefold())
        return found

    def parent(self, fact: Fact) -> str:
        """The list item that it belongs to; empty for none."""
        return _key(self.files[fact.file][fact.block.parent], self._keys) if fact.block.parent >= 0 else ""

    def headings(self, file: int) -> list[int]:
        return self._headings[file]


def _key(block: Block, keys: dict[str, str]) -> str:
    """What two spellings of a fact have in common; `keys` are those found so far."""
    key = keys.get(block.text)
    if key is None:
        key = keys[block.text] = code_key(block.text) if block.kind == "code" else same(block.text)
    return key


def code_key(text: str) -> str:
    """What two spellings of a code fence have in common."""
    return CODE + " ".join(text.split()).strip("`~ ")


def written(block: Block) -> str:
    """A block but for its line end: the last line of a file may have none."""
    return block.raw.rstrip()


def pairs(old: State, olds: Sequence[Fact], new: State, news: Sequence[Fact]) -> dict[Fact, Fact]:
    """The facts that both have, each with one in the other: at the same place where there are several."""
    places: dict[str, list[Fact]] = defaultdict(list)
    for fact in news:
        places[fact.key].append(fact)
    counts = Counter(fact.key for fact in olds)
    found: dict[Fact, Fact] = {}
    several: dict[str, list[Fact]] = defaultdict(list)
    for fact in olds:
        others = places.get(fact.key)
        if others and len(others) == 1 and counts[fact.key] == 1:
            found[fact] = others[0]
        elif others:
            several[fact.key].append(fact)
    for key, facts in several.items():
        left, right = facts, places[key]
        for place in (exactly, _in_file, _anywhere):
            free: dict[object, list[Fact]] = defaultdict(list)
            for fact in reversed(right):
                free[place(new, fact)].append(fact)
            for fact in left:
                if free[place(old, fact)]:
                    found[fact] = free[place(old, fact)].pop()
            taken = {found[fact] for fact in left if fact in found}
            left = [fact for fact in left if fact not in found]
            right = [fact for fact in right if fact not in taken]
    return found


def exactly(state: State, fact: Fact) -> tuple[int, tuple[str, ...], str]:
    return fact.file, state.path(fact.file, fact.block.under), state.parent(fact)


def _in_file(state: State, fact: Fact) -> object:
    return fact.file


def _anywhere(state: State, fact: Fact) -> object:
    return None


_Place = tuple[int, int]
"""A file, and a heading in it."""


def sections(old: State, new: State, alike: dict[Fact, Fact], *, only_by_title: bool = False) -> dict[_Place, _Place]:
    """Which headings are the same: by title, or else by most of the facts under them."""
    found: dict[_Place, _Place] = {}
    taken: set[_Place] = set()
    for one, other in _same_named(old, new, alike):
        if one not in found and other not in taken:
            found[one] = other
            taken.add(other)
    for file in range(len(NAMES)):
        for title in (_levelled, State.path, _last_of_path):
            titles: dict[object, list[_Place]] = defaultdict(list)
            for heading in reversed(new.headings(file)):
                if (file, heading) not in taken:
                    titles[title(new, file, heading)].append((file, heading))
            for heading in old.headings(file):
                others = titles.get(title(old, file, heading))
                if others and (file, heading) not in found:
                    found[file, heading] = others.pop()
                    taken.add(found[file, heading])
    counts: Counter[tuple[_Place, _Place]] = Counter()
    is_open = any((file, heading) not in found for file in range(len(NAMES)) for heading in old.headings(file))
    for a, b in alike.items() if is_open and not only_by_title else ():
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


def _same_named(old: State, new: State, alike: dict[Fact, Fact]) -> list[tuple[_Place, _Place]]:
    """Where several headings have one name: those with the most facts in common right under them first."""
    counts: Counter[tuple[_Place, _Place]] = Counter()
    if _has_doubles(old) or _has_doubles(new):
        counts.update(((a.file, a.block.under), (b.file, b.block.under)) for a, b in alike.items() if a.file == b.file)
    named = [
        (one, other)
        for one, other in counts
        if one[1] >= 0 and other[1] >= 0 and _levelled(old, *one) == _levelled(new, *other)
    ]
    return sorted(named, key=lambda pair: (-counts[pair], pair))


def _has_doubles(state: State) -> bool:
    return any(
        len({_levelled(state, file, heading) for heading in headings}) < len(headings)
        for file in range(len(NAMES))
        if (headings := state.headings(file))
    )


def _levelled(state: State, file: int, heading: int) -> tuple[object, ...]:
    return state.files[file][heading].depth, state.path(file, heading)


def _last_of_path(state: State, file: int, heading: int) -> tuple[object, ...]:
    return state.path(file, heading)[-1:]


def _around(state: State, fact: Fact) -> Iterable[_Place]:
    heading = fact.block.under
    while heading >= 0:
        yield fact.file, heading
        heading = state.files[fact.file][heading].under
