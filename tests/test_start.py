"""The start: nothing is imported on the way to it that can come later, or not at all."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

LATER = {
    "for the first question": {"jinja2", "litellm", "tiktoken", "yaml"},
    "for a tool": {"bs4", "detect_secrets", "markdownify", "stdnum"},
    "for the memory's versions": {"dulwich"},
    "for the first answer": {"telegramify_markdown"},
    "for a terminal": {"prompt_toolkit"},
    "where it is switched on": {"model2vec", "numpy"},
    "never, by us": {"attr", "click", "pydantic", "pygments", "rich"},
}

SETTINGS = """
import asyncio, os, sys
from nanomem import cli, logs
from nanomem.home import resolve
from nanomem.settings import load
sys.argv = ["nanomem", "config", "set", "agents.defaults.model", "offline"]
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end
home = resolve(None, os.environ)
settings = load(home.config, os.environ)
logs.configure("warning", "auto")
from nanomem import running
"""

PROGRAM = f"""{SETTINGS}
async def start():
    async with running.assembled(home, settings, os.environ, networks=True):
        print(*{{name.partition(".")[0] for name, module in sys.modules.items() if module}})
asyncio.run(start())
"""

EXHAUSTED = f"""{SETTINGS}
import errno
tried = []
class Exhausted:
    def find_spec(self, name, path=None, target=None):
        if name == "jinja2":
            tried.append(name)
            raise OSError(errno.EMFILE, "Too many open files")
sys.meta_path.insert(0, Exhausted())
async def until():
    while not tried:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
async def serve():
    async with running.assembled(home, settings, os.environ, networks=True) as daemon:
        await daemon.serve(until())
asyncio.run(serve())
"""

TELEGRAM = {
    "NANOMEM__CHANNELS__TELEGRAM__ENABLED": "true",
    "NANOMEM__CHANNELS__TELEGRAM__TOKEN": "123456789:" + "t" * 35,
}


@pytest.mark.parametrize("channel", [{}, TELEGRAM], ids=["terminal", "telegram"])
def test_the_start_imports_only_what_it_needs(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path, channel: dict[str, str]
) -> None:
    """From the arguments to the whole daemon, put together: each package here costs a person's time and memory."""
    env = {**guarded_env(tmp_path), **channel}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert ("telegram" in imported) == bool(channel)
    assert {why: names & imported for why, names in LATER.items() if names & imported} == {}


def test_what_cannot_be_loaded_now_ends_nothing(guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path) -> None:
    """With too many open files the first message waits for it, and is told; the daemon goes on."""
    command = [sys.executable, "-c", EXHAUSTED]
    done = subprocess.run(command, capture_output=True, text=True, env=guarded_env(tmp_path), cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    assert "Too many open files" in done.stderr
