"""What the settings are: every table, its keys, their types and defaults. Knows nothing of files and spellings."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct

from nanomem.cron import next_after
from nanomem.errors import Misuse
from nanomem.secret import Secret

Count = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
Positive = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
Seconds = Annotated[float, Meta(ge=0, le=10**9, description="a number of seconds, 0 or more")]
Ratio = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1")]
Temperature = Annotated[float, Meta(ge=0, le=2, description="a number from 0 to 2")]
Money = Annotated[float, Meta(ge=0, description="a number, 0 or more")]
Name = Annotated[str, Meta(pattern=r"\S", description="a name, not empty")]
Url = Annotated[str, Meta(pattern=r"^https?://\S+$", description="an address that begins with http:// or https://")]
UrlOrNone = Annotated[str, Meta(pattern=r"^(https?://\S+)?$", description="an http(s) address, or empty")]
Proxy = Annotated[
    str, Meta(pattern=r"^((https?|socks5h?)://\S+)?$", description="an http(s) or socks5 address, or empty")
]
Cron = Annotated[str, Meta(pattern=r"^\s*(\S+\s+){4}\S+\s*$", description='five cron fields, e.g. "0 4 * * *"')]
UserId = Annotated[int, Meta(ge=1)]
UserIds = Annotated[tuple[UserId, ...], Meta(description="a list of numeric user ids, e.g. [123456]")]


class Defaults(Struct, frozen=True):
    model: Name = "offline"
    max_completion_tokens: Positive = 8192
    context_window_tokens: Positive = 65536
    safety_buffer_tokens: Count = 1024
    temperature: Temperature = 0.1
    max_tool_iterations: Positive = 40
    memory_window: Count = 100
    max_messages: Positive = 500
    timestamps: Literal["relative", "absolute", "off"] = "relative"
    timezone: Name = "auto"
    request_timeout_s: Seconds = 120
    cache_ttl_s: Seconds = 300
    daily_token_limit: Count = 0
    daily_cost_limit_usd: Money = 0.0

    def __post_init__(self) -> None:
        if self.timezone != "auto":
            zone(self.timezone, {})
        if self.budget <= 0:
            raise Misuse(
                f"agents.defaults.context_window_tokens = {self.context_window_tokens} less "
                f"max_completion_tokens {self.max_completion_tokens} and safety_buffer_tokens "
                f"{self.safety_buffer_tokens} leaves {self.budget} tokens for a prompt; it must be above 0."
            )

    @property
    def budget(self) -> int:
        """How many tokens a prompt may have; above 0."""
        return self.context_window_tokens - self.max_completion_tokens - self.safety_buffer_tokens


class Consolidation(Struct, frozen=True):
    model: str = ""
    target_ratio: Ratio = 0.5
    soft_ratio: Ratio = 0.8
    max_rounds: Positive = 5
    max_failures_before_raw_archive: Positive = 3
    deadline_s: Seconds = 60


class Dream(Struct, frozen=True):
    enabled: bool = True
    schedule: Cron = "0 4 * * *"
    threshold_entries: Count = 20
    quiet_s: Seconds = 3600
    model: str = ""
    daily_token_limit: Count = 200_000

    def __post_init__(self) -> None:
        try:
            next_after(self.schedule, UTC, datetime.now(UTC))
        except ValueError as error:
            raise Misuse(
                f"agents.dream.schedule = {self.schedule!r} is no cron expression ({error}); "
                'it has five fields, e.g. "0 4 * * *" for four in the morning.'
            ) from None


class Agents(Struct, frozen=True):
    defaults: Defaults = Defaults()
    consolidation: Consolidation = Consolidation()
    dream: Dream = Dream()


class Memory(Struct, frozen=True):
    spaces: Literal["audience", "shared"] = "audience"
    remote: str = ""
    recall_unasked: bool = True
    embeddings: str = ""


class Provider(Struct, frozen=True):
    """How to reach one provider; `options` are further keys for litellm, what is secret in them wrapped."""

    api_key: Secret = Secret("")
    api_base: UrlOrNone = ""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def extra(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """The options as litellm takes them, secrets revealed. Raises Misuse."""
        return dict(msgspec.to_builtins(self.options, enc_hook=lambda secret: secret.reveal(environ)))


class Telegram(Struct, frozen=True):
    enabled: bool = False
    token: Secret = Secret("env:TELEGRAM_BOT_TOKEN", "channels.telegram.token")
    allow_from: UserIds = ()
    owner: UserIds = ()
    base_url: Url = "https://api.telegram.org/bot"
    base_file_url: Url = "https://api.telegram.org/file/bot"
    proxy: Proxy = ""
    group_policy: Literal["mention", "all", "off"] = "mention"

    def __post_init__(self) -> None:
        allowed, shown = set(self.allow_from), f"channels.telegram.owner = {list(self.owner)}"
        if not self.owner and len(allowed) > 1:
            raise Misuse(f"{shown}: name the owner first, since channels.telegram.allow_from has more than one id.")
        if not allowed.issuperset(self.owner):
            raise Misuse(f"{shown}: who is named there must be in channels.telegram.allow_from, too.")

    @property
    def owners(self) -> UserIds:
        """The owner's ids: those named, else the only one that may talk."""
        return self.owner or self.allow_from[:1]


class Channels(Struct, frozen=True):
    telegram: Telegram = Telegram()


class Exec(Struct, frozen=True):
    enabled: bool = True
    sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    timeout_s: Seconds = 60


class Tools(Struct, frozen=True):
    web_fetch: bool = True
    exec: Exec = Exec()


class Log(Struct, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


ANTHROPIC_KEY = Secret("env:ANTHROPIC_API_KEY", "providers.anthropic.api_key")


class Settings(Struct, frozen=True):
    agents: Agents = Agents()
    memory: Memory = Memory()
    providers: Mapping[str, Provider] = msgspec.field(default_factory=lambda: {"anthropic": Provider(ANTHROPIC_KEY)})
    channels: Channels = Channels()
    tools: Tools = Tools()
    log: Log = Log()

    def provider(self, model: str) -> Provider:
        """The provider of a model; one without settings leaves all to litellm."""
        return self.providers.get(provider_of(model), Provider())


def provider_of(model: str) -> str:
    """The provider's name in a litellm model name; bare names are Anthropic's or OpenAI's."""
    prefix, slash, _ = model.partition("/")
    return prefix if slash else "anthropic" if model.startswith("claude") else "openai"


def zone(name: str, environ: Mapping[str, str]) -> tzinfo:
    """A time zone by its name; `auto` is the machine's: TZ, then /etc/localtime, then UTC. Raises Misuse."""
    if name == "auto":
        return _machines_zone(environ.get("TZ", ""))
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Misuse(f"agents.defaults.timezone = {name!r} is not a time zone; use one like Europe/Berlin.") from None


def _machines_zone(wanted: str) -> tzinfo:
    try:
        return ZoneInfo(wanted.lstrip(":").rpartition("zoneinfo/")[2])
    except (KeyError, ValueError, OSError):
        pass
    try:
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file, key=os.path.realpath(file.name).rpartition("zoneinfo/")[2])
    except (ValueError, OSError):
        return UTC
