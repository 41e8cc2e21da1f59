"""Talk that looks as if it had gone on for years: the sentences of the project's own set, with other words in them.

How often a word is said follows Mandelbrot's law, as with people: few words are in every tenth message, most are rare.
"""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random

from benchmarks.retrieval import Said, Talk, read, write
from nanomem.recall.words import STOP, UNSPACED
from nanomem.spaces import Space

OWN = Path(__file__).parents[1] / "tests" / "data" / "recall.json"
"""The project's own set."""
A_SESSION = 20
"""Messages that are said a minute apart, before a pause of hours."""
_VOCABULARY, _SHIFT = 20_000, 10
_CHANGED, _CHANGED_SIGNS = 0.7, 0.3  # of the words that are no stop words; of signs, which make words together
_WORD = re.compile(rf"[{UNSPACED}]|[^\W\d_{UNSPACED}]{{2,}}")


class Speech:
    """Says sentences of the set in other words; always the same ones in the same order."""

    def __init__(self) -> None:
        self._random = Random(7)
        self._talks = read(OWN)
        self._said = [said for talk in self._talks for session in talk.sessions for said in session]
        self._asked = [asked.text for talk in self._talks for asked in talk.questions]
        found: Counter[str] = Counter(word.casefold() for said in self._said for word in _WORD.findall(said.text))
        known = [word for word, _ in found.most_common() if not any(word in stop for stop in STOP)]
        words = [word for word in known if len(word) > 1]
        words += [self._made() for _ in range(_VOCABULARY - len(words))]
        self._words = words, list(accumulate(1 / (_SHIFT + rank) for rank in range(len(words))))
        signs = [word for word in known if len(word) == 1]
        self._signs = signs, list(accumulate(float(found[sign]) for sign in signs))

    def talk(self, messages: int, until: datetime) -> Talk:
        """So many messages, the last ones then."""
        sessions = []
        for start in range(0, messages, A_SESSION):
            began = until - timedelta(hours=6) * ((messages - start) / A_SESSION)
            some = range(start, min(start + A_SESSION, messages))
            sessions.append([self._message(str(n), began + timedelta(minutes=n - start)) for n in some])
        return Talk("years", sessions, [])

    def questions(self) -> list[str]:
        """What is asked: the set's questions, as they are and in other words."""
        return [*self._asked, *map(self._changed, self._asked)]

    def _message(self, id: str, at: datetime) -> Said:
        said = self._random.choice(self._said)
        return Said(id, at, said.speaker, self._changed(said.text))

    def _changed(self, text: str) -> str:
        return _WORD.sub(self._other, text)

    def _other(self, found: re.Match[str]) -> str:
        word = found[0].casefold()
        changed = _CHANGED if len(word) > 1 else _CHANGED_SIGNS
        if self._random.random() > changed or any(word in stop for stop in STOP):
            return str(found[0])
        words, weights = self._words if len(word) > 1 else self._signs
        return words[bisect(weights, self._random.random() * weights[-1])]

    def _made(self) -> str:
        return "".join(self._random.choice(s) for s in ("bdfgklmnprstvw", "aeiou", "lmnrst", "aeiou", "dgklmnrst") * 2)[
            : self._random.randint(4, 9)
        ]


def write_logs(space: Space, talk: Talk, parts: Sequence[int]) -> None:
    """The talk in logs of so many messages each."""
    first = 0
    for number, size in enumerate(parts):
        sessions = talk.sessions[first // A_SESSION : (first + size) // A_SESSION]
        write(space, Talk(talk.id, sessions, []), f"terminal:years{number}")
        first += size


def before_now() -> datetime:
    """A moment that what was said is behind."""
    return datetime.now(UTC).replace(microsecond=0) - timedelta(hours=6)
