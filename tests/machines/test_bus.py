"""The bus and its rows against a list of what waits: each message is answered once, in its lane's order, and told."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from nanomem.bus import Bus, Kind, Lane
from nanomem.messages import Inbound, Outbound
from nanomem.ports import Queued, Update
from nanomem.stores.database import Database
from nanomem.stores.inbox import TABLES, SqliteInbox
from nanomem.testing import inbound
from tests.machines.playing import Machine, play

CHANNELS = ["one", "two"]
ADDRESSES = ["one:1", "one:2:5", "two:1"]
ATTEMPTS = 3
ROOM = 60
addresses = st.sampled_from(ADDRESSES)
moods = st.sampled_from(["well", "well", "well", "nobody there", "stopped", "stopped"])
texts = st.lists(st.sampled_from(["hello", "again", "x" * 50, "/retry", "/now"]), min_size=2, max_size=6)


def kind(message: Inbound) -> Kind:
    return "urgent" if message.text == "/now" else "command" if message.text.startswith("/") else "message"


@dataclass
class Row:
    """A message that waits."""

    id: str
    address: str
    text: str
    turn: str | None = None
    attempts: int = 0
    log_n: int = 0


@dataclass
class Kept:
    """What has to be on disk; `order` and `done` are ids by lane, as they were taken and as they were answered."""

    rows: list[Row] = field(default_factory=list)
    sending: dict[str, Outbound] = field(default_factory=dict)
    aside: int = 0
    offsets: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    order: dict[str, list[str]] = field(default_factory=lambda: {address: [] for address in ADDRESSES})
    done: dict[str, list[str]] = field(default_factory=lambda: {address: [] for address in ADDRESSES})

    def settle(self, outbound: Outbound, ids: Sequence[str], aside: bool) -> None:
        """These are answered."""
        answered = [row for row in self.rows if row.id in ids]
        self.rows = [row for row in self.rows if row.id not in ids]
        self.sending[outbound.id] = Outbound(
            outbound.id,
            outbound.address,
            outbound.text,
            outbound.end,
            self.sending[outbound.id].placed if outbound.id in self.sending else (),
            tuple(ids),
        )
        self.aside += len(ids) if aside else 0
        self.done[outbound.address] += [row.id for row in answered if row.text != "/now"]

    @property
    def told(self) -> tuple[object, ...]:
        """As the inbox tells it."""
        waiting = [(r.id, r.address, r.text, r.turn, r.attempts, r.log_n) for r in self.rows]
        undelivered = [outbound for outbound in self.sending.values() if outbound.text is not None]
        counts = {"waiting": len(waiting), "undelivered": len(undelivered), "set_aside": self.aside}
        offsets = {channel: self.offsets.get(channel) for channel in CHANNELS}
        return waiting, undelivered, counts, offsets, self.aliases


async def told_by(inbox: SqliteInbox) -> tuple[object, ...]:
    waiting = [
        (row.message.id, row.message.address, row.message.text, row.turn, row.attempts, row.log_n)
        for row in await inbox.waiting()
    ]
    offsets = {channel: await inbox.offset(channel) for channel in CHANNELS}
    return waiting, await inbox.undelivered(), await inbox.counts(), offsets, await inbox.aliases()


@dataclass
class Worker:
    """Who serves a lane, and what he has in hand."""

    lane: Lane
    batch: list[Queued] = field(default_factory=list)
    turn: str = ""


class BusMachine(Machine):
    """Two channels, three lanes, and a worker a lane that may be anywhere in his work."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = Kept()
        self.number = self.answered = self.life = 0
        self.doomed, self.share = -1, 1.0
        self.home = self.folder / "0"
        self.run(self.begin(CHANNELS))

    def teardown(self) -> None:
        self.run(self.database.close())
        super().teardown()

    # --- what comes in

    @rule(address=addresses, said=texts, again=st.integers(0, 3), odd=st.sampled_from(["", "stranger", "broken"]))
    def takes(self, address: str, said: Sequence[str], again: int, odd: str) -> None:
        """New updates, some of those before once more, and one that is no message."""
        channel = address.partition(":")[0]
        if channel not in self.channels:
            return
        first = self.number + 1
        self.number += len(said) + 1
        new = [inbound(text, number, address) for number, text in enumerate(said, first)]
        known = [inbound("again", int(id), address) for id in sorted(self.kept.order[address])[-again:] if again]
        updates = [Update(message.id, message.text, message) for message in [*known, *new, *new[:1]]]
        if odd:
            updates.append(Update(str(self.number), "?", None, "it cannot be read" if odd == "broken" else None))

        def change(kept: Kept) -> None:
            kept.rows += [Row(message.id, address, message.text) for message in new]
            kept.order[address] += [message.id for message in new if message.text != "/now"]
            kept.aside += odd == "broken"
            kept.offsets[channel] = self.number

        self.write(self.bus.take(channel, updates, self.number), change)

    @rule(address=addresses, new=st.sampled_from(["one:-9", "two:-9"]))
    def arrives(self, address: str, new: str) -> None:
        """Somebody is there again, and the chat has another address from now on."""
        if address.partition(":")[0] not in self.channels:
            return
        self.bus.arrived(address)
        self.write(self.inbox.alias(address, new), lambda kept: kept.aliases.update({new: address}))

    # --- what is done

    @rule(steps=st.lists(st.tuples(st.integers(0, 2), moods), min_size=2, max_size=12))
    def works(self, steps: Sequence[tuple[int, str]]) -> None:
        """What can be begun is, and then one of the workers takes his next step; and again."""
        for which, mood in steps:
            self.begin_all()
            if self.urgent:
                self.reply(self.urgent.pop(0), mood != "nobody there")
            elif self.workers:
                worker = [*self.workers.values()][which % len(self.workers)]
                self.go_on(worker, mood != "nobody there", mood == "stopped")

    def begin_all(self) -> None:
        """A lane that has work gets a worker; an urgent command is replied to at once."""
        while work := self.run(self.ready()):
            if isinstance(work, Lane):
                assert work.address not in self.workers, "a lane is given out once"
                assert work is self.bus.lane(work.address)
                self.workers[work.address] = Worker(work)
            else:
                assert work.message.text == "/now" and work.turn is None
                self.urgent.append(work)

    def reply(self, row: Queued, is_there: bool) -> None:
        """To an urgent command."""
        address, id = row.message.address, f"{row.message.address}#{row.message.id}"
        lane = self.bus.lane(address)
        if self.settle(address, id, [row], None):
            self.send(lane, id, is_there)

    def go_on(self, worker: Worker, is_there: bool, is_stopped: bool) -> None:
        """A worker's next step."""
        if not worker.batch:
            self.look(worker, is_there)
        elif not worker.turn:
            self.start(worker, is_stopped)
        elif not self.kept.sending[worker.turn].placed:
            self.place(worker)
        else:
            batch, worker.batch = worker.batch, []
            if self.settle(worker.lane.address, worker.turn, batch, "answer"):
                self.send(worker.lane, worker.turn, is_there)

    def look(self, worker: Worker, is_there: bool) -> None:
        """What was not sent first, then a batch, else he rests."""
        worker.turn, lane = "", worker.lane
        if lane.unsent and is_there:
            self.send(lane, lane.unsent.popleft(), True)
            return
        worker.batch = lane.take(kind, ROOM)
        self.check_batch(lane.address, worker.batch)
        if not worker.batch:
            self.bus.rest(lane)
            del self.workers[lane.address]

    def start(self, worker: Worker, is_stopped: bool) -> None:
        """A turn begins, for the third time at most."""
        address, first = worker.lane.address, worker.batch[0]
        turn, attempts = first.turn or f"{address}#{first.message.id}", first.attempts + 1
        if is_stopped and first.turn is None:
            worker.lane.put_back(worker.batch)
            worker.batch = []
        elif attempts > ATTEMPTS:
            batch, worker.batch = worker.batch, []
            if self.settle(address, turn, batch, "failed", aside=True):
                self.send(worker.lane, turn, True)
        else:
            worker.turn = turn
            ids = [row.message.id for row in worker.batch]

            def change(kept: Kept) -> None:
                for row in kept.rows:
                    if row.id in ids:
                        row.turn, row.attempts, row.log_n = turn, attempts, self.number
                kept.sending.setdefault(turn, Outbound(turn, address, answers=tuple(ids)))

            self.write(self.inbox.stamp(turn, worker.batch, self.number, attempts), change)

    def place(self, worker: Worker) -> None:
        """The placeholder is up, and its id kept."""

        def change(kept: Kept) -> None:
            before = kept.sending[worker.turn]
            kept.sending[worker.turn] = Outbound(before.id, before.address, placed=("7",), answers=before.answers)

        self.write(self.inbox.placed(worker.turn, ["7"]), change)

    # --- what happens to the process

    @rule(
        at=st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8]),
        share=st.floats(0, 1),
        channels=st.sampled_from([CHANNELS, ["one"]]),
    )
    def dies(self, at: int, share: float, channels: Sequence[str]) -> None:
        """Now, between two writes; or amid one of the next: as much of it is on disk as this says."""
        if at:
            self.doomed, self.share = at, share
        else:
            self.run(self.rise_again(self.files(), channels))

    @rule(channels=st.sampled_from([CHANNELS, ["one"]]))
    def stops(self, channels: Sequence[str]) -> None:
        """Cleanly: what runs is parked, and its attempt given back."""
        for worker in [*self.workers.values()]:
            if worker.turn and worker.batch:
                turn = worker.turn

                def change(kept: Kept, turn: str = turn) -> None:
                    for row in kept.rows:
                        row.attempts -= row.turn == turn

                if not self.write(self.inbox.park(turn), change):
                    return
        self.bus.close()
        assert self.run(self.bus.next()) is None
        self.run(self.database.close())
        self.run(self.begin(channels))

    @precondition(lambda self: self.number > self.answered + 12)
    @rule()
    def answers_all(self) -> None:
        """Everybody is there, and nothing happens to the process: in the end nothing waits, and the order was kept."""
        self.doomed = -1
        self.run(self.rise_again(self.files(), CHANNELS))
        self.begin_all()
        while self.urgent or self.workers:
            self.works([(0, "well")])
            self.begin_all()
        self.answered = self.number
        assert not self.kept.rows and not [o for o in self.kept.sending.values() if o.text is not None]
        assert self.kept.done == self.kept.order

    @invariant()
    def all_is_there(self) -> None:
        """On disk is what was taken, and nothing else."""
        assert self.run(told_by(self.inbox)) == self.kept.told

    # --- what the rules are made of

    async def begin(self, channels: Sequence[str]) -> None:
        """A process on the files that there are."""
        self.channels = channels
        self.workers: dict[str, Worker] = {}
        self.urgent: list[Queued] = []
        self.database = await Database.open(self.home / "bus.db", [TABLES])
        self.inbox = SqliteInbox(self.database)
        self.bus = Bus(self.inbox, kind)
        await self.bus.restore(channels)

    async def ready(self) -> Lane | Queued | None:
        """What the bus gives out now."""
        task = asyncio.create_task(self.bus.next())
        for _ in range(3):
            await asyncio.sleep(0)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait([task])
        return None

    def write(self, work: Coroutine[Any, Any, object], change: Callable[[Kept], object]) -> bool:
        """Does it; False if the process died over it. Then the change is there or not, as a whole."""
        self.doomed -= 1
        before, files = deepcopy(self.kept), self.files()
        self.run(work)
        change(self.kept)
        if self.doomed:
            return True
        self.run(self.rise_again(torn(files, self.files(), self.share), self.channels))
        found = self.run(told_by(self.inbox))
        assert found in (before.told, self.kept.told)
        if found == before.told:
            self.kept = before
            self.count("torn")
        return False

    def settle(self, address: str, id: str, batch: Sequence[Queued], end: Any, aside: bool = False) -> bool:
        ids = tuple(row.message.id for row in batch)
        outbound = Outbound(id, address, f"answer to {', '.join(ids)}", end, answers=ids)
        return self.write(self.inbox.settle(outbound, batch, aside), lambda kept: kept.settle(outbound, ids, aside))

    def send(self, lane: Lane, id: str, is_there: bool) -> None:
        """With its person, or left for later."""
        if is_there:
            self.write(self.inbox.delivered(id), lambda kept: kept.sending.pop(id, None))
        else:
            lane.unsent.append(id)

    def check_batch(self, address: str, batch: Sequence[Queued]) -> None:
        """It is the beginning of what waits there: all of a turn, a command alone, or as many messages as fit."""
        waits = [row for row in self.kept.rows if row.address == address and (row.turn or row.text != "/now")]
        count = min(len(waits), 1)
        if waits and waits[0].turn:
            count = sum(row.turn == waits[0].turn for row in waits)
        elif waits and waits[0].text != "/retry":
            while count < len(waits) and waits[count].text != "/retry" and not waits[count].turn:
                if sum(len(row.text) for row in waits[: count + 1]) > ROOM:
                    break
                count += 1
        assert [row.message.id for row in batch] == [row.id for row in waits[:count]]

    def files(self) -> dict[str, bytes]:
        """What a kill would leave."""
        names = ("bus.db", "bus.db-wal")
        return {name: (self.home / name).read_bytes() for name in names if (self.home / name).exists()}

    async def rise_again(self, files: dict[str, bytes], channels: Sequence[str]) -> None:
        """Another process, which finds these."""
        await self.database.close()
        shutil.rmtree(self.home)
        self.life += 1
        self.home = self.folder / str(self.life)
        self.home.mkdir()
        for name, data in files.items():
            (self.home / name).write_bytes(data)
        self.count("deaths")
        await self.begin(channels)


def torn(before: dict[str, bytes], after: dict[str, bytes], share: float) -> dict[str, bytes]:
    """The write-ahead log as it is amid the writing: of what is new a share is there."""
    if before.get("bus.db") != after["bus.db"]:
        return after
    old, new = before.get("bus.db-wal", b""), after["bus.db-wal"]
    same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    place = same + int(share * (len(new) - same))
    return {**after, "bus.db-wal": new[:place] + old[place:]}


def test_the_bus() -> None:
    """A sample, the same each time in the build."""
    play(BusMachine, 15, 30)
