"""Token counts are those of tiktoken's o200k_base, without a network, and no text can hang them."""

import asyncio
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanomem.models.tokens import O200kTokenizer, pieces

TEXTS = (
    "",
    "hello world",
    "Grüße aus Österreich! Don't you know?\r\n\r\n  12345 x=y/*z*/",
    "我最喜欢的食物是饺子。これは日本語です。",
    "👩‍👩‍👧‍👦 😀😀",
    "<|endoftext|><|im_start|>system",
    "a lone \ud83d surrogate",
    "def f(x):\n    return x + 1\n" * 50,
    "The quick brown fox, 1234567.  Two spaces\tand tabs \n\n\n" * 1_000,
    "Schöne Grüße 你好 😀 'll 've\n" * 1_500,
)

EXPECTED = """
import json, sys, tiktoken
encoding = tiktoken.get_encoding("o200k_base")
texts = json.load(sys.stdin)
print(json.dumps([len(encoding.encode_ordinary(text.encode("utf-8", "replace").decode())) for text in texts]))
"""


def run(program: str, stdin: str = "", **environ: str) -> str:
    """The output of a Python program of its own."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


async def test_counts_as_tiktoken_does() -> None:
    """The same as tiktoken's own definition, in all scripts, for long texts and names of special tokens too."""
    import json

    found = find_spec("litellm")
    assert found is not None and found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    shown = [text.replace("\ud83d", "\ufffd") for text in TEXTS]
    expected = json.loads(await asyncio.to_thread(run, EXPECTED, json.dumps(shown), TIKTOKEN_CACHE_DIR=str(folder)))
    tokenizer = O200kTokenizer()
    assert [await tokenizer.count(text) for text in TEXTS] == expected


OFFLINE = """
import asyncio, os, socket, sys
def refuse(*args): raise AssertionError("no network here")
socket.socket.connect = socket.getaddrinfo = refuse
from nanomem.models.tokens import O200kTokenizer
async def main():
    tokenizer = O200kTokenizer()
    counts = await asyncio.gather(*(tokenizer.count("hello world") for _ in range(20)))
    assert set(counts) == {2}, counts
asyncio.run(main())
assert "litellm" not in sys.modules
print(os.environ.get("TIKTOKEN_CACHE_DIR"), sorted(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.parametrize("cache", ["", "/nonexistent/cache"])
def test_needs_no_network_and_no_cache(tmp_path: Path, cache: str) -> None:
    """Many first counts at once load it together; the environment and the temporary folder stay as they are."""
    assert run(OFFLINE, TIKTOKEN_CACHE_DIR=cache, TMPDIR=str(tmp_path)).strip() == f"{cache} []".strip()


@pytest.mark.parametrize("sign", ["a", " ", "😀", "\n", "1", "你", "!", "\ud83d", "<|endoftext|>"])
async def test_no_text_can_hang_it(sign: str) -> None:
    """A million of one sign is counted within seconds, while the loop goes on."""
    tokenizer = O200kTokenizer()
    await tokenizer.count("")
    started = time.monotonic()
    counting = asyncio.ensure_future(tokenizer.count(sign * 1_000_000))
    laps = 0
    while not counting.done():
        await asyncio.sleep(0)
        laps += 1
    assert counting.result() > 0 and laps > 1
    assert time.monotonic() - started < 30


@given(st.lists(st.sampled_from(["a" * 3_000, "b", " ", "  ", "\n", "é", "x y " * 500]), max_size=40).map("".join))
@settings(max_examples=50)
def test_pieces_are_bounded_and_whole(text: str) -> None:
    """Nothing is lost between the pieces, and none is longer than 8,000 characters."""
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(len(piece) <= 8_000 for piece in cut)


WITHOUT = """
import asyncio, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "tiktoken": raise ModuleNotFoundError("No module named 'tiktoken'")
sys.meta_path.insert(0, Missing())
from nanomem.models.tokens import O200kTokenizer
async def main():
    tokenizer = O200kTokenizer()
    print("counted", await tokenizer.count("hello"), await tokenizer.count("你好"))
asyncio.run(main())
"""


def test_says_so_once_when_the_vocabulary_is_missing() -> None:
    """Then it counts bytes / 3, and reports that once."""
    said = run(WITHOUT)
    assert "counted 2 2" in said
    assert said.count("tokenizer.missing") == 1


NOT_NOW = """
import asyncio, errno, sys
class Exhausted:
    def find_spec(self, name, path=None, target=None):
        if name == "tiktoken": raise OSError(errno.EMFILE, "Too many open files")
sys.meta_path.insert(0, Exhausted())
from nanomem.models.tokens import O200kTokenizer
async def main():
    tokenizer = O200kTokenizer()
    try:
        await tokenizer.count("hello")
    except OSError as error:
        print(error.strerror)
    del sys.meta_path[0]
    print("counted", await tokenizer.count("hello"), await tokenizer.count("你好"))
asyncio.run(main())
"""


def test_what_cannot_be_read_now_is_read_later() -> None:
    """A moment with too many open files does not make it count otherwise for as long as it lives."""
    assert run(NOT_NOW).splitlines() == ["Too many open files", "counted 1 1"]
