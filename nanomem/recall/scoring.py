"""What comes first: the words that stand in a message, and those around it in the same conversation.

Every message has a place; neighbours in a conversation have neighbouring places, and between conversations there is a
gap that no weight reaches over. Only the words of a message itself are indexed, its neighbours are weighed when asked:
so nothing but one row has to go where a message must be forgotten. Pure.

The weights were found on conversations of the LoCoMo set (https://github.com/snap-research/locomo), message by message;
they are flat: twice or half of any costs less than a point of recall@10.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, NamedTuple

AFTER, BEFORE = (0.5, 0.3, 0.18, 0.11), (0.3, 0.18, 0.11, 0.07)
"""What a word counts for the messages after and before the one it stands in, the nearest first."""
GAP = 1 + max(len(AFTER), len(BEFORE))
"""Places between two that have nothing to do with each other."""
ANSWERS = 1.6
"""By how much the words of a question count more for the message right after it."""
ASKS, PERSON, TIMES, WHEN = 0.85, 2.0, 2.0, 1.3
"""Factors: of a message that only asks, of one by the person meant, from a time that is named, and, where a time is
asked for, of one with a word of time in it."""
ASKED_BEFORE, SUMMARY = 0.4, 0.6
"""Factors: of a question that asks the same, and of an entry of history, whose messages can be found themselves."""
SAME_SHARE = 0.75
"""What part of a question's words stands in another one that asks the same."""
LEAST = 0.2
"""The part of the best score below which nothing is worth being shown."""
_SHOWN_AT_ONCE = 64
_SHARES = [
    [
        (0, 1.0),
        *((distance, share * (ANSWERS if asks and distance == 1 else 1)) for distance, share in enumerate(AFTER, 1)),
        *((-distance, share) for distance, share in enumerate(BEFORE, 1)),
    ]
    for asks in (False, True)
]
"""How far from a word, and how much of it, counts there: of one in a message that asks not, and that does."""
_APART = len(AFTER) + len(BEFORE) + 1  # from so far on two words do not reach the same place


@dataclass(frozen=True, slots=True)
class Postings:
    """Where one term stands: places, and of each whether the message asks. `count` may be larger than what is here."""

    count: int
    places: Sequence[tuple[int, bool]]


def scores(found: Iterable[Postings], total: int) -> dict[int, float]:
    """The score of each place that has a term, or is near one. `total` is how many messages there are.

    A term weighs ln(1 + (total - count + 0.5) / (count + 0.5)), as in BM25, which never falls to nothing (Robertson
    and Zaragoza, 2009, with Lucene's 1 +); how often it stands in one message does not count.
    """
    score: defaultdict[int, float] = defaultdict(float)
    for postings in found:
        weight = weight_of(postings.count, total)
        alone = [[(step, weight * share) for step, share in shares] for shares in _SHARES]
        near: defaultdict[int, float] = defaultdict(float)
        places = sorted(postings.places)
        last = -_APART
        for i, (place, asks) in enumerate(places, 1):
            if place - last >= _APART and (i == len(places) or places[i][0] - place >= _APART):
                for step, value in alone[asks]:
                    score[place + step] += value
            else:
                for step, share in _SHARES[asks]:
                    near[place + step] += share
            last = place
        for place, share in near.items():
            score[place] += weight * min(1.0, share)
    return score


def scores_of_rare(found: Sequence[Postings], total: int) -> dict[int, float]:
    """The same of those places alone where a rare term stands, with work for them alone."""
    rare = {place for postings in found if is_rare(postings.count, total) for place, _ in postings.places}
    reach = {place + step for place in rare for step in range(-len(AFTER), len(BEFORE) + 1)}
    near = (Postings(one.count, [place for place in one.places if place[0] in reach]) for one in found)
    score = scores(near, total)
    return {place: score[place] for place in rare}


def weight_of(count: int, total: int) -> float:
    """What a term counts that stands in so many messages."""
    return math.log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


class Weight(NamedTuple):
    """What is known of a message beside its words: `same` if it is what is looked for, word for word; its `factor`;
    and its `rank` among equals, which makes the order the same however the index was filled."""

    same: bool
    factor: float
    rank: tuple[Any, ...]


def is_rare(count: int, total: int) -> bool:
    """Whether a term stands in so few messages that what has it is hardly about anything else."""
    return count <= max(3, total // 200)


def best(
    score: Mapping[int, float],
    most: int,
    greatest: float,
    weighed: Callable[[Sequence[int]], Mapping[int, Weight]],
) -> list[int]:
    """The places with the highest scores, each times its factor, which is at most `greatest`; the best first.

    `weighed` gives the weights of those places where there is a message that may be shown.
    """
    found: list[tuple[bool, float, tuple[Any, ...], int]] = []
    enough: list[float] = []
    for some in highest(score):
        if len(enough) >= most and -score[some[0]] * greatest > enough[-1]:
            break
        new = [
            (not weight.same, -score[place] * weight.factor, weight.rank, place)
            for place, weight in weighed(some).items()
        ]
        enough = sorted([*enough, *(value for _, value, _, _ in new)])[:most]
        found += new
    found.sort()
    least = LEAST * min((value for _, value, _, _ in found), default=0.0)
    return [place for _, value, _, place in found[:most] if value <= least]


def highest(score: Mapping[int, float]) -> Iterator[list[int]]:
    """All places in pieces, the higher scores first; the first pieces without sorting all."""
    size = _SHOWN_AT_ONCE
    first = [place for _, place in nlargest(8 * size, zip(score.values(), score, strict=True))]
    for start in range(0, len(first), size):
        yield first[start : start + size]
    if len(score) > len(first):
        seen = set(first)
        rest = sorted((place for place in score if place not in seen), key=lambda place: -score[place])
        for start in range(0, len(rest), size):
            yield rest[start : start + size]
