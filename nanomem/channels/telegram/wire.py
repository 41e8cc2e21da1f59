"""The Bot API through python-telegram-bot: its errors end here, and with them every trace of the token.

Knows nothing of updates, people or turns. Whatever goes wrong leaves as TryLater, Refused, Gone or Moved.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiofiles
import httpx
from telegram import Bot, LinkPreviewOptions, MessageEntity
from telegram import error as errors
from telegram.request import HTTPXRequest

from nanomem.channels.telegram.formatting import formatted, sendable
from nanomem.channels.telegram.updates import KINDS, Me
from nanomem.errors import Gone, Misuse, Refused, TryLater
from nanomem.sockets import SIGNS_OF_LIFE

LARGEST_FILE = 20 * 1024 * 1024
"""Bytes a bot may fetch: https://core.telegram.org/bots/api#getfile"""

_TOO_LARGE = "The file is larger than the 20 MB that Telegram lets bots fetch."
_WRONG_TOKEN_S = 60.0
_TIMEOUT_S = 20.0
_CONNECT_S = 4.0
_POLL_LATE_S = 5.0  # a poll that is answered later than this after its time is given up
_DOWNLOAD_S = 300.0
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)  # else Telegram would open any link that a model writes
_NOT_EDITABLE = ("to edit not found", "can't be edited", "message_id_invalid", "no text in the message to edit")
T = TypeVar("T")


class Moved(Refused):
    """The group has another id now."""

    def __init__(self, chat: int) -> None:
        super().__init__("The group became a supergroup.")
        self.chat = chat


class _Flood(errors.TelegramError):
    """As the library's RetryAfter, which cannot be made without a warning."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"asked to wait {after_s:g} s")
        self.after_s = after_s


class _Request(HTTPXRequest):
    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        times = (_TIMEOUT_S, _TIMEOUT_S, _CONNECT_S, _TIMEOUT_S)
        super().__init__(1, *times, httpx_kwargs={"transport": transport})

    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        code, payload = await super().do_request(*args, **options)
        after_s = self.parse_json_payload(payload).get("parameters", {}).get("retry_after") if code == 429 else None
        if isinstance(after_s, (int, float)):
            raise _Flood(after_s)
        return code, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """As the library's, without logging the whole answer."""
        try:
            answer = json.loads(payload)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise errors.TelegramError("an answer that is not the Bot API's")
        return answer


class Wire:
    """One bot's connections: one for polling, and a pool for all else. Opened when first used."""

    def __init__(self, token: str, base_url: str, base_file_url: str, proxy: str) -> None:
        self._secrets = {token, token.partition(":")[2]} - {""}
        self._proxy = proxy or _proxy_of_the_environment(base_url)
        self._verify = httpx.create_ssl_context()
        try:
            self._polling = _Request(self._transport(1))
            self._sending = _Request(self._transport(32))
            self._bot = Bot(token, base_url, base_file_url, self._sending, self._polling)
        except errors.InvalidToken:
            raise Misuse("channels.telegram.token is empty: put the token there that @BotFather gave you.") from None
        except (ValueError, ImportError, httpx.InvalidURL):
            raise Misuse("channels.telegram.proxy is not the address of a proxy that can be used.") from None

    def _transport(self, connections: int) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=connections)
        return httpx.AsyncHTTPTransport(
            verify=self._verify, limits=limits, proxy=self._proxy, socket_options=SIGNS_OF_LIFE
        )

    async def close(self) -> None:
        await self._polling.shutdown()
        await self._sending.shutdown()

    async def connect(self) -> Me:
        """Who the bot is. A webhook, with which there are no updates to poll for, is taken down."""
        user = await self._asked(self._bot.get_me())
        await self._asked(self._bot.delete_webhook())
        return Me(user.id, user.username or "")

    async def register(self, commands: Sequence[tuple[str, str]]) -> None:
        await self._asked(self._bot.set_my_commands(commands))

    async def updates(self, offset: int | None, wait_s: int) -> list[object]:
        """The next updates, raw; after at most so many seconds, which may be none."""
        asked = {"offset": offset, "timeout": wait_s, "allowed_updates": list(KINDS)}
        # Spelled so that the library does not point to its own method, which stumbles over what it cannot parse.
        found = await self._asked(self._bot.do_api_request("get_Updates", asked, read_timeout=wait_s + _POLL_LATE_S))
        if not isinstance(found, list):
            raise TryLater("Telegram's answer could not be read.")
        return found

    async def send(self, chat: int, topic: int | None, part: str) -> int:
        """The id of the new message."""
        message = await self._shown(part, partial(self._bot.send_message, chat, message_thread_id=topic))
        return message.message_id

    async def edit(self, chat: int, message: int, part: str) -> None:
        """Idempotent."""
        try:
            await self._shown(part, partial(self._bot.edit_message_text, chat_id=chat, message_id=message))
        except Refused as error:
            if "is not modified" not in error.text:
                raise

    async def download(self, file_id: str, to: Path, within_s: float = _DOWNLOAD_S) -> None:
        """At most 20 MB, in at most so many seconds; what was fetched before a failure is left there."""
        try:
            async with asyncio.timeout(within_s):
                await self._download(file_id, to)
        except TimeoutError:
            raise TryLater(f"The file did not come from Telegram within {within_s:g} s.") from None

    async def _download(self, file_id: str, to: Path) -> None:
        try:
            file = await self._asked(self._bot.get_file(file_id))
        except Refused as error:
            raise (Refused(_TOO_LARGE) if "too big" in error.text else error) from None
        url = file.file_path or ""
        if not url.startswith(("https://", "http://")):
            raise Refused("The Bot API server keeps its files where nanomem cannot fetch them.")
        try:
            await self._stream(url, to)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TryLater(f"The file could not be fetched from Telegram ({type(error).__name__}).") from None

    async def _stream(self, url: str, to: Path) -> None:
        plain, size = {"Accept-Encoding": "identity"}, 0
        async with (
            httpx.AsyncClient(transport=self._transport(1), timeout=_TIMEOUT_S) as client,
            client.stream("GET", url, headers=plain) as answer,
        ):
            if answer.status_code == 404:
                raise Refused("Telegram has that file no longer.")
            if answer.status_code != 200:
                raise TryLater(f"The file could not be fetched from Telegram (status {answer.status_code}).")
            async with aiofiles.open(to, "wb") as out:
                async for chunk in answer.aiter_raw():
                    size += len(chunk)
                    if size > LARGEST_FILE:
                        raise Refused(_TOO_LARGE)
                    await out.write(chunk)

    async def _shown(self, part: str, call: Callable[..., Awaitable[T]]) -> T:
        """With formatting, or without it where Telegram does not take that."""
        text, found = formatted(part)
        entities = [MessageEntity(**entity) for entity in found]
        try:
            return await self._asked(call(text=text, entities=entities, link_preview_options=_NO_PREVIEW))
        except Refused as error:
            if not entities or not any(word in error.text.lower() for word in ("entit", "parse", "url")):
                raise
            return await self._asked(call(text=sendable(part), link_preview_options=_NO_PREVIEW))

    async def _asked(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except errors.TelegramError as error:
            raise self._translated(error) from None
        except (AttributeError, LookupError, TypeError, ValueError):
            raise TryLater("Telegram's answer could not be read.") from None

    def _translated(self, error: errors.TelegramError) -> TryLater | Refused:
        said = self._without_token(error.message)
        match error:
            case _Flood():
                return TryLater(f"Telegram {said}.", error.after_s)
            case errors.ChatMigrated():
                return Moved(error.new_chat_id)
            case errors.InvalidToken():
                return TryLater(f"Telegram does not accept the bot token; check it ({said}).", _WRONG_TOKEN_S)
            case errors.Conflict():
                return TryLater(f"Another program polls with this bot's token ({said}).")
            case errors.BadRequest() if any(words in said.lower() for words in _NOT_EDITABLE):
                return Gone(f"Telegram refused it: {said}.")
            case errors.BadRequest() | errors.Forbidden():
                return Refused(f"Telegram refused it: {said}.")
            case errors.TimedOut():
                return TryLater("Telegram did not answer in time.")
        return TryLater(f"Telegram cannot be reached ({said}).")

    def _without_token(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[token]")
        return text.partition(". Parsing the server response")[0][:300]


def _proxy_of_the_environment(url: str) -> str | None:
    """What `HTTPS_PROXY` and its like say; httpx asks for them only where it makes its connections its own way."""
    address, found = urlsplit(url), getproxies()
    return None if proxy_bypass(address.hostname or "") else found.get(address.scheme) or found.get("all")
