"""One litellm model after another, talking to an emulated provider on loopback."""

from collections.abc import AsyncIterator, Callable

import pytest

from nanomem.models.litellm import LitellmModel, Provider
from tests.emulators.openai import OpenAIServer

KEY = "sk-canary-4711-do-not-show"


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    """A provider that knows one model and one key."""
    async with OpenAIServer(api_key=KEY, models=["m"]) as running:
        yield running


@pytest.fixture
def model(server: OpenAIServer) -> Callable[..., LitellmModel]:
    """Makes a model that asks the provider; `name`, `key`, `timeout_s` and `extra` can be changed."""

    def make(
        name: str = "openai/m", key: str = KEY, timeout_s: float = 20.0, extra: dict[str, object] | None = None
    ) -> LitellmModel:
        provider = Provider(lambda: key, server.base_url, extra or {})
        return LitellmModel(name, {"openai": provider}, timeout_s=timeout_s)

    return make
