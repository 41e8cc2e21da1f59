"""Vectors by any embedding model that litellm reaches: one call, tried once, through the adapter of chat models."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from nanomem.errors import Misuse, NotNow, TryLater
from nanomem.messages import Usage
from nanomem.models.failures import secrets_in, translated
from nanomem.models.litellm import ByLitellm
from nanomem.models.wire import counted
from nanomem.ports import Embedded, Vector
from nanomem.recall.words import clean


class LitellmEmbedder(ByLitellm):
    """A `ports.Embedder`; `timeout_s` is for a whole call, whatever litellm tries again within it."""

    is_local = False

    async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
        """See the port. A text of nothing is not sent, and points nowhere."""
        wanted = [at for at, text in enumerate(texts) if text.strip()]
        if not wanted:
            return Embedded([()] * len(texts))
        litellm = await self._loaded()
        provider_name, provider = self._provider(litellm)
        try:
            key = provider.api_key()
        except Misuse as error:
            raise NotNow(error.text, gist=error.gist) from None
        call = {
            "timeout": self._timeout_s,
            **provider.extra,
            **self._reached(provider_name, provider, key),
            **purpose(f"{provider_name} {self.name}", question),
            "model": self.name,
            "input": [clean(texts[at]) for at in wanted],
            "max_retries": 0,
        }
        try:
            answer = await asyncio.wait_for(litellm.aembedding(**call), self._timeout_s)
        except Exception as error:  # whatever litellm raises where a provider makes no vectors, the daemon goes on
            failure = translated(error, self.name, provider_name, secrets_in([key, provider.extra]))
        else:
            found = dict(zip(wanted, self._checked(answer.data, len(wanted)), strict=True))
            return Embedded([found.get(at, ()) for at in range(len(texts))], self._usage(litellm, answer.usage))
        raise failure  # out here it does not drag along the library's error, whose frames hold texts and key

    def _checked(self, data: Any, number: int) -> list[Vector]:
        """The vectors in the order of the texts. Raises TryLater: they are not what was asked for."""
        found: dict[int, Vector] = {}
        with suppress(TypeError, ValueError, KeyError, AttributeError):
            for at, one in enumerate(data or ()):
                given = one if isinstance(one, Mapping) else vars(one)
                found[int(given.get("index", at))] = tuple(map(float, given["embedding"]))
        sizes = {len(vector) for vector in found.values()}
        if sorted(found) != list(range(number)) or len(sizes) != 1 or 0 in sizes:
            raise TryLater(f"{self.name} gave {len(found)} vectors for {number} texts, or none that can be used.")
        if not all(math.isfinite(sum(vector)) for vector in found.values()):
            raise TryLater(f"{self.name} gave a vector with something in it that is no number.")
        return [found[at] for at in range(number)]

    def _usage(self, litellm: Any, given: Any) -> Usage:
        tokens = counted(getattr(given, "prompt_tokens", None))
        cost = 0.0
        with suppress(Exception):  # for a model without a price it raises bare Exceptions among others
            prices = litellm.cost_per_token(model=self.name, prompt_tokens=tokens, call_type="aembedding")
            cost = float(sum(prices))
        return Usage(tokens, cost_usd=cost)


def purpose(model: str, question: bool) -> dict[str, str]:
    """What a call says of its texts: Cohere's models, whoever serves them, want to know what they are for."""
    if "cohere" not in model:
        return {}
    return {"input_type": "search_query" if question else "search_document"}
