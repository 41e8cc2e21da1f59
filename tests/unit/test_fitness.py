"""What of a model's wishes may become memory, after what was said and done since."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from nanomem.extraction import Extracted
from nanomem.facts import MemoryFiles
from nanomem.memory.fitness import NO_REASON, Fitness
from nanomem.messages import Sender
from nanomem.records import UserMessage
from nanomem.secrecy import secrets_in
from nanomem.session import Said
from nanomem.versions import Removal, Version

NOW = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
LEIPZIG = "Ann lives in Leipzig."


def says(text: str, minute: int = 0, n: int = 1, session: str = "fake:42") -> UserMessage:
    at = NOW + timedelta(minutes=minute)
    return UserMessage(n=n, turn=f"{session}#{n}", timestamp=at, content=text, tokens=1, sender=Sender("1", "Ann Lee"))


def version(kind: str, minute: int, *lines: str, heard: str = "", history: str = "") -> Version:
    """Made of these messages of `fake:42`, and these history entries."""
    trailers = {"Session": "fake:42", "Messages": heard} if heard else {}
    trailers |= {"History": history} if history else {}
    return Version(1, "1", NOW + timedelta(minutes=minute), f"[{kind}] x", lines, trailers)


def admitted(
    facts: Sequence[str], said: Sequence[Said], versions: Sequence[Version], *, known: str = "", cursor: int = 0
) -> list[str]:
    files = MemoryFiles(memory=known)
    fitness = Fitness(files, versions, said, secrets_in, strict=True, cursor=cursor)
    proposal = MemoryFiles(memory=known + "".join(f"- {fact}\n" for fact in facts))
    learnt = fitness.of_files(files, proposal, []).memory.removeprefix(known)
    return [line.removeprefix("- ") for line in learnt.splitlines()]


# --- what somebody has taken out


@pytest.mark.parametrize(
    ("gone", "fact"),
    [
        (LEIPZIG, "Ann's home is in Leipzig."),
        (LEIPZIG, "Home: Leipzig"),
        (LEIPZIG, "The user's home is Leipzig"),
        ("Lives in Leipzig", "At home in Leipzig"),
        ("Tom pays 1200 euros of rent.", "Tom's flat costs 1200 euros."),
        ("The cat is called Marbles.", "Ann has a cat, Marbles."),
    ],
)
def test_what_was_taken_out_does_not_return_in_other_words(gone: str, fact: str) -> None:
    """With the same names and numbers and no others, from what was said before it was taken out."""
    said = [says("I live in Leipzig, it is my home. Tom pays 1200 euros rent, my cat is Marbles", n=1)]
    taken_out = [version("restore", 9, f"- {gone} (restored)")]
    assert admitted([fact], said, taken_out) == []
    assert admitted([fact], said, [version("Dream", 9, f"+ {gone}")]) == [fact]


@pytest.mark.parametrize(
    ("gone", "fact"),
    [
        (LEIPZIG, "Tom lives in Leipzig."),
        (LEIPZIG, "Ann's sister Mia works in Leipzig."),
        (LEIPZIG, "Ann moved to Leipzig in 2019."),
        (LEIPZIG, "Ann does not like Leipzig."),
        ("Ann likes tea.", "Ann has a cat."),
        ("Tom likes tea.", "Tom has a cat."),
        ("Ann Lee likes tea.", "Ann Lee has a cat."),
        ("Ann has 2 cats.", "Ann has 2 bicycles."),
        ("Ann met Tom in Leipzig.", "Ann's colleague is called Tom."),
    ],
)
def test_another_matter_may_be_learnt(gone: str, fact: str) -> None:
    """A name that both speak of is not enough."""
    said = [says("I and Tom live in Leipzig since 2019, and we met there. I have a cat, a sister Mia, 2 bicycles")]
    assert admitted([fact], said, [version("manual", 9, f"- {gone} (by hand)")]) == [fact]


def test_what_is_said_again_may_return_in_other_words() -> None:
    """In a person's own words."""
    fact, taken_out = "Ann's home is in Leipzig.", [version("manual", 9, f"- {LEIPZIG} (by hand)")]
    said = [says("I live in Leipzig, it is my home", 0, 1), says("Leipzig is where I am at home", 20, 2)]
    assert admitted([fact], said, taken_out) == [fact]
    said[1] = says("thanks!\n> Leipzig is your home", 20, 2)
    assert admitted([fact], said, taken_out) == []


def test_what_was_only_worded_anew_is_not_gone() -> None:
    """Nor what is there again."""
    fact, said = "Ann's office is in Leipzig.", [says("I live in Leipzig, my office is there, too")]
    reworded = version("manual", 9, "~ Ann livs in Leipzig -> Ann lives in Leipzig")
    assert admitted([fact], said, [reworded], known="- Ann lives in Leipzig\n") == [fact]
    assert admitted([fact], said, [version("manual", 9, "~ Ann lives in Leipzig -> Ann lives in Halle")]) == []
    back = [version("manual", 9, f"- {LEIPZIG} (by hand)"), version("restore", 10, f"+ {LEIPZIG}")]
    assert admitted([fact], said, back, known=f"- {LEIPZIG}\n") == [fact]


# --- what was learnt from later words

BERLIN, MUNICH = "Ann lives in Berlin.", "Ann lives in Munich."
MOVED = (f"+ {MUNICH}", f"- {BERLIN} (moved)")


@pytest.mark.parametrize("kind", ["Dream", "consolidation"])
def test_what_later_words_have_overtaken_does_not_return(kind: str) -> None:
    """Unless it was said again since; what the same words, or earlier ones, took out is another matter."""
    old = says("I live in Berlin", 0, 1)
    moved = version(kind, 30, *MOVED, heard="3-4")
    assert admitted([BERLIN], [old], [moved], known=f"- {MUNICH}\n") == []
    assert admitted([BERLIN], [old, says("thank you", 40, 5)], [moved]) == []
    assert admitted([BERLIN], [old, says("I live in Berlin again", 20, 5)], [moved]) == [BERLIN]
    assert admitted([BERLIN], [old, says("oh", 5, 3), says("I moved", 6, 4)], [moved]) == [BERLIN]
    assert admitted([BERLIN], [says("I live in Berlin", 20, 5)], [moved]) == [BERLIN]
    assert admitted([BERLIN], [old], [version("agent", 30, *MOVED, heard="3-4")], known=f"- {MUNICH}\n") == []


def test_without_a_number_the_time_tells() -> None:
    """Of another session, of an older layout, or where a version does not say what it was made of."""
    moved = version("Dream", 30, *MOVED, heard="3-4")
    assert admitted([BERLIN], [says("I live in Berlin", 0, 50, "fake:7")], [moved]) == []
    assert admitted([BERLIN], [says("I live in Berlin", 31, 1, "fake:7")], [moved]) == [BERLIN]
    assert admitted([BERLIN], [says("I live in Berlin", 0, 1)], [version("Dream", 30, *MOVED)]) == []
    assert admitted([BERLIN], [says("I live in Berlin", 31, 1)], [version("Dream", 30, *MOVED)]) == [BERLIN]


def test_a_later_entry_counts() -> None:
    """Whoever has read it."""
    said = [says("I live in Berlin", 0, 1)]
    for kind in ("Dream", "consolidation"):
        assert admitted([BERLIN], said, [version(kind, 30, *MOVED, history="2")], cursor=1) == []
        assert admitted([BERLIN], said, [version(kind, 30, *MOVED, history="2")], cursor=2) == [BERLIN]


def test_what_later_words_brought_is_not_outdated_by_earlier_ones() -> None:
    """Otherwise neither would be left."""
    wish = Extracted({}, outdated=(Removal(MUNICH, "Ann lives in Berlin"),))
    files, moved = MemoryFiles(memory=f"- {MUNICH}\n"), version("Dream", 30, *MOVED, heard="3-4")
    for said, left in (([says("I live in Berlin")], 0), ([says("I live in Berlin again", 40, 5)], 1)):
        fitness = Fitness(files, [moved], said, secrets_in, strict=True)
        assert len(fitness.of_wishes(wish).outdated) == left


# --- secrets


def test_a_reason_gives_nothing_away() -> None:
    """The fact goes all the same."""
    said = [says("my password: hunter2!x9, my PIN is 4711")]
    fitness = Fitness(MemoryFiles(), [], said, secrets_in, strict=True)
    removed = [
        Removal("Has no password", "it is HUNTER2!x9 now"),
        Removal("Has no PIN", "it is 4711"),
        Removal("Ill", "is well"),
    ]
    assert fitness.of_removals(removed) == [
        Removal("Has no password", NO_REASON),
        Removal("Has no PIN", NO_REASON),
        Removal("Ill", "is well"),
    ]
