"""The first settings: what a new owner says or is asked, checked before any of it is written."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import typer

from nanomem.errors import Misuse
from nanomem.settings import Settings, provider_of, zone


@dataclass(frozen=True, slots=True)
class Given:
    """What is to be set; what is None stays as it is."""

    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_base: str | None = None
    timezone: str | None = None
    telegram_token: str | None = field(default=None, repr=False)
    allow_from: str | None = None
    owner: str | None = None

    def check(self) -> None:
        """Raises Misuse."""
        _check_timezone(self.timezone)
        _check_token(self.telegram_token)

    def values(self, settings: Settings) -> dict[str, str]:
        """What to write, by the setting's name. Raises Misuse."""
        model = self.model or settings.agents.defaults.model
        if model == "offline" and (self.api_key or self.api_base):
            raise Misuse("A key or address needs the model it is for: --model, e.g. anthropic/claude-sonnet-4-5.")
        wanted = {
            "agents.defaults.model": self.model,
            f"providers.{provider_of(model)}.api_key": self.api_key,
            f"providers.{provider_of(model)}.api_base": self.api_base,
            "agents.defaults.timezone": self.timezone,
            "channels.telegram.token": self.telegram_token,
            "channels.telegram.enabled": "true" if self.telegram_token else None,
            "channels.telegram.allow_from": self.allow_from,
            "channels.telegram.owner": self.owner,
        }
        return {key: value for key, value in wanted.items() if value is not None}


def ask(given: Given, settings: Settings) -> Given:
    """With what a person at the terminal answers to the questions that are left."""
    defaults = settings.agents.defaults
    model = given.model or str(typer.prompt("Model (offline needs no key)", default=defaults.model))
    return replace(
        given,
        model=model,
        api_key=given.api_key or (_secret("Its API key (empty: as it is)") if model != "offline" else None),
        timezone=given.timezone or _prompt("Time zone", defaults.timezone, _check_timezone),
        telegram_token=given.telegram_token
        or _secret("Telegram token from @BotFather (empty: as it is)", _check_token),
    )


def _check_timezone(name: str | None) -> None:
    if name is not None and name != "auto":
        zone(name, {})


def _check_token(token: str | None) -> None:
    """A reference is looked up later."""
    if token and not re.fullmatch(r"\d+:\S+|(env|file):.+", token):
        raise Misuse("That is no Telegram token: one from @BotFather looks like 123456789:AAbCd..., digits first.")


def _prompt(question: str, default: str, check: Callable[[str | None], None], hidden: bool = False) -> str:
    """An answer that passes; until then it is asked again."""

    def checked(answer: str) -> str:
        try:
            check(answer.strip())
        except Misuse as error:
            raise typer.BadParameter(error.text) from None
        return answer.strip()

    return str(typer.prompt(question, default, hidden, value_proc=checked, show_default=not hidden))


def _secret(question: str, check: Callable[[str | None], None] = lambda _: None) -> str | None:
    return _prompt(question, "", check, hidden=True) or None
