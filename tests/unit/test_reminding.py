"""What comes to mind when something is said: little, and only where it clearly fits."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import CannotStore
from nanomem.memory.reminding import MOST_LINES, MOST_TOKENS, IndexReminder, strong
from nanomem.ports import Occasion
from nanomem.recall.found import Found, Hit, Sought
from nanomem.recall.question import AGENT
from nanomem.spaces import Space
from nanomem.testing import FakeClock, FakeTokenizer
from tests.unit.test_recall_words import HUGE, anything

SPACE = Space("owner", Path("/nowhere"), Path("/nowhere"))
AT = datetime(2026, 1, 2, 9, 15, tzinfo=UTC)
HIT = Hit("talk", "fake:7", 3, AT, "Ann", "42", "My dog is called Rex", "", share=0.9, words=2, rare=1)
OCCASION = Occasion(SPACE, "fake:42", "What is my dog called?", in_sight=5)


@dataclass
class Mind:
    """A reminder over given results; `asked` is what it searched for."""

    hits: list[Hit] = field(default_factory=list)
    asked: list[Sought] = field(default_factory=list)
    error: Exception | None = None

    async def search(self, space: Space, sought: Sought, patience_s: float) -> tuple[Found, bool]:
        self.asked.append(sought)
        if self.error:
            raise self.error
        return Found(self.hits, wanted=["dog"]), False

    async def lines(self, occasion: Occasion = OCCASION) -> list[str]:
        search: Callable[[Space, Sought, float], Awaitable[tuple[Found, bool]]] = self.search
        reminder = IndexReminder(search, FakeTokenizer(), FakeClock(), UTC)
        return [one.line for one in await reminder.remind(occasion)]


async def test_a_line_says_when_and_by_whom() -> None:
    """In the words that were used; looked for is nothing that is in sight."""
    mind = Mind([HIT])
    assert await mind.lines() == ["said on 2 January 2026, 09:15 by Ann: My dog is called Rex"]
    [sought] = mind.asked
    assert (sought.text, sought.session, sought.unless) == ("What is my dog called?", "fake:42", 5)


@pytest.mark.parametrize(
    "other",
    [
        replace(HIT, share=0.39),
        replace(HIT, rare=0),
        replace(HIT, words=1),
        replace(HIT, speaker=AGENT),
        replace(HIT, kind="results"),
        replace(HIT, kind="memory", at=None),
        replace(HIT, kind="history"),
        replace(HIT, text="what is my DOG called"),
        replace(HIT, session="fake:9", n=4),
        replace(HIT, text="Rex likes the big red ball"),
    ],
)
async def test_what_fits_less_is_left_out(other: Hit) -> None:
    """Weak, not a person's, the message itself, known from the prompt, or said to the model before."""
    told = frozenset({("fake:9", 4)})
    occasion = replace(OCCASION, prompt="# Memory\n- Rex likes the big red ball (2025)", told=told)
    assert await Mind([other, HIT]).lines(occasion) == await Mind([HIT]).lines()


async def test_three_lines_and_300_tokens_at_most() -> None:
    """Together; a line that does not fit gives way to a shorter one."""
    many = [replace(HIT, n=n, text=f"{HIT.text} {n}") for n in range(9)]
    assert len(await Mind(many).lines()) == MOST_LINES == 3
    long = [replace(hit, text=f"dog {hit.n} " + "x" * 2_000) for hit in many[:2]]
    lines = await Mind([*long, HIT]).lines()
    assert all(len(line) < 500 for line in lines)
    assert sum(-(-len(line) // 4) + 1 for line in lines) <= MOST_TOKENS == 300
    assert HIT.text in lines[-1]


@pytest.mark.parametrize(
    "said", ["", " ", "thanks!", "Good morning", "ok, thank you", "Guten Morgen!", "?", "🦴", "x " * 1_000, *HUGE]
)
async def test_small_talk_and_long_texts_remind_of_nothing(said: str) -> None:
    """They are not even looked for."""
    mind = Mind([replace(HIT, text="Good morning, did you thank her?")])
    assert await mind.lines(replace(OCCASION, said=said)) == [] == mind.asked


async def test_a_search_that_fails_reminds_of_nothing() -> None:
    """It is no failure of the turn."""
    assert await Mind([HIT], error=CannotStore("No room left.")).lines() == []


@given(anything, anything, anything)
def test_anything_may_be_said_and_found(said: str, text: str, prompt: str) -> None:
    """What the message or the prompt says already is never repeated."""
    found = strong([replace(HIT, text=text)], Occasion(SPACE, "fake:42", said, prompt=prompt))
    assert not found or (text != said and (text != prompt or len(prompt.splitlines()) > 1))


@given(st.lists(anything, max_size=5))
def test_each_line_is_one(texts: list[str]) -> None:
    """Whatever was said and by whom."""
    hits = [replace(HIT, n=n, text=text) for n, text in enumerate(texts)]
    assert all(len(line.splitlines()) == 1 for line in asyncio.run(Mind(hits).lines()))
