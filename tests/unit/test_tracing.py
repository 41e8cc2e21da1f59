"""Following a fact back through the versions."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nanomem.memory.tracing import Trail, follow, follow_all, key
from nanomem.versions import Verdict, Version, line

NOW = datetime(2026, 4, 1, 8, tzinfo=UTC)


def versions(*bodies: str | Sequence[str]) -> list[Version]:
    """Versions by their lines; `kind: line` for another kind than consolidation."""
    found = []
    for number, body in enumerate(bodies, 1):
        lines = [body] if isinstance(body, str) else list(body)
        kind, colon, rest = lines[0].partition(": ") if lines else ("", "", "")
        if kind not in ("manual", "restore", "agent"):
            kind, colon = "consolidation", ""
        lines = [rest, *lines[1:]] if colon else lines
        found.append(Version(number, str(number), NOW + timedelta(days=number), f"[{kind}] x", tuple(lines)))
    return found


def told(trails: Sequence[Trail]) -> list[str]:
    """`N wording: what happened later, the newest first`."""
    return [
        f"{t.origin.number if t.origin else '?'} {t.wording}: "
        + ", ".join(f"{step.what} {step.version.number}" for step in t.steps)
        for t in trails
    ]


def trail(fact: str, *bodies: str | Sequence[str]) -> list[str]:
    return told(follow(fact, versions(*bodies)))


def test_a_new_fact_is_from_where_it_was_new() -> None:
    """Whatever others did in between."""
    assert trail("- Likes tea", "+ Likes cake", "+ - Likes tea", "+ Owns a cat") == ["2 Likes tea: "]


def test_a_reworded_fact_is_followed_under_its_old_name() -> None:
    """Through as many wordings as there were; moves and what was put back are on the way."""
    assert trail(
        "Loves green tea",
        "+ Drinks tea",
        "~ Drinks tea -> Likes tea",
        "> Likes tea moved to USER.md",
        "= Likes tea put back",
        "~ Likes tea -> Loves green tea",
    ) == ["1 Drinks tea: reworded 5, put back 4, moved 3, reworded 2"]


def test_each_rewording_knows_what_it_was_before() -> None:
    """So that the wording at every step is known."""
    [found] = follow("C", versions("+ A", "~ A -> - B", "> B moved to USER.md", "~ B -> C"))
    assert [step.before for step in found.steps] == ["B", "", "A"]


def test_a_merged_fact_has_several_origins() -> None:
    """And counts as its own where it was there before the others were merged into it."""
    merged = ["~ Likes tea -> Likes tea and cake", "~ Likes cake -> Likes tea and cake"]
    assert trail("Likes tea and cake", "+ Likes tea", "+ Likes cake", merged) == [
        "2 Likes cake: reworded 3",
        "1 Likes tea: reworded 3",
    ]
    assert trail(
        "Has a dog called Rex", "+ Has a dog called Rex", "+ Has a dog", "~ Has a dog -> Has a dog called Rex"
    ) == [
        "2 Has a dog: reworded 3",
        "1 Has a dog called Rex: ",
    ]


def test_an_older_life_of_the_same_wording_is_not_its_origin() -> None:
    """It was removed, or went into another, before this one came."""
    assert trail("B", "+ B", "- B (wrong)", "+ A", "~ A -> B") == ["3 A: reworded 4"]
    assert trail("B", "+ B", "~ B -> A", "~ A -> B") == ["1 B: reworded 3, reworded 2"]
    assert trail("B", "+ B", "- B (wrong)", "+ B") == ["3 B: "]


def test_what_was_brought_back_is_from_where_it_was_first() -> None:
    """An undone removal or rewording is no new origin, unless there is no other."""
    assert trail("B", "+ B", "- B (wrong)", "restore: + B") == ["1 B: brought back 3"]
    assert trail("A", "+ A", "~ A -> B", ["restore: + A", "- B (undone)"]) == ["1 A: brought back 3"]
    assert trail("A", "+ A", "~ A -> B", "restore: ~ B -> A") == ["1 A: reworded 3, reworded 2"]
    assert trail("B", "+ A", "restore: + B", "~ B -> C", "restore: + B") == ["4 B: "]


def test_what_no_version_says_is_unknown() -> None:
    """And is not mistaken for something else."""
    assert trail("B") == ["? B: "]
    assert trail("B", "+ A", "~ A -> C", "= B put back") == ["? B: put back 3"]
    assert trail("B", "~ A -> B") == ["? A: reworded 1"]


def test_arrows_and_brackets_in_facts() -> None:
    """The known end or beginning of a line decides."""
    assert trail("x -> y -> z", "+ x -> y", "~ x -> y -> x -> y -> z") == ["1 x -> y: reworded 2"]
    assert trail("Tea (green) (hot)", "+ Tea (green) (hot)", "> Tea (green) (hot) moved to USER.md") == [
        "1 Tea (green) (hot): moved 2"
    ]
    assert trail("a -> b" * 50, "+ " + "a -> b" * 50) == ["1 " + "a -> b" * 50 + ": "]
    assert trail("He moved to Graz", "+ He moved to Graz", "> He moved to Graz moved to USER.md") == [
        "1 He moved to Graz: moved 2"
    ]


def test_spellings_of_one_fact() -> None:
    """List markers, spacing, forms of a sign and a mark behind it make no other fact."""
    assert trail("* Likes  cafe\u0301 <!-- settle -->", "+ - Likes café") == ["1 Likes café: "]
    assert trail("Likes **tea**.", "+ Likes tea", "> Likes tea moved to USER.md") == ["1 Likes **tea**.: moved 2"]
    assert told(follow_all(["- Tea", "Cake"], versions("+ Cake", "+ Tea"))[0]) == ["2 Tea: "]


words = st.text("ab ->()+~=", min_size=1, max_size=12).map(lambda text: f"x{text}x")
fate = st.sampled_from(["reworded", "moved", "kept", "other"])


@given(st.lists(st.tuples(fate, words), max_size=12), words, st.lists(words, max_size=5))
def test_every_chain_leads_back_to_its_beginning(fates: list[tuple[str, str]], first: str, noise: list[str]) -> None:
    """However the fact was reworded, moved, put back, or left alone while others came and went."""
    fact, lived, bodies = first, {key(first)}, [[line(Verdict("new", first))]]
    for what, other in fates:
        if what == "reworded" and key(other) not in lived:
            bodies.append([line(Verdict("reworded", fact, other))])
            fact = other
            lived.add(key(other))
        elif what == "moved":
            bodies.append([line(Verdict("moved", fact, "USER.md"))])
        elif what == "kept":
            bodies.append([line(Verdict("kept", fact))])
        else:
            bodies.append([line(Verdict("new", f"q{text}")) for text in noise])
    found = follow(fact, versions(*bodies))
    assert any(t.origin is not None and t.origin.number == 1 and key(t.wording) == key(first) for t in found)


@given(st.lists(st.lists(st.from_regex(r"[-+~>=] [ab ()>-]{0,9}", fullmatch=True), max_size=4), max_size=20), words)
def test_nothing_stops_it(bodies: list[list[str]], fact: str) -> None:
    """Whatever somebody wrote into a commit."""
    assert follow(fact, versions(*bodies))
