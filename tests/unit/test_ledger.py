"""What the ledger lets through, keeps, and says about it."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nanomem.facts import MemoryFiles, facts
from nanomem.ledger import CONTRADICTED, changes, merge
from nanomem.versions import Removal, Verdict
from nanomem.wording import same

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "ledger.jsonl").read_text("utf-8").splitlines()
]


def memory(text: str) -> MemoryFiles:
    return MemoryFiles(memory=text)


def merged(base: str, proposal: str, current: str | None = None, *removed: Removal) -> str:
    return merge(memory(base), memory(proposal), memory(base if current is None else current), removed).files.memory


def told(base: str, proposal: str, current: str | None = None, *removed: Removal) -> list[tuple[str, str, str]]:
    done = merge(memory(base), memory(proposal), memory(base if current is None else current), removed)
    return [(verdict.what, verdict.fact, verdict.detail) for verdict in done.verdicts]


# --- labelled cases -------------------------------------------------------------------------------------------------


def files_of(case: dict[str, Any], when: str) -> MemoryFiles:
    """The three files of a case: what it does not speak of is empty, and as it was where it does not say more."""
    texts = {case["file"]: case, **case.get("others", {})}
    soul, user, kept = (
        texts.get(name, {}).get(when, texts.get(name, {}).get("base", ""))
        for name in ("SOUL.md", "USER.md", "memory/MEMORY.md")
    )
    return MemoryFiles(soul, user, kept)


def wrong(case: dict[str, Any], files: MemoryFiles) -> list[str]:
    text = "\n\n".join(files.by_name.values())
    found = [f"lost: {words}" for words in case.get("must_keep", []) if words not in text]
    found += [f"did not come in: {words}" for words in case.get("must_be_new", []) if words not in text]
    found += [f"still there: {words}" for words in case.get("must_go", []) if words in text]
    return found + [f"more than once: {words}" for words in case.get("at_most_once", []) if text.count(words) > 1]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_labelled_case_comes_out_as_a_person_says_it_should(case: dict[str, Any]) -> None:
    """What must stay, come, go and be there once; and merging again changes nothing."""
    base, proposal, current = (files_of(case, when) for when in ("base", "proposal", "current"))
    removed = [Removal(**entry) for entry in case.get("removed", [])]
    first = merge(base, proposal, current, removed).files
    assert wrong(case, first) == []
    assert merge(base, proposal, first, removed).files == first


# --- stories --------------------------------------------------------------------------------------------------------


def test_what_is_dropped_without_a_word_is_put_back() -> None:
    """It stays where it stood, and is told."""
    base, proposal = "# M\n\n- tea at 4\n- cat Pus\n", "# M\n\n- cat Pus\n- new oars\n"
    assert merged(base, proposal) == "# M\n\n- tea at 4\n- cat Pus\n- new oars\n"
    assert told(base, proposal) == [("new", "new oars", ""), ("kept", "tea at 4", "")]


def test_a_fact_goes_for_a_reason() -> None:
    """The verdict has the reason; a blank one is none."""
    base, proposal = "- tea at 4\n- cat Pus\n", "- cat Pus\n"
    assert merged(base, proposal, None, Removal("- Tea at 4.", "no longer")) == proposal
    assert told(base, proposal, None, Removal("tea at 4", "no longer")) == [("removed", "tea at 4", "no longer")]
    assert merged(base, proposal, None, Removal("tea at 4", " \n")) == base


def test_other_words_take_the_place_of_the_old_ones() -> None:
    """In the same line, with the list's sign as proposed."""
    base = "# M\n\n- Rows with Ann on Sunday at 9\n- cat Pus\n"
    proposal = "# M\n\n- On Sunday at 9 rows with Ann\n- cat Pus\n"
    assert merged(base, proposal) == proposal
    assert told(base, proposal) == [("reworded", "Rows with Ann on Sunday at 9", "On Sunday at 9 rows with Ann")]


def test_each_of_two_that_become_one_is_told_and_so_is_each_piece_of_one() -> None:
    """`why` can follow all of them."""
    one, two = "- Born in Bern in 1990; plays the horn\n", "- Born in Bern in 1990\n- Plays the horn\n"
    assert told(two, one) == [
        ("reworded", "Born in Bern in 1990", "Born in Bern in 1990; plays the horn"),
        ("reworded", "Plays the horn", "Born in Bern in 1990; plays the horn"),
    ]
    assert [detail for _, _, detail in told(one, two)] == ["Born in Bern in 1990", "Plays the horn"]


def test_a_contradiction_is_left_to_the_next_dream() -> None:
    """The new fact first, the old one marked, once; in a table the mark is in the last cell."""
    base, proposal = "- Rent: 900 euros\n- cat Pus\n", "- Rent: 950 euros\n- cat Pus\n"
    text = merged(base, proposal)
    assert text == f"- Rent: 950 euros\n- Rent: 900 euros{CONTRADICTED}\n- cat Pus\n"
    assert merged(base, proposal, text) == text
    assert facts(text)[1] == "- Rent: 900 euros"
    table = "| what | fee |\n|---|---|\n| gym | 30 |\n"
    assert merged(table, table.replace("30", "35")).endswith(f"| gym | 35 |\n| gym | 30{CONTRADICTED} |\n")


def test_dream_settles_a_contradiction() -> None:
    """It names the old fact as removed, or leaves out the mark."""
    marked = f"- Rent: 950 euros\n- Rent: 900 euros{CONTRADICTED}\n"
    assert merged(marked, "- Rent: 950 euros\n", None, Removal("Rent: 900 euros", "raised")) == "- Rent: 950 euros\n"
    assert merged(marked, marked.replace(CONTRADICTED, "")) == marked.replace(CONTRADICTED, "")
    assert told(marked, marked.replace(CONTRADICTED, "")) == []


def test_a_fact_moves_with_its_file_told() -> None:
    """To another heading, or to another file: the three files are one set."""
    base, proposal = "## A\n- x is 5\n- y is 6\n", "## A\n- x is 5\n\n## B\n- y is 6\n"
    assert merged(base, proposal) == proposal
    assert told(base, proposal) == [("moved", "y is 6", "memory/MEMORY.md")]
    done = merge(memory("- x is 5\n"), MemoryFiles(user="- x is 5\n"), memory("- x is 5\n"))
    assert (done.files, done.verdicts) == (
        MemoryFiles(user="- x is 5\n"),
        (Verdict("moved", "x is 5", "USER.md"),),
    )


def test_headings_are_renamed_and_their_level_changes() -> None:
    """No fact is lost or there twice; one that comes back is under the new heading."""
    base = "# M\n\n## Job\n- Nurse at Anker\n- Union fee in March\n- Shift from 22:00\n"
    proposal = "# M\n\n### Work\n- Nurse at Anker\n- Union fee in March\n"
    assert merged(base, proposal) == f"{proposal}- Shift from 22:00\n"


def test_a_proposal_without_headings_takes_none_away() -> None:
    """The facts stay under theirs, and what is new goes to the end."""
    base = "# M\n\n## Job\n- Nurse at Anker\n\n## Home\n- Flat in Bern\n"
    assert merged(base, "- Nurse at Anker\n- Flat in Bern\n- cat Pus\n") == f"{base}- cat Pus\n"


def test_a_new_table_comes_with_its_head() -> None:
    """A row without one would say less."""
    table = "| what | fee |\n|---|---|\n| gym | 30 |\n"
    assert merged("# M\n\n- tea at 4\n", f"# M\n\n- tea at 4\n\n{table}") == f"# M\n\n- tea at 4\n\n{table}"


def test_a_heading_without_facts_goes_if_the_proposal_leaves_it_out() -> None:
    """But not one that was empty before, nor one with a comment under it."""
    base = "## A\n- x is 5\n\n## Empty\n\n## B\n- y is 6\n"
    proposal = "## B\n- y is 6\n- x is 5\n"
    assert merged(base, proposal) == "## Empty\n\n## B\n- y is 6\n- x is 5\n"
    assert "## A\n<!-- mine -->" in merged(
        base.replace("5\n", "5 <!-- mine -->\n", 1), "", None, Removal("x is 5", "old")
    )


def test_what_an_owner_took_out_stays_out() -> None:
    """Also in other words, and as a part of another fact; what the owner added or changed stays."""
    base, proposal = "- Ill in 2020\n- Rent 900 euros\n", "- In 2020 ill\n- Rent 900 euros\n- cat Pus\n"
    assert merged(base, proposal, "- Rent 925 euros\n- dog Rex\n") == "- Rent 925 euros\n- dog Rex\n- cat Pus\n"


def test_a_persons_order_comments_and_prose_survive() -> None:
    """A tidy proposal does not tidy them away."""
    base = "<!-- keep -->\n# M\n\nMy house,\nmy rules.\n\n- b is 2 <!-- why? -->\n- a is 1\n"
    assert merged(base, "# M\n\n- a is 1\n- b is 2\n") == base


def test_a_kept_item_goes_with_the_one_it_belongs_to() -> None:
    """With its new indentation; up a level where it is gone."""
    base = "* Trip\n    * Flat 18\n    * Host Ana\n"
    assert merged(base, "- Trip\n  - Flat 18\n") == "- Trip\n  - Flat 18\n  * Host Ana\n"
    assert merged(base, "", None, Removal("Trip", "over"), Removal("Flat 18", "over")) == "* Host Ana\n"


def test_nothing_runs_into_a_fence_or_comment_that_is_never_closed() -> None:
    """It is closed before something is written behind it."""
    assert merged("", "- news\n", "```\ncode") == "```\ncode\n```\n\n- news\n"
    assert merged("", "- news\n", "- a\n<!-- secret") == "- a\n<!-- secret\n-->\n- news\n"


def test_a_placeholder_gives_way_to_a_fact() -> None:
    """The one of its label, or the one under its heading; others stay."""
    base = "## Who\n(to be filled)\n\n## Place\n- City: (to be filled)\n- Land: (to be filled)\n"
    proposal = "## Who\n- Ann\n\n## Place\n- City: Bern\n"
    assert merged(base, proposal) == "## Who\n- Ann\n\n## Place\n- City: Bern\n- Land: (to be filled)\n"


@pytest.mark.parametrize(
    "proposal",
    [
        "",
        "\n\n",
        "I'm sorry, I cannot do that.",
        "<|im_start|>assistant\n",
        "<html><p>tea at 4</p></html>",
        "```\n```",
        "# M",
    ],
)
def test_a_proposal_that_is_none_changes_nothing(proposal: str) -> None:
    """Nothing is lost, and nothing of it comes in."""
    assert merged("# M\n\n- tea at 4\n", proposal) == "# M\n\n- tea at 4\n"


def test_what_a_person_did_is_told() -> None:
    """Every loss has the reason that is given; what did not change is not spoken of."""
    before = MemoryFiles(user="- Ann\n- dog Rex\n", memory="- tea at 4\n- Rows with Bo on Sunday at 9\n")
    after = MemoryFiles(user="- Ann\n- tea at 4\n", memory="- On Sunday at 9 rows with Bo\n- oars\n")
    assert changes(before, after, "by hand") == (
        Verdict("moved", "tea at 4", "USER.md"),
        Verdict("reworded", "Rows with Bo on Sunday at 9", "On Sunday at 9 rows with Bo"),
        Verdict("new", "oars"),
        Verdict("removed", "dog Rex", "by hand"),
    )
    assert changes(before, before, "by hand") == ()


@pytest.mark.parametrize(
    "said",
    [
        "Your memory file has been brought up to date.",
        "Here you are.",
        "Thank you, noted.",
        "Remark: a line was added.",
        "我已经把新内容写进去了。",
        "ファイルを更新しました。",
    ],
)
def test_talk_before_the_file_is_not_memory(said: str) -> None:
    """A paragraph of another kind than the file, that states nothing of anybody."""
    base, proposal = "# M\n\n- tea at 4\n", "# M\n\n- tea at 4\n- cat Pus\n"
    assert merged(base, f"{said}\n\n{proposal}") == proposal


@pytest.mark.parametrize(
    "said",
    [
        "Everything else is as it was.",
        "Do you want me to sort USER.md, too?",
        "Changes: one line was added.",
        "(that was all)",
        "内容整理完毕，请过目。",
        "Melde dich, wenn etwas fehlt.",
    ],
)
def test_talk_behind_the_file_is_not_memory(said: str) -> None:
    """Nor what comes behind a rule below it."""
    base, proposal = "# M\n\n- tea at 4\n", "# M\n\n- tea at 4\n- cat Pus\n"
    assert merged(base, f"{proposal}\n{said}\n") == proposal
    assert merged(base, f"{proposal}\n---\n\n{said}\n") == proposal


def test_prose_that_is_memory_comes_in() -> None:
    """Under a heading, with a name or number, or in a file that has prose there."""
    base = "# M\n\n- tea at 4\n"
    for more in ("## Style\n\nLikes short answers.", "\nOtto is her uncle, they met in Graz.", "\nBorn in 1971."):
        assert facts(merged(base, f"{base}\n{more}")) == facts(base + more)
    prose = f"{base}\nA quiet house.\n"
    assert merged(prose, f"{prose}\nWith a garden.\n") == f"{prose}\nWith a garden.\n"


def test_what_a_person_wrote_has_no_talk_in_it() -> None:
    """An earlier version comes back as it was, also where it speaks like a model."""
    base, earlier = "# M\n\n- tea at 4\n", "Here you are.\n\n# M\n\n- tea at 4\n"
    done = merge(memory(base), memory(earlier), memory(f"{base}- cat Pus\n"), has_talk=False)
    assert done.files.memory == f"{earlier}- cat Pus\n"


def test_a_thing_to_do_is_named_without_its_box() -> None:
    """Gone, or ticked, with the reason that is given."""
    base, ticked = "- [ ] Wax the skis\n- cat Pus\n", "- [x] Wax the skis\n- cat Pus\n"
    assert merged(base, "- cat Pus\n", None, Removal("Wax the skis", "done")) == "- cat Pus\n"
    assert merged(base, ticked, None, Removal("Wax the skis", "done")) == ticked
    assert merged(ticked, "- cat Pus\n", None, Removal("- [ ] Wax the skis", "done")) == "- cat Pus\n"
    both = "- [ ] Wax the skis\n- Wax the skis\n"
    assert merged(both, "", None, Removal("Wax the skis", "done")) == "- [ ] Wax the skis\n"


def test_the_pieces_of_a_split_are_its_own() -> None:
    """Not the new words of other facts, though they have all its words together."""
    base = "- Vera keeps 12 bees in Graz\n- Otto keeps 12 bees in Linz\n- Vera keeps 30 hens in Graz\n"
    proposal = "- In Linz Otto keeps 12 bees\n- In Graz Vera keeps 30 hens\n"
    assert "- Vera keeps 12 bees in Graz\n" in merged(base, proposal)


@pytest.mark.parametrize("again", ["- Bo lent 70 euros to Ida", "- Bo lent Ida money", "- Bo借给Ida 70欧元"])
def test_what_an_owner_took_out_does_not_come_back_in_other_words(again: str) -> None:
    """Reworded, blurred or translated; what is news of the same people comes in."""
    base, now = "- Bo lent Ida 70 euros\n- cat Pus\n", "- cat Pus\n"
    assert merged(base, f"{again}\n- cat Pus\n", now) == now
    news = "- Bo lent Ida 95 euros\n- Ida sings with Bo\n- cat Pus\n"
    assert set(facts(merged(base, news, now))) == set(facts(news))


def test_values_with_a_wide_colon_are_facts_of_their_own() -> None:
    """One changes and one is dropped: both old ones stay, and nothing is there twice."""
    base, proposal = "姓名：高远\n鞋码：41\n城市：长春\n", "姓名：高远\n鞋码：42\n"
    assert set(facts(merged(base, proposal))) == {"姓名：高远", "鞋码：42", "鞋码：41", "城市：长春"}
    assert merged(base, proposal).count("姓名") == 1


def test_a_verdict_has_the_fact_on_one_line_without_marker_or_mark() -> None:
    """A box stays; a row of a table is as it stands."""
    base = "1. [ ] first\n- second\n  goes on\n| a | b |\n"
    told_of = changes(memory(""), memory(base.replace("second", "second <!-- x -->")), "by hand")
    assert [verdict.fact for verdict in told_of] == ["[ ] first", "second goes on", "| a | b |"]


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_code_fence_goes_only_when_it_is_named_word_for_word(fence: str) -> None:
    """Its lines may be parted in other ways; a plain text of the same words is another fact."""
    code = f"{fence}\npays  30 euros\n{fence}\n"
    base, proposal = f"{code}- cat Pus\n", "- cat Pus\n"
    assert merged(base, proposal, None, Removal(f"{fence}\npays 30 euros\n{fence}", "old")) == proposal
    assert merged(base, proposal, None, Removal("pays 30 euros", "old")) == base


def test_a_last_line_without_an_end_is_the_same_line() -> None:
    """The owner wrote behind it, and has not changed it."""
    base, now = "- x is 5\n## Home", "- x is 5\n## Home\n- cat Pus\n"
    assert merged(base, "- x is 5\n### Home\n", now) == "- x is 5\n### Home\n- cat Pus\n"


def test_a_fact_before_one_that_it_contradicts_takes_along_what_belongs_to_it() -> None:
    """And it goes there only if both belong to the same list item."""
    text = merged("- Rent: 900 euros\n- cat Pus\n", "- Rent: 950 euros\n  - due on 3 May\n- cat Pus\n")
    assert text == f"- Rent: 950 euros\n  - due on 3 May\n- Rent: 900 euros{CONTRADICTED}\n- cat Pus\n"
    text = merged("- Flat\n  - Rent: 900 euros\n", "- Flat\n- Rent: 950 euros\n")
    assert text == f"- Flat\n  - Rent: 900 euros{CONTRADICTED}\n- Rent: 950 euros\n"


def test_of_headings_with_one_name_that_with_the_same_facts_is_the_same() -> None:
    """The fact stays where it is."""
    base = "- x is 5\n## Home\n# Work\n- y is 6\n"
    assert merged(base, "# Work\n## Home\n# Work\n- y is 6\n") == base


def test_a_label_that_several_facts_have_makes_no_contradiction() -> None:
    """There may be a third one, also where the proposal has dropped only one of them."""
    text = merged("- Dog: Rex\n- Dog: Pluto\n", "- Dog: Rex\n- Dog: Fido\n")
    assert text == "- Dog: Rex\n- Dog: Fido\n- Dog: Pluto\n"


# --- properties -----------------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        "- Ann lives in Bern",
        "* Ann lives in Bern.",
        "- Ann has lived in Bern since 2019",
        "- lives with Ann in Bern",
        "- Ann does not live in Bern",
        "- pays 30 euros",
        "  - pays 30 euros",
        "    - on 3 May",
        "- pays 35 euros",
        "- 每月付30欧元",
        "Name: Ann",
        "Name: Bo",
        "- Name: (to be filled)",
        "(to be filled)",
        "| a | b |",
        "|---|---|",
        "| c | 4 |",
        "# Memory",
        "## Home",
        "## Work",
        "### Home",
        "",
        "",
        "---",
        "```",
        "```sh",
        "<!-- a note -->",
        "<!--",
        "-->",
        "- likes tea <!-- says Bo -->",
        "A paragraph of hers",
        "that goes on.",
        "Here is the file:",
        "Let me know if you need anything else.",
        "<|im_start|>",
        "<html>",
        "- \ud800 and \0",
        "1. first",
    ]
)
TEXTS = st.lists(LINES, max_size=12).map("\n".join) | st.lists(LINES, max_size=8).map(
    lambda lines: "\n".join(lines) + "\n"
)
ANY = TEXTS | st.text(max_size=60)
FILES = st.builds(MemoryFiles, st.just(""), TEXTS, TEXTS)
REMOVED = st.lists(
    st.builds(
        Removal, LINES | st.sampled_from(["*", "all earlier entries", ""]), st.sampled_from(["", " ", "moved away"])
    ),
    max_size=2,
)


def key(fact: str) -> str:
    return f"``` {fact.strip('`~ ')}" if fact.startswith(("```", "~~~")) else same(fact)


def keys(files: MemoryFiles) -> set[str]:
    return {key(fact) for text in files.by_name.values() for fact in facts(text)}


def gone(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {key(verdict.fact) for verdict in verdicts if verdict.what in ("reworded", "removed")}


@settings(max_examples=400)
@given(FILES, FILES, FILES, REMOVED)
def test_no_fact_goes_without_a_stated_reason(
    base: MemoryFiles, proposal: MemoryFiles, current: MemoryFiles, removed: list[Removal]
) -> None:
    """A fact of base and current is in the result, or reworded, or removed; a fact of the owner's is in the result."""
    done = merge(base, proposal, current, removed)
    assert keys(current) - keys(done.files) <= gone(done.verdicts) & keys(base)


@settings(max_examples=400)
@given(FILES, FILES, FILES, REMOVED)
@example(memory("## A\n- Ann sings"), memory("### A\n## A\n- Ann never sings"), memory(""), [])
def test_merging_again_changes_nothing(
    base: MemoryFiles, proposal: MemoryFiles, current: MemoryFiles, removed: list[Removal]
) -> None:
    """What was merged once can be merged again, as after a crash."""
    first = merge(base, proposal, current, removed).files
    assert merge(base, proposal, first, removed).files == first


@given(FILES, FILES, REMOVED)
def test_a_proposal_that_is_its_base_changes_nothing(
    base: MemoryFiles, current: MemoryFiles, removed: list[Removal]
) -> None:
    """Whatever the owner has done meanwhile stands to the byte, and there is nothing to tell."""
    done = merge(base, base, current, removed)
    assert (done.files, done.verdicts) == (current, ())


NEWS = st.lists(st.integers(0, 30).map(lambda number: f"- Fact{number} about Person{number}"), unique=True, max_size=8)


@given(NEWS, NEWS)
def test_what_is_new_comes_in(base: list[str], proposal: list[str]) -> None:
    """Each new fact of a proposal is in the result, in its place."""
    text = merged("\n".join(base), "\n".join(proposal))
    assert set(facts(text)) == {*base, *proposal}


WHO = ["Aino", "Bruno", "Carla", "Dario", "Edda", "Falk", "Greta", "Hanno", "Ilka", "Jorma"]
DOES = ["paints", "mends", "sells", "studies"]
WHAT = ["blue kites", "garden gates", "steam engines", "river maps", "paper stars", "copper pans", "street organs"]
WHERE = ["Graz", "Lund", "Brno", "Cork", "Nice", "Pisa", "Bath", "Gent"]


@settings(max_examples=12, deadline=None)
@given(st.randoms(use_true_random=False))
def test_of_many_facts_alike_each_dropped_one_is_kept(random: Random) -> None:
    """Three hundred from the same few words: a tenth is reworded, a tenth dropped, and no old line is another's."""
    alike = [f"{who} {does} {what}|in {where}" for who in WHO for does in DOES for what in WHAT for where in WHERE]
    told_of = [(*fact.split("|"), f"since {random.randint(1950, 1999)}") for fact in random.sample(alike, 300)]
    old = ["- " + " ".join(parts) for parts in told_of]
    reworded = [
        f"- {where.capitalize()}, {what} {since}" if at % 2 else f"- {since.capitalize()} {what} {where}"
        for at, (what, where, since) in enumerate(told_of[:30])
    ]
    proposal = [*reworded, *old[60:]]
    random.shuffle(proposal)
    found = facts(merged("\n".join(old), "\n".join(proposal)).replace(CONTRADICTED, ""))
    assert set(found) == {*proposal, *old[30:60]}


@settings(max_examples=300)
@given(st.tuples(ANY, ANY, ANY), st.lists(st.builds(Removal, ANY, ANY), max_size=2))
@example(("- a\ud800", "\0", "\r\n- b\r"), [])
@example(("```\na", "~~~\n- b", "<!--"), [])
def test_any_text_is_merged(texts: tuple[str, str, str], removed: list[Removal]) -> None:
    """Never an error, whatever the texts are; and what happened can be told, too."""
    base, proposal, current = map(memory, texts)
    done = merge(base, proposal, current, removed)
    assert keys(current) - keys(done.files) <= gone(done.verdicts)
    changes(base, current, "by hand")
