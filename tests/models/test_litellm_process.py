"""litellm in a process of its own: all of a call goes there and back, and its end is nobody else's."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from nanomem.errors import Misuse, NotNow, TellUser, TooLong, TryLater
from nanomem.messages import Image, PromptMessage, Reply, Request, ToolCall, ToolSchema, Usage
from nanomem.models.frames import Alive, Answered, Ask, Call, Cancel, Failed, Frames, Grown, Reach, Target, Word, packed
from nanomem.models.litellm_process import ApartEmbedder, ApartModel, LitellmProcess
from tests.emulators.openai import Answer, Fault, OpenAIServer, Stall
from tests.guard import sitecustomize as guard
from tests.models.conftest import KEY

pytestmark = pytest.mark.asyncio(loop_scope="module")
Make = Callable[..., ApartModel]

HELLO = Request("Be brief.", (PromptMessage("user", "hello"),))
RECALL = ToolSchema("recall", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process() -> AsyncIterator[LitellmProcess]:
    """One for all: loading takes its time."""
    running = LitellmProcess()
    yield running
    await running.close()


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(api_key=KEY, models=["m"]) as running:
        yield running


@pytest.fixture
def model(server: OpenAIServer, process: LitellmProcess) -> Make:
    """Makes a model that asks the provider."""

    def make(key: str = KEY, name: str = "openai/m", through: LitellmProcess = process) -> ApartModel:
        return ApartModel(name, {"openai": Reach(key, server.base_url)}, through, timeout_s=20)

    return make


async def test_an_answer_comes_piece_by_piece_and_whole(server: OpenAIServer, model: Make) -> None:
    """As if the model were asked here."""
    server.queue("Good morning to you.")
    heard: list[str] = []
    reply = await model().ask(HELLO, heard.append)
    assert reply.text == "Good morning to you." == heard[-1] and len(heard) > 2
    assert reply.usage.prompt_tokens > 0 and reply.usage.completion_tokens > 0
    assert server.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_pictures_calls_and_broken_characters_arrive(server: OpenAIServer, model: Make) -> None:
    """Everything a request can hold, and what a reply can."""
    server.queue([("recall", {"query": "Graz"})])
    messages = (
        PromptMessage("user", "What is this? \ud83d", images=(Image("image/png", b"\x89PNG"),)),
        PromptMessage("assistant", "", tool_calls=(ToolCall("c1", "recall", '{"query": "x"}'),)),
        PromptMessage("tool", "nothing", tool_call_id="c1", name="recall"),
    )
    reply = await model().ask(Request("Be brief.", messages, (RECALL,)))
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("recall", '{"query": "Graz"}')]
    picture = server.requests[0]["messages"][1]["content"]
    assert picture[0]["text"] == "What is this? \ufffd"
    assert picture[1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="
    assert not server.violations


def stream(content: object, **usage: object) -> Fault:
    """A whole answer of a provider that may say what it likes of it."""
    told = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2} | usage
    events: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": told},
    ]
    kind = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [f"data: {json.dumps(kind | event)}\n\n" for event in events]
    return Fault(200, "".join(lines) + "data: [DONE]\n\n", {"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10**30},
        {"completion_tokens": -5},
        {"cache_read_input_tokens": "many"},
        {"cache_read_input_tokens": True},
        {"prompt_tokens_details": {"cached_tokens": 2**64}},
    ],
)
async def test_a_count_that_is_none_harms_nobody(
    server: OpenAIServer, model: Make, process: LitellmProcess, usage: dict[str, object]
) -> None:
    """The answer counts, and the process goes on for all others."""
    server.queue(stream("Here.", **usage))
    await process.ready()
    begun = process.pid
    reply = await model().ask(HELLO)
    assert reply.text == "Here." and process.pid == begun
    assert all(0 <= count <= 1 for count in (reply.usage.prompt_tokens, reply.usage.completion_tokens))


async def test_what_libraries_say_of_an_answer_is_in_no_log(
    server: OpenAIServer, model: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their warnings quote it, and no secret is taken out of them there."""
    process = LitellmProcess()
    try:
        server.queue(stream({"said": "a secret"}))
        with pytest.raises(TryLater):
            await model(through=process).ask(HELLO)
        task = asyncio.create_task(model(through=process).ask(HELLO))
        for _ in range(2):
            await asyncio.sleep(0)
        task.cancel()  # before it was begun there
        assert (await model(through=process).ask(HELLO)).text
    finally:
        await process.close()
    assert capfd.readouterr() == ("", "")


async def test_who_leaves_the_machine_is_still_heard_of(capfd: pytest.CaptureFixture[str]) -> None:
    """The silence is no hiding place: what guards the tests' processes tells of it all the same."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "nanomem.models.litellm_worker", str(theirs.fileno())]
    environ = os.environ | {"PYTHONPATH": str(Path(guard.__file__).parent)}
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[theirs.fileno()], env=environ)
    theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    writer.write(packed(Ask(1, Target("openai/m", {"openai": Reach(KEY, "http://192.0.2.1:9")}, 20), HELLO)))
    frames = Frames[Word](Word)
    async with asyncio.timeout(120):
        while not any(isinstance(word, Failed) for word in frames.take(await reader.read(1000))):
            pass
    writer.close()
    await process.wait()
    assert "tests/guard: socket.connect 192.0.2.1" in capfd.readouterr().err


async def test_a_key_is_in_no_repr() -> None:
    """Of whatever holds one."""
    reach = Reach(KEY, "http://somewhere", {"headers": {"x": KEY}})
    model = ApartModel("openai/m", {"openai": reach}, LitellmProcess(), timeout_s=1)
    ask = Ask(1, Target("openai/m", {"openai": reach}, 1), HELLO)
    assert KEY not in f"{reach!r} {model!r} {ask!r}" and "http://somewhere" in repr(reach)


async def test_errors_keep_their_kind(server: OpenAIServer, model: Make) -> None:
    """And what they say, and when to ask again."""
    server.queue(Fault.rate_limited(7), Fault.context_length(), Fault.unauthorized())
    with pytest.raises(TryLater) as later:
        await model().ask(HELLO)
    assert later.value.after_s == 7
    with pytest.raises(TooLong, match="maximum context length") as long:
        await model().ask(HELLO)
    assert long.value.gist == "The request is too long for openai/m"
    with pytest.raises(NotNow, match="api_key"):
        await model().ask(HELLO)
    with pytest.raises(TellUser, match="litellm knows no provider"):
        await model(name="no-such-model").ask(HELLO)


async def test_a_key_is_looked_up_where_it_is_used(server: OpenAIServer, model: Make, tmp_path: Path) -> None:
    """At each call, in the other process: here it is only a reference."""
    kept = tmp_path / "key"
    with pytest.raises(Misuse, match=r"providers\.openai\.api_key = file:.*: there is no such file"):
        await model(f"file:{kept}").ask(HELLO)
    kept.write_text(KEY)
    await model(f"file:{kept}").ask(HELLO)
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"


async def test_calls_run_side_by_side(server: OpenAIServer, model: Make) -> None:
    """Each gets its own answer."""
    server.script(lambda asked: Answer(f"You said {asked['messages'][-1]['content']}.", chunk_delay_s=0.01))
    asked = [Request("", (PromptMessage("user", f"thing {n}"),)) for n in range(10)]
    replies = await asyncio.gather(*(model().ask(request) for request in asked))
    assert [reply.text for reply in replies] == [f"You said thing {n}." for n in range(10)]


async def test_a_call_nobody_waits_for_is_ended(server: OpenAIServer, model: Make) -> None:
    """Cancelling is clean, and those beside it go on."""
    server.queue(Stall(), "I am here.")
    task = asyncio.create_task(model().ask(HELLO))
    await server.wait_for(lambda: len(server.requests) == 1, timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await model().ask(HELLO)).text == "I am here."


async def test_vectors_come_back_in_order(server: OpenAIServer, process: LitellmProcess) -> None:
    """A text of nothing points nowhere."""
    reach = {"openai": Reach(KEY, server.base_url)}
    embedder = ApartEmbedder("openai/m", reach, process, timeout_s=20)
    found = await embedder.embed(["a dog", "", "a cat"])
    assert [len(vector) for vector in found.vectors] == [8, 0, 8] and found.usage.prompt_tokens > 0
    assert not embedder.is_local


async def test_a_process_that_dies_is_begun_anew(server: OpenAIServer, model: Make) -> None:
    """Who waited is told to try again, and the next call is answered; one that has grown is replaced meanwhile."""
    process = LitellmProcess(grown_bytes=1)
    try:
        server.queue(Stall(), "Back again.", "And again.")
        task = asyncio.create_task(model(through=process).ask(HELLO))
        await server.wait_for(lambda: len(server.requests) == 1, timeout=60)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(TryLater, match="has ended"):
            await task
        begun = process.pid
        assert (await model(through=process).ask(HELLO)).text == "Back again."
        assert process.pid not in (None, begun)
    finally:
        await process.close()
    assert process.pid is None


async def test_an_answer_is_kept_where_the_process_cannot_be_replaced(
    server: OpenAIServer, model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid for; the next who asks is told what is wrong."""
    process = LitellmProcess(grown_bytes=1)
    try:
        server.queue(Answer("Here.", delay_s=0.3))
        task = asyncio.create_task(model(through=process).ask(HELLO))
        await server.wait_for(lambda: len(server.requests) == 1, timeout=60)
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        assert (await task).text == "Here."
        with pytest.raises(TryLater, match="could not be started"):
            await model(through=process).ask(HELLO)
    finally:
        await process.close()


async def test_what_is_typed_at_the_terminal_does_not_reach_it(process: LitellmProcess) -> None:
    """Ctrl-C is for the daemon, which then ends it."""
    await process.ready()
    assert process.pid is not None and os.getsid(process.pid) != os.getsid(0)


async def test_a_process_that_hangs_is_ended(model: Make) -> None:
    """Who waited is told to try again, and the next who asks has another."""
    process = LitellmProcess(silent_s=0.5)
    try:
        await process.ready()
        hanging = process.pid
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        async with asyncio.timeout(20):
            with pytest.raises(TryLater, match="has ended"):
                await model(through=process).ask(HELLO)
        await process.ready()
        assert process.pid not in (None, hanging)
    finally:
        await process.close()


async def test_it_says_that_it_is_there(server: OpenAIServer) -> None:
    """Whatever it waits for: a slow provider is no silence. With nobody to tell it sleeps, until the next one asks."""
    server.queue(Stall(), Stall())
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "nanomem.models.litellm_worker", str(theirs.fileno())]
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[theirs.fileno()])
    theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    target = Target("openai/m", {"openai": Reach(KEY, server.base_url)}, 20)
    frames = Frames[Word](Word)
    for id in (1, 2):
        writer.write(packed(Ask(id, target, HELLO)))
        await server.wait_for(lambda wanted=id: len(server.requests) == wanted, timeout=60)  # type: ignore[misc]
        words = list[Word]()
        async with asyncio.timeout(60):
            while words.count(Alive()) < 3:
                words += frames.take(await reader.read(1000))
        assert not any(isinstance(word, Answered | Failed) for word in words)
        writer.write(packed(Cancel(id)))
        with suppress(TimeoutError):
            async with asyncio.timeout(2.5):
                while True:
                    frames.take(await reader.read(1000))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await reader.read(1)
    writer.close()
    assert await process.wait() == 0


async def test_nobody_asks_for_long(server: OpenAIServer, model: Make) -> None:
    """It ends, and gives its memory back; the next who asks has it begun again."""
    process = LitellmProcess(idle_s=0.05)
    try:
        await model(through=process).warm_up()
        first = process.pid
        assert first is not None
        handle = os.pidfd_open(first)
        await asyncio.to_thread(select.select, [handle], [], [], 20)
        assert process.pid is None
        os.close(handle)
        await model(through=process).warm_up()
        assert process.pid not in (None, first)
    finally:
        await process.close()


async def test_who_warms_it_up_again_keeps_it(server: OpenAIServer, model: Make) -> None:
    """Nobody asks, but somebody may."""
    process = LitellmProcess(idle_s=2)
    try:
        seen = set()
        for _ in range(6):
            await model(through=process).warm_up()
            seen.add(process.pid)
            await asyncio.sleep(0.5)
        assert len(seen) == 1 and process.pid in seen
    finally:
        await process.close()


DAEMON = """
import asyncio, os, signal
from nanomem.models.litellm_process import LitellmProcess
async def main():
    process = LitellmProcess()
    await process.ready()
    print(process.pid, flush=True)
    input()
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_it_does_not_outlive_the_daemon() -> None:
    """However that ends: its side of the socket is all that holds it."""
    command = (sys.executable, "-c", DAEMON)
    daemon = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert daemon.stdout is not None
    handle = os.pidfd_open(int(await daemon.stdout.readline()))
    assert not select.select([handle], [], [], 0)[0]
    await daemon.communicate(b"\n")
    assert (await asyncio.to_thread(select.select, [handle], [], [], 20))[0], "it is still there"
    os.close(handle)


WORDS: list[Word] = [
    Grown(1, "half \U0001f600 and"),
    Failed(2, "TryLater", "later", 1.5),
    Answered(3, Reply("text", (ToolCall("c", "recall", "{}"),), Usage(1, 2, 3, 0.5), "length"), 7),
]


@given(cuts=st.lists(st.integers(0, 400), max_size=6))
async def test_frames_do_not_depend_on_how_they_are_cut(cuts: list[int]) -> None:
    """Bytes may come in any pieces."""
    data = b"".join(map(packed, WORDS))
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    frames = Frames[Word](Word)
    found = [word for a, b in pairwise(borders) for word in frames.take(data[a:b])]
    assert found == WORDS


async def test_a_request_is_the_same_on_the_other_side() -> None:
    """All of its parts, whatever they hold."""
    request = Request("s", (PromptMessage("user", "x", images=(Image("image/png", b"\0\xff"),)),), (RECALL,), "", 1)
    call = Ask(1, Target("openai/m", {"openai": Reach("env:KEY", "", {"top_p": 0.5})}, 3.0), request)
    assert list(Frames[Call](Call).take(packed(call) + packed(Cancel(1)))) == [call, Cancel(1)]
