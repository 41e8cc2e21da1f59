"""The channel port on Telegram: who may talk, what is taken, and what is shown where.

The offset that Telegram is told comes only from the taker's disk: an update is confirmed after
it was taken. Knows nothing of HTTP, models or turns.
"""

import asyncio
import hashlib
import json
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import structlog

from nanomem.channels.telegram import updates
from nanomem.channels.telegram.formatting import formatted, parts
from nanomem.channels.telegram.updates import Broken, GroupPolicy, Me
from nanomem.channels.telegram.wire import Moved, Wire
from nanomem.errors import CannotStore, Gone, NanomemError, Refused, TryLater, is_news
from nanomem.messages import Attachment, Outbound
from nanomem.ports import Clock, Door, Taker, Update

PLACEHOLDER = "…"
WELCOME = "Welcome! From now on I answer you. /help lists all commands."
NOT_TAKEN = "I cannot write to my disk right now. Your message waits at Telegram, and I take it as soon as I can write."

_POLL_S = 30
_PROBE_S = 1  # after a failure a short poll shows soon whether all is well again
_SHORTEST_WAIT_S = 1.0
_LONGEST_WAIT_S = 2.0  # so that what is said after an outage is answered soon
_ADDRESS = re.compile(r"telegram:(-?[0-9]{1,19})(?::([0-9]{1,19}))?")

log = structlog.get_logger()
T = TypeVar("T")


class TelegramChannel:
    """Implements Channel. `aliases` maps the new id of a group that changed it to the one its sessions have.

    `on_migration` is awaited, with the old and the new address, before anything from the new group is taken. It may
    do nothing and raise Refused, where the old address has no session: the new group then stands for itself.
    `close` ends the connections; sending is possible before, during and after `run`.
    """

    name = "telegram"

    def __init__(
        self,
        token: str,
        door: Door,
        clock: Clock,
        *,
        base_url: str,
        base_file_url: str,
        proxy: str,
        group_policy: GroupPolicy,
        commands: Sequence[tuple[str, str]],
        aliases: Mapping[str, str],
        on_migration: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._wire = Wire(token.strip(), base_url, base_file_url, proxy)
        self._door = door
        self._clock = clock
        self._policy: GroupPolicy = group_policy
        self._menu = [(name.lower().replace("-", "_"), words[:256]) for name, words in commands]
        self._old = {new.partition(":")[2]: old.partition(":")[2] for new, old in aliases.items()}
        self._on_migration = on_migration
        self._albums: deque[str] = deque(maxlen=100)
        self._me: Me | None = None
        self._settled = False
        self._not_before: dict[int, float] = {}
        self.error: str | None = None
        self._failures = 0
        self._asked_at = 0.0
        self._told: set[str] = set()  # since the last update that was taken, that nothing can be written

    async def run(self, taker: Taker) -> None:
        """Takes updates until cancelled, whatever the network and the disk do meanwhile."""
        while True:
            self._asked_at = self._clock.monotonic()
            try:
                await self._poll(taker)
            except (TryLater, Refused, CannotStore) as error:
                await self._back_off(error)

    async def close(self) -> None:
        """Ends all connections; whoever sends afterwards fails."""
        await self._wire.close()

    def parts(self, text: str) -> list[str]:
        """Cut at 4,096 UTF-16 units; joined, no word is missing."""
        return parts(text)

    async def place(self, address: str) -> str:
        """Sends `…`."""
        return str(await self._send(address, PLACEHOLDER))

    async def show(self, address: str, placed: str, part: str, final: bool) -> None:
        """Edits the message; done already counts as done."""
        chat, _ = self._target(address)
        if not placed.isdecimal():
            raise Gone(f"{placed} is no id of a message.")
        try:
            await self._unhurried(chat, partial(self._wire.edit, chat, int(placed), part))
        except Moved as moved:
            await self._migrated(chat, moved.chat)
            raise Gone("The message is in the group as it was before it became a supergroup.") from None

    async def say(self, address: str, text: str) -> None:
        """Each part as a message of its own; repeated, those that went out are sent again."""
        for part in parts(text):
            await self._send(address, part)

    async def done(self, sent: Outbound) -> None:
        """Nothing is left to do."""

    async def fetch(self, attachment: Attachment, to: Path) -> None:
        """At most 20 MB; nothing is left of a file that was not fetched whole."""
        try:
            await self._wire.download(attachment.ref, to)
        except BaseException as error:  # cancelled, too
            to.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise CannotStore(f"Cannot write {to}: {error.strerror}.") from error
            raise

    async def _poll(self, taker: Taker) -> NoReturn:
        if self._me is None:
            self._me = await self._wire.connect()
        offset = await taker.offset(self.name)
        while True:
            self._asked_at = self._clock.monotonic()
            settled, probing = self._settled, self.error is not None
            batch = await self._wire.updates(offset, (_PROBE_S if probing else _POLL_S) if settled else 0)
            numbers = [found for found in map(updates.number, batch) if found is not None]
            following = numbers[-1] + 1 if numbers else offset
            if batch:
                await self._take(taker, await self._read(batch, self._me), following)
            self.error = None
            if batch or not probing:
                self._failures = 0
            if following == offset and settled and not probing and self._clock.monotonic() - self._asked_at < 1:
                await self._clock.sleep(1)  # a server that answers at once with nothing new
            offset = following
            if not settled:
                await self._settle()

    async def _settle(self) -> None:
        """Once what waited is taken: sees to the menu, and loads what formats the answers."""
        self._settled = True
        await self._register()
        with suppress(OSError):  # with too many open files the first answer waits for it, and nothing else
            await asyncio.to_thread(formatted, "*warm*")

    async def _take(self, taker: Taker, found: Sequence[Update], following: int | None) -> None:
        """Whose message cannot be taken is told so, once, unless that was over at the next look. Raises CannotStore."""
        try:
            await taker.take(self.name, found, offset=following)
            self._told.clear()
        except CannotStore:
            senders = {update.message.address for update in found if update.message and self.error}
            for address in senders - self._told:
                self._told.add(address)
                with suppress(TryLater, Refused):
                    await self.say(address, NOT_TAKEN)
            raise

    async def _register(self) -> None:
        try:
            if self._menu:
                await self._wire.register(self._menu)
        except NanomemError as error:
            log.warning("telegram.no_menu", error=error.text)

    async def _back_off(self, error: NanomemError) -> None:
        self.error = error.text
        self._failures += 1
        between = random.uniform(_SHORTEST_WAIT_S, _LONGEST_WAIT_S)
        wait = max(0.0, self._asked_at + between - self._clock.monotonic())
        wait = getattr(error, "after_s", None) or wait
        if is_news(self._failures):
            log.warning("telegram.failed", error=error.text, retry_s=round(wait, 1), failures=self._failures)
        await self._clock.sleep(wait)

    async def _read(self, batch: Sequence[object], me: Me) -> list[Update]:
        for raw in batch:  # what an update says about others beside it
            try:
                if moved := updates.migration(raw):
                    await self._migrated(*moved)
                if album := updates.album(raw, me, self._policy):
                    self._albums.append(album)
            except Broken:
                pass  # set aside below
        return [await self._update(raw, me) for raw in batch]

    async def _update(self, raw: object, me: Me) -> Update:
        kept = json.dumps(raw)
        found = updates.number(raw)
        ident = str(found) if found is not None else f"broken-{hashlib.sha256(kept.encode()).hexdigest()[:16]}"
        try:
            speaker = updates.speaker(raw)
            if not speaker.person or speaker.user is None or not self._door.admits(speaker.user):
                await self._stranger(raw, speaker)
                return Update(ident, "")
            owner = self._door.is_owner(speaker.user)
            message = updates.inbound(raw, me, owner=owner, policy=self._policy, aliases=self._old, albums=self._albums)
        except Broken as error:
            log.warning("telegram.set_aside", id=ident, error=str(error))
            return Update(ident, kept, error=str(error))
        return Update(ident, kept if message else "", message)

    async def _stranger(self, raw: object, speaker: updates.Speaker) -> None:
        try:
            code = updates.pairing_code(raw) if speaker.person else None
        except Broken:
            code = None  # of a stranger nothing is kept, broken or not
        user = speaker.user
        try:
            knows_one = user is not None and code is not None and await self._door.pair(code, user)
            answer = WELCOME if knows_one else ""
        except Refused as error:
            if (address := f"telegram:{user}") in self._told:
                return
            self._told.add(address)
            answer = error.text
        if user is None or not answer:
            log.warning("telegram.stranger", user=user)
            return
        try:
            await self._wire.send(user, None, answer)
        except NanomemError as error:
            log.warning("telegram.no_welcome", error=error.text)

    async def _send(self, address: str, part: str) -> int:
        chat, topic = self._target(address)
        try:
            return await self._unhurried(chat, partial(self._wire.send, chat, topic, part))
        except Moved as moved:
            await self._migrated(chat, moved.chat)
            return await self._wire.send(moved.chat, topic, part)

    async def _unhurried(self, chat: int, call: Callable[[], Awaitable[T]]) -> T:
        """The call, unless Telegram still wants nothing for that chat: then TryLater, and it is not asked."""
        if (rest := self._not_before.get(chat, 0.0) - self._clock.monotonic()) > 0:
            raise TryLater(f"Telegram asked to wait {rest:.0f} s more.", rest)
        self._not_before.pop(chat, None)
        try:
            return await call()
        except TryLater as error:
            if error.after_s:
                self._not_before[chat] = self._clock.monotonic() + error.after_s
            raise

    def _target(self, address: str) -> tuple[int, int | None]:
        """The chat, by its newest id, and the topic."""
        found = _ADDRESS.fullmatch(address)
        if not found:
            raise Refused(f"{address} is no address on Telegram.")
        newest = next((new for new, old in self._old.items() if old == found[1]), found[1])
        return int(newest), int(found[2]) if found[2] else None

    async def _migrated(self, old: int, new: int) -> None:
        """Remembers where the group's sessions are. Raises TryLater."""
        first = self._old.get(str(old), str(old))
        if str(new) in self._old or first == str(new):
            return
        try:
            await self._on_migration(f"telegram:{first}", f"telegram:{new}")
        except CannotStore as error:
            raise TryLater(error.text) from error
        except Refused:
            return
        self._old[str(new)] = first
        log.info("telegram.migrated", old=first, new=new)
