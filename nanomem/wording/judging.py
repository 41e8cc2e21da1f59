"""Whether one fact says what another says. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator

from nanomem.wording.reading import Gist
from nanomem.wording.words import BOXES, DATES, HAN_ROLES, LIGHT, LINKS, PAUSE, POLES, UN, stem_of


def carries(new: Iterable[Gist], old: Gist) -> bool:
    """Whether these together say all that `old` says, or say it in another language."""
    pieces = [*new]
    if len(pieces) == 1:
        piece = pieces[0]
        if _foreign(piece, old):
            return _translates(piece, old)
        return _covers(piece, old) and not _swaps_one(piece, old)
    return bool(pieces) and not any(_foreign(piece, old) for piece in pieces) and _covers(_together(pieces), old)


def names(entry: Gist, fact: Gist) -> bool:
    """Whether `entry` is the fact in its own or nearly its own words: each carries the other."""
    entry, fact = _without_box(entry), _without_box(fact)
    return (
        not _foreign(entry, fact)
        and _covers(entry, fact, tiny=False, opening=True)
        and _covers(fact, entry, tiny=False, opening=True)
        and not _swaps_one(entry, fact)
    )


def contradicts(new: Gist, old: Gist) -> bool:
    """Whether both speak of one subject, and give it other values. Neither carries the other."""
    if new.label and new.label == old.label:
        return True
    if _foreign(new, old):
        same_names = bool(old.names) and old.names <= new.said and new.names <= old.said
        return same_names and bool(old.numbers and new.numbers) and old.numbers != new.numbers
    shared = old.content & new.said
    if len(shared) < 2 or len(shared) < 0.5 * len(old.content) or len(shared) < 0.5 * len(new.content):
        return False
    flipped = bool((old.denied ^ new.denied) & shared) or (old.negations > 0) != (new.negations > 0)
    return flipped or _swaps_one(new, old) or bool(old.firm - new.said and new.content - old.said)


def overlap(new: Gist, old: Gist) -> float:
    """How much of both is in both, from 0 to 1."""
    return len(new.content & old.said) / (len(new.content | old.content) or 1)


def _without_box(gist: Gist) -> Gist:
    return gist._replace(content=gist.content - BOXES, firm=gist.firm - BOXES) if gist.firm & BOXES else gist


def _together(pieces: list[Gist]) -> Gist:
    def union(field: str) -> frozenset[str]:
        return frozenset[str]().union(*(getattr(piece, field) for piece in pieces))

    tokens = tuple(token for piece in pieces for token in (*piece.tokens, PAUSE))
    return Gist(
        tokens,
        content=union("content"),
        firm=union("firm"),
        names=union("names"),
        numbers=union("numbers"),
        said=union("said"),
        denied=union("denied"),
        ways=union("ways"),
        negations=sum(piece.negations for piece in pieces),
        tongue=pieces[0].tongue,
        label="",
    )


def _covers(new: Gist, old: Gist, *, tiny: bool = True, opening: bool = False) -> bool:
    if not old.firm <= new.said or _opposed(new, old):
        return False
    total, shared = len(old.content), len(old.content & new.said)
    if total <= 2:
        if not shared == total > 0 or (tiny and _goes_on(new, old)):
            return False
    elif 3 * shared < 2 * total:
        return False
    if _loses(new, old, opening=opening):
        return False
    before, after = filter(new.content.__contains__, old.tokens), filter(old.content.__contains__, new.tokens)
    is_in_order = new.numbers <= old.numbers and new.names <= old.said and [*before] == [*after]
    return is_in_order or not (_crosses(new, old) or _turns_round(new, old))


def _loses(new: Gist, old: Gist, *, opening: bool) -> bool:
    """Whether a word that counts is gone, and it is not only put in another way.

    Numbers must be there as often as before. Other words may give way to as many new ones where names and numbers hold
    the fact together; not one of a list, and not a whole clause. With `opening`, the first word may be gone.
    """
    gone = {token for token in old.content if token not in new.said and token not in LIGHT}
    if sum(map(bool, old.tokens)) > len(old.content):
        after = Counter(new.tokens)
        gone |= {
            token
            for token, times in Counter(old.tokens).items()
            if times > 1 and times > after[token] and token in old.content and token not in LIGHT
        }
    if not gone:
        return False
    come = {token for token in new.content - old.said if not token.startswith(("#", "u:"))}
    anchors = len(old.numbers) + (len(old.firm - old.numbers) // 2 if old.tongue == "zh" else len(old.names))
    if anchors < 2 or gone & (old.firm | old.numbers):
        return True
    if opening and len(gone) == 1 and old.tokens[0] in gone:
        return False
    if len(gone) > len(come) or 4 * len(gone) > len(old.content) or not _in_place(gone, old, come, new):
        return True
    at_pause = zip(old.tokens, old.tokens[1:], strict=False)
    if any((a == PAUSE and b in gone) or (b == PAUSE and a in gone) for a, b in at_pause):
        return True
    gone = {*map(_root, gone)}
    return any(2 * len(gone & set(clause)) > len(clause) for clause in _clauses(old))


def _in_place(gone: set[str], old: Gist, come: set[str], new: Gist) -> bool:
    """Whether each word that is gone has a new one beside the same neighbour."""
    there = frozenset[str]().union(*_neighbours(come, new))
    return all(there & beside for beside in _neighbours(gone, old))


def _neighbours(words: set[str], gist: Gist) -> Iterator[set[str]]:
    """For each of these words the nearest other ones before and behind it."""
    row = ["^", *(token for token in gist.tokens if token in gist.content), "$"]
    for at, token in enumerate(row):
        if token in words:
            before = next(one for one in reversed(row[:at]) if one not in words)
            behind = next(one for one in row[at + 1 :] if one not in words)
            yield {before, behind}


def _clauses(gist: Gist) -> list[list[str]]:
    """The tokens between two pauses; of names too only the stems."""
    found: list[list[str]] = [[]]
    for token in gist.tokens:
        if token == PAUSE:
            found.append([])
        elif token in gist.content:
            found[-1].append(_root(token))
    return [clause for clause in found if clause]


def _root(token: str) -> str:
    return stem_of(token) if token.isalpha() else token


def _roots(tokens: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_root, tokens))


def _units(tokens: Iterable[str]) -> dict[str, set[str]]:
    """For each number its units, or what else shows of what kind it is."""
    found: dict[str, set[str]] = {}
    row = [*tokens, ""]
    for at, token in enumerate(row):
        if token[:1] in "mw" and token in DATES:
            found.setdefault(token, set()).add(token[0])
        elif token.startswith("#"):
            unit = row[at + 1] if row[at + 1].startswith("u:") else row[at - 1] if at else ""
            is_year = len(token) == 5 and token[1:3] in ("19", "20")
            kind = unit if unit.startswith("u:") else "year" if is_year else "#"
            found.setdefault(token, set()).add(kind)
    return found


def _crosses(new: Gist, old: Gist) -> bool:
    """Whether a number or a name stands where it belongs to something else."""
    if old.numbers:
        everywhere = _units(new.tokens)
        for number, kinds in _units(old.tokens).items():
            units = {kind for kind in kinds if kind.startswith("u:")}
            if not units <= everywhere.get(number, units):
                return True
    if PAUSE not in new.tokens or not (len(old.numbers) > 1 or new.numbers - old.numbers or new.names - old.said):
        return False
    after = [(set(clause), _units(clause)) for clause in _clauses(new)]
    names, strange = _roots(old.names), _roots(new.names - old.said)
    for clause in _clauses(old):
        here, mine = _units(clause), set(clause)
        for word in mine:
            places = [place for place in after if word in place[0]]
            for number, kinds in here.items() if places else ():
                if number != word and all(
                    number not in place and any(m not in here and kinds & k for m, k in units.items())
                    for place, units in places
                ):
                    return True
            for name in mine & names - {word}:
                homes = [place for place, _ in after if name in place]
                apart = places and homes and all(name not in place for place, _ in places)
                if apart and all(strange & place for place in (*homes, *(place for place, _ in places))):
                    return True
    return False


def _turns_round(new: Gist, old: Gist) -> bool:
    """Whether two have changed places around a word: who did it, and to whom."""
    after = _clauses(new)
    firm = _roots(old.firm - old.numbers)
    for clause in _clauses(old):
        for at, word in enumerate(clause):
            if word not in HAN_ROLES if old.tongue == "zh" else word in firm:
                continue
            left, right = set(clause[:at]), set(clause[at + 1 :])
            if old.tongue != "zh":
                left, right = left & (firm | {clause[0]}), right & firm
            for other in after if left and right else ():
                if word not in other:
                    continue
                where = other.index(word)
                before, behind = set(other[:where]), set(other[where + 1 :])
                if (left - right) & (behind - before) and (right - left) & (before - behind):
                    return True
    return False


def _goes_on(new: Gist, old: Gist) -> bool:
    """Whether a short fact is only the beginning of another one: `Has a dog` of `Has a dog allergy`."""
    last = max((at for at, token in enumerate(new.tokens) if token in old.content), default=-1)
    return new.tokens[last + 1 : last + 2] not in ((), ("",), (LINKS,), (PAUSE,))


def _opposed(new: Gist, old: Gist) -> bool:
    """Whether one denies what the other says, or has its opposite."""
    shared = old.content & new.content
    if (old.denied ^ new.denied) & shared or old.negations > new.negations:
        return True
    if {*(old.ways - new.ways), *(new.ways - old.ways)} >= {"from", "to"} or "by" in old.ways ^ new.ways:
        return True
    gone, come = old.content - new.said, new.content - old.said
    if not come and old.negations < new.negations:
        return True
    if not gone or not come:
        return False
    if any(word in POLES and POLES[word] & come for word in gone):
        return True
    return any(prefix + a in come or (a.startswith(prefix) and a[len(prefix) :] in come) for a in gone for prefix in UN)


def _swaps_one(new: Gist, old: Gist) -> bool:
    """Whether all is as it was but for one thing in the place of another: a value, not a wording."""
    before = [token for token in old.tokens if token in old.content]
    after = [token for token in new.tokens if token in new.content]
    changed = [at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
    if len(before) == len(after) and len(changed) == 2 and before[changed[0]] == after[changed[1]]:
        two = {before[changed[0]], before[changed[1]]}
        if len(two & old.numbers) == 1 and two & old.names:
            return False
        return _are_related(old.tokens, before[changed[0]], before[changed[1]])
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    while len(before) > first and len(after) > first and before[-1] == after[-1]:
        before.pop()
        after.pop()
    gone, come = before[first:], after[first:]
    if not gone or not come or set(gone) & new.said:
        return False
    most = 3 if old.tongue == "zh" else 1
    return len(gone) <= most and len(come) <= most + 1 and not _is_verb(first, after[:1], old)


def _is_verb(at: int, beginning: list[str], old: Gist) -> bool:
    """Whether the word at this place most likely only says in what way: the first, or the one behind the subject."""
    follows = at == 0 or (at == 1 and beginning[0] in old.firm)
    return follows and old.tongue != "zh" and len(old.content) >= 4 + at


def _are_related(tokens: tuple[str, ...], one: str, other: str) -> bool:
    """Whether it matters which of two words comes first: they do not only stand side by side in a list."""
    first = tokens.index(one)
    last = max(at for at, token in enumerate(tokens) if token == other)
    return not {*tokens[min(first, last) + 1 : max(first, last)]} <= {"", PAUSE}


def _foreign(new: Gist, old: Gist) -> bool:
    """Whether they are in two languages, as far as their letters and common words tell."""
    known = (new.tongue and old.tongue) or "zh" in (new.tongue, old.tongue)
    return bool(known and new.tongue != old.tongue)


def _translates(new: Gist, old: Gist) -> bool:
    if (old.negations > 0) != (new.negations > 0) or _amounts(new) != _amounts(old):
        return False
    if ("only" in old.firm) != ("only" in new.firm):
        return False
    ours, theirs = old.names, new.names
    if not (ours <= new.said and theirs <= old.said):
        return False
    if "de" in (old.tongue, new.tongue) and not (ours or theirs):
        return False  # there every noun looks like a name
    units = sum(token.startswith("u:") for token in old.firm)
    if not (ours or theirs) and units + sum(len(token) > 3 or 1 for token in _amounts(old)) < 2:
        return False
    return _is_as_long(new, old) and _is_as_long(old, new)


def _amounts(gist: Gist) -> Counter[str]:
    """Numbers and units, each as often as it is there."""
    return Counter(token for token in gist.tokens if token in gist.numbers or (token[:2] == "u:" and token != "u:age"))


def _is_as_long(new: Gist, old: Gist) -> bool:
    """Whether one has words enough, besides names and numbers, to be a translation of the other."""

    def words(gist: Gist) -> int:
        known = gist.numbers if gist.tongue == "de" else gist.names | gist.numbers
        return sum(token not in known and token[:2] != "u:" for token in gist.content)

    mine, theirs = words(new), words(old)
    most = 4 * mine + 2 if old.tongue == "zh" else 2 * mine + 2
    return bool(mine) and theirs <= most
