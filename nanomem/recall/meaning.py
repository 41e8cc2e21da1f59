"""What comes first where meaning counts beside words: the cosines of the messages' vectors with the question's.

How vectors are made and kept is not known here, only how near each message is. Pure.

The weights were found on conversations of the LoCoMo set, like those of `scoring`. A sum of standard scores was better
than one of ranks, and the factors of a message (by whom, when) have to count for its meaning as for its words.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from nanomem.recall.question import named_in
from nanomem.recall.scoring import LEAST, Weight, highest
from nanomem.recall.words import spoken

PREVIOUS, NEXT = 0.3, 0.2
"""What part of its neighbours' cosines a message has in the same conversation."""
WITHOUT_WORDS = -1.5
"""The standard score by words of a message that has none of them, nor is near one that has."""
LEAST_NEAR, NEAR_AT_ALL = 0.5, 0.2
"""What is shown for its meaning alone is at least half as near as the nearest, and no stranger to the question."""
LOOKED_AT = 2_000
"""Messages that are weighed, of those that fit best by their words and of the nearest, each."""
WEIGHT, STATIC_WEIGHT = 1.0, 0.6
"""What meaning counts beside words: by a model that reads sentences, and by a static one that knows single words."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question's vector, and what nearness to it counts beside the words."""

    vector: Sequence[float]
    weight: float = WEIGHT


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of values."""

    mean: float
    deviation: float

    def of(self, value: float) -> float:
        """By how many deviations it is above the mean; 0 where all are the same."""
        return (value - self.mean) / self.deviation if self.deviation > 1e-9 else 0.0


def spread(values: Collection[float]) -> Spread:
    """Exact, so that it does not depend on their order; of none it is as if they were all 0."""
    number = len(values) or 1
    mean = math.fsum(values) / number
    return Spread(mean, math.sqrt(max(0.0, math.fsum([value * value for value in values]) / number - mean * mean)))


@dataclass(frozen=True, slots=True)
class Near:
    """How near messages are to what is asked, never below 0: the nearest of all, and others as far as they have a
    vector. `spread` is that of all there are."""

    places: Mapping[int, float]
    spread: Spread


def likely(score: Mapping[int, float]) -> list[int]:
    """The places that fit best by their words, about as many as are looked at."""
    least = min(nlargest(LOOKED_AT, score.values()), default=0.0)
    found = [place for place, value in score.items() if value >= least]
    return found if len(found) <= 2 * LOOKED_AT else nlargest(LOOKED_AT, found, key=lambda place: (score[place], place))


def best(
    score: Mapping[int, float],
    likely: Sequence[int],
    near: Near,
    weight: float,
    most: int,
    greatest: float,
    weighed: Callable[[Sequence[int]], Mapping[int, Weight]],
) -> list[int]:
    """The places that fit best by words and by meaning, of the `likely` ones and those near; the best first. As
    `scoring.best`. A message that has no vector yet counts as one of average nearness."""
    words, places = spread(score.values()), near.places

    def both(place: int, factor: float) -> float:
        by_words = words.of(score[place] * factor) if place in score else WITHOUT_WORDS
        return by_words + (weight * near.spread.of(places[place] * factor) if place in places else 0.0)

    bound = {place: both(place, greatest) for place in {*places, *likely}}
    found: list[tuple[bool, float, tuple[Any, ...], int, float]] = []
    for some in highest(bound):
        enough = sorted(value for _, value, _, _, _ in found)[:most][-1:]
        if len(found) >= most and -bound[some[0]] > enough[0]:
            break
        for place, (is_same, factor, rank) in weighed(some).items():
            found.append((not is_same, -both(place, factor), rank, place, factor))
    found.sort()
    worth = _worth_showing(score, places, [(place, factor) for *_, place, factor in found])
    return [place for *_, place, _ in found[:most] if place in worth]


def _worth_showing(
    score: Mapping[int, float], near: Mapping[int, float], found: Sequence[tuple[int, float]]
) -> set[int]:
    """Those that fit well enough by their words, or by their meaning: something is always the nearest."""
    by_words = {place: score.get(place, 0.0) * factor for place, factor in found}
    by_meaning = {place: near.get(place, 0.0) * factor for place, factor in found}
    least = LEAST * max(by_words.values(), default=0.0)
    least_near = LEAST_NEAR * max(by_meaning.values(), default=0.0)
    fits = {place for place, value in by_words.items() if value >= least and value > 0}
    means = {place for place, value in by_meaning.items() if value >= least_near}
    return fits | {place for place in means if near.get(place, 0.0) >= NEAR_AT_ALL}


def without_names(text: str, people: Mapping[str, Sequence[str]]) -> str:
    """A question without the names of those it names: who spoke is weighed apart, and does not blur the meaning."""
    names = named_in(text, people)
    kept = [word for word in text.split() if not (parts := spoken(word)) or parts[0] not in names]
    return " ".join(kept) or text
