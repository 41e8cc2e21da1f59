"""The benchmarks can be run; what they find is not judged here."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run(name: str, env: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
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


def test_the_benchmark_of_the_memory_does_all_it_measures(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """Facts, versions, history and a talk: each gives its figures."""
    figures = run("memory", guarded_env(tmp_path))["benches"]["memory"]
    for part in ("merge of", "why at", "a fact more at", "one more of", "talk of"):
        assert any(figure["name"].startswith(part) for figure in figures)
    assert all(figure["n"] > 0 for figure in figures)
