"""What the core asks of the world. Each has a real adapter and a fake in `nanomem/testing.py`.

Every docstring says what is *not* promised: order, loss, blocking, idempotency, errors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from nanomem.messages import Attachment, Image, Inbound, Outbound, Reply, Request, ToolSchema, Usage
from nanomem.records import Record
from nanomem.session import Session
from nanomem.spaces import Space


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""

    async def sleep(self, seconds: float) -> None:
        """Returns after so many seconds; cancelled cleanly."""


class Tokenizer(Protocol):
    """Counts as o200k_base does."""

    async def count(self, text: str) -> int:
        """The number of tokens of any text, special tokens' names included as plain text."""


class Model(Protocol):
    """One language model."""

    @property
    def name(self) -> str:
        """As in the settings."""

    async def warm_up(self) -> None:
        """Begins to load what the first call would wait for, and returns at once."""

    async def ask(self, request: Request, heard: Callable[[str], None] | None = None) -> Reply:
        """One call, tried once. `heard` is given all text so far, each time it has grown.

        Raises TryLater (worth repeating), TooLong, TellUser (a person must do something). Cancelling is
        clean. Not promised: that a call which failed was not charged, or that an answer comes within
        any time but for the gaps between its pieces.
        """


class Tool(Protocol):
    """Something a model may do. One file each in `nanomem/tools/`."""

    @property
    def schema(self) -> ToolSchema:
        """What the model is told."""

    @property
    def parallel(self) -> bool:
        """Whether calls of it may run beside others: true only where it changes nothing."""

    async def run(self, arguments: Mapping[str, Any], space: Space) -> str:
        """Does it, in that space only; arguments fit the schema. Raises ShowModel.

        Cancelling may leave a part done; nothing of it goes on running.
        """


@dataclass(frozen=True, slots=True)
class Update:
    """What a network delivered: `id` unique in its channel, `raw` as it came.

    `message` is None where nothing is to be answered: a stranger's, or one that could not be read, and
    then `error` says why and the raw form is set aside.
    """

    id: str
    raw: str
    message: Inbound | None = None
    error: str | None = None


class Taker(Protocol):
    """What a channel is given to hand over what came in."""

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None = None) -> None:
        """Returns once all of it, and the offset, is on disk: only then may a network be told.

        A known id is dropped. Raises CannotStore: nothing was taken.
        """

    async def offset(self, channel: str) -> int | None:
        """The offset stored last."""

    def arrived(self, address: str) -> None:
        """Somebody is there again: what waits for that address is delivered now."""


class Door(Protocol):
    """Who may talk, by the network's numeric user id."""

    def admits(self, user: int) -> bool:
        """Whether that person may talk at all."""

    def is_owner(self, user: int) -> bool:
        """Whether that person owns the daemon."""

    async def pair(self, code: str, user: int) -> bool:
        """Takes a stranger in who knows a valid code, once; False for any other."""


class Channel(Protocol):
    """An adapter to one chat network. `place` and `show` together make sending idempotent."""

    @property
    def name(self) -> str:
        """The first part of its addresses."""

    @property
    def error(self) -> str | None:
        """What is wrong with the connection now, in words for the owner; None while all is well."""

    async def run(self, taker: Taker) -> None:
        """Takes what comes in until cancelled; network errors are retried inside. Raises Stop."""

    def parts(self, text: str) -> list[str]:
        """The text cut into what fits one message each; never empty, and joined nothing is missing."""

    async def place(self, address: str) -> str:
        """Sends a placeholder and returns its id. Raises TryLater, Refused.

        Not idempotent: where the outcome is unknown, a second placeholder may be left behind.
        """

    async def show(self, address: str, placed: str, part: str, final: bool) -> None:
        """Makes a placed message show this part; idempotent. Raises TryLater, Gone, Refused."""

    async def say(self, address: str, text: str) -> None:
        """Sends a text in as many messages as needed, at least once. Raises TryLater, Refused."""

    async def done(self, sent: Outbound) -> None:
        """Told once an outbound message is delivered whole; may do nothing."""

    async def fetch(self, attachment: Attachment, to: Path) -> None:
        """Writes what was sent along into a file. Raises TryLater, Refused (with a word for the sender)."""


class SessionLog(Protocol):
    """The truth of what was said: one append-only file per session."""

    async def load(self, space: Space, key: str) -> Session:
        """The session as its log says, at least from the first message that is not consolidated."""

    async def append(self, space: Space, key: str, records: Sequence[Record]) -> None:
        """Returns once all of it is on disk, in this order. Raises CannotStore, Stop.

        A write that failed half-way may leave a torn line, which reading passes over.
        """


@dataclass(frozen=True, slots=True)
class Queued:
    """A row of the inbox. `turn` is the turn it was stamped for; `attempts` counts that turn's starts.

    `log_n` is the session's last `n` at the newest start.
    """

    seq: int
    message: Inbound
    turn: str | None = None
    attempts: int = 0
    log_n: int = 0


class Inbox(Protocol):
    """The truth of what is in flight. Every method is one transaction, on disk when it returns.

    Raises CannotStore (nothing changed) or Stop (the disk cannot be trusted any more).
    """

    async def offset(self, channel: str) -> int | None:
        """The offset stored last, None at first."""

    async def take(self, channel: str, updates: Sequence[Update], offset: int | None) -> list[Queued]:
        """Stores what is new among the updates, and the offset; returns the new messages."""

    async def waiting(self) -> list[Queued]:
        """All that is taken and not done, oldest first."""

    async def stamp(self, turn: str, rows: Sequence[Queued], log_n: int, attempts: int) -> None:
        """Marks a batch as this turn's and opens its outbound row if there is none."""

    async def park(self, turn: str) -> None:
        """Gives an attempt back: the turn was interrupted by a clean stop."""

    async def placed(self, outbound_id: str, ids: Sequence[str]) -> None:
        """Remembers the network's ids of the messages that show an answer."""

    async def settle(self, outbound: Outbound, rows: Sequence[Queued], aside: bool = False) -> None:
        """The rows are done, or set aside, their texts deleted; the outbound text waits to be sent."""

    async def delivered(self, outbound_id: str) -> None:
        """The outbound message is with its person; its text is deleted."""

    async def outbound(self, outbound_id: str) -> Outbound | None:
        """One row that is not delivered, if it is there."""

    async def undelivered(self) -> list[Outbound]:
        """All whose text waits to be sent, oldest first."""

    async def counts(self) -> Mapping[str, int]:
        """`waiting`, `undelivered`, `set_aside`."""

    async def alias(self, old: str, new: str) -> None:
        """From now on messages from the chat `new` belong to the sessions of `old`."""

    async def aliases(self) -> Mapping[str, str]:
        """New chat to old."""


class Meter(Protocol):
    """Tokens and cost by day, kept on disk. Raises as Inbox does."""

    async def spend(self, day: str, usage: Usage) -> None:
        """Adds to a day (YYYY-MM-DD in the settings' zone)."""

    async def spent(self, day: str) -> Usage:
        """What that day has cost so far."""


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The three files of a space as texts; a file that is missing is empty."""

    soul: str = ""
    user: str = ""
    memory: str = ""


class Memory(Protocol):
    """What is known in a space. (Reading only, so far.)"""

    async def read(self, space: Space) -> MemoryFiles:
        """The files as they are now; damage is reported to the log, never raised."""


class Files(Protocol):
    """What people send along, kept in their space."""

    async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
        """Fetches the message's attachments; returns the paths in the space, and a note for each that failed.

        Idempotent: the same message's files get the same paths.
        """

    async def image(self, space: Space, path: str) -> Image | None:
        """The picture at a path, if it is one that a model can be shown."""


class Templates(Protocol):
    """The wording of prompts."""

    def render(self, name: str, **values: object) -> str:
        """The template of that name, the owner's own before the package's; a broken one is reported and passed over."""
