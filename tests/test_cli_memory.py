"""The memory from a shell: a process on a home of its own, with a daemon and without."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanomem.home import Home

CHECKOUT = Path(__file__).parent.parent

Done = subprocess.CompletedProcess[str]
Nanomem = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def nanomem(guarded_env: Callable[[Path], dict[str, str]], home: Home) -> Nanomem:
    """`nanomem("memory", "show")` runs it without a terminal."""
    env = guarded_env(home.path)

    def run(*arguments: str) -> Done:
        command = [sys.executable, "-m", "nanomem", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=CHECKOUT, stdin=subprocess.DEVNULL)

    return run


@pytest.fixture
def daemon(guarded_env: Callable[[Path], dict[str, str]], home: Home, nanomem: Nanomem) -> Iterator[None]:
    """One that runs while the test does."""
    nanomem("init", "--yes")
    command = [sys.executable, "-m", "nanomem", "run"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=guarded_env(home.path), cwd=CHECKOUT, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert any("daemon.ready" in line for line in process.stderr)
        yield
        os.kill(process.pid, signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 0


def one_line(done: Done, code: int) -> str:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done
    return done.stderr


def test_without_a_daemon(nanomem: Nanomem, home: Home) -> None:
    """The command takes the home for itself."""
    assert nanomem("chat", "-m", "/remember Likes green tea").stdout == "Saved (version 2): Likes green tea\n"
    shown = nanomem("memory", "show")
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    assert "# MEMORY.md\n\n# Memory" in shown.stdout and "- Likes green tea" in shown.stdout
    log = nanomem("memory", "log").stdout.splitlines()
    assert re.fullmatch(r"2  \d{4}-\d\d-\d\d \d\d:\d\d  \[agent\] Likes green tea", log[0])
    assert log[1].endswith("[manual] First version")
    assert "+- Likes green tea" in nanomem("memory", "diff").stdout
    assert "+# Person" in nanomem("memory", "diff", "1").stdout
    assert nanomem("memory", "restore", "1").stdout == "Restored version 1 as version 3.\n"
    assert nanomem("memory", "restore", "1").stdout == "Nothing to restore.\n"
    assert "Likes green tea" not in (home.workspace / "memory" / "MEMORY.md").read_text()
    assert nanomem("memory", "why", "green", "tea").stdout.startswith("Nothing I know matches green tea.")


def test_through_the_daemon(daemon: None, nanomem: Nanomem) -> None:
    """It answers the same."""
    nanomem("chat", "-m", "remember that I like green tea")
    why = nanomem("memory", "why", "green", "tea").stdout
    assert re.fullmatch(
        r"I like green tea \(MEMORY.md\)\n  version 2, .{16}, agent\n  .*, .{16}: \"remember that I like green tea\"\n",
        why,
    )
    assert nanomem("memory", "restore", "1").stdout == "Restored version 1 as version 3.\n"
    assert "There is no version 9" in one_line(nanomem("memory", "diff", "9"), 1)


def test_what_was_said_is_searched(nanomem: Nanomem) -> None:
    """With words of it."""
    nanomem("chat", "-m", "My bicycle is red")
    assert "My bicycle is red" in nanomem("memory", "search", "bicycle").stdout


def test_the_view_of_history_is_rebuilt(nanomem: Nanomem, home: Home) -> None:
    """Where it does not fit, and it says so."""
    nanomem("init", "--yes")
    (home.workspace / "memory" / "HISTORY.md").write_text("scribbled over\n")
    assert nanomem("memory", "rebuild").stdout == "HISTORY.md did not fit history.jsonl and is rebuilt.\n"
    assert nanomem("memory", "rebuild").stdout == "HISTORY.md fits history.jsonl.\n"


def test_spaces_of_others(nanomem: Nanomem, home: Home) -> None:
    """By their names; one that is not there is not made."""
    nanomem("init", "--yes")
    root = home.spaces / "telegram%3A42"
    (root / "memory").mkdir(parents=True)
    (root / "memory" / "MEMORY.md").write_text("- Bob likes beer\n")
    assert "- Bob likes beer" in nanomem("memory", "show", "--space", "telegram:42").stdout
    assert nanomem("memory", "why", "beer", "--space=telegram:42").stdout.endswith("by hand\n")
    wrong = one_line(nanomem("memory", "show", "--space", "telegram:43"), 2)
    assert "There are: owner, telegram:42." in wrong
    assert sorted(path.name for path in home.spaces.iterdir()) == ["telegram%3A42"]


def test_misuse_is_one_line_and_exit_2(nanomem: Nanomem) -> None:
    """Numbers that are none, and words that are missing."""
    for wrong in ("diff x", "restore 0", "why", ""):
        assert "--help" in one_line(nanomem("memory", *wrong.split()), 2)
