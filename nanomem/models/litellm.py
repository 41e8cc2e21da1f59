"""Any model that litellm reaches. The only place where litellm is imported, and where its errors are seen.

Knows nothing of sessions, memory or retries: one call, tried once.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from nanomem.errors import NotNow, TellUser, TryLater
from nanomem.messages import Reply, Request, Usage
from nanomem.models import wire
from nanomem.models.failures import secrets_in, translated
from nanomem.sockets import SIGNS_OF_LIFE


@dataclass(frozen=True, slots=True)
class Provider:
    """How a provider is reached. `api_key` is looked up at each call; "" leaves it to litellm's own ways.

    `extra` goes to litellm as it is; of what this adapter says it may change the request's options.
    """

    api_key: Callable[[], str] = field(default=lambda: "", repr=False)
    api_base: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Library:
    """litellm, imported once for all who share this; after a failure once more for whoever asks next."""

    def __init__(self) -> None:
        self._future: Future[Any] | None = None

    def begin(self) -> Future[Any]:
        """Imports it in a thread (3 s, 177 MB), unless that was begun, and returns at once."""
        if self._future is None or (self._future.done() and self._future.exception()):
            executor = ThreadPoolExecutor(1, "import-litellm")
            self._future = executor.submit(_import)
            executor.shutdown(wait=False)
        return self._future


class ByLitellm:
    """A model by its name in litellm. `providers` is keyed by litellm's own provider names."""

    def __init__(
        self, name: str, providers: Mapping[str, Provider], *, timeout_s: float, library: Library | None = None
    ) -> None:
        self.name = name
        self._providers = providers
        self._timeout_s = timeout_s
        self._library = library or Library()

    async def warm_up(self) -> None:
        """Starts to load litellm and returns at once; the first call says if that failed."""
        self._library.begin()

    async def _loaded(self) -> Any:
        try:
            return await asyncio.shield(asyncio.wrap_future(self._library.begin()))
        except (ImportError, OSError, AttributeError) as error:
            raise TellUser(f"litellm, which reaches {self.name}, could not be loaded: {error}") from None

    def _provider(self, litellm: Any) -> tuple[str, Provider]:
        prefix, slash, _ = self.name.partition("/")
        if slash and prefix in self._providers:
            return prefix, self._providers[prefix]
        try:
            found = str(litellm.get_llm_provider(self.name)[1])
        except litellm.exceptions.BadRequestError:
            hint = 'Names begin with their provider, as in "anthropic/claude-sonnet-4-5".'
            raise NotNow(f'litellm knows no provider for the model "{self.name}". {hint}') from None
        return found, self._providers.get(found, Provider())

    def _reached(self, provider_name: str, provider: Provider, key: str) -> dict[str, Any]:
        """What a call says of the way there."""
        call: dict[str, Any] = {}
        if provider.api_base:
            call["api_base"] = provider.api_base
            if provider_name == "openai":
                key = key or "none"  # a local server wants none; without one litellm would send the environment's
        if key:
            call["api_key"] = key
        return call


class LitellmModel(ByLitellm):
    """A `ports.Model`; `timeout_s` is for each gap."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """One call, tried once; see `ports.Model`. An answer of over 400,000 characters is not read to its end."""
        litellm = await self._loaded()
        provider_name, provider = self._provider(litellm)
        key = provider.api_key()
        call = self._call(request, provider_name, provider, key)
        try:
            return await self._streamed(litellm, call, wire.Draft(request), heard)
        # OpenAIError is the root of all that litellm raises.
        except (litellm.exceptions.openai.OpenAIError, OSError) as error:
            failure = translated(error, self.name, provider_name, secrets_in([key, provider.extra]))
        raise failure  # out here it does not drag along the library's error, whose frames hold prompt and key

    def _call(self, request: Request, provider_name: str, provider: Provider, key: str) -> dict[str, Any]:
        call: dict[str, Any] = {"timeout": self._timeout_s, **wire.options(request), **provider.extra}
        return call | {
            **self._reached(provider_name, provider, key),
            "model": self.name,
            "messages": wire.messages(request, wire.wants_marks(provider_name, self.name)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            "num_retries": 0,
        }

    async def _streamed(
        self, litellm: Any, call: dict[str, Any], draft: wire.Draft, heard: Callable[[str], None] | None
    ) -> Reply:
        usage, ended, loop = None, False, asyncio.get_running_loop()
        async with asyncio.timeout(self._timeout_s) as gap:
            stream = await litellm.acompletion(**call)
            async with aclosing(stream):
                async for chunk in stream:
                    gap.reschedule(loop.time() + self._timeout_s)
                    usage = getattr(chunk, "usage", None) or usage
                    choice = next(iter(getattr(chunk, "choices", None) or ()), None)
                    if choice and draft.take(choice.delta, choice.finish_reason) and heard:
                        heard(draft.text)
                    ended = ended or bool(choice and choice.finish_reason)
                    # Usage comes last. Behind it litellm would only report to logs that nobody keeps, 9 ms a call.
                    if draft.full or (ended and usage):
                        break
        # litellm makes up a finish reason where none came.
        complete = draft.full or getattr(stream, "received_finish_reason", "stop") is not None
        return self._checked(draft.reply(self._usage(litellm, usage)), complete)

    def _checked(self, reply: Reply, complete: bool) -> Reply:
        """The reply, if there is anything in it."""
        if reply.tool_calls or reply.text.strip():
            if not complete:
                raise TryLater(f"The answer of {self.name} was cut off.")
            return reply
        if reply.cut == "content_filter":
            raise TellUser(f"The content filter of {self.name} stopped the answer.")
        if reply.cut == "length":
            used = f"{self.name} used up its tokens before it said anything."
            raise TellUser(f"{used} Raise agents.defaults.max_completion_tokens.")
        raise TryLater(f"{self.name} gave an empty answer.")

    def _usage(self, litellm: Any, given: Any) -> Usage:
        if given is None:
            return Usage()
        details = getattr(given, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None) or getattr(given, "cache_read_input_tokens", None)
        cost = 0.0
        with suppress(Exception):  # for a model without a price it raises bare Exceptions among others
            cost = float(sum(litellm.cost_per_token(model=self.name, usage_object=given)))
        prompt, completion = wire.counted(given.prompt_tokens), wire.counted(given.completion_tokens)
        return Usage(prompt, completion, wire.counted(cached), max(0.0, cost))


def _import() -> Any:
    """litellm, tamed. Both settings in the environment count only if they are there before the import."""
    import logging

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches its price list
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # else it reads any .env it finds
    import litellm

    tamed = {
        "suppress_debug_info": True,
        "turn_off_message_logging": True,
        "telemetry": False,
        "drop_params": True,
        "disable_token_counter": True,  # it would load a vocabulary of its own, for usage nobody measured
        "REPEATED_STREAMING_CHUNK_LIMIT": sys.maxsize,
    }
    vars(litellm).update(tamed)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):  # their warnings quote requests
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name in ("openai", "httpx", "httpcore", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    _spare_the_loop()
    _notice_who_is_gone()
    return litellm


def _spare_the_loop() -> None:
    """Has the OpenAI client take our plain JSON as it is.

    It tries every type a message may have on each message of each call, 0.25 ms a message without a
    pause: 500 messages would hold up all chats for 130 ms.
    """
    from openai._utils import is_given
    from openai.resources.chat.completions import completions

    async def given(body: Any, _kind: Any) -> Any:
        return {name: value for name, value in body.items() if is_given(value)}

    vars(completions)["async_maybe_transform"] = given


def _notice_who_is_gone() -> None:
    """Has connections ask the other side for signs of life: a call over one that ended without a word fails after
    seconds, where it would be waited for until `timeout_s`.
    """
    from litellm.llms.custom_httpx import http_handler

    def made(address: Any) -> socket.socket:
        one = socket.socket(*address[:3])
        one.setblocking(False)
        for option in SIGNS_OF_LIFE:
            one.setsockopt(*option)
        return one

    vars(http_handler)["_build_aiohttp_keepalive_socket_factory"] = lambda: made
