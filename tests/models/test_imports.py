"""Importing costs nothing and talks to nobody."""

import os
import subprocess
import sys
from pathlib import Path

PLAIN = """
import sys
import nanomem.models.litellm, nanomem.models.offline, nanomem.models.tokens
heavy = {"litellm", "tiktoken", "openai", "httpx"} & set(sys.modules)
assert not heavy, heavy
"""

LOADING = """
import asyncio, os, socket, sys
def refuse(*args): raise AssertionError(f"no network here: {args}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.gethostbyname = refuse
from nanomem.errors import TellUser
from nanomem.messages import Request
from nanomem.models.litellm import LitellmModel
async def main():
    model = LitellmModel("no-such-model", {}, timeout_s=5)
    await model.warm_up()
    try:
        await model.ask(Request("", ()))
    except TellUser as error:
        print(error.text)
asyncio.run(main())
import litellm
assert litellm.REPEATED_STREAMING_CHUNK_LIMIT > 10**9 and litellm.telemetry is False
print(os.environ.get("CANARY_FROM_DOTENV"))
"""

BROKEN = """
import asyncio, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm": raise ModuleNotFoundError("No module named 'litellm'")
sys.meta_path.insert(0, Missing())
from nanomem.errors import TellUser
from nanomem.messages import Request
from nanomem.models.litellm import LitellmModel
async def main():
    model = LitellmModel("openai/m", {}, timeout_s=5)
    await model.warm_up()
    for _ in range(2):
        try:
            await model.ask(Request("", ()))
        except TellUser as error:
            print(error.text)
asyncio.run(main())
"""


ROOT = Path(__file__).parents[2]


def run(program: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """A Python program of its own, as it ended."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, env=environ, timeout=60
    )


def test_importing_the_models_imports_no_library() -> None:
    """litellm costs 3 seconds and 170 MB: nobody pays that who does not ask it."""
    result = run(PLAIN)
    assert result.returncode == 0, result.stderr


def test_loading_litellm_talks_to_nobody(tmp_path: Path) -> None:
    """No look-up, no connection, nothing printed, no `.env` read."""
    (tmp_path / ".env").write_text("CANARY_FROM_DOTENV=1\n")
    result = run(LOADING, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].startswith('litellm knows no provider for the model "no-such-model"')
    assert result.stdout.splitlines()[1:] == ["None"]
    assert result.stderr == ""


def test_a_broken_litellm_is_said_clearly() -> None:
    """At each question, not at the start: the daemon and its commands go on."""
    result = run(BROKEN)
    expected = "litellm, which reaches openai/m, could not be loaded: No module named 'litellm'"
    assert result.stdout.splitlines() == [expected] * 2, result.stderr


OFF = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from nanomem.home import Home
from nanomem.recall.found import Sought
from nanomem.settings_schema import Settings
from nanomem.spaces import Space
from nanomem.wiring import ground
import nanomem.models.embedding, nanomem.models.local_embedding
async def main():
    base = ground(Home(Path.cwd()), Settings(), {})
    space = Space("owner", Path.cwd(), Path.cwd())
    await base.recalling.catch_up(space)
    await base.recalling.search(space, Sought("dog", datetime.now(UTC)))
    await base.index.close()
asyncio.run(main())
heavy = {"numpy", "model2vec", "litellm"} & set(sys.modules)
assert not heavy, heavy
"""


def test_without_embeddings_recall_imports_nothing_for_them(tmp_path: Path) -> None:
    """Who wants no vectors needs no package that makes them."""
    result = run(OFF, tmp_path)
    assert result.returncode == 0, result.stderr


BROKEN_NUMPY = """
import sys
from pathlib import Path
Path("numpy").mkdir()
Path("numpy/__init__.py").write_text("raise RuntimeError('built for another processor')")
sys.path.insert(0, "")
from nanomem.models.local_embedding import trouble
print(trouble("openai/m", Path.cwd()))
"""


def test_a_broken_numpy_is_said_at_the_start(tmp_path: Path) -> None:
    """It is there, but cannot be used: that is not found out by the first message with a vector."""
    result = run(BROKEN_NUMPY, tmp_path)
    assert "numpy cannot be loaded: built for another processor" in result.stdout, result.stderr
