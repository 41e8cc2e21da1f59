"""What requests come to on the wire: their tokens, and how much of one the request before had already. Pure."""

import json
from collections.abc import Sequence
from itertools import pairwise
from os.path import commonprefix

from nanomem.models.tokens import O200kTokenizer
from tests.emulators.openai import Json


def packed(value: object) -> str:
    """As small as JSON can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_cached(request: Json) -> bytes:
    """A request in the order in which a provider's cache has it: tools, then messages."""
    return (packed(request["tools"]) + packed(request["messages"])).encode()


def shared(prompts: Sequence[bytes]) -> list[int]:
    """For each prompt but the first, how many of its bytes are a prefix of the one before, too."""
    return [len(commonprefix(pair)) for pair in pairwise(prompts)]  # noqa: RUF071 - by the byte is what is meant


async def tokens(request: Json, tokenizer: O200kTokenizer) -> int:
    """Of its schemas and texts, in o200k_base."""
    texts = [packed(request["tools"]), *(message["content"] for message in request["messages"])]
    return sum([await tokenizer.count(text) for text in texts])
