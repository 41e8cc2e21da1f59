"""What the ledger lets through, keeps, and says about it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nanomem.facts import MemoryFiles, facts
from nanomem.ledger import CONTRADICTED, changes, merge
from nanomem.versions import Removal, Verdict
from nanomem.wording import carries, gist, same

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


def keys(files: MemoryFiles) -> set[str]:
    return {same(fact.strip("`~ ")) for text in files.by_name.values() for fact in facts(text)}


def gone(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {same(verdict.fact.strip("`~ ")) for verdict in verdicts if verdict.what in ("reworded", "removed")}


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
