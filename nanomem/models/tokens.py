"""Counts tokens as o200k_base does, with no network: the vocabulary comes out of litellm's wheel.

Knows nothing of models or messages. litellm itself is never imported here.
"""

import asyncio
import base64
import hashlib
import importlib.util
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from nanomem.errors import passes

_O200K = "litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"
_O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_INLINE = 20_000
_PIECE = 8_000
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# The definition in tiktoken_ext.openai_public, which only gives it away together with a download.
_PATTERN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)

log = structlog.get_logger()


class O200kTokenizer:
    """Loads the vocabulary once, at the first count, in a thread: 0.3 s, and 46 MB that stay.

    Without the vocabulary it counts UTF-8 bytes / 3, which is too many for most texts, and says so once. Raises OSError
    where it only cannot be read now.
    """

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._count: Callable[[str], int] | None = None

    async def count(self, text: str) -> int:
        """Exact, but for a word (or a run of spaces) of more than 8,000 characters, which is cut."""
        if self._count is None or len(text) > _INLINE:
            return await asyncio.to_thread(self._count_here, text)
        return self._count_here(text)

    def _count_here(self, text: str) -> int:
        count = self._loaded()
        text = _SURROGATES.sub("\ufffd", text)
        return sum(count(piece) for piece in pieces(text))

    def _loaded(self) -> Callable[[str], int]:
        with self._loading:
            if self._count is None:
                try:
                    self._count = _load()
                except (ImportError, OSError, ValueError) as error:
                    if passes(error):
                        raise
                    log.warning("tokenizer.missing", error=str(error), instead="UTF-8 bytes / 3")
                    self._count = _estimate
            return self._count


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most 8,000 characters, cut where the pattern cuts anyway, if there is such a place.

    No token reaches over the border between a visible character and a space, so cutting there changes no count.
    """
    start = 0
    while len(text) - start > _PIECE:
        end = start + _PIECE
        cut = text.rfind(" ", start + 1, end)
        while cut > start and text[cut - 1].isspace():
            cut = text.rfind(" ", start + 1, cut)
        yield text[start : (end := cut if cut > start else end)]
        start = end
    yield text[start:]


def _load() -> Callable[[str], int]:
    from tiktoken import Encoding

    found = importlib.util.find_spec("litellm")  # finds the folder, imports nothing
    if found is None or not found.submodule_search_locations:
        raise ImportError("litellm is not installed")
    data = Path(found.submodule_search_locations[0], _O200K).read_bytes()
    if hashlib.sha256(data).hexdigest() != _O200K_SHA256:
        raise ValueError("the file is damaged")
    # Read here and not by tiktoken's loader, which would look at an environment variable that litellm's
    # import changes, and would delete a damaged file and fetch another.
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
    encoding = Encoding(name="o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoder has its own copy by now: 26 MB
    _give_back()
    return lambda text: len(encoding.encode_ordinary(text))


def _give_back() -> None:
    """What was needed only for a moment goes back to the system, where its allocator can be told so: 5 MB."""
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not glibc
        pass


def _estimate(text: str) -> int:
    return -(-len(text.encode()) // 3)
