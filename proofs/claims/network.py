"""The real daemon, with both networks breaking: what is said is answered once, and soon after all is well again.

Each round breaks the way to Telegram, to the model, or both, in one way, while people talk. Dice come from the seed.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, cycle, product
from pathlib import Path
from typing import Any, Protocol

from benchmarks import machine
from proofs.claim import Effort, Report
from proofs.proxy import Cut, Exchange, Gone, Instead, Late, Proxy, Script, Twice
from proofs.proxy import Fault as Broken
from tests.daemon.running import OTHERS, PLACEHOLDER, DaemonProcess, World, a_world
from tests.emulators import Answer, Fault, OpenAIServer, TelegramServer
from tests.emulators.telegram import Call

NAME = "network"
CLAIM = (
    "whatever the networks do, each message is answered once or its failure is told, nothing spins, "
    "and within 5 s of the end all is as before"
)

BACK_S = 5.0
"""From the end of a fault to the answer to what is said then; more by what the same takes in peace."""
BUSY = 0.05
"""Of a core, once the first second of a fault is over; more by what it takes to ask a model in vain, some times."""
IN_VAIN_S = 0.05
POLLS_PER_S = 1.2
LINES_PER_S = 5.0
LONG_S = 5.0
"""In less time work is more than what is done over and over."""
UNDER_WAY_S = 0.3
"""What was sent before the word to wait had come."""
GIVEN_UP_S = 90.0

_MODEL = "openai/gpt-test"
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body></body></html>"
_TALKERS = OTHERS[:3]
_QUIET = OTHERS[3]
_ENDLESS = 1_000_000


class Side(Protocol):
    """One of the two networks: its proxy, and the server behind it."""

    proxy: Proxy

    @property
    def arrived(self) -> int:
        """How many requests have come to the server so far."""

    @property
    def broken(self) -> int:
        """How many met a fault so far, on their way or at the server."""

    def storm(self, after_s: int, polls: bool) -> None:
        """From now on all is refused for being too much; with `polls` those, too."""

    def errors(self, status: int, polls: bool) -> None:
        """From now on all fails at the server."""

    def heal(self) -> None:
        """The server is well again."""


class ToTelegram:
    """A Side."""

    def __init__(self, proxy: Proxy, server: TelegramServer) -> None:
        self.proxy = proxy
        self._server = server

    @property
    def arrived(self) -> int:
        return len(self._server.calls)

    @property
    def broken(self) -> int:
        return self.proxy.broken + self._server.failed

    def storm(self, after_s: int, polls: bool) -> None:
        self._fail(429, polls, after_s)

    def errors(self, status: int, polls: bool) -> None:
        self._fail(status, polls)

    def heal(self) -> None:
        self._server.heal()

    def _fail(self, status: int, polls: bool, after_s: int | None = None) -> None:
        for method in ("*",) if polls else ("sendMessage", "editMessageText"):
            self._server.fail_next(method, status, retry_after=after_s, times=_ENDLESS)


class ToModel:
    """A Side."""

    def __init__(self, proxy: Proxy, server: OpenAIServer) -> None:
        self.proxy = proxy
        self._server = server
        self._failed = 0
        self.heal()

    @property
    def arrived(self) -> int:
        return len(self._server.requests)

    @property
    def broken(self) -> int:
        return self.proxy.broken + self._failed

    def storm(self, after_s: int, polls: bool) -> None:
        self._fail(Fault.rate_limited(after_s))

    def errors(self, status: int, polls: bool) -> None:
        self._fail(Fault.bad_gateway() if status == 502 else Fault.server_error(status))

    def heal(self) -> None:
        self._server.script(lambda asked: Answer(f"Read {', '.join(_asked(asked))}."))

    def _fail(self, fault: Fault) -> None:
        def failed(_: object) -> Fault:
            self._failed += 1
            return fault

        self._server.script(failed)


def _perhaps_without_polls(dice: random.Random, script: Script) -> Script:
    """Half of the time new messages come in, so that answers are under way."""
    if dice.random() < 0.5:
        return script
    return lambda exchange: None if exchange.name.lower() == "getupdates" else script(exchange)


async def _late(side: Side, dice: random.Random) -> None:
    side.proxy.script = lambda _: Late(dice.uniform(0, 0.6), dice.uniform(0, 0.6), dice.choice((0, 100)), 0.02)


async def _cut(side: Side, dice: random.Random) -> None:
    def cut(exchange: Exchange) -> Broken | None:
        request = Cut("request", dice.randrange(exchange.size), dice.random() < 0.5)
        answer = Cut("answer", dice.choice((0, 1, 100, 300, 1000)), dice.random() < 0.5)
        return dice.choice((request, answer, answer, None))

    side.proxy.script = _perhaps_without_polls(dice, cut)


async def _gone(side: Side, dice: random.Random) -> None:
    side.proxy.strand()
    side.proxy.script = _perhaps_without_polls(dice, lambda _: dice.choice((Gone(), Gone(done=True), None)))


async def _twice(side: Side, dice: random.Random) -> None:
    side.proxy.script = _perhaps_without_polls(dice, lambda _: Twice())


async def _pages(side: Side, dice: random.Random) -> None:
    side.proxy.script = _perhaps_without_polls(dice, lambda _: Instead(502, _PAGE, done=dice.random() < 0.5))


async def _refused(side: Side, dice: random.Random) -> None:
    await side.proxy.refuse()


async def _swallowed(side: Side, dice: random.Random) -> None:
    side.proxy.swallow()


async def _silent(side: Side, dice: random.Random) -> None:
    side.proxy.hush()


async def _storm(side: Side, dice: random.Random) -> None:
    side.storm(dice.choice((1, 2)), dice.random() < 0.5)


async def _errors(side: Side, dice: random.Random) -> None:
    side.errors(dice.choice((500, 502, 503)), dice.random() < 0.5)


KINDS = {
    "late": _late,
    "cut": _cut,
    "gone": _gone,
    "twice": _twice,
    "pages": _pages,
    "refused": _refused,
    "black hole": _swallowed,
    "silent": _silent,
    "storm": _storm,
    "errors": _errors,
}
SIDES = ("telegram", "model", "both")
BLOCKED = ("refused", "black hole", "silent")
"""While it is so, nothing gets through. All other kinds do something to some requests."""
SLOW = ("late", "cut", "twice")
"""While it is so, things work, if slowly: work is done, and counts for nothing."""


class Talk:
    """A daemon in the middle of both, those who talk to it, and what was found."""

    def __init__(self, world: World, life: DaemonProcess, sides: dict[str, Side]) -> None:
        counted = ("rounds", "rounds whose calm was measured", "requests broken", "messages", "done again by /retry")
        self.tried = dict.fromkeys(counted, 0)
        self.measured = dict.fromkeys(("peace_s", "back_s", "core_percent", "polls_per_s", "lines_per_s"), 0.0)
        self.violations: list[str] = []
        self._world = world
        self._life = life
        self._sides = sides
        self._numbers = count()
        self._said: dict[int, list[str]] = {chat: [] for chat in (*_TALKERS, _QUIET)}
        self._played: dict[str, list[int]] = {}
        """How many requests were broken in the rounds of each kind."""

    async def peace(self) -> None:
        """What an answer takes when all is well; the first one, for which much is loaded, does not count."""
        await self._answered("in peace", {chat: self._say(chat) for chat in self._said})
        for _ in range(2):
            self._at_most("peace_s", await self._answered("in peace", {chat: self._say(chat) for chat in self._said}))

    async def round(self, kind: str, where: str, seconds: float, dice: random.Random) -> None:
        """A fault for so long, and what comes after it."""
        what = f"{kind}, {where}, {seconds:g} s, round {self.tried['rounds']}"
        self.tried["rounds"] += 1
        sides = [side for name, side in self._sides.items() if where in (name, "both")]
        for side in sides:
            await KINDS[kind](side, dice)
        began, calls = time.monotonic(), len(self._world.telegram.calls)
        await asyncio.sleep(UNDER_WAY_S)
        broken = sum(side.broken for side in sides)
        with self._lets_nothing_through(what, sides if kind in BLOCKED else []):
            for chat in _TALKERS:
                await asyncio.sleep(dice.uniform(0, 0.3))
                self._say(chat)
            if kind == "storm":
                self._world.telegram.say("/status", dice.choice(_TALKERS))  # which is answered beside what waits
            await self._stays_calm(what, began, seconds, slow=kind in SLOW)
        self._played.setdefault(kind, []).append(sum(side.broken for side in sides) - broken)
        for side in sides:
            side.heal()
            await side.proxy.mend()
        again = dice.choice(_TALKERS)  # the others go on, and leave behind what failed
        await self._comes_back(what, [chat for chat in self._said if chat != again], again)
        if kind == "storm" and where != "model":
            early = too_early(self._world.telegram.calls[calls:], self._world.telegram.told_to_wait)
            self.violations += [f"{what}: {call}" for call in early]

    async def outage(self, seconds: float) -> None:
        """Telegram is away for long, with answers waiting to be sent; an hour is no other than a minute."""
        what = f"an outage of {seconds:g} s"
        self.tried["rounds"] += 1
        self._world.model.hold()
        for chat in _TALKERS:
            self._say(chat)
        await self._world.model.wait_for(lambda: self._world.model.in_flight >= len(_TALKERS), GIVEN_UP_S)
        telegram = self._sides["telegram"]
        await telegram.proxy.refuse()
        self._world.model.release()
        with self._lets_nothing_through(what, [telegram]):
            await self._stays_calm(what, time.monotonic(), seconds, slow=False)
        await telegram.proxy.mend()
        await self._comes_back(what, list(self._said), None)

    def check(self) -> None:
        """The promise, over all that was said."""
        for chat, texts in self._said.items():
            try:
                self._world.check(chat, texts)
            except AssertionError as error:
                self.violations.append(f"chat {chat}: {error}")
            for end in self._world.ends(f"telegram:{chat}"):
                if end["end"] not in ("answer", "failed"):
                    self.violations.append(f"chat {chat}: a turn ended as {end['end']}")
                if end["end"] == "failed" and "/retry" not in end["content"]:
                    self.violations.append(f"chat {chat}: it is not said what to do: {end['content']}")
        self.tried["requests broken"] = sum(map(sum, self._played.values()))
        self.violations += unmet(self._played)
        ends = [end["end"] for chat in self._said for end in self._world.ends(f"telegram:{chat}")]
        self.tried["turns that failed"] = ends.count("failed")
        shown = [text for chat in self._said for text in self._world.telegram.visible(chat)]
        left_over = self.tried["placeholders left over"] = shown.count(PLACEHOLDER)
        may = self.tried["sends in doubt"] = self._sends_in_doubt()
        if left_over > may:
            self.violations.append(f"{left_over} placeholders are left over, where {may} sends were in doubt")

    def _sends_in_doubt(self) -> int:
        """Those of which the daemon cannot know whether they were carried out, or that were carried out twice."""
        proxy = self._sides["telegram"].proxy
        asked = sum(exchange.name == "sendMessage" for exchange, _ in proxy.exchanges)
        return asked - sum(exchange.name == "sendMessage" for exchange in proxy.answered)

    @contextmanager
    def _lets_nothing_through(self, what: str, blocked: Sequence[Side]) -> Iterator[None]:
        """Else it shows nothing."""
        before = sum(side.arrived for side in blocked)
        yield
        if through := sum(side.arrived for side in blocked) - before:
            self.violations.append(f"{what}: {through} requests got through")

    def _say(self, chat: int) -> str:
        text = f"q{next(self._numbers)}"
        self._said[chat].append(text)
        self._world.telegram.say(text, chat)
        self.tried["messages"] += 1
        return text

    async def _stays_calm(self, what: str, began: float, seconds: float, slow: bool) -> None:
        """Until so many seconds have passed."""
        await asyncio.sleep(began + 1 - time.monotonic())
        since, cpu, polls, lines = time.monotonic(), self._cpu_s(), self._polls(), len(self._life.lines)
        await asyncio.sleep(began + seconds - since)
        took = time.monotonic() - since
        if slow or seconds < LONG_S:
            return
        self.tried["rounds whose calm was measured"] += 1
        written = self._life.lines[lines:]
        in_vain = sum("model.waits" in line or "turn.failed" in line for line in written)
        used, allowed = self._cpu_s() - cpu, BUSY * took + IN_VAIN_S * in_vain
        self._at_most("core_percent", 100 * used / took)
        if used > allowed:
            self.violations.append(f"{what}: {used:.2f} s of a core in {took:.1f} s, {allowed:.2f} s are allowed")
        self._is_slow(what, "polls_per_s", (self._polls() - polls) / took, POLLS_PER_S)
        self._is_slow(what, "lines_per_s", len(written) / took, LINES_PER_S)

    def _is_slow(self, what: str, name: str, found: float, allowed: float) -> None:
        self._at_most(name, found)
        if found > allowed:
            self.violations.append(f"{what}: {name} {found:.1f}, {allowed:g} are allowed")

    async def _comes_back(self, what: str, chats: Sequence[int], again: int | None) -> None:
        """What is said now is answered soon, and a failed turn is done again when asked for."""
        began = time.monotonic()
        await self._answered(what, {chat: self._say(chat) for chat in chats})
        if again is not None:
            await self._ended(what, again, self._said[again][-1])
        took = time.monotonic() - began
        self._at_most("back_s", took)
        if took > BACK_S + self.measured["peace_s"]:
            await self.peace()  # perhaps it is this machine that has become slow
        if took > BACK_S + self.measured["peace_s"]:
            self.violations.append(f"{what}: {took:.1f} s until all was as before")
        if again is None:
            return
        ends = self._world.ends(f"telegram:{again}")
        if ends[-1]["end"] == "failed":
            self._world.telegram.say("/retry", again)
            await self._until(what, lambda: len(self._world.ends(f"telegram:{again}")) > len(ends), again)
            if self._world.ends(f"telegram:{again}")[-1]["end"] != "answer":
                self.violations.append(f"{what}: /retry did not mend it")
            self.tried["done again by /retry"] += 1

    async def _answered(self, what: str, asked: dict[int, str]) -> float:
        """Seconds until all of that has its answer on the screen."""
        began = time.monotonic()
        await asyncio.gather(*(self._ended(what, chat, text) for chat, text in asked.items()))
        took = time.monotonic() - began
        for chat, text in asked.items():
            if not any(text in shown for shown in self._world.answers(chat)):
                self.violations.append(f"{what}: {text} in chat {chat} was said when all was well, and failed")
        return took

    async def _ended(self, what: str, chat: int, text: str) -> None:
        await self._until(what, lambda: self._world.is_settled(chat, [text]), chat)

    async def _until(self, what: str, there: Callable[[], bool], chat: int) -> None:
        try:
            await self._world.telegram.wait_for(there, GIVEN_UP_S)
        except TimeoutError:
            shown, ends = self._world.answers(chat)[-4:], self._world.ends(f"telegram:{chat}")[-4:]
            found = f"shown are {shown}, in the log stand {[end['content'] for end in ends]}"
            raise AssertionError(f"{what}: chat {chat} was not answered once in {GIVEN_UP_S:g} s: {found}") from None

    def _at_most(self, name: str, value: float) -> None:
        self.measured[name] = max(self.measured[name], value)

    def _polls(self) -> int:
        return sum(exchange.name.lower() == "getupdates" for exchange, _ in self._sides["telegram"].proxy.exchanges)

    def _cpu_s(self) -> float:
        """Of the daemon and what it has started."""
        return machine.of_all(machine.cpu_s, self._life.pid)


def unmet(played: Mapping[str, Sequence[int]]) -> list[str]:
    """Kinds of faults that broke nothing, by how many requests were broken in each round of a kind; one round alone may
    have had no luck.
    """
    played = {kind: broken for kind, broken in played.items() if kind not in BLOCKED and len(broken) >= len(SIDES)}
    return [f"{kind}: in {len(broken)} rounds nothing met it" for kind, broken in played.items() if not any(broken)]


def too_early(calls: Sequence[Call], told_to_wait: Sequence[tuple[Call, int]]) -> list[str]:
    """Calls about a chat, or polls, that came before the time Telegram had named, and by how much."""
    found: list[str] = []
    for refused, seconds in told_to_wait:
        about = _about(refused)
        for call in calls:
            early = refused.at + seconds - call.at
            if call.at > refused.at + UNDER_WAY_S and early > 0 and _about(call) == about:
                found.append(f"{call.method} for {about} came {early:.2f} s too early")
    return found


def _about(call: Call) -> object:
    return call.params.get("chat_id", call.method)


def _asked(request: dict[str, Any]) -> list[str]:
    """What people said since the last answer."""
    found: list[str] = []
    for message in reversed(request["messages"]):
        if message["role"] == "assistant":
            break
        found += re.findall(r"\bq\d+\b", str(message["content"]))
    return found[::-1]


async def prove(folder: Path, effort: Effort) -> Report:
    """See CLAIM. Two thirds of the time are one long outage, so that `--seconds 5400` is an hour of it."""
    dice = random.Random(effort.seed)
    all_of_them = [*product(KINDS, SIDES)]
    dice.shuffle(all_of_them)
    began, violations = time.monotonic(), list[str]()
    talk: Talk | None = None  # there are figures though it ends early
    try:
        async with a_world(folder) as world, Proxy(world.telegram.port) as telegram, Proxy(world.model.port) as model:
            sides: dict[str, Side] = {
                "telegram": ToTelegram(telegram, world.telegram),
                "model": ToModel(model, world.model),
            }
            life = await world.daemon(
                _MODEL,
                agents__defaults__memory_window="0",
                agents__dream__enabled="false",
                memory__recall_unasked="false",
                providers__openai__api_base=f"http://127.0.0.1:{model.port}/v1",
                channels__telegram__base_url=f"http://127.0.0.1:{telegram.port}/bot",
            )
            talk = Talk(world, await life.ready(), sides)
            await talk.peace()
            if effort.quick:
                await talk.round(*all_of_them[0], 2.5, dice)
                await talk.round("refused", "model", 7.0, dice)
                await talk.outage(6.0)
            else:
                for number, (kind, where) in enumerate(cycle(all_of_them)):
                    if number >= len(all_of_them) and time.monotonic() - began > effort.seconds / 3:
                        break
                    await talk.round(kind, where, dice.choice((2.0, 4.0, 8.0)), dice)
                await talk.outage(effort.seconds * 2 / 3)
            talk.check()
    except (AssertionError, TimeoutError) as error:
        violations.append(str(error) or repr(error))
    if talk is None:
        return Report({}, violations)
    return Report(talk.tried, [*talk.violations, *violations], talk.measured)
