"""How well recall finds what was said, on the project's own conversations: it must not get worse unseen."""

import json
from pathlib import Path

import pytest

from benchmarks import retrieval

OWN = Path(__file__).parent / "data" / "recall.json"
FLOORS = {
    "all": {"recall@10": 0.86, "hit@5": 0.77, "mrr": 0.70},
    "en": {"recall@10": 0.86, "hit@5": 0.74, "mrr": 0.69},
    "zh": {"recall@10": 0.87, "hit@5": 0.81, "mrr": 0.72},
    "de": {"recall@10": 0.70, "hit@5": 0.70, "mrr": 0.60},
}


@pytest.mark.parametrize("language", FLOORS)
async def test_what_was_said_is_found(language: str, tmp_path: Path) -> None:
    """In each language; the floors are two points below what was measured when they were set."""
    talks = [talk for talk in retrieval.read(OWN) if language in ("all", talk.id)]
    found = (await retrieval.measured(tmp_path, talks)).summary()
    assert found["questions"] == sum(len(talk.questions) for talk in talks) > 10
    for name, floor in FLOORS[language].items():
        assert found[name] >= floor, f"{language}: {name} is {found[name]:.4f}"


def test_the_figures_count_each_message_and_each_question() -> None:
    """recall@k is the part of the evidence among the first k, hit@5 whether all of it is, MRR by the first of it."""
    ranks: list[list[int | None]] = [
        [1, 7, None],  # of three messages one at once, one further down, one not at all
        [2, 5],
        [12],
        [None],
    ]
    assert retrieval.scored(ranks) == pytest.approx(
        {
            "recall@5": (1 / 3 + 1 + 0 + 0) / 4,
            "recall@10": (2 / 3 + 1 + 0 + 0) / 4,
            "recall@20": (2 / 3 + 1 + 1 + 0) / 4,
            "hit@5": 1 / 4,
            "mrr": (1 + 1 / 2 + 1 / 12 + 0) / 4,
            "questions": 4,
        }
    )


async def test_a_message_counts_only_itself(tmp_path: Path) -> None:
    """From the file to the figures: its neighbour is no evidence, and the categories are reckoned apart."""
    said = [["a", 0, "The boiler man comes on Tuesday."], ["b", 1, "Good to know."], ["c", 0, "Rosa plays the cello."]]
    asked = [
        {"q": "When does the boiler man come?", "evidence": ["a"], "category": 2},
        {"q": "Who comes because of the boiler?", "evidence": ["a", "nobody said this"], "category": 1},
        {"q": "Where is the submarine?", "evidence": ["c"], "category": 1},
        {"q": "What was never answered?", "evidence": []},
    ]
    talk = {
        "id": "tiny",
        "speakers": ["Ann", "Assistant"],
        "sessions": [{"n": 1, "time": "2026-03-02T09:15", "messages": said}],
        "questions": asked,
    }
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({"conversations": [talk]}))
    found = (await retrieval.measured(tmp_path, retrieval.read(path))).summary()
    assert (found["messages"], found["questions"]) == (3, 3)
    assert found["recall@5"] == found["recall@20"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found["hit@5"] == pytest.approx(1 / 3) and found["mrr"] == pytest.approx(2 / 3)
    assert found["by_category"]["2"]["recall@10"] == 1 and found["by_category"]["2"]["questions"] == 1
    assert found["by_category"]["1"]["recall@10"] == pytest.approx(1 / 4)


async def test_messages_that_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    """The other format: each is a conversation of its own, so that what stands before it lends it nothing."""
    messages = [{"id": "a", "text": "我的车停在地下二层"}, {"id": "b", "text": "晚饭吃了面条"}]
    path = tmp_path / "lone.json"
    path.write_text(json.dumps({"messages": messages, "questions": [{"q": "我的车停在哪里？", "evidence": ["a"]}]}))
    talks = retrieval.read(path)
    assert [len(session) for session in talks[0].sessions] == [1, 1]
    found = (await retrieval.measured(tmp_path, talks)).summary()
    assert found["hit@5"] == found["mrr"] == 1 and found["by_category"] == {}


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[]", "{}", '{"conversations": []}', '{"conversations": [1]}', '{"messages": [{}], "questions": []}',
     '{"messages": [{"id": "a", "text": "b"}], "questions": []}', '{"messages": {}, "questions": {}}', "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_no_such_data(text: str, tmp_path: Path) -> None:
    """It is named, and what is wrong with it."""
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.json (is|has) "):
        retrieval.read(path)
