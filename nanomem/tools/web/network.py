"""Gets bytes from the public web and from nowhere else. Knows nothing of tools or of what a page says.

An address is judged in the moment of connecting to it, so no spelling, no redirect and no name that
changes its address gets around that.
"""

import asyncio
import socket
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import httpcore
import httpx

from nanomem.errors import ShowModel
from nanomem.tools.web.addresses import is_public

_LARGEST = 2_000_000
_REDIRECTS = 5
_ADDRESSES_TRIED = 4
_HEADERS = (
    ("User-Agent", "nanomem"),
    ("Accept", "text/html, text/plain, application/json, */*;q=0.5"),
    ("Accept-Encoding", "gzip"),
)

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Page(NamedTuple):
    """What was found at the end of all redirects; `is_cut` where there was more of it."""

    address: str
    content_type: str
    body: bytes
    is_cut: bool


class PublicOnly(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only: each is looked at after the look-up, and none looked up again."""

    def __init__(
        self,
        allow_loopback: bool = False,
        resolve: Resolve | None = None,
        connect: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._allowed = ("127.0.0.1", "::1") if allow_loopback else ()
        self._resolve = resolve or _resolve
        self._inner = connect or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that takes it. Raises ShowModel if any is not public."""
        addresses = await self._resolve(host, port)
        if not all(is_public(address) or address in self._allowed for address in addresses):
            raise ShowModel(f"{host} is not on the public web: only public pages can be fetched.")
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses[:_ADDRESSES_TRIED]:
            try:
                return await self._inner.connect_tcp(address, port, 10, None, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


async def fetch(url: str, network: PublicOnly) -> Page:
    """A page, with redirects followed. Raises ShowModel; not promised: that it ends in any time."""
    try:
        return await _fetch(url, network)
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
        raise ShowModel(f"{url[:200]} could not be fetched: {error or type(error).__name__}.") from None


async def _fetch(given: str, network: PublicOnly) -> Page:
    url = _checked(given)
    secure = await asyncio.to_thread(httpx.create_ssl_context, trust_env=False)
    async with httpcore.AsyncConnectionPool(ssl_context=secure, network_backend=network) as pool:
        for _ in range(_REDIRECTS + 1):
            target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
            async with pool.stream("GET", target, headers=_HEADERS) as response:
                headers = httpx.Headers(response.headers)
                if response.status in (301, 302, 303, 307, 308) and "location" in headers:
                    url = _checked(headers["location"], url)
                    continue
                if response.status >= 400:
                    raise ShowModel(f"{url} answered with the error {response.status}.")
                body, is_cut = await _body(response, headers.get("content-encoding", ""))
                return Page(str(url), headers.get("content-type", ""), body, is_cut)
    raise ShowModel(f"{given[:200]} redirects more than {_REDIRECTS} times.")


def _checked(given: str, base: httpx.URL | None = None) -> httpx.URL:
    try:
        url = base.join(given) if base else httpx.URL(given)
    except (httpx.InvalidURL, ValueError) as error:
        raise ShowModel(f"That is no address of a web page: {error}.") from None
    if url.scheme not in ("http", "https") or not url.host or "%" in url.host:
        raise ShowModel("Only addresses that begin with http:// or https:// can be fetched.")
    if (url.port or 0) > 65_535:
        raise ShowModel(f"{url.port} is no port.")
    if url.userinfo:
        raise ShowModel("An address with a user name or a password in it is not fetched.")
    return url


async def _body(response: httpcore.Response, encoding: str) -> tuple[bytes, bool]:
    """The body unpacked, and whether it was cut: neither what comes nor what it unpacks to is held beyond a cap."""
    packed = encoding.strip().casefold()
    if packed not in ("", "identity", "gzip", "x-gzip"):
        raise ShowModel(f"The page is packed in a way that was not asked for ({packed[:40]}).")
    gzip = zlib.decompressobj(wbits=31) if "gzip" in packed else None
    body, received = bytearray(), 0
    async for chunk in response.aiter_stream():
        received += len(chunk)
        try:
            body += gzip.decompress(chunk, _LARGEST + 1 - len(body)) if gzip else chunk
        except zlib.error:
            raise ShowModel("The page is packed wrongly.") from None
        if len(body) > _LARGEST or received > _LARGEST:
            return bytes(body[:_LARGEST]), True
    return bytes(body), False


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise ShowModel(f"{host[:200]} is no name of a web site.") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
