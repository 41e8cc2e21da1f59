"""Stories of searching by meaning: what was said gets vectors behind all else, and recall never waits long for them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.agent.asking import DailyLimits, Purse
from nanomem.errors import NotNow, TellUser, TooLong, TryLater
from nanomem.home import Home
from nanomem.memory.embedding import AT_ONCE, Embedding
from nanomem.memory.recalling import Recalling
from nanomem.memory.reminding import IndexReminder
from nanomem.messages import Sender
from nanomem.ports import Embedded, Embedder, Occasion, Origin, Reminder
from nanomem.recall.found import Sought
from nanomem.records import Metadata, UserMessage
from nanomem.secret import Secret
from nanomem.settings_schema import Memory, Provider, Settings
from nanomem.spaces import Space
from nanomem.stores.recall_index import SqliteRecallIndex
from nanomem.stores.session_log import JsonlSessionLog
from nanomem.testing import FakeClock, FakeEmbedder, FakeMeter, FakeTokenizer
from nanomem.tools import Workbench, load_tools
from nanomem.wiring import ground
from tests.emulators.openai import OpenAIServer

KEY, ANN = "telegram:42", Sender("7", "Ann")
SAID = ("My puppy ate a shoe", "It rained in Graz all day", "The invoice for the roof is paid", "We moved to Bern")


def message(n: int, text: str) -> UserMessage:
    at = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)
    return UserMessage(n=n, turn=f"t{n}", timestamp=at, content=text, tokens=1, sender=ANN)


class Owner:
    """A space with what Ann said, its index, and a `recall` tool."""

    def __init__(self, folder: Path, embedder: Embedder | None, limits: DailyLimits | None = None) -> None:
        self.clock, self.meter = FakeClock(), FakeMeter()
        self.space = Space("owner", folder / "workspace", folder / "workspace")
        self.index = SqliteRecallIndex(folder / "recall", UTC, embedder.name if embedder else "")
        purse = Purse(self.meter, self.clock, UTC, limits or DailyLimits())
        embedding = Embedding(self.index, embedder, self.clock, purse) if embedder else None
        self.recalling = Recalling(self.index, self._files, self.clock, UTC, embedding)
        self.logs = JsonlSessionLog(self.recalling.appended)
        self._said = 0

    async def _files(self, space: Space) -> Mapping[str, str | None]:
        return {}

    async def say(self, *texts: str) -> None:
        """Messages hours apart."""
        records = []
        for text in texts:
            self._said += 1
            at = self.clock.now() + timedelta(hours=2 * self._said)
            records.append(replace(message(self._said, text), timestamp=at))
        if self._said == len(texts):
            await self.logs.append(self.space, KEY, [Metadata(key=KEY, created_at=self.clock.now())])
        await self.logs.append(self.space, KEY, records)

    async def recall(self, query: str) -> list[str]:
        """The lines that the tool shows, without its heading."""
        tool = load_tools(Workbench(UTC, search=self.recalling.search))["recall"]
        shown = await tool.run({"query": query}, Origin(self.space))
        return [line for line in shown.splitlines() if line.startswith("[") and "Ann:" in line]

    async def remind(self, text: str) -> list[str]:
        """What an unasked reminder says of a message in another session."""
        search = partial(self.recalling.search, at_once=True)
        reminder: Reminder = IndexReminder(search, FakeTokenizer(), self.clock, UTC)
        return [found.line for found in await reminder.remind(Occasion(self.space, "telegram:43", text))]

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """While its index is fed."""
        running = asyncio.create_task(self.recalling.run([self.space]))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await self.index.close()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def all_embedded(self) -> None:
        async with asyncio.timeout(10):
            await self.recalling.catch_up(self.space)
            while await self.index.bare(self.space, 1):  # noqa: ASYNC110
                await asyncio.sleep(0.002)


def alike(name: str = "fake", is_local: bool = False) -> FakeEmbedder:
    """One that takes a dog for a puppy."""
    embedder = FakeEmbedder(name, is_local=is_local)
    embedder.alike = {"dog": "puppy", "hounds": "puppy"}
    return embedder


async def test_a_paraphrase_without_a_common_word_is_found(tmp_path: Path) -> None:
    """With vectors; without, it is not."""
    owner = Owner(tmp_path, alike())
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
        assert "puppy" in (await owner.recall("dog"))[0]
        await owner.say("A neighbour has two hounds")
        await owner.all_embedded()
        assert len(await owner.recall("dog")) == 2
    plain = Owner(tmp_path, None)
    async with plain.awake():
        assert await plain.recall("dog") == []
        assert "puppy" in (await plain.recall("puppy"))[0]


async def test_names_are_not_part_of_what_a_question_means(tmp_path: Path) -> None:
    """Who spoke counts apart."""
    embedder = alike()
    owner = Owner(tmp_path, embedder)
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
        await owner.recall("What did Ann's dog eat?")
    assert embedder.asked[-1] == ["What did dog eat?"]


async def test_it_comes_in_batches_and_years_of_it_are_no_matter(tmp_path: Path) -> None:
    """So many in a call, each text once, a long one by its beginning."""
    embedder = alike()
    owner = Owner(tmp_path, embedder)
    await owner.say(*(f"message {n}" for n in range(2 * AT_ONCE + 5)), "x" * 5_000)
    async with owner.awake():
        await owner.all_embedded()
    assert sorted(map(len, embedder.asked)) == [6, AT_ONCE, AT_ONCE]
    texts = [text for batch in embedder.asked for text in batch]
    assert len(set(texts)) == len(texts) and max(map(len, texts)) == 2_000


async def test_a_failing_provider_is_tried_again_with_growing_pauses_and_named_once(tmp_path: Path) -> None:
    """And meanwhile words find; then all is embedded after all."""
    embedder = alike()
    embedder.fails = [TryLater("m is in trouble.")] * 3 + [TryLater("m is busy.", 500.0), NotNow("no key")]
    owner = Owner(tmp_path, embedder)
    await owner.say(*SAID)
    with capture_logs() as logs:
        async with owner.awake():
            await owner.until(lambda: bool(embedder.asked))
            assert "puppy" in (await owner.recall("puppy"))[0]
            await owner.all_embedded()
            await owner.until(lambda: any(log["event"] == "recall.embedded_again" for log in logs))
    assert [pause for pause in owner.clock.slept if pause >= 1] == [10, 20, 40, 500, 160]
    assert [log["event"] for log in logs if "embedded" in log["event"]] == [
        "recall.not_embedded",
        "recall.embedded_again",
    ]


async def test_a_text_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """It is tried alone and shorter, and then goes without."""

    class Picky(FakeEmbedder):
        async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
            if any("forbidden" in text for text in texts):
                raise TellUser("The content filter refused this.")
            if any(len(text) > 1_000 for text in texts):
                raise TooLong("too long")
            return await super().embed(texts, question)

    owner = Owner(tmp_path, Picky())
    await owner.say(*SAID, "something forbidden", "rain " * 400)
    async with owner.awake():
        await owner.all_embedded()
        assert "forbidden" in (await owner.recall("forbidden"))[0]
        assert "puppy" in (await owner.recall("puppy"))[0]


async def test_where_all_is_refused_nothing_is_given_up(tmp_path: Path) -> None:
    """A wrong model is not the texts' fault: they keep waiting for a right one."""
    embedder = alike()
    embedder.fails = [TellUser("m is no embedding model.")] * 5
    owner = Owner(tmp_path, embedder)
    await owner.say(*SAID)
    async with owner.awake():
        await owner.until(lambda: not embedder.fails)
        await owner.all_embedded()
        assert "puppy" in (await owner.recall("dog"))[0]


async def test_what_it_costs_is_counted_and_ends_at_the_limit(tmp_path: Path) -> None:
    """As its own purpose: it takes nothing from what chats may use. Past the limit recall goes by words."""
    embedder = alike()
    owner = Owner(tmp_path, embedder, DailyLimits(50, purpose="recall"))
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
        today = "2026-04-10"
        assert (await owner.meter.spent(today, "recall")).tokens == sum(map(len, SAID))
        assert (await owner.meter.spent(today, "talk")).tokens == 0
        calls = len(embedder.asked)
        assert "puppy" in (await owner.recall("puppy"))[0] and await owner.recall("dog") == []
        assert len(embedder.asked) == calls


@pytest.mark.parametrize("error", [TryLater("busy"), NotNow("no"), None])
async def test_a_question_without_a_vector_goes_by_words(tmp_path: Path, error: Exception | None) -> None:
    """Where its model fails, or takes too long."""

    class Slow(FakeEmbedder):
        async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
            if question and error is None:
                await asyncio.Event().wait()
            return await super().embed(texts, question)

    embedder = Slow()
    owner = Owner(tmp_path, embedder)
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
        embedder.fails = [error] if error else []
        assert "puppy" in (await owner.recall("my puppy"))[0]


async def test_nobody_asks_a_model_elsewhere_unasked(tmp_path: Path) -> None:
    """A reminder takes milliseconds: only a model on this machine is asked."""
    for is_local in (False, True):
        embedder = alike(is_local=is_local)
        owner = Owner(tmp_path / str(is_local), embedder)
        await owner.say(*SAID)
        async with owner.awake():
            await owner.all_embedded()
            calls = len(embedder.asked)
            assert any("shoe" in line for line in await owner.remind("a puppy and a shoe"))
            assert (len(embedder.asked) > calls) is is_local


async def test_another_model_is_taken_at_the_next_start(tmp_path: Path) -> None:
    """All is embedded anew, and words find meanwhile."""
    first, second = alike("one"), alike("two")
    owner = Owner(tmp_path, first)
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
    again = Owner(tmp_path, second)
    second.fails = [TryLater("not yet")]
    async with again.awake():
        assert "puppy" in (await again.recall("puppy"))[0]
        await again.all_embedded()
        assert "puppy" in (await again.recall("dog"))[0]
    third = alike("two")
    async with Owner(tmp_path, third).awake():
        await asyncio.sleep(0.05)
    assert third.asked == []


async def test_a_damaged_index_is_embedded_anew(tmp_path: Path) -> None:
    """With all else of it."""
    owner = Owner(tmp_path, alike())
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
    path = tmp_path / "recall" / "owner.db"
    path.write_bytes(b"no database" + path.read_bytes()[11:])
    again = Owner(tmp_path, alike())
    async with again.awake():
        await again.all_embedded()
        assert "puppy" in (await again.recall("dog"))[0]


async def test_a_sought_without_words_asks_nothing(tmp_path: Path) -> None:
    """As with `--since` alone."""
    embedder = alike()
    owner = Owner(tmp_path, embedder)
    await owner.say(*SAID)
    async with owner.awake():
        await owner.all_embedded()
        calls = len(embedder.asked)
        await owner.recalling.search(owner.space, Sought("  ", owner.clock.now()))
        assert len(embedder.asked) == calls


async def test_as_it_is_wired(tmp_path: Path) -> None:
    """A model of the settings, through its provider's table; counted, and without a meter nobody is asked."""
    async with OpenAIServer(api_key="sk-right") as server:
        home = Home(tmp_path)
        reach = Provider(Secret("sk-right"), server.base_url)
        settings = Settings(memory=Memory(embeddings="openai/m"), providers={"openai": reach})
        space = next(iter(home.known_spaces()))
        meter = FakeMeter()
        for counted in (None, meter):
            base = ground(home, settings, {}, counted)
            await base.logs.append(space, KEY, [Metadata(key=KEY, created_at=base.clock.now()), message(1, SAID[0])])
            running = asyncio.create_task(base.recalling.run([space]))
            async with asyncio.timeout(120):
                while counted and not server.embedding_requests:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await base.recalling.search(space, Sought("dog", base.clock.now()))
            assert bool(server.embedding_requests) is bool(counted)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await base.close()
        assert server.embedding_requests[0]["input"] == [SAID[0]] * 2
        assert meter.purposes[next(iter(meter.days)), "recall"].prompt_tokens > 0
