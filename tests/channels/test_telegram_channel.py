"""The channel against a Bot API on loopback: what is taken and when, what is shown, and what goes wrong."""

import asyncio
import errno
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from nanomem.channels.telegram import TelegramChannel
from nanomem.channels.telegram.channel import NOT_TAKEN
from nanomem.channels.telegram.wire import Wire
from nanomem.errors import CannotStore, Gone, Misuse, NanomemError, Refused, Stop, TryLater
from nanomem.messages import Attachment, Inbound
from nanomem.ports import Update
from proofs.proxy import Gone as GoneAway
from proofs.proxy import Proxy
from tests.emulators.loopback import LoopbackServer
from tests.emulators.telegram import DOWNLOAD_LIMIT, TelegramServer

Logs = list[MutableMapping[str, Any]]


class Clock:
    """Time that passes only by sleeping, and then at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._woke = asyncio.Event()

    def now(self) -> datetime:
        return datetime(2026, 4, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._woke.set()
        self._woke = asyncio.Event()
        await asyncio.sleep(0)

    async def sleeps(self, times: int) -> None:
        """Until it was slept so often."""
        async with asyncio.timeout(10):
            while len(self.slept) < times:
                await self._woke.wait()


class Guests:
    """Ann owns it, Bob may talk; codes let others in once."""

    def __init__(self, *codes: str) -> None:
        self.users = {42, 43}
        self.codes = set(codes)

    def admits(self, user: int) -> bool:
        return user in self.users

    def is_owner(self, user: int) -> bool:
        return user == 42

    async def pair(self, code: str, user: int) -> bool:
        if code not in self.codes:
            return False
        self.codes.remove(code)
        self.users.add(user)
        return True


class Disk:
    """A taker that outlives the channel."""

    def __init__(self) -> None:
        self.kept: dict[str, Update] = {}
        self.confirmed: int | None = None
        self.failures = 0
        self.stops = False
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None = None) -> None:
        assert channel == "telegram"
        self.asked.set()
        await self.open.wait()
        if self.stops:
            raise Stop("The disk cannot be trusted any more.")
        if self.failures:
            self.failures -= 1
            raise CannotStore("The disk is full.")
        for update in updates:
            self.kept.setdefault(update.id, update)
        self.confirmed = offset

    async def offset(self, channel: str) -> int | None:
        return self.confirmed

    def arrived(self, address: str) -> None:
        raise AssertionError("nobody is ever away on Telegram")

    @property
    def messages(self) -> list[Inbound]:
        return [update.message for update in self.kept.values() if update.message]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    @property
    def aside(self) -> list[Update]:
        return [update for update in self.kept.values() if update.error]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[Logs]:
    """All that was logged, and at the end a search for the token in it."""
    caplog.set_level(logging.WARNING)
    with capture_logs() as events:
        yield events
    assert "nanomem-Test_Token" not in repr(events) + caplog.text
    assert not caplog.records


async def untold(old: str, new: str) -> None:
    """Nobody wants to know of groups that change their id."""


@pytest.fixture
async def open_channel(telegram: TelegramServer, clock: Clock) -> AsyncIterator[Callable[..., TelegramChannel]]:
    """Makes channels to the emulator, and closes them."""
    made: list[TelegramChannel] = []

    def opened(server: LoopbackServer = telegram, **options: Any) -> TelegramChannel:
        address = f"http://127.0.0.1:{server.port}"
        usual: dict[str, Any] = {
            "base_url": f"{address}/bot",
            "base_file_url": f"{address}/file/bot",
            "proxy": "",
            "group_policy": "mention",
            "commands": (),
            "aliases": {},
            "on_migration": untold,
        }
        token, door = options.pop("token", telegram.token), options.pop("door", Guests())
        made.append(TelegramChannel(token, door, clock, **(usual | options)))
        return made[-1]

    yield opened
    for channel in made:
        await channel.close()


@pytest.fixture
def channel(open_channel: Callable[..., TelegramChannel]) -> TelegramChannel:
    return open_channel()


@asynccontextmanager
async def running(channel: TelegramChannel, disk: Disk) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(channel.run(disk))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# Taking


async def test_an_update_is_confirmed_only_once_it_is_taken(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk
) -> None:
    """While the taker writes, Telegram would still deliver it again."""
    disk.open.clear()
    first = telegram.say("Hello")
    async with running(channel, disk):
        await disk.asked.wait()
        assert telegram.unconfirmed == [first]
        assert len(telegram.calls_of("getUpdates")) == 1
        disk.open.set()
        await telegram.wait_for(lambda: telegram.polling and not telegram.unconfirmed)
    assert disk.confirmed == first + 1
    kept = disk.kept[str(first)]
    assert json.loads(kept.raw) == telegram.update(first)
    assert kept.message and kept.message.text == "Hello" and kept.message.from_owner


async def test_a_crash_before_taking_loses_nothing(
    telegram: TelegramServer, open_channel: Callable[..., TelegramChannel], disk: Disk
) -> None:
    """The next process gets what the last one did not take."""
    disk.open.clear()
    telegram.say("Hello")
    async with running(open_channel(), disk):
        await disk.asked.wait()
    disk.open.set()
    assert not disk.kept
    async with running(open_channel(), disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"])


async def test_it_goes_on_where_the_last_process_stopped(
    telegram: TelegramServer, open_channel: Callable[..., TelegramChannel], disk: Disk
) -> None:
    """The offset is the one on disk; the same channel may run again, too."""
    telegram.say("one")
    channel = open_channel()
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["one"] and telegram.polling)
    telegram.say("two")
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["one", "two"])
    assert telegram.calls_of("getUpdates")[-1].params["offset"] == disk.confirmed


async def test_a_full_disk_confirms_nothing(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk, clock: Clock, logs: Logs
) -> None:
    """It waits, says so, to the person once, and goes on when there is room again."""
    disk.failures = 4
    telegram.say("Hello")
    telegram.say("Hi", chat=666)
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)
        assert channel.error is None
    assert [entry["error"] for entry in logs if entry["event"] == "telegram.failed"] == ["The disk is full."] * 4
    assert (telegram.visible(42), telegram.visible(666)) == ([NOT_TAKEN], [])
    assert all(1 <= wait <= 2 for wait in clock.slept[:4])
    offsets = [call.params.get("offset") for call in telegram.calls_of("getUpdates")]
    assert offsets[:5] == [None] * 5


async def test_a_disk_that_cannot_be_trusted_ends_it(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk
) -> None:
    """Nothing else does."""
    disk.stops = True
    telegram.say("Hello")
    with pytest.raises(Stop):
        await channel.run(disk)


async def test_the_same_update_twice_is_one(telegram: TelegramServer, channel: TelegramChannel, disk: Disk) -> None:
    """Its id is the same each time."""
    first = telegram.say("Hello")
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"])
        telegram.redeliver(first)
        telegram.say("Bye")
        await telegram.wait_for(lambda: disk.texts == ["Hello", "Bye"])


async def test_ids_that_start_again_after_a_quiet_week(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk
) -> None:
    """The offset follows the newest update, downwards too."""
    disk.confirmed = 5_000_000
    first = telegram.say("Hello")
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)
    assert disk.confirmed == first + 1


async def test_a_burst_with_broken_ones_in_between(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk, logs: Logs
) -> None:
    """What cannot be read is set aside, raw; all else is served in order."""
    oddities: list[Any] = [
        {"brand_new": {"from": {"id": 42}}},
        {"message": "text"},
        {"message": {"from": {"id": 42}, "text": "no chat", "date": 1}},
        {"update_id": "seven", "message": {"text": "no number"}},
        {"message": {"from": {"id": 42}, "chat": {"id": 42, "type": "private"}, "date": "now", "text": 5}},
    ]
    for n in range(100):
        telegram.say(f"{n}")
        if n % 20 == 10:
            telegram.push(oddities[n // 20])
    async with running(channel, disk):
        await telegram.wait_for(lambda: len(disk.texts) == 100 and not telegram.unconfirmed)
    assert disk.texts == [f"{n}" for n in range(100)]
    assert [json.loads(update.raw).get("message", {}) for update in disk.aside][1] == "text"
    assert len(disk.aside) == 4 and len([one for one in logs if one["event"] == "telegram.set_aside"]) == 4


async def test_an_update_without_a_number_does_not_make_it_spin(disk: Disk, clock: Clock, open_channel: Any) -> None:
    """It cannot be confirmed and comes again and again: it is kept once, and every poll waits."""
    async with Answers([{"message": "odd"}, "odder"]) as server, running(open_channel(server), disk):
        await clock.sleeps(5)
        assert server.polls <= len(clock.slept) + 1
    assert len(disk.aside) == 2 and min(clock.slept) >= 1


class Answers(LoopbackServer):
    """A server that gives the same answer to every poll at once."""

    def __init__(self, answer: Any, status: int = 200, whole: str | None = None) -> None:
        super().__init__()
        self.answer = web.json_response({"ok": True, "result": answer}).text if whole is None else whole
        self.status = status
        self.polls = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/getMe"):
            return web.json_response({"ok": True, "result": {"id": 7, "is_bot": True, "first_name": "n"}})
        if not request.path.endswith("/getUpdates"):
            return web.json_response({"ok": True, "result": True})
        self.polls += 1
        return web.Response(text=self.answer, status=self.status)


async def test_an_empty_answer_at_once_does_not_make_it_spin(disk: Disk, clock: Clock, open_channel: Any) -> None:
    """Each poll after such an answer waits a second."""
    async with Answers([]) as server, running(open_channel(server), disk):
        await clock.sleeps(5)
        assert server.polls <= 6


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("garbage", ["", "null", "[]", "{}", '{"ok":true}', '{"ok":true,"result":5}', "[" * 100_000])
async def test_garbage_instead_of_an_answer(
    garbage: str, status: int, disk: Disk, clock: Clock, open_channel: Any, logs: Logs
) -> None:
    """It says so, waits, and tries again."""
    async with Answers([], status, garbage) as server:
        channel = open_channel(server)
        async with running(channel, disk):
            await clock.sleeps(3)
        assert channel.error and server.polls <= 4
    assert {entry["event"] for entry in logs} == {"telegram.failed"}


# Failing


@pytest.mark.parametrize(
    ("fault", "said", "waits"),
    [
        ({"status": 409}, "Another program polls", None),
        ({"status": 401}, "does not accept the bot token", 60),
        ({"status": 404}, "does not accept the bot token", 60),
        ({"status": 429, "retry_after": 7}, "asked to wait 7 s", 7),
        ({"status": 429, "retry_after": 3600}, "asked to wait 3600 s", 3600),
        ({"status": 502}, "cannot be reached (Bad Gateway (502)", None),
        ({"status": 500}, "cannot be reached (Internal Server Error", None),
        ({"status": 400}, "refused", None),
        ({"status": 403}, "refused", None),
        ({"cut": True}, "cannot be reached", None),
    ],
)
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_it_survives_what_the_network_does(
    method: str,
    fault: dict[str, Any],
    said: str,
    waits: float | None,
    telegram: TelegramServer,
    channel: TelegramChannel,
    disk: Disk,
    clock: Clock,
    logs: Logs,
) -> None:
    """Each failure is said, waited out, and over when it is over."""
    telegram.fail_next(method, times=3, **fault)
    telegram.say("Hello")
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)
        assert channel.error is None
    errors = [entry["error"] for entry in logs if entry["event"] == "telegram.failed"]
    assert len(errors) == 3 and all(said in error for error in errors)
    assert all(len(error) < 400 for error in errors)
    if waits is None:
        assert all(1 <= wait <= 2 for wait in clock.slept[:3])
    else:
        assert clock.slept[:3] == [waits] * 3


async def test_no_network_at_the_start(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk, clock: Clock, logs: Logs
) -> None:
    """It asks every other second, for as long as it takes; an hour of it fills no log."""
    await telegram.offline()
    async with running(channel, disk):
        await clock.sleeps(300)
        assert "cannot be reached" in (channel.error or "")
        await telegram.online()
        telegram.say("Hello")
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)
        assert channel.error is None
    assert max(clock.slept) <= 2 and all(wait >= 1 for wait in clock.slept[:300])
    failed = [entry["failures"] for entry in logs if entry["event"] == "telegram.failed"]
    assert failed == [*range(1, 9), *range(30, failed[-1] + 1, 30)]


async def test_a_day_without_network(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk, clock: Clock
) -> None:
    """However often it was tried, it is tried again."""

    class Away(Disk):
        async def offset(self, channel: str) -> int | None:
            if len(clock.slept) < 2000:
                raise TryLater("The network is away.")
            return None

    async with running(channel, away := Away()):
        telegram.say("Hello")
        await telegram.wait_for(lambda: away.texts == ["Hello"])


async def test_a_wrong_token_is_said(open_channel: Any, disk: Disk, clock: Clock, logs: Logs) -> None:
    """Without showing it; it is tried again every minute."""
    channel = open_channel(token="999:quite-Secret_Thing")
    async with running(channel, disk):
        await clock.sleeps(3)
        assert channel.error == "Telegram does not accept the bot token; check it (Unauthorized)."
    assert clock.slept[:3] == [60.0] * 3
    assert "Secret" not in repr(logs)


async def test_a_token_that_breaks_the_address_is_not_shown(
    open_channel: Any, disk: Disk, clock: Clock, logs: Logs
) -> None:
    """An error of the HTTP library would quote it."""
    channel = open_channel(token="999:quite\x07Secret")
    async with running(channel, disk):
        await clock.sleeps(2)
    assert channel.error and "Secret" not in repr(logs) + channel.error
    with pytest.raises(NanomemError) as caught:
        await channel.place("telegram:42")
    assert "Secret" not in caught.value.text


@pytest.mark.parametrize("options", [{"token": " "}, {"proxy": "nonsense://x"}, {"proxy": "http://[::"}])
async def test_settings_that_cannot_work(options: dict[str, str], open_channel: Any) -> None:
    """Are said at once."""
    with pytest.raises(Misuse, match=r"channels\.telegram\."):
        open_channel(**options)


async def test_a_second_poller_that_goes_away(
    telegram: TelegramServer, channel: TelegramChannel, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Polling goes on when it ends."""
    other = Disk()
    async with running(channel, disk):
        await telegram.wait_for(lambda: telegram.polling)
        async with running(open_channel(), other):
            await telegram.wait_for(lambda: any("Another program" in str(entry.get("error")) for entry in logs))
        telegram.say("Hello")
        await telegram.wait_for(lambda: "Hello" in disk.texts + other.texts)


# Who may talk


@pytest.mark.parametrize(
    "knock",
    [
        lambda telegram: telegram.say("let me in", chat=666),
        lambda telegram: telegram.say("/start wrong", chat=666),
        lambda telegram: telegram.say("I am Ann", chat=666, username="ann", name="Ann"),
        lambda telegram: telegram.say(voice=b"x", chat=666),
        lambda telegram: telegram.say(document=b"x", chat=666),
        lambda telegram: telegram.say("@nanomem_bot hi", chat=-1001, user=666),
        lambda telegram: telegram.say("look", chat=666, forward_from=42),
        lambda telegram: telegram.press("x", 1, chat=666),
    ],
)
async def test_strangers_meet_silence(
    knock: Callable[[TelegramServer], int], telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """No reply, no typing, no download, nothing kept but one line of who it was."""
    await open_channel().place("telegram:666")  # there is a message to press a button on
    async with running(open_channel(), disk):
        await telegram.wait_for(lambda: telegram.polling)  # the kinds of updates are known by now
        before = len(telegram.calls)
        number = knock(telegram)
        await telegram.wait_for(lambda: telegram.polling and str(number) in disk.kept)
        assert {call.method for call in telegram.calls[before:]} <= {"getUpdates"}
    assert disk.kept[str(number)] == Update(str(number), "")
    assert [dict(entry) for entry in logs] == [{"event": "telegram.stranger", "user": 666, "log_level": "warning"}]


async def test_who_cannot_be_let_in_now_is_told(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Once for each time they ask; a code that cannot be taken holds up nobody behind it."""

    class Locked(Guests):
        async def pair(self, code: str, user: int) -> bool:
            raise Refused("Not now.")

    telegram.say("/start sesame", chat=666, user=666)
    telegram.say("Hi", chat=42, user=42)
    disk.failures = 3
    async with running(open_channel(door=Locked()), disk):
        await telegram.wait_for(lambda: disk.texts == ["Hi"] and telegram.polling)
        assert telegram.visible(666) == ["Not now."]
        telegram.say("/start sesame", chat=666, user=666)
        await telegram.wait_for(lambda: telegram.visible(666) == ["Not now."] * 2)


async def test_what_a_stranger_sends_broken_is_not_kept(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """It is a stranger's all the same."""
    stranger, private = {"id": 666, "is_bot": False, "first_name": "Eve"}, {"id": 666, "type": "private"}
    telegram.push({"message": {"from": stranger, "chat": private, "date": 1, "text": {"secret": 5}}})
    telegram.push({"message": {"from": stranger, "chat": "odd", "date": 1, "text": "secret"}})
    async with running(open_channel(), disk):
        await telegram.wait_for(lambda: len(disk.kept) == 2)
    assert [(update.raw, update.error) for update in disk.kept.values()] == [("", None)] * 2
    assert [entry["event"] for entry in logs] == ["telegram.stranger"] * 2


async def test_channels_bots_and_anonymous_admins_are_strangers(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Even one with an allowed id."""
    chat = {"id": -1001, "type": "supergroup", "title": "x"}
    body = {"message_id": 1, "date": 1, "chat": chat, "text": "/x"}
    telegram.push({"message": {**body, "from": {"id": 42, "is_bot": True, "first_name": "Ann"}}})
    telegram.push({"message": {**body, "from": {"id": 42, "is_bot": False, "first_name": "Ann"}, "sender_chat": chat}})
    telegram.push({"message": body})
    async with running(open_channel(), disk):
        await telegram.wait_for(lambda: len(disk.kept) == 3)
    assert not disk.messages and not disk.aside
    assert [(entry["event"], entry["user"]) for entry in logs] == [
        ("telegram.stranger", 42),
        ("telegram.stranger", 42),
        ("telegram.stranger", None),
    ]


async def test_a_stranger_with_a_code_is_let_in_once(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """In private; the code itself is no message, what follows is."""
    telegram.say("/start sesame", chat=-1001, user=77)
    telegram.say("/start sesame", chat=77)
    telegram.say("hello", chat=77)
    telegram.say("/start sesame", chat=78)
    async with running(open_channel(door=Guests("sesame")), disk):
        await telegram.wait_for(lambda: len(disk.kept) == 4)
    assert disk.texts == ["hello"] and not disk.messages[0].from_owner
    assert "Welcome" in telegram.visible(77)[0] and telegram.visible(78) == []
    assert [entry["event"] for entry in logs] == ["telegram.stranger"] * 2


async def test_a_welcome_that_cannot_be_sent_costs_nothing(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Who is let in is in."""
    telegram.fail_next("sendMessage", 403)
    telegram.say("/start sesame", chat=77)
    telegram.say("hello", chat=77)
    async with running(open_channel(door=Guests("sesame")), disk):
        await telegram.wait_for(lambda: disk.texts == ["hello"])
    assert "telegram.no_welcome" in [entry["event"] for entry in logs]


# Chats


async def test_groups_topics_albums_and_edits(telegram: TelegramServer, channel: TelegramChannel, disk: Disk) -> None:
    """As they arrive from the network."""
    telegram.say("not for you", chat=-1001, user=43)
    telegram.say("@nanomem_bot hi", chat=-1001, user=43, name="Bob")
    telegram.say("@nanomem_bot topic", chat=-1001, user=42, topic=9)
    telegram.say(chat=-1001, user=42, photo=b"1", media_group="A")
    telegram.say(chat=-1001, user=42, photo=b"2", media_group="A", caption="@nanomem_bot which one?")
    telegram.say("first")
    telegram.say("second", edited=True)
    async with running(channel, disk):
        await telegram.wait_for(lambda: len(disk.kept) == 7)
        said = [(one.address, one.text, one.sender.name, one.album, one.edited) for one in disk.messages]
    assert said == [
        ("telegram:-1001", "hi", "Bob", None, False),
        ("telegram:-1001:9", "topic", "Ann", None, False),
        ("telegram:-1001", "", "Ann", "A", False),
        ("telegram:-1001", "which one?", "Ann", "A", False),
        ("telegram:42", "first", "Ann", None, False),
        ("telegram:42", "second", "Ann", None, True),
    ]
    assert next(iter(disk.kept.values())).raw == ""


async def test_a_reply_to_the_bot_is_for_it(telegram: TelegramServer, channel: TelegramChannel, disk: Disk) -> None:
    """With what was replied to."""
    placed = await channel.place("telegram:-1001:9")
    await channel.show("telegram:-1001:9", placed, "It **rains**.", True)
    telegram.say("really?", chat=-1001, user=43, topic=9, reply_to=int(placed))
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["really?"])
    assert disk.messages[0].reply_to == "nanomem: It rains."
    assert telegram.visible(-1001, 9) == ["It rains."]


async def test_a_group_that_becomes_a_supergroup_keeps_its_session(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Its owner is told before anything from the new group is taken; answers go to the new group."""
    told: list[tuple[str, str, int]] = []

    async def migrated(old: str, new: str) -> None:
        told.append((old, new, len(disk.kept)))

    channel = open_channel(on_migration=migrated)
    telegram.migrate(-5, -1005)
    telegram.say("/x", chat=-1005, user=42)
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["/x"])
    assert told == [("telegram:-5", "telegram:-1005", 0)]
    assert disk.messages[0].address == "telegram:-5"
    await channel.say("telegram:-5", "Hi")
    assert telegram.visible(-1005) == ["Hi"]
    later = open_channel(aliases={"telegram:-1005": "telegram:-5"})
    await later.say("telegram:-5:9", "again")
    assert telegram.visible(-1005, 9) == ["again"]


async def test_a_group_that_nobody_talked_in_stands_for_itself(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """There is no session to take along: any stranger may add the bot to a group and move it."""

    async def migrated(old: str, new: str) -> None:
        raise Refused(f"There is no session {old}.")

    channel = open_channel(on_migration=migrated)
    telegram.migrate(-5, -1005)
    telegram.say("/x", chat=-1005, user=42)
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["/x"])
    assert disk.messages[0].address == "telegram:-1005"
    await channel.say("telegram:-5", "Hi")
    assert telegram.visible(-1005) == ["Hi"], "what was meant for the old group still finds the new one"


async def test_a_migration_that_cannot_be_stored_is_told_again(
    telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs
) -> None:
    """Nothing is taken before it is."""
    told: list[str] = []

    async def migrated(old: str, new: str) -> None:
        told.append(new)
        if len(told) < 3:
            raise CannotStore("The disk is full.")

    telegram.migrate(-5, -1005)
    telegram.say("/x", chat=-1005, user=42)
    async with running(open_channel(on_migration=migrated), disk):
        await telegram.wait_for(lambda: disk.texts == ["/x"])
    assert len(told) == 3 and disk.messages[0].address == "telegram:-5"


async def test_a_group_that_moved_while_an_answer_was_written(
    telegram: TelegramServer, open_channel: Any, logs: Logs
) -> None:
    """The error of the network says where to; what was placed is replaced there."""
    told: list[tuple[str, str]] = []

    async def migrated(old: str, new: str) -> None:
        told.append((old, new))

    channel = open_channel(on_migration=migrated)
    placed = await channel.place("telegram:-5")
    telegram.migrate(-5, -1005)
    with pytest.raises(Gone):
        await channel.show("telegram:-5", placed, "answer", True)
    await channel.show("telegram:-5", await channel.place("telegram:-5"), "answer", True)
    assert telegram.visible(-1005) == ["answer"]
    other = open_channel(on_migration=migrated)
    await other.say("telegram:-5", "more")
    assert telegram.visible(-1005) == ["answer", "more"]
    assert told == [("telegram:-5", "telegram:-1005")] * 2


async def test_the_menu_is_registered(telegram: TelegramServer, open_channel: Any, disk: Disk, logs: Logs) -> None:
    """In names that Telegram allows; without it, all else works."""
    commands = [("new", "start afresh"), ("dream-log", "what was learnt")]
    async with running(open_channel(commands=commands), disk):
        await telegram.wait_for(lambda: telegram.polling)
    assert [one["command"] for one in telegram.commands()] == ["new", "dream_log"]
    telegram.fail_next("setMyCommands", 400)
    async with running(open_channel(commands=commands), disk):
        await telegram.wait_for(lambda: len(telegram.calls_of("getUpdates")) == 4)
    assert [entry["event"] for entry in logs] == ["telegram.no_menu"]


async def test_what_formats_cannot_be_loaded_now(
    telegram: TelegramServer, channel: TelegramChannel, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With too many open files it goes on."""

    class Exhausted:
        def find_spec(self, name: str, *_where: object) -> None:
            if name == "telegramify_markdown":
                raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.delitem(sys.modules, "telegramify_markdown", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Exhausted(), *sys.meta_path])
    telegram.say("Hello")
    async with running(channel, disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)


async def test_what_waits_is_taken_before_the_menu_is_seen_to(
    telegram: TelegramServer, open_channel: Any, disk: Disk
) -> None:
    """Nobody's message waits for a menu; afterwards the bot polls as ever."""
    telegram.say("Hello")
    async with running(open_channel(commands=[("new", "start afresh")]), disk):
        await telegram.wait_for(lambda: disk.texts == ["Hello"] and telegram.polling)
    methods = [call.method for call in telegram.calls]
    assert methods.index("getUpdates") < methods.index("setMyCommands")


# Showing


async def test_an_answer_grows_in_its_place(telegram: TelegramServer, channel: TelegramChannel) -> None:
    """Shown twice is shown once; half-written Markdown does no harm."""
    placed = await channel.place("telegram:42")
    assert telegram.visible() == ["…"]
    for part in ("It **ra", "It **rains**.", "It **rains**."):
        await channel.show("telegram:42", placed, part, False)
    assert telegram.messages()[0].history == ["…", "It **ra", "It rains."]
    assert telegram.messages()[0].entities == [{"type": "bold", "offset": 3, "length": 5}]


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
@pytest.mark.parametrize("words", ["can't parse entities: unsupported", "ENTITY_BOUNDS_INVALID", "Wrong HTTP URL"])
async def test_formatting_that_telegram_refuses_is_left_out(
    method: str, words: str, telegram: TelegramServer, channel: TelegramChannel
) -> None:
    """The text arrives all the same, as it was written."""
    placed = await channel.place("telegram:42")
    telegram.fail_next(method, 400, description=f"Bad Request: {words}")
    if method == "sendMessage":
        await channel.say("telegram:42", "It **rains**.")
    else:
        await channel.show("telegram:42", placed, "It **rains**.", True)
    assert telegram.visible()[-1] == "It **rains**."


ACTIONS: dict[str, Callable[[TelegramChannel, str], Awaitable[object]]] = {
    "place": lambda channel, placed: channel.place("telegram:42"),
    "say": lambda channel, placed: channel.say("telegram:42", "text"),
    "show": lambda channel, placed: channel.show("telegram:42", placed, "text", True),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("fault", "kind", "after_s"),
    [
        ({"status": 429, "retry_after": 1}, TryLater, 1),
        ({"status": 429, "retry_after": 3600}, TryLater, 3600),
        ({"status": 429, "description": "Too Many Requests"}, TryLater, 1),
        ({"status": 500}, TryLater, None),
        ({"status": 502}, TryLater, None),
        ({"status": 401}, TryLater, 60),
        ({"cut": True}, TryLater, None),
        ({"cut": True, "accept": True}, TryLater, None),
        ({"status": 502, "accept": True}, TryLater, None),
        ({"status": 400}, Refused, None),
        ({"status": 403}, Refused, None),
    ],
)
async def test_a_failure_says_what_to_do_next(
    action: str,
    fault: dict[str, Any],
    kind: type[NanomemError],
    after_s: float | None,
    telegram: TelegramServer,
    channel: TelegramChannel,
    clock: Clock,
    logs: Logs,
) -> None:
    """Wait, for how long, or give up; and the words hold no secret."""
    placed = await channel.place("telegram:42")
    telegram.fail_next("editMessageText" if action == "show" else "sendMessage", **fault)
    with pytest.raises(kind) as caught:
        await ACTIONS[action](channel, placed)
    assert not isinstance(caught.value, Gone)
    assert getattr(caught.value, "after_s", None) == after_s
    assert telegram.token not in caught.value.text and "<html" not in caught.value.text
    if kind is TryLater:
        await clock.sleep(after_s or 0)
        await ACTIONS[action](channel, placed)


async def test_without_network_sending_is_for_later(telegram: TelegramServer, channel: TelegramChannel) -> None:
    """Also before polling ever began; no error of the libraries is left in the traceback."""
    await telegram.offline()
    with pytest.raises(TryLater) as caught:
        await channel.place("telegram:42")
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    await telegram.online()
    await channel.place("telegram:42")


async def test_a_chat_that_is_written_to_too_often_is_left_alone(
    telegram: TelegramServer, channel: TelegramChannel, clock: Clock
) -> None:
    """Until the time Telegram named, whoever wants to write there; other chats are not concerned."""
    placed = await channel.place("telegram:42")
    telegram.fail_next("editMessageText", 429, retry_after=7)
    with pytest.raises(TryLater):
        await channel.show("telegram:42", placed, "text", True)
    await clock.sleep(3)
    for early in (channel.say("telegram:42", "no"), channel.place("telegram:42:5"), channel.place("telegram:42")):
        with pytest.raises(TryLater) as caught:
            await early
        assert caught.value.after_s == pytest.approx(4)
    await channel.say("telegram:43", "yes")
    await clock.sleep(4)
    await channel.show("telegram:42", placed, "text", True)
    assert telegram.visible(42) == ["text"] and telegram.visible(43) == ["yes"]


async def test_who_is_gone_without_a_word_is_not_waited_for(telegram: TelegramServer, disk: Disk) -> None:
    """Neither by a poll, which would go on for half a minute, nor by what is sent."""
    async with Proxy(telegram.port) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        wire = Wire(telegram.token, f"{address}/bot", f"{address}/file/bot", "")
        polling = asyncio.create_task(wire.updates(None, 30))
        await telegram.wait_for(lambda: telegram.polling)
        proxy.strand()
        proxy.script = lambda _: GoneAway()
        sending = asyncio.create_task(wire.send(42, None, "lost"))
        done, _ = await asyncio.wait([polling, sending], timeout=10)
        assert [type(task.exception()) for task in done] == [TryLater] * 2
        proxy.script = lambda _: None
        await wire.send(42, None, "well")
        await wire.close()
    assert telegram.visible() == ["well"]


async def test_a_proxy_of_the_environment_is_used(
    telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For what is said and for files, unless the host is excepted."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{telegram.port}")
    wire = Wire(telegram.token, "http://bots.invalid/bot", "http://bots.invalid/file/bot", "")
    await wire.send(42, None, "through it")
    await wire.download(telegram.add_file(b"bytes", "a.txt"), tmp_path / "a.txt")
    await wire.close()
    assert telegram.visible() == ["through it"] and (tmp_path / "a.txt").read_bytes() == b"bytes"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    address = f"http://127.0.0.1:{telegram.port}"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    wire = Wire(telegram.token, f"{address}/bot", f"{address}/file/bot", "")
    await wire.send(42, None, "straight")
    await wire.close()


async def test_an_edit_that_was_cut_off_is_done_once(telegram: TelegramServer, channel: TelegramChannel) -> None:
    """Done again, it changes nothing and is no error."""
    placed = await channel.place("telegram:42")
    telegram.fail_next("editMessageText", accept=True, cut=True)
    with pytest.raises(TryLater):
        await channel.show("telegram:42", placed, "text", True)
    await channel.show("telegram:42", placed, "text", True)
    assert telegram.messages()[0].history == ["…", "text"]


@pytest.mark.parametrize("placed", ["999", "odd", ""])
async def test_what_is_there_no_more_is_gone(placed: str, channel: TelegramChannel) -> None:
    """Another can be sent in its place."""
    with pytest.raises(Gone):
        await channel.show("telegram:42", placed, "text", True)


async def test_who_blocked_the_bot_is_not_written_to(telegram: TelegramServer, channel: TelegramChannel) -> None:
    """Trying again would not help, and neither would a lost topic or a wrong address."""
    placed = await channel.place("telegram:42")
    telegram.block(42)
    for attempt in (channel.place("telegram:42"), channel.show("telegram:42", placed, "text", True)):
        with pytest.raises(Refused):
            await attempt
    telegram.delete_topic(-1001, 9)
    for address in ("telegram:-1001:9", "telegram:nobody", "telegram:1:2:3", "telegram"):
        with pytest.raises(Refused):
            await channel.say(address, "text")


@pytest.mark.parametrize(
    ("answer", "sizes"),
    [
        ("x" * 4096, [4096]),
        ("x" * 4097, [4096, 1]),
        ("😀" * 4096, [2048, 2048]),
        (" \n ", [14]),
        ("half \ud83d", [6]),
        ("**unbalanced _[", [15]),
    ],
)
async def test_answers_of_any_kind_arrive(
    answer: str, sizes: list[int], telegram: TelegramServer, channel: TelegramChannel
) -> None:
    """Said at once, or shown part by part."""
    await channel.say("telegram:42", answer)
    assert [len(text) for text in telegram.visible()] == sizes
    for part in channel.parts(answer):
        await channel.show("telegram:43", await channel.place("telegram:43"), part, True)
    assert telegram.visible(43) == telegram.visible(42)


# Fetching


def document(ref: str, size: int | None = None) -> Attachment:
    return Attachment("document", "notes.txt", "text/plain", size, ref)


async def test_a_file_is_fetched(telegram: TelegramServer, channel: TelegramChannel, tmp_path: Path) -> None:
    """Byte by byte as it was sent."""
    content = bytes(range(256)) * 4000
    await channel.fetch(document(telegram.add_file(content, "x"), len(content)), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content


async def test_a_file_of_21_mb_is_refused(telegram: TelegramServer, channel: TelegramChannel, tmp_path: Path) -> None:
    """Whether its size is told, or only known to Telegram, or only seen while it comes."""
    known = telegram.add_file(b"x", "x", size=21 * 2**20)
    lying = telegram.add_file(b"x" * (DOWNLOAD_LIMIT + 1), "x", size=1)
    for attachment in (document(known, 21 * 2**20), document(known), document(lying, 1)):
        with pytest.raises(Refused, match="larger than the 20 MB that Telegram lets bots fetch"):
            await channel.fetch(attachment, tmp_path / "file")
        assert not (tmp_path / "file").exists()
    assert len(telegram.calls_of("getFile")) == 3


async def test_a_file_that_cannot_be_fetched_now(
    telegram: TelegramServer, channel: TelegramChannel, tmp_path: Path
) -> None:
    """Or never."""
    ref = telegram.add_file(b"x", "x")
    telegram.fail_next("getFile", 500)
    with pytest.raises(TryLater):
        await channel.fetch(document(ref), tmp_path / "file")
    with pytest.raises(CannotStore, match=r"Cannot write .*no folder/file: No such file"):
        await channel.fetch(document(ref), tmp_path / "no folder" / "file")
    with pytest.raises(Refused):
        await channel.fetch(document("unknown"), tmp_path / "file")
    await telegram.offline()
    with pytest.raises(TryLater) as caught:
        await channel.fetch(document(ref), tmp_path / "file")
    assert telegram.token not in caught.value.text
    assert not list(tmp_path.iterdir())


class Trickle(LoopbackServer):
    """A server whose files begin and never end."""

    def __init__(self) -> None:
        super().__init__()
        self.began = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/getFile"):
            url = f"http://127.0.0.1:{self.port}/file"
            return web.json_response({"ok": True, "result": {"file_id": "f", "file_unique_id": "f", "file_path": url}})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"x")
        self.began = True
        await asyncio.Event().wait()
        return answer


async def test_a_file_that_never_ends_is_given_up(tmp_path: Path) -> None:
    """After five minutes; here after one second."""
    async with Trickle() as server:
        wire = Wire("1:token", f"http://127.0.0.1:{server.port}/bot", f"http://127.0.0.1:{server.port}/file", "")
        with pytest.raises(TryLater, match="within 1 s"):
            await wire.download("f", tmp_path / "file", within_s=1)
        await wire.close()
        assert server.began
