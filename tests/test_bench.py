"""The benchmarks can be run; what they find is not judged here."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def bench(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def run(name: str, env: dict[str, str], *arguments: str) -> dict[str, Any]:
    done = bench(env, name, "--json", *(arguments or ["--quick"]))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_benchmark_gives_figures_with_units(guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path) -> None:
    """For programs it prints the machine, and each figure with its unit and spread."""
    found = run("turn", guarded_env(tmp_path))
    assert int(found["machine"]["cores"]) > 0
    latency = next(figure for figure in found["benches"]["turn"] if figure["name"] == "offline, new session: latency")
    assert latency["unit"] == "ms" and latency["n"] == 10
    assert 0 < latency["min"] <= latency["p50"] <= latency["p95"] <= latency["max"]


def test_lag_a_long_soak_and_the_floor_can_be_measured(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """With litellm between the emulators, in one run; what is shown stands in the file, too."""
    saved = tmp_path / "found.json"
    done = bench(guarded_env(tmp_path), "floor", "lag", "soak", "--quick", "--save", str(saved))
    assert done.returncode == 0, done.stderr
    found = json.loads(saved.read_text())["benches"]
    figures = {(name, figure["name"]): figure for name, of in found.items() for figure in of}
    assert 0 < figures["floor", "litellm imported, and nothing else"]["p50"] < figures["floor", "to its answer"]["p50"]
    assert figures["lag", "a question while 10 answers stream"]["p95_at_most"] == 50
    assert figures["soak", "resident"]["n"] == 6 and figures["soak", "consolidations"]["p50"] > 0
    for name, figure in figures:
        assert f"\n{figure} " in done.stdout and f"## {name}\n" in done.stdout


def test_the_benchmark_of_the_memory_does_all_it_measures(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """Facts, versions, history and a talk: each gives its figures."""
    figures = run("memory", guarded_env(tmp_path))["benches"]["memory"]
    for part in ("merge of", "why at", "a fact more at", "one more of", "talk of"):
        assert any(figure["name"].startswith(part) for figure in figures)
    assert all(figure["n"] > 0 for figure in figures)


def test_the_benchmark_of_recall_says_how_well_it_finds_and_what_it_costs(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """On the project's own conversations."""
    figures = {figure["name"]: figure for figure in run("recall", guarded_env(tmp_path))["benches"]["recall"]}
    for name in ("recall@10", "mrr", "taking in a message", "index beyond the text, a message", "question"):
        assert figures[f"own set: {name}"]["p50"] > 0
    assert figures["own set: recall@10"]["unit"] == "%" and figures["own set: question"]["n"] == 137


def test_recall_is_measured_on_the_questions_of_a_file(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """For programs one object with all figures, and those of retrieval for each category; for people the same."""
    env, data = guarded_env(tmp_path), "tests/data/recall.json"
    found = run("recall", env, "--data", data)
    assert (found["messages"], found["questions"]) == (268, 137)
    assert found["index_us_per_message"] > 0 and found["bytes_per_message"] > 0 and found["question_p95_ms"] > 0
    assert int(found["machine"]["cores"]) > 0
    assert list(found["by_category"]) == ["1", "2", "3", "4"]
    for scores in (found, *found["by_category"].values()):
        assert all(0 <= scores[name] <= 1 for name in ("recall@5", "recall@10", "recall@20", "hit@5", "mrr"))
    done = bench(env, "recall", "--data", data)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"(?m)^all +.* {found['recall@10']:.4f} .* 137$", done.stdout)
    assert "of index beyond the text" in done.stdout and "for a question" in done.stdout


def test_a_file_that_is_no_recall_data_is_refused(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """With what is wrong; as is one that is not there, and one for another benchmark."""
    env, wrong = guarded_env(tmp_path), tmp_path / "wrong.json"
    wrong.write_text('{"people": []}')
    for arguments, said in (
        (("recall", "--data", str(wrong), "--json"), "wrong.json has neither conversations nor messages"),
        (("recall", "--data", str(tmp_path / "none.json")), "No such file"),
        (("recall", "--data", str(tmp_path)), "Is a directory"),
        (("start", "--data", "tests/data/recall.json"), "--data is for recall alone"),
    ):
        done = bench(env, *arguments)
        assert (done.returncode, done.stdout) == (2, "") and said in done.stderr and "Traceback" not in done.stderr
