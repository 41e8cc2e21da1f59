"""What every embedder promises: one suite over the fake, a provider on loopback, and a model in a folder."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanomem.models.embedding import LitellmEmbedder
from nanomem.models.litellm import Provider
from nanomem.models.local_embedding import LocalEmbedder
from nanomem.ports import Embedder, Vector
from nanomem.testing import FakeEmbedder
from tests.emulators.openai import OpenAIServer
from tests.models.toy import toy_model


@pytest.fixture(params=["fake", "litellm", "local"])
async def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Embedder]:
    if request.param == "litellm":
        async with OpenAIServer(api_key="sk-right") as server:
            reach = {"openai": Provider(lambda: "sk-right", server.base_url)}
            yield LitellmEmbedder("openai/text-embedding-3-small", reach, timeout_s=20)
    elif request.param == "local":
        yield LocalEmbedder(toy_model(tmp_path / "toy"))
    else:
        yield FakeEmbedder()


def cosine(one: Vector, other: Vector) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


async def test_shared_words_are_near(embedder: Embedder) -> None:
    """A vector for each text, in their order, all of one length."""
    first, second, third = (await embedder.embed(["the dog", "a dog", "tax"])).vectors
    assert len(first) == len(second) == len(third) > 0
    assert cosine(first, second) > cosine(first, third) + 0.1


async def test_a_question_is_near_to_what_answers_it(embedder: Embedder) -> None:
    """Whatever a model does else for questions."""
    [question] = (await embedder.embed(["dog"], question=True)).vectors
    dog, tax = (await embedder.embed(["the dog", "the tax"])).vectors
    assert cosine(question, dog) > cosine(question, tax)


async def test_texts_of_nothing_point_nowhere(embedder: Embedder) -> None:
    """And hold nothing up; a lone surrogate does not either."""
    empty, dog, spaces = (await embedder.embed(["", "dog \ud83d", " \n"])).vectors
    assert not any(empty) and any(dog) and not any(spaces)
    assert not any((await embedder.embed([""])).vectors[0])
    assert list((await embedder.embed([])).vectors) == []


async def test_the_name_stays(embedder: Embedder) -> None:
    """By it an index knows whether its vectors can be compared."""
    before = embedder.name
    await embedder.embed(["dog"])
    assert embedder.name == before != ""
