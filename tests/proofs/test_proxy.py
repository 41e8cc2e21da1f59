"""The proxy that breaks connections: what the client sees of each fault, and what the server has done."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from proofs.proxy import Cut, Exchange, Fault, Gone, Instead, Late, Proxy, Twice
from tests.emulators import OpenAIServer, TelegramServer

_ALIVE = (
    (socket.SO_KEEPALIVE, socket.SOL_SOCKET, 1),
    (socket.TCP_KEEPIDLE, socket.IPPROTO_TCP, 1),
    (socket.TCP_KEEPINTVL, socket.IPPROTO_TCP, 1),
    (socket.TCP_USER_TIMEOUT, socket.IPPROTO_TCP, 1500),
)


def _watched(address: object) -> socket.socket:
    """A socket that asks whether the other side is still there."""
    made = socket.socket()
    made.setblocking(False)
    for option, level, value in _ALIVE:
        made.setsockopt(level, option, value)
    return made


@dataclass
class Line:
    """A client, and the server behind the proxy."""

    telegram: TelegramServer
    proxy: Proxy
    http: aiohttp.ClientSession

    async def asks(self, method: str, **asked: object) -> str:
        """What comes back, whole."""
        url = f"http://127.0.0.1:{self.proxy.port}/bot{self.telegram.token}/{method}"
        async with self.http.post(url, json=asked) as answer:
            return await answer.text()

    async def says(self, text: str) -> str:
        return await self.asks("sendMessage", chat_id=42, text=text)

    @property
    def hears(self) -> list[str]:
        """What the server has done."""
        return self.telegram.visible(42)

    def fails(self, *faults: Fault | None) -> None:
        """The next requests, in order; those after them are well."""
        coming = iter(faults)
        self.proxy.script = lambda _: next(coming, None)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    connector = aiohttp.TCPConnector(socket_factory=_watched)
    async with (
        TelegramServer() as telegram,
        Proxy(telegram.port) as proxy,
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(10)) as http,
    ):
        yield Line(telegram, proxy, http)


async def test_without_a_fault_nothing_is_changed(line: Line) -> None:
    """Several requests on one connection, long polls, and an answer that is streamed."""
    assert '"text": "one"' in await line.says("one") and '"text": "two"' in await line.says("two")
    assert line.proxy.connections == 1
    assert [exchange.name for exchange, _ in line.proxy.exchanges] == ["sendMessage", "sendMessage"]
    waiting = asyncio.create_task(line.asks("getUpdates", timeout=30))
    await line.telegram.wait_for(lambda: line.telegram.polling)
    line.telegram.say("hello")
    assert "hello" in await waiting
    async with OpenAIServer() as model, Proxy(model.port) as proxy:
        asked = {"model": "m", "messages": [{"role": "user", "content": "a b c"}], "stream": True}
        url, key = f"http://127.0.0.1:{proxy.port}/v1/chat/completions", {"Authorization": "Bearer k"}
        async with line.http.post(url, json=asked, headers=key) as answer:
            assert (await answer.text()).endswith("data: [DONE]\n\n")


async def test_a_client_that_goes_away_is_no_longer_waited_for(line: Line) -> None:
    """The server sees it, too."""
    waiting = asyncio.create_task(line.asks("getUpdates", timeout=30))
    await line.telegram.wait_for(lambda: line.telegram.polling)
    waiting.cancel()
    await line.telegram.wait_for(lambda: not line.telegram.polling)


@pytest.mark.parametrize("after", [0, 1, 40, 10_000])
@pytest.mark.parametrize("hard", [False, True])
async def test_a_request_that_is_cut_is_not_done(line: Line, after: int, hard: bool) -> None:
    """Wherever it was cut, be it before its last byte."""
    line.fails(Cut("request", after, hard))
    with pytest.raises(aiohttp.ClientError):
        await line.says("one")
    await line.says("two")
    assert line.hears == ["two"]


@pytest.mark.parametrize("after", [0, 1, 60, 250])
@pytest.mark.parametrize("hard", [False, True])
async def test_an_answer_that_is_cut_was_given(line: Line, after: int, hard: bool) -> None:
    """The server has done it, and the client cannot know."""
    line.fails(Cut("answer", after, hard))
    with pytest.raises(aiohttp.ClientError):
        await line.says("one")
    assert line.hears == ["one"] and line.proxy.answered == []


async def test_a_middlebox_asks_twice(line: Line) -> None:
    """The client sees one answer, to what was done last; a poll that waits is ended by its double."""
    line.fails(Twice(), Twice())
    assert '"message_id": 2' in await line.says("one")
    assert line.hears == ["one", "one"] and line.proxy.answered == []
    assert await line.asks("getUpdates", timeout=1) == '{"ok": true, "result": []}'
    assert len(line.telegram.calls_of("getUpdates")) == 2


async def test_a_middlebox_answers_itself(line: Line) -> None:
    """Whether it was done or not, the page looks the same."""
    page = Instead(502, "<html>Bad Gateway</html>")
    line.fails(page, Instead(502, page.body, done=True))
    assert [await line.says("one"), await line.says("two")] == [page.body] * 2
    assert line.hears == ["two"]


async def test_late_and_slow(line: Line) -> None:
    """All of it comes."""
    line.fails(Late(0.1, 0.1, piece=50, pause_s=0.05))
    began = time.monotonic()
    assert '"text": "one"' in await line.says("one")
    assert time.monotonic() - began > 0.4
    await line.asks("getMe")
    assert line.proxy.answered[0].name == "sendMessage"


@pytest.mark.parametrize("done", [False, True])
async def test_who_is_gone_does_not_even_acknowledge(line: Line, done: bool) -> None:
    """No end, no reset: only who asks the other side whether it is there learns of it. The next connection is well."""
    line.fails(Gone(done))
    with pytest.raises(aiohttp.ClientOSError, match="timed out"):
        await line.says("one")
    await line.says("two")
    assert line.hears == (["one", "two"] if done else ["two"])


async def test_all_are_gone_but_who_comes_anew(line: Line) -> None:
    """The server goes on waiting with a poll that nobody hears."""
    waiting = asyncio.create_task(line.asks("getUpdates", timeout=30))
    await line.telegram.wait_for(lambda: line.telegram.polling)
    line.proxy.strand()
    await line.says("one")
    with pytest.raises(aiohttp.ClientOSError, match="timed out"):
        await waiting
    assert line.hears == ["one"]


@pytest.mark.parametrize("reset", [False, True])
async def test_who_is_gone_does_not_stand_in_the_way_of_a_new_connection(line: Line, reset: bool) -> None:
    """From the same port, which a kernel may give again: with it the old one ends, though nobody was told so."""
    loop, there = asyncio.get_running_loop(), ("127.0.0.1", line.proxy.port)
    with socket.socket() as old:
        old.setblocking(False)
        old.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 300)
        await loop.sock_connect(old, there)
        port = old.getsockname()[1]
        await asyncio.sleep(0.05)  # until it is accepted
        line.proxy.strand()
        if reset:
            old.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            await loop.sock_sendall(old, b"POST ")
            with pytest.raises(TimeoutError):
                await loop.sock_recv(old, 1)
    with socket.socket() as new:
        new.setblocking(False)
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind(("127.0.0.1", port))
        async with asyncio.timeout(20):
            await loop.sock_connect(new, there)
    await line.says("one")
    assert line.hears == ["one"]


async def test_nobody_listens(line: Line) -> None:
    """Until it is mended; the address stays the same."""
    waiting = asyncio.create_task(line.asks("getUpdates", timeout=30))
    await line.telegram.wait_for(lambda: line.telegram.polling)
    await line.proxy.refuse()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    with pytest.raises(aiohttp.ClientConnectorError):
        await line.says("one")
    await line.proxy.mend()
    await line.says("two")
    assert line.hears == ["two"]


async def test_a_black_hole(line: Line) -> None:
    """Neither a connection that is there nor a new one gets anywhere; what was under way arrives when it is mended."""
    await line.says("one")
    line.proxy.swallow()
    waiting = [asyncio.create_task(line.says(text)) for text in ("two", "three")]
    assert not (await asyncio.wait(waiting, timeout=0.5))[0]
    assert line.proxy.connections == 1 and line.hears == ["one"]
    await line.proxy.mend()
    await asyncio.gather(*waiting)
    assert sorted(line.hears) == ["one", "three", "two"]


async def test_silence(line: Line) -> None:
    """Whoever waits is let in and not answered, and reset once all is well again."""
    line.proxy.hush()
    waiting = asyncio.create_task(line.says("one"))
    assert not (await asyncio.wait([waiting], timeout=0.3))[0]
    assert [exchange.name for exchange, _ in line.proxy.exchanges] == ["sendMessage"]
    await line.proxy.mend()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    await line.says("two")
    assert line.hears == ["two"]


async def test_the_script_sees_what_is_asked(line: Line) -> None:
    """So that it can choose."""
    seen: list[Exchange] = []
    line.proxy.script = seen.append
    await line.asks("getMe")
    assert seen[0].name == "getMe" and seen[0].size > 100
