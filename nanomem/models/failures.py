"""What a provider's error means for us, in words a person may see. Pure; no key is ever in them."""

import math
import re
from collections.abc import Mapping, Set
from typing import Any

from nanomem.errors import CannotForce, NanomemError, NotNow, TellUser, TooLong, TryLater

_LONGEST_REASON = 300
_KEYLIKE = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}|(?i:bearer)\s+[^\s'\"]+|(?<=[?&]key=)[^&\s'\"]+"
)
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception)(?::| -)\s*)+")
_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|window)|(?:prompt|input|request).{0,20}too (?:long|large)|too many (?:input )?tokens",
    re.I,
)
_NO_MONEY = re.compile(r"insufficient.{0,10}(?:quota|balance|credit)|exceeded your current quota|billing", re.I)
_FILTER = re.compile(r"content.?(?:filter|policy|management)|flagged|safety system", re.I)
_NO_FORCE = re.compile(r"tool.?choice", re.I)
_NO_KEY = re.compile(r"missing credentials|api.?key.{0,40}(?:missing|not (?:set|provided|valid|found))", re.I)


def translated(error: Exception, model: str, provider: str, secrets: Set[str]) -> NanomemError:
    """Named for what the catcher does next. `error` is litellm's, or a timeout of our own."""
    if isinstance(error, TimeoutError):
        return _of(TryLater, f"{model} did not answer in time")
    # What goes wrong within a stream comes wrapped.
    error = getattr(error, "original_exception", None) or error
    kind, status = type(error).__name__, getattr(error, "status_code", None) or 500
    said = f"{error} {getattr(error, 'body', '')}"
    because = _reason(str(error), secrets)
    if status in (401, 403) or _NO_KEY.search(said):
        return _of(NotNow, f"The provider refused the key for {model}. Check [providers.{provider}] api_key")
    if status == 402 or (status == 429 and _NO_MONEY.search(said)):
        return _of(NotNow, f"The account behind {model} has no credit left", because)
    if status == 429:
        return _of(TryLater, f"{model} is asked too often just now", after_s=_retry_after(error))
    if kind == "ContextWindowExceededError" or (status < 500 and _TOO_LONG.search(said)):
        return _of(TooLong, f"The request is too long for {model}", because)
    if kind == "ContentPolicyViolationError" or (status < 500 and _FILTER.search(said)):
        return _of(TellUser, f"The content filter of {model} refused this", because)
    if status >= 500 or status in (408, 409, 425):
        return _of(TryLater, f"{model} cannot be reached or is in trouble", because, after_s=_retry_after(error))
    if _NO_FORCE.search(said):
        return _of(CannotForce, f"{model} does not take a forced tool call", because)
    if status == 404:
        return _of(NotNow, f"The provider does not know the model {model}", because)
    return _of(TellUser, f"{model} refused the request", because)


def _of(kind: type[NanomemError], what: str, because: str = "", **more: Any) -> NanomemError:
    """What the provider said is for the person alone."""
    return kind(f"{what}: {because}" if because else f"{what}.", gist=what, **more)


def secrets_in(given: Any) -> set[str]:
    """The words of all texts in a provider's settings: each may be a secret, and none has to be shown."""
    if isinstance(given, str):
        return {word for word in given.split() if len(word) > 3}
    values = given.values() if isinstance(given, Mapping) else given if isinstance(given, list) else ()
    return set().union(*map(secrets_in, values))


def _reason(said: str, secrets: Set[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        said = said.replace(secret, "[key]")
    said = _KEYLIKE.sub("[key]", said)
    said = re.sub(r"<[^>]{0,200}>", " ", said[: 20 * _LONGEST_REASON])
    said = _PREFIX.sub("", " ".join("".join(c if c.isprintable() else " " for c in said).split()))
    return said if len(said) <= _LONGEST_REASON else said[: _LONGEST_REASON - 1] + "…"


def _retry_after(error: Exception) -> float | None:
    answer = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(answer, "headers", None) or {}
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError, TypeError):  # a date is no help without a clock
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
