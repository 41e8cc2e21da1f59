"""The litellm adapter for vectors: what reaches the wire, and what each fault becomes."""

from collections.abc import Callable
from typing import Any

import pytest

from nanomem.errors import Misuse, NanomemError, NotNow, TellUser, TooLong, TryLater
from nanomem.models.embedding import LitellmEmbedder, purpose
from nanomem.models.litellm import Provider
from tests.emulators.openai import Fault, OpenAIServer
from tests.models.conftest import KEY

Make = Callable[..., LitellmEmbedder]


@pytest.fixture
def embedder(server: OpenAIServer) -> Make:
    def make(name: str = "openai/text-embedding-3-small", key: str = KEY, timeout_s: float = 20.0) -> LitellmEmbedder:
        return LitellmEmbedder(name, {"openai": Provider(lambda: key, server.base_url)}, timeout_s=timeout_s)

    return make


async def test_texts_are_sent_in_one_call_but_for_those_of_nothing(server: OpenAIServer, embedder: Make) -> None:
    """With the key and the address of the settings, and what it cost comes back."""
    embedded = await embedder().embed(["a dog", "", "rain"])
    [sent] = server.embedding_requests
    assert sent["input"] == ["a dog", "rain"] and sent["model"] == "text-embedding-3-small"
    assert "dimensions" not in sent
    assert [len(vector) for vector in embedded.vectors] == [8, 0, 8]
    assert embedded.usage.prompt_tokens == 3 and 0 < embedded.usage.cost_usd < 0.001
    assert embedded.usage.completion_tokens == 0


async def test_a_model_without_a_price_costs_nothing(server: OpenAIServer, embedder: Make) -> None:
    """As a model of one's own."""
    assert (await embedder("openai/my-own").embed(["a dog"])).usage.cost_usd == 0.0


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.unauthorized(), NotNow),
        (Fault.quota(), NotNow),
        (Fault.context_length(), TooLong),
        (Fault(400, {"error": {"message": "input has bad words: flagged", "type": "x"}}), TellUser),
        (Fault.server_error(), TryLater),
        (Fault.rate_limited(0.01), TryLater),
        (Fault.not_json(), TryLater),
        (Fault(404, {"error": {"message": "no such model", "type": "x"}}), NotNow),
    ],
    ids=str,
)
async def test_faults(server: OpenAIServer, embedder: Make, fault: Fault, error: type[NanomemError]) -> None:
    """Named as those of chat models are, and without the key."""
    server.queue_embeddings(*[fault] * 5)
    with pytest.raises(error) as raised:
        await embedder().embed(["a dog"])
    assert KEY not in raised.value.text
    assert raised.value.__cause__ is None and raised.value.__context__ is None


async def test_a_provider_that_is_not_there_is_asked_later(embedder: Make) -> None:
    """Nobody listens at the address."""
    reach = {"openai": Provider(lambda: KEY, "http://127.0.0.1:9/v1")}
    with pytest.raises(TryLater):
        await LitellmEmbedder("openai/m", reach, timeout_s=20).embed(["a dog"])


async def test_a_key_that_is_missing_is_said() -> None:
    """Whatever the way it is looked up."""

    def missing() -> str:
        raise Misuse("env:NO_KEY is not set.")

    with pytest.raises(NotNow, match="NO_KEY"):
        await LitellmEmbedder("openai/m", {"openai": Provider(missing)}, timeout_s=20).embed(["a dog"])


async def test_a_provider_without_vectors_is_no_bug_of_ours() -> None:
    """litellm raises this and that there."""
    with pytest.raises((TryLater, TellUser)):
        await LitellmEmbedder("anthropic/claude-x", {"anthropic": Provider(lambda: KEY)}, timeout_s=20).embed(["dog"])
    with pytest.raises(TellUser, match="knows no provider"):
        await LitellmEmbedder("no-such-model", {}, timeout_s=20).embed(["dog"])


def answer(*data: Any) -> Fault:
    """A success with these vectors, or whatever should not be there."""
    return Fault(200, {"object": "list", "data": list(data), "model": "m", "usage": None})


async def test_vectors_are_put_into_the_order_of_their_texts(server: OpenAIServer, embedder: Make) -> None:
    """By their index."""
    server.queue_embeddings(answer({"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}))
    embedded = await embedder().embed(["one", "two"])
    assert list(embedded.vectors) == [(1.0, 0.0), (0.0, 1.0)] and embedded.usage.tokens == 0


ONE: dict[str, Any] = {"index": 0, "embedding": [1.0]}


@pytest.mark.parametrize(
    "fault",
    [
        answer(),
        answer(ONE),
        answer(ONE, ONE),
        answer(ONE, {"index": 7, "embedding": [1.0]}),
        answer(ONE, {"index": 1, "embedding": [1.0, 2.0]}),
        answer({"index": 0, "embedding": []}, {"index": 1, "embedding": []}),
        answer(ONE, {"index": 1, "embedding": [float("nan")]}),
        answer(ONE, {"index": 1, "embedding": "what ever"}),
        answer(ONE, {"index": 1}),
        answer("what", "ever"),
        Fault(200, {"what": "ever"}),
    ],
    ids=range(11),
)
async def test_what_is_no_vector_for_each_text_is_refused(server: OpenAIServer, embedder: Make, fault: Fault) -> None:
    """Too few, twice the same, of two lengths, no numbers."""
    server.queue_embeddings(*[fault] * 5)
    with pytest.raises(TryLater):
        await embedder().embed(["one", "two"])


def test_cohere_is_told_what_a_text_is_for() -> None:
    """Its models make other vectors of questions; others are not asked to."""
    for model in ("cohere cohere/embed-v4", "bedrock bedrock/cohere.embed-english-v3"):
        assert purpose(model, question=True) == {"input_type": "search_query"}
        assert purpose(model, question=False) == {"input_type": "search_document"}
    assert purpose("openai openai/m", question=True) == {}
