"""The benchmarks can be run; what they find is not judged here."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_benchmark_gives_figures_with_units(guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path) -> None:
    """For programs it prints the machine, and each figure with its unit and spread."""
    command = [sys.executable, "-m", "benchmarks", "turn", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=guarded_env(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert int(found["machine"]["cores"]) > 0
    latency = next(figure for figure in found["benches"]["turn"] if figure["name"] == "offline, new session: latency")
    assert latency["unit"] == "ms" and latency["n"] == 10
    assert 0 < latency["min"] <= latency["p50"] <= latency["p95"] <= latency["max"]
