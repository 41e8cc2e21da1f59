"""One search in the index of a space: postings and rows from SQLite, all weighing from `nanomem.recall`. Blocks."""

import json
import re
import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from nanomem.recall import meaning, scoring
from nanomem.recall import question as questions
from nanomem.recall.found import ECHO_WITHIN, Found, Hit, Sought, said_once
from nanomem.recall.question import AGENT
from nanomem.recall.sayings import NOBODY, TOOL, Kind
from nanomem.recall.scoring import Postings, Weight
from nanomem.recall.times import tells_a_time
from nanomem.recall.words import plain, spoken
from nanomem.spaces import file_name
from nanomem.stores.recall_file import RecallFile

MOST_POSTINGS = 20_000
"""Places that one search weighs: the rarer words first, and of a very common one its newest."""
MOST_UNASKED = 1_000
"""The same, where nobody asked and a turn waits: what is common says little."""
_HAIR = 1e-13
"""By how much a second later is better where only a time is asked for: less than any factor over all years."""
_PLACE_BITS = 24  # a row's id is its source, its place there, and whether it asks


def row_of(source: int, place: int, asks: bool) -> int:
    """The id of a row."""
    return (source << _PLACE_BITS | place) << 1 | asks


def place_of(row: int) -> int:
    """The place in its source."""
    return row >> 1 & (1 << _PLACE_BITS) - 1


def ids_of(source: int) -> tuple[int, int]:
    """The first and the last id that rows of a source may have."""
    return row_of(source, 0, False), row_of(source + 1, 0, False) - 1


def _as_written(term: str) -> str:
    """What FTS5 is asked for: the term, and how else it is written where a sharp s or an umlaut is not at hand."""
    written = {term, term.replace("ß", "ss"), term.replace("ss", "ß")}
    if len(term) > 4:
        written |= {re.sub("([aou])e", r"\1", one) for one in written}
    return " OR ".join(f'"{one}"' for one in sorted(written))


def _has(places: Sequence[tuple[int, bool]], row: int) -> bool:
    """Whether the row is one of them, the newest of which come first."""
    at = bisect_left(places, -row, key=lambda place: -(place[0] << 1 | place[1]))
    return at < len(places) and places[at] == (row >> 1, row & 1 == 1)


def people_of(db: sqlite3.Connection) -> dict[str, list[str]]:
    """The names of those who speak, by their ids; tools, summaries and what is known are nobody."""
    return _names(db.execute("SELECT speaker, name FROM people ORDER BY id"))


def _names(people: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for speaker, name in people:
        if speaker not in NOBODY and not speaker.startswith(TOOL):
            names[speaker].append(name)
    return names


class _Row(NamedTuple):
    id: int
    n: int
    at: int | None
    person: int
    spot: str | None
    text: str


class Search:
    """A search over an index as it is now."""

    def __init__(self, file: RecallFile, sought: Sought, zone: tzinfo) -> None:
        self._db = file.db
        self._sought = sought
        self._vectors = file.vectors
        self._counts = file.counts
        self._zone = zone
        self._people: dict[int, tuple[str, str]] = {
            row: (speaker, name)
            for row, speaker, name in self._db.execute("SELECT id, speaker, name FROM people ORDER BY id")
        }
        self.question = questions.read(sought.text, sought.now, _names(self._people.values()), sought.askers)
        self._total = int(self._db.execute("SELECT total(sayings) FROM sources").fetchone()[0])
        self._postings: list[tuple[float, Postings]] = []

    def found(self) -> Found:
        """The best, as far as they were asked for."""
        skip, most = self._sought.skip, self._sought.most
        score, size = self._score(), skip + most + 1 + ECHO_WITHIN
        while True:
            rows = self._ranked(score, size)
            hits = {self._hit(row): row for row in rows}
            kept = said_once(list(hits), AGENT)
            if len(rows) < size or len(kept) > skip + most + ECHO_WITHIN:
                break
            size *= 2
        shown = kept[skip : skip + most]
        if self._sought.near:
            shown = [self._with_neighbours(hit, hits[hit]) for hit in shown]
        return Found(shown, len(kept) > skip + most, self.question.terms)

    def _ranked(self, score: Mapping[int, float], most: int) -> list[_Row]:
        question = self.question
        highest = max(score.values(), default=0.0) - 1e-9
        rows: dict[int, _Row] = {}

        def weighed(places: Sequence[int]) -> dict[int, Weight]:
            found = {}
            for row in self._rows(places):
                place = row.id >> 1
                is_same = score.get(place, 0.0) >= highest and self._is_same(row)
                if self._may_be_shown(row) and (self._sought.again or not (is_same and row.id & 1)):
                    rows[place] = row
                    found[place] = Weight(is_same, self._factor(row), self._rank(row))
            return found

        greatest = (
            (scoring.PERSON if question.persons else 1)
            * (scoring.TIMES if question.times else 1)
            * (scoring.WHEN if question.when else 1)
        )
        if self._sought.meaning is not None and not question.is_about_times:  # times alone mean nothing else
            likely = meaning.likely(score)
            if near := self._vectors.near(self._db, self._sought.meaning.vector, likely):
                weight = self._sought.meaning.weight
                return [rows[place] for place in meaning.best(score, likely, near, weight, most, greatest, weighed)]
        return [rows[place] for place in scoring.best(score, most, greatest, weighed)]

    def _score(self) -> dict[int, float]:
        """Of each place where something was said that may be meant, or near one."""
        if self._sought.only_rare:
            return self._score_of_rare()
        if self.question.is_about_times and self._is_narrowed:
            return self._in_time()
        return scoring.scores(self._found(self._counted(self._count), MOST_POSTINGS), self._total)

    def _score_of_rare(self) -> dict[int, float]:
        """The same where a rare term stands, and nowhere else."""
        terms = self._counted(self._lately)
        if not any(count and scoring.is_rare(count, self._total) for count, _ in terms):
            return {}
        return scoring.scores_of_rare(self._found(terms, MOST_UNASKED), self._total)

    def _counted(self, count_of: Callable[[str], int]) -> list[tuple[int, str]]:
        """All terms as they are written, each with how many messages it stands in, the rarest first."""
        return sorted((count_of(written), written) for written in map(_as_written, self.question.terms))

    def _found(self, terms: Iterable[tuple[int, str]], room: int) -> list[Postings]:
        """Where they stand, at most so many places in all."""
        for count, phrase in terms:
            rows = self._db.execute(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?", (phrase, max(room, 0))
            )
            places = [(row >> 1, row & 1 == 1) for (row,) in rows]
            room -= len(places)
            self._postings.append((scoring.weight_of(count, self._total), Postings(count, places)))
        return [postings for _, postings in self._postings]

    def _in_time(self) -> dict[int, float]:
        """Of all that was said then, the newest: each a hair better than the one before, so that those which are shown
        are found without a look at all. What is word for word as asked is the best."""
        said = self._db.execute("SELECT id, n, at, person, spot, '' FROM said WHERE at IS NOT NULL ORDER BY at DESC")
        meant = (row for row in map(_Row._make, said) if self._may_be_shown(row) and self._is_of_the_time(row))
        score = {row.id >> 1: 1 + (row.at or 0) * _HAIR for row in islice(meant, MOST_POSTINGS)}
        words = " ".join(f'"{term}"' for term in self.question.terms) or '""'
        for (row,) in self._db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (words, MOST_POSTINGS)):
            if row >> 1 in score and self._is_same(self._rows([row >> 1])[0]):
                score[row >> 1] = 2.0
        return score

    def _is_same(self, row: _Row) -> bool:
        return tuple(spoken(row.text)) == self.question.same

    def _is_of_the_time(self, row: _Row) -> bool:
        times = self.question.times
        return not times or (row.at is not None and times.have(datetime.fromtimestamp(row.at, self._zone)))

    @property
    def _is_narrowed(self) -> bool:
        sought = self._sought
        return bool(self.question.times or sought.who or sought.since or sought.until)

    def _count(self, phrase: str) -> int:
        return int(self._db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (phrase,)).fetchone()[0])

    def _lately(self, phrase: str) -> int:
        return self._counts.of(phrase, self._total, self._count)

    def _rows(self, places: Collection[int]) -> list[_Row]:
        ids = [row for place in places for row in (place << 1, place << 1 | 1)]
        marks = ",".join("?" * len(ids))
        return [_Row(*row) for row in self._db.execute(f"SELECT * FROM said WHERE id IN ({marks})", ids)]

    def _may_be_shown(self, row: _Row) -> bool:
        sought = self._sought
        if self._is_in_sight(row):
            return False
        if sought.since and (row.at is None or row.at < sought.since.timestamp()):
            return False
        if sought.until and (row.at is None or row.at >= sought.until.timestamp()):
            return False
        return not sought.who or sought.who.casefold() in self._people[row.person][1].casefold()

    def _is_in_sight(self, row: _Row) -> bool:
        return row.n >= self._sought.unless and row.id >> 1 >> _PLACE_BITS in self._in_sight

    @cached_property
    def _in_sight(self) -> frozenset[int]:
        """The sources of the session whose newest messages are not looked for."""
        if not self._sought.session:
            return frozenset()
        name = f"{file_name(self._sought.session)}.jsonl"
        return frozenset(row for (row,) in self._db.execute("SELECT id FROM sources WHERE name = ?", (name,)))

    def _factor(self, row: _Row) -> float:
        question, factor = self.question, 1.0
        if row.id & 1:
            factor = scoring.ASKED_BEFORE if self._asks_the_same(row) else scoring.ASKS
        if self._source(row)[0] == "history":
            factor *= scoring.SUMMARY
        if self._people[row.person][0] in question.persons:
            factor *= scoring.PERSON
        if question.times and self._is_of_the_time(row):
            factor *= scoring.TIMES
        if question.when and tells_a_time(row.text):
            factor *= scoring.WHEN
        return factor

    def _rank(self, row: _Row) -> tuple[Any, ...]:
        """Among equals the newer first; and for the rest something that does not depend on the row's id."""
        return (-(row.at or 0), self._source(row)[1], -row.n, row.spot or "", row.text)

    def _source(self, row: _Row) -> tuple[Kind, str, str]:
        """Kind, name and session of where a row comes from."""
        source = row.id >> 1 >> _PLACE_BITS
        if source not in self._sources:
            kind, name, reading = self._db.execute(
                "SELECT kind, name, reading FROM sources WHERE id = ?", (source,)
            ).fetchone()
            key = json.loads(reading)["key"] if reading else ""
            session = (key or unquote(name.removesuffix(".jsonl"))) if kind in ("talk", "results") else ""
            self._sources[source] = (kind, name, session)
        return self._sources[source]

    @cached_property
    def _sources(self) -> dict[int, tuple[Kind, str, str]]:
        return {}

    def _hit(self, row: _Row) -> Hit:
        speaker, name = self._people[row.person]
        kind, _, session = self._source(row)
        at = None if row.at is None else datetime.fromtimestamp(row.at, UTC)
        own = self._own(row)
        rare = sum(scoring.is_rare(postings.count, self._total) for _, postings in own)
        hit = Hit(kind, session, row.n, at, name, speaker, plain(row.text), row.spot or "")
        return replace(hit, share=self._share(row), words=len(own), rare=rare)

    def _own(self, row: _Row) -> list[tuple[float, Postings]]:
        """The terms that stand in the saying itself."""
        return [found for found in self._postings if _has(found[1].places, row.id)]

    def _asks_the_same(self, row: _Row) -> bool:
        """Whether it is hardly more than the question itself, put before."""
        question = self.question
        is_as_short = len(row.text) < 2 * sum(map(len, question.same)) + 10
        return question.asks and is_as_short and self._share(row) >= scoring.SAME_SHARE

    def _share(self, row: _Row) -> float:
        """What part of all terms' weight they have."""
        return sum(weight for weight, _ in self._own(row)) / (sum(weight for weight, _ in self._postings) or 1)

    def _with_neighbours(self, hit: Hit, row: _Row) -> Hit:
        place, near = row.id >> 1, self._sought.near
        rows = self._rows(range(place - near, place + near + 1))
        around = {found.id >> 1: self._hit(found) for found in rows if not self._is_in_sight(found)}
        before = tuple(around[p] for p in range(place - near, place) if p in around)
        after = tuple(around[p] for p in range(place + 1, place + near + 1) if p in around)
        return replace(hit, before=before, after=after)
