"""The index of what was said: everything is found once, whatever happened to the index, the logs and the disk."""

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nanomem.errors import BegunAnew, CannotStore
from nanomem.messages import Sender
from nanomem.recall.found import Found, Hit, Sought
from nanomem.recall.words import spoken
from nanomem.records import AssistantMessage, Metadata, Record, UserMessage, to_json
from nanomem.spaces import Space, file_name
from nanomem.stores.recall_index import MOST_OPEN, SqliteRecallIndex
from tests.unit.strategies import json_values
from tests.unit.test_recall_words import HUGE, anything

ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "4"))
KEY = "fake:42"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
FIRST = datetime(2026, 4, 10, 9, 15, tzinfo=UTC)

few = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
letters = st.text("abcABC dogäßé字犬ก나 🦴\"'*?:()-\n", min_size=1, max_size=20)


def said(n: int, text: str, name: str = "Ann", at: datetime | None = None) -> Record:
    """A message of a person, or of the agent; an hour after the one before."""
    at = at or FIRST + timedelta(hours=n)
    if name == "Assistant":
        return AssistantMessage(n=n, turn=f"t{n}", timestamp=at, content=text, tokens=1, end="answer")
    return UserMessage(n=n, turn=f"t{n}", timestamp=at, content=text, tokens=1, sender=Sender(f"id-{name}", name))


def lines(*records: Record | str, first: int = 1) -> bytes:
    """As a log has them; texts are Ann's."""
    made = [said(n, one) if isinstance(one, str) else one for n, one in enumerate(records, first)]
    return b"".join(json.dumps(to_json(record)).encode() + b"\n" for record in made)


@dataclass
class Place:
    """A space on the disk, and its index."""

    folder: Path
    index: SqliteRecallIndex = field(init=False)
    space: Space = field(init=False)

    def __post_init__(self) -> None:
        root = self.folder / "workspace"
        (root / "sessions").mkdir(parents=True, exist_ok=True)
        (root / "memory").mkdir(exist_ok=True)
        self.space = Space("owner", root, root)
        self.start()

    def start(self) -> None:
        self.index = SqliteRecallIndex(self.folder / "state" / "recall", UTC)

    @property
    def db(self) -> Path:
        return self.folder / "state" / "recall" / "owner.db"

    def log(self, key: str = KEY) -> Path:
        return self.space.root / "sessions" / f"{file_name(key)}.jsonl"

    def says(self, *records: Record | str, key: str = KEY, first: int = 1) -> None:
        if not self.log(key).exists():
            self.log(key).write_bytes(lines(Metadata(key=key, created_at=FIRST)))
        with self.log(key).open("ab") as file:
            file.write(lines(*records, first=first))

    async def read(self) -> None:
        """Takes in all there is, and all again where the index was begun anew; once at least."""
        for _ in range(3):
            try:
                for log in await self.index.logs(self.space):
                    while await self.index.read(self.space, log):
                        pass
                return
            except BegunAnew:
                pass
        raise AssertionError("begun anew again and again")

    async def find(self, text: str, **more: object) -> Found:
        return await self.index.find(self.space, replace(Sought(text, NOW), **more))  # type: ignore[arg-type]

    async def finds(self, text: str, **more: object) -> list[str]:
        """Texts, the best first."""
        return [hit.text for hit in (await self.find(text, **more)).hits]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.index.close()


def elsewhere(work: Callable[[Place], object]) -> None:
    """Runs it in a place of its own, which hypothesis needs for each example."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder))
            try:
                await work(place)  # type: ignore[misc]
            finally:
                await place.index.close()

    asyncio.run(run())


# --- what is found


@few
@given(st.lists(anything, max_size=5), anything, anything)
@example(["\ud800\0\x1f", '"NEAR('], '" OR text:', "\ud800")
def test_any_text_can_be_put_in_and_asked(texts: list[str], asked: str, who: str) -> None:
    """Each one also as a name and as a fact; whatever is found can be told."""

    async def story(place: Place) -> None:
        place.says(*(said(n, text, name=text or "Ann") for n, text in enumerate(texts, 1)))
        await place.read()
        await place.index.know(place.space, {"memory/MEMORY.md": texts})
        for near in (0, 4):
            await place.find(asked, who=who, near=near)
            await place.find(asked, askers=frozenset({who}), session=who)

    elsewhere(story)


@pytest.mark.parametrize("text", HUGE, ids=lambda text: repr(text[:5]))
async def test_huge_texts_are_no_trouble(place: Place, text: str) -> None:
    """Neither said nor asked."""
    place.says(text, "my dog")
    await place.read()
    started = time.monotonic()
    await place.find(text)
    await place.find(" ".join(f"w{n}" for n in range(20_000)))
    assert time.monotonic() - started < 5
    assert (await place.finds("dog"))[0] == "my dog"


@few
@given(st.lists(letters, min_size=1, max_size=12), st.data())
@example(["Straße 字", "strasse", "dog🦴"], None)
def test_the_message_asked_for_is_first(texts: list[str], data: st.DataObject | None) -> None:
    """Word for word, whatever else there is; but for a question that is about nothing but times."""
    asked = data.draw(st.sampled_from(texts)) if data else texts[0]

    async def story(place: Place) -> None:
        place.says(*texts)
        await place.read()
        found = await place.finds(asked)
        if any(sign.isalnum() for sign in asked):
            assert spoken(found[0]) == spoken(asked)

    elsewhere(story)


async def whole(place: Place, questions: Sequence[str]) -> list[list[Hit]]:
    return [list((await place.find(question, most=50, near=2)).hits) for question in questions]


@few
@given(st.lists(st.tuples(st.sampled_from(["fake:1", "fake:2", "fake:3"]), letters), max_size=14), st.randoms())
def test_the_order_of_reading_makes_no_difference(talk: list[tuple[str, str]], chance: random.Random) -> None:
    """Message by message with the sessions mixed, or all from zero: the same results in the same order."""
    questions = ["dog", "字", "a b c", "Ann", *(text for _, text in talk[:3])]

    async def story(place: Place) -> None:
        counts = dict.fromkeys(("fake:1", "fake:2", "fake:3"), 0)
        for key, text in talk:
            counts[key] += 1
            place.says(text, key=key, first=counts[key])
            if chance.random() < 0.5:
                await place.index.read(place.space, place.log(key).name)
        logs = list(await place.index.logs(place.space))
        chance.shuffle(logs)
        for log in logs:
            while await place.index.read(place.space, log):
                pass
        grown = await whole(place, questions)
        await place.index.close()
        shutil.rmtree(place.db.parent)
        await place.read()
        assert await whole(place, questions) == grown

    elsewhere(story)


async def test_a_number_is_found(place: Place) -> None:
    """A code is no time; a question with no other words looks for them."""
    place.says("my code is 471112", "who am I", "it was 2024")
    await place.read()
    assert (await place.finds("what is 471112?"))[0] == "my code is 471112"
    assert (await place.finds("who am I"))[0] == "who am I"


async def test_who_since_and_until(place: Place) -> None:
    """Filters, alone and together; a part of the name is enough, its case does not count."""
    may, june = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
    place.says(
        said(1, "my dog", "Ann", may - timedelta(seconds=1)),
        said(2, "your dog", "Assistant", may),
        said(3, "no dog", "Bob Lee", june - timedelta(seconds=1)),
        said(4, "the dog", "Ann", june),
    )
    await place.read()
    assert set(await place.finds("dog", who="ann")) == {"my dog", "the dog"}
    assert await place.finds("dog", who="LEE") == ["no dog"]
    assert set(await place.finds("dog", since=may, until=june)) == {"your dog", "no dog"}
    assert await place.finds("dog", since=may, until=june, who="bob") == ["no dog"]
    assert await place.finds("", who="Ann") == ["the dog", "my dog"]
    assert await place.finds("", since=june) == ["the dog"]
    assert await place.finds("") == []


async def test_a_question_that_is_asked_again_does_not_hide_the_answer(place: Place) -> None:
    """It is shown once, the newest of each who asked; what is told again is told again."""
    asked = "What is the code of the door?"
    place.says(*["It is 4711, the code of the door."] * 2, *[asked] * 20, said(23, asked, "Bob"))
    await place.read()
    hits = (await place.find(asked)).hits
    assert [(hit.n, hit.who) for hit in hits] == [(23, "Bob"), (22, "Ann"), (2, "Ann"), (1, "Ann")]


async def test_a_search_may_want_a_rare_word(place: Place) -> None:
    """Then only what has it is found, and nothing where all of its words stand everywhere, however much there is."""
    place.says(*["tea at home"] * 8, "the cabin at home")
    await place.read()
    assert await place.finds("cabin home", only_rare=True) == ["the cabin at home"]
    assert len(await place.finds("cabin home")) > 1
    assert await place.finds("tea home", only_rare=True) == []
    assert await place.finds("in april", only_rare=True) == []


async def test_a_time_alone_finds_the_newest_of_it(place: Place) -> None:
    """But for what is word for word the question; also by one person, and before a day."""
    place.says("In April.", "tea", said(3, "milk", "Bob"), "bread", said(5, "In May.", at=FIRST + timedelta(days=40)))
    await place.read()
    assert await place.finds("in april") == ["In April.", "bread", "milk", "tea"]
    assert await place.finds("what did Ann say in april") == ["bread", "tea", "In April.", "milk"]
    assert await place.finds("", who="Bob") == ["milk"]
    assert await place.finds("", until=FIRST + timedelta(hours=3)) == ["tea", "In April."]


@pytest.mark.parametrize("echoes", [0, 5, 30])
async def test_pages_fit_together(place: Place, echoes: int) -> None:
    """Every result is on one page, however many echoes of the agent are left out between them."""
    talk = [said(n, f"the dog number {n}") for n in range(1, 31)]
    talk += [said(30 + n, f"You said the dog number {n} then", "Assistant") for n in range(1, echoes + 1)]
    place.says(*talk)
    await place.read()
    seen, more, skip = [], True, 0
    while more:
        found = await place.find("the dog number", skip=skip, most=8)
        seen += [hit.n for hit in found.hits]
        assert len(found.hits) == 8 or not found.more
        more, skip = found.more, skip + 8
    assert len(seen) == len(set(seen)) and set(range(1, 31)) <= set(seen)


async def test_neighbours_come_with_a_result(place: Place) -> None:
    """As many as are wanted on each side, of the same talk; not over a pause."""
    soon = [said(n, f"word{n}", at=FIRST + timedelta(minutes=n)) for n in range(1, 8)]
    place.says(*soon, said(8, "late", at=FIRST + timedelta(hours=9)))
    await place.read()
    [hit, *_] = (await place.find("word4", near=2)).hits
    assert [one.text for one in hit.before] == ["word2", "word3"] and [one.text for one in hit.after] == [
        "word5",
        "word6",
    ]
    [hit, *_] = (await place.find("word7", near=4)).hits
    assert not hit.after and len(hit.before) == 4


async def test_what_is_in_sight_is_not_found(place: Place) -> None:
    """Of that session alone, from that message on; also not as a neighbour."""
    place.says(*(said(n, f"dog {n}", at=FIRST + timedelta(minutes=n)) for n in range(1, 5)))
    place.says("dog elsewhere", key="fake:7")
    await place.read()
    found = (await place.find("dog", session=KEY, unless=3, near=4)).hits
    assert {hit.text for hit in found} == {"dog 1", "dog 2", "dog elsewhere"}
    assert {one.text for hit in found for one in (*hit.before, *hit.after)} <= {"dog 1", "dog 2"}


async def test_facts_are_replaced(place: Place) -> None:
    """What is not known any more is not found; what stays is there once."""
    for facts in (["likes tea", "has a dog"], ["has a dog", "has a cat"], ["has a dog", "has a dog", "has a cat"]):
        await place.index.know(place.space, {"memory/MEMORY.md": facts})
    hits = (await place.find("tea dog cat")).hits
    assert sorted(hit.text for hit in hits) == ["has a cat", "has a dog"]
    assert {(hit.kind, hit.spot, hit.at) for hit in hits} == {("memory", "memory/MEMORY.md", None)}
    await place.index.know(place.space, {})
    assert await place.finds("dog") == []


async def test_other_spaces_are_other_files(place: Place, tmp_path: Path) -> None:
    """Nothing of one is found in another; an index belongs to its owner alone."""
    place.says("CANARY dog")
    await place.read()
    other = Space("fake:7", tmp_path / "other", tmp_path)
    assert not await place.index.logs(other)
    assert not (await place.index.find(other, Sought("CANARY", NOW))).hits
    files = list(place.db.parent.iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600} and len(files) > 2
    assert stat.S_IMODE(place.db.parent.stat().st_mode) == 0o700


# --- what happens to logs


async def test_damage_in_a_log_is_passed_over(place: Place) -> None:
    """Torn lines, wrong types, numbers and dates out of any measure, five megabytes, a pipe, an empty file."""
    entry = {"role": "user", "content": "dog", "turn": "t", "timestamp": FIRST.isoformat(), "sender": {"id": 1}}
    wrong: list[object] = [
        {"role": "user", "content": {"dog": 1}},
        entry | {"n": 2**70},
        entry | {"n": -(2**70)},
        entry | {"timestamp": "0001-01-01T00:00:00-14:00"},
        entry | {"timestamp": "9999-12-31T23:59:59+14:00"},
        entry | {"sender": {"id": "\ud800", "name": "\ud800\0"}, "turn": "\ud800"},
        {"_type": "metadata", "key": "\ud800"},
        entry | {"content": "dog " + "x" * 5_000_000},
        [[[[]]]],
        None,
    ]
    body = b"\n".join([b'{"content": "dog', b"\xff\xfe dog", b"[" * 100_000, *(json.dumps(o).encode() for o in wrong)])
    place.log().write_bytes(body + b"\n" + lines("my dog Rex", "bye"))
    os.mkfifo(place.log("fake:fifo"))
    place.log("fake:empty").touch()
    place.log("fake:folder").mkdir()
    await place.read()
    assert (await place.finds("dog Rex"))[0] == "my dog Rex"
    for near in (0, 4):
        found = await place.find("dog", most=50, near=near)
        assert len(found.hits) >= 5
    assert await place.finds("in April 2026")


@few
@given(
    st.lists(
        json_values | st.dictionaries(st.sampled_from(["role", "content", "n", "timestamp", "_type"]), json_values)
    )
)
def test_any_json_may_stand_in_a_log(values: list[object]) -> None:
    """In a history, too. What stands behind it is found."""

    async def story(place: Place) -> None:
        wrong = b"".join(json.dumps(value).encode() + b"\n" for value in values)
        place.log().write_bytes(wrong + lines(said(10**6, "my dog Rex")))
        (place.space.root / "memory" / "history.jsonl").write_bytes(wrong)
        await place.read()
        assert await place.finds("dog Rex") == ["my dog Rex"]

    elsewhere(story)


async def test_a_last_line_may_lack_its_line_break(place: Place) -> None:
    """One that is whole is found at once, and once when the log goes on; one that is torn when it is whole."""
    place.says("first dog")
    whole, torn = lines("second dog", first=2)[:-1], lines("third dog", first=3)
    with place.log().open("ab") as file:
        file.write(whole)
    await place.read()
    assert set(await place.finds("dog")) == {"first dog", "second dog"}
    with place.log().open("ab") as file:
        file.write(b"\n" + torn[:40])
    await place.read()
    assert len(await place.finds("dog")) == 2
    with place.log().open("ab") as file:
        file.write(torn[40:])
    await place.read()
    assert sorted(await place.finds("dog")) == ["first dog", "second dog", "third dog"]


async def test_a_log_that_is_another_now_is_read_again(place: Place) -> None:
    """Cut shorter, replaced, or emptied: what is gone is not found."""
    place.says("first dog", "second dog", "third dog")
    await place.read()
    content = place.log().read_bytes()
    place.log().write_bytes(content[: content.index(b"third") - 10])
    await place.read()
    assert sorted(await place.finds("dog")) == ["first dog", "second dog"]
    place.log().write_bytes(lines(*(f"other cat {n} with a lot more to say" for n in range(20))))
    await place.read()
    assert await place.finds("dog") == [] and len(await place.finds("cat", most=50)) == 20
    place.log().write_bytes(b"")
    await place.read()
    assert await place.finds("cat dog") == []


async def test_what_came_from_a_log_that_is_gone_is_not_found(place: Place) -> None:
    """Whether it is noticed when logs are listed, or when it is to be read."""
    for n in (1, 2, 3):
        place.says(f"dog {n}", key=f"fake:{n}")
    await place.read()
    place.log("fake:1").unlink()
    await place.index.logs(place.space)
    place.log("fake:2").unlink()
    assert not await place.index.read(place.space, place.log("fake:2").name)
    assert await place.finds("dog") == ["dog 3"]
    assert not await place.index.read(place.space, "never.jsonl")


async def test_a_log_whose_name_is_no_text_is_left_alone(place: Place) -> None:
    """It is none of ours."""
    place.says("my dog")
    (Path(os.fsdecode(bytes(place.log().parent) + b"/\xff.jsonl"))).write_bytes(lines("evil dog"))
    await place.read()
    assert await place.finds("dog") == ["my dog"]


async def test_a_large_log_is_taken_in_by_pieces(place: Place) -> None:
    """Each a transaction of its own; reading again changes nothing."""
    place.says(*(f"dog number {n}" for n in range(1_000)))
    pieces = 1
    while await place.index.read(place.space, place.log().name):
        pieces += 1
    assert pieces > 3
    assert not await place.index.read(place.space, place.log().name)
    assert len(await place.finds("dog", most=2_000)) == 1_000


# --- what happens to the index


async def found_again(place: Place) -> None:
    """All of it, once each."""
    await place.read()
    await place.index.know(place.space, {"memory/MEMORY.md": ["has a dog"]})
    assert sorted(await place.finds("dog", most=500)) == sorted(
        [*(f"dog number {n}" for n in range(1, 101)), "has a dog"]
    )


async def filled(place: Place) -> None:
    place.says(*(f"dog number {n}" for n in range(1, 101)))
    await found_again(place)
    await place.index.close()
    place.start()


async def survives(place: Place) -> None:
    """The first call says that it was begun anew, or all is well; afterwards everything is found again."""
    try:
        await place.index.logs(place.space)
        await place.find("dog", near=4, most=200)
    except BegunAnew as error:
        assert "owner.db" in error.text
    await found_again(place)


async def test_another_version_is_begun_anew(place: Place) -> None:
    """A newer one or an older one."""
    await filled(place)
    connection = sqlite3.connect(place.db)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(BegunAnew):
        await place.index.logs(place.space)
    await found_again(place)


@pytest.mark.parametrize("how", ["garbage", "text", "empty", "half", "page", "gone", "wal", "shm", "folder gone"])
async def test_a_damaged_index_is_made_again(place: Place, how: str) -> None:
    """Whatever happened to its files while it was closed."""
    await filled(place)
    size = place.db.stat().st_size
    match how:
        case "garbage":
            place.db.write_bytes(random.Random(1).randbytes(size))
        case "text":
            place.db.write_text("no database\n" * 1_000)
        case "empty":
            place.db.write_bytes(b"")
        case "half":
            os.truncate(place.db, size // 2 + 17)
        case "page":
            os.truncate(place.db, 1024)
        case "gone":
            place.db.unlink()
        case "wal" | "shm":
            Path(f"{place.db}-{how}").write_bytes(random.Random(1).randbytes(5_000))
        case "folder gone":
            shutil.rmtree(place.db.parent)
    await survives(place)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6))
def test_flipped_bytes_are_found_out_or_do_no_harm(flips: list[tuple[float, int]]) -> None:
    """Anywhere in the file: no crash, and when all is read again all is found, once."""

    async def story(place: Place) -> None:
        await filled(place)
        body = bytearray(place.db.read_bytes())
        for where, byte in flips:
            body[int(where * len(body))] = byte
        place.db.write_bytes(body)
        try:
            for log in await place.index.logs(place.space):
                await place.index.read(place.space, log)
            await place.find("dog", near=4, most=200)
        except BegunAnew:
            await found_again(place)
            return
        await place.read()
        found = [hit.n for hit in (await place.find("dog", most=500)).hits if hit.kind == "talk"]
        assert len(found) == 100

    elsewhere(story)


async def test_a_damaged_write_ahead_log_is_no_loss(place: Place) -> None:
    """Of a process that was killed; what it had not in the file yet is read again."""
    place.says(*(f"dog number {n}" for n in range(1, 101)))
    await found_again(place)
    for flip in range(20):
        copy = Place(place.folder / f"copy{flip}")
        shutil.copytree(place.space.root, copy.space.root, dirs_exist_ok=True)
        shutil.copytree(place.db.parent, copy.db.parent)
        wal = Path(f"{copy.db}-wal")
        body = bytearray(wal.read_bytes())
        for at in random.Random(flip).sample(range(len(body)), 3):
            body[at] ^= 0xFF
        wal.write_bytes(body[: len(body) if flip % 2 else len(body) // (flip + 2)])
        await survives(copy)
        await copy.index.close()


async def test_an_index_that_is_removed_while_it_is_in_use_is_begun_anew(place: Place) -> None:
    """Somebody tidied up."""
    place.says(*(f"dog number {n}" for n in range(1, 101)))
    await found_again(place)
    shutil.rmtree(place.db.parent)
    place.says("one more cat", key="fake:7")
    with pytest.raises(BegunAnew):
        await place.index.read(place.space, place.log("fake:7").name)
    await found_again(place)


# --- what happens to the disk


async def test_who_searches_next_is_told_of_damage_that_nobody_heard_of(place: Place) -> None:
    """Whoever found it out was cancelled meanwhile, as a turn is that waits no longer."""
    place.says("my dog")
    await place.read()
    place.db.unlink()
    search = asyncio.create_task(place.find("dog"))
    await asyncio.sleep(0)
    _wait_until_gone(place.db.with_name("owner.db-wal"))  # nothing else runs until its thread has found it out
    search.cancel()
    await asyncio.wait([search])
    with pytest.raises(BegunAnew):
        await place.find("dog")
    assert await place.finds("dog") == []
    await place.read()
    assert await place.finds("dog") == ["my dog"]


def _wait_until_gone(path: Path) -> None:
    while path.exists():
        time.sleep(0.001)


async def test_nothing_is_gone_while_a_folder_cannot_be_read(place: Place) -> None:
    """The index keeps what came from there."""
    place.says("my dog")
    await place.read()
    sessions = place.space.root / "sessions"
    sessions.rename(sessions.with_name("aside"))
    sessions.touch()
    with pytest.raises(CannotStore, match="Not a directory"):
        await place.index.logs(place.space)
    assert await place.finds("dog") == ["my dog"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted where the system lists them")
async def test_a_file_is_not_kept_open_for_each_of_many_spaces(place: Place) -> None:
    """There may be hundreds of groups; a space whose file was closed is searched as any other."""
    spaces = [Space(f"fake:{n}", place.folder / str(n), place.folder) for n in range(MOST_OPEN + 8)]
    for space in spaces:
        await place.index.know(space, {"MEMORY.md": ["my dog"]})
    for _ in range(1_000):  # they are closed behind the others
        opened = [link for fd in Path("/proc/self/fd").iterdir() if (link := _link(fd)).endswith(".db")]
        if len(opened) <= MOST_OPEN:
            break
        await asyncio.to_thread(time.sleep, 0.005)
    assert 0 < len(opened) <= MOST_OPEN
    for space in spaces:
        assert [hit.text for hit in (await place.index.find(space, Sought("dog", NOW))).hits] == ["my dog"]


def _link(fd: Path) -> str:
    try:
        return os.readlink(fd)
    except OSError:
        return ""


async def test_a_folder_that_takes_nothing(place: Place) -> None:
    """It is said so; once it is well again, all is taken in."""
    place.says("my dog")
    place.db.parent.parent.mkdir(parents=True, exist_ok=True)
    place.db.parent.write_text("a file where the folder should be")
    for call in (place.index.logs(place.space), place.find("dog"), place.index.read(place.space, place.log().name)):
        with pytest.raises(CannotStore, match=r"Cannot write .*owner\.db: "):
            await call
    place.db.parent.unlink()
    await place.read()
    assert await place.finds("dog") == ["my dog"]


async def test_an_index_that_cannot_be_written(place: Place) -> None:
    """Nothing of it is lost, and nothing is thrown away."""
    await filled(place)
    before = place.db.read_bytes()
    place.db.chmod(0o400)
    place.db.parent.chmod(0o500)
    try:
        if os.access(place.db, os.W_OK):
            pytest.skip("runs as root")
        with pytest.raises(CannotStore):
            await place.index.logs(place.space)
    finally:
        place.db.parent.chmod(0o700)
        place.db.chmod(0o600)
    assert place.db.read_bytes() == before
    await found_again(place)


FULL = """
import asyncio, resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from nanomem.errors import CannotStore
from nanomem.recall.found import Sought
from nanomem.spaces import Space
from nanomem.stores.recall_index import MOST_OPEN, SqliteRecallIndex

async def main(root, state):
    space, index = Space("owner", root, root), SqliteRecallIndex(state, UTC)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    [log] = await index.logs(space)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        while await index.read(space, log):
            pass
        print("no limit")
    except CannotStore as error:
        print(error.text)
    try:
        print(len((await index.find(space, Sought("dog", datetime.now(UTC), most=5000))).hits) < 1000)
    except CannotStore as error:
        print(True)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    while await index.read(space, log):
        pass
    print(len((await index.find(space, Sought("dog", datetime.now(UTC), most=5000))).hits))
    await index.close()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def test_a_full_disk(place: Place) -> None:
    """A clear error, what was taken in stays, and it goes on when there is room again."""
    place.says(*(f"dog number {n} and some words more" for n in range(1, 1_001)))
    arguments = [sys.executable, "-c", FULL, str(place.space.root), str(place.db.parent)]
    ran = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=True)
    error, fewer, all_of_it = ran.stdout.splitlines()[-3:]
    assert error.startswith(f"Cannot use {place.db}: ") and fewer == "True" and all_of_it == "1000"


INDEXING = """
import asyncio, sys
from datetime import UTC
from pathlib import Path
from nanomem.errors import BegunAnew
from nanomem.spaces import Space
from nanomem.stores.recall_index import MOST_OPEN, SqliteRecallIndex

async def main(root, state):
    space, index = Space("owner", root, root), SqliteRecallIndex(state, UTC)
    print("ready", flush=True)
    turn = 0
    while True:
        turn += 1
        for log in await index.logs(space):
            while await index.read(space, log):
                pass
        await index.know(space, {"memory/MEMORY.md": ["has a dog", f"turn {turn % 7}"]})
        for log in sorted((root / "sessions").glob("*.jsonl"))[: turn % 3]:
            log.with_suffix(".new").write_bytes(log.read_bytes())
            log.with_suffix(".new").replace(log)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


@pytest.mark.parametrize("seed", range(max(1, ROUNDS // 4)))
async def test_killed_at_any_moment(place: Place, seed: int) -> None:
    """The next start goes on, and after reading all everything is found exactly once."""
    chance = random.Random(seed)
    count = 0
    for _ in range(4):
        for key in ("fake:1", "fake:2", "fake:3"):
            place.says(*(f"dog {key} number {n}" for n in range(count, count + 400)), key=key, first=count + 1)
        count += 400
        arguments = [sys.executable, "-c", INDEXING, str(place.space.root), str(place.db.parent)]
        child = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
        assert child.stdout and await child.stdout.readline() == b"ready\n"
        await asyncio.sleep(chance.uniform(0, 0.4))
        child.send_signal(signal.SIGKILL)
        await child.wait()
        await place.read()
        await place.index.know(place.space, {"memory/MEMORY.md": ["has a dog"]})
        found = [(hit.session, hit.n) for hit in (await place.find("dog", most=10_000)).hits]
        assert len(found) == len(set(found)) == 3 * count + 1
        await place.index.close()
        place.start()
