"""What the core asks of the world. Each has a real adapter and a fake in `nanomem/testing.py`.

Every docstring says what is *not* promised: order, loss, blocking, idempotency, errors.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from nanomem.entries import Entry
from nanomem.facts import MemoryFiles
from nanomem.messages import Attachment, Image, Inbound, Outbound, Reply, Request, ToolSchema, Usage
from nanomem.recall.found import Found, Sought
from nanomem.records import Record
from nanomem.session import Said, Session
from nanomem.spaces import Space
from nanomem.versions import Kind, Removal, Verdict, Version


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
        """The number of tokens of any text, special tokens' names included as plain text. Raises OSError where the
        machine does not let it count now.
        """


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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool call comes from: whose space, which turn of which session, and the first and last `n` of the
    messages that the turn is about. `id` is the call's own, unique in the space."""

    space: Space
    session: str = ""
    turn: str = ""
    first: int = 0
    last: int = 0
    id: str = ""

    @property
    def trailers(self) -> dict[str, str]:
        """As a version tells it."""
        messages = f"{self.first}-{self.last}" if self.first else ""
        return {"Session": self.session, "Messages": messages, "Inbound": self.turn, "Id": self.id}


class Tool(Protocol):
    """Something a model may do. One file each in `nanomem/tools/`."""

    @property
    def schema(self) -> ToolSchema:
        """What the model is told."""

    @property
    def parallel(self) -> bool:
        """Whether calls of it may run beside others: true only where it changes nothing."""

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        """Does it, in the origin's space only; arguments fit the schema. Raises ShowModel.

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
        """Takes a stranger in who knows a valid code, once; False for any other. Raises CannotStore, and Refused with a
        word for who knows one: it cannot be done now, and the code stays good.
        """


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
        """Writes what was sent along into a file. Raises CannotStore, TryLater, Refused (with a word for the sender).

        Not promised: that nothing is left of a file that was not fetched whole.
        """


class SessionLog(Protocol):
    """The truth of what was said: one append-only file per session."""

    async def load(self, space: Space, key: str) -> Session:
        """The session as its log says, at least from the first message that is not consolidated."""

    async def append(self, space: Space, key: str, records: Sequence[Record]) -> None:
        """Returns once all of it is on disk, in this order. Raises CannotStore, Stop.

        A write that failed half-way may leave a torn line, which reading passes over.
        """

    async def messages(self, space: Space, key: str, first: int, last: int) -> list[Said]:
        """Those of a session from one `n` to another, both included, at most some thousands; damage is passed over.

        Raises CannotStore: the log cannot be read.
        """

    async def keys(self, space: Space) -> Sequence[str]:
        """The sessions that have a log there."""


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


Purpose = Literal["talk", "dream", "recall"]
"""What tokens are spent on: answering and remembering, learning in Dreams, or vectors of what was said."""


class Meter(Protocol):
    """Tokens and cost by day, kept on disk. Raises as Inbox does."""

    async def spend(self, day: str, usage: Usage, purpose: Purpose = "talk") -> None:
        """Adds to a day (YYYY-MM-DD in the settings' zone)."""

    async def spent(self, day: str, purpose: Purpose | None = None) -> Usage:
        """What that day has cost so far: all of it, or what went into one purpose."""


@dataclass(frozen=True, slots=True)
class Run:
    """The receipt of one Dream: what it read (history entries, and messages that are in no entry yet), what it cost,
    what became of the facts, and how many of those proposed were not fit to be learnt. `version` is None where
    nothing changed; `reason` is why it stopped before its end, empty if it did not. `drafted` are the skills it has
    proposed, which is told once and not kept."""

    space: str
    at: datetime
    entries: int = 0
    messages: int = 0
    usage: Usage = field(default_factory=Usage)
    new: int = 0
    reworded: int = 0
    out: int = 0
    refused: int = 0
    version: int | None = None
    reason: str = ""
    drafted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What Dream could not read: `batch` names it in words for people."""

    space: str
    batch: str
    reason: str
    at: datetime


class Diary(Protocol):
    """What is kept of Dreams beside what they wrote: when one was due, what failed, what each has cost.

    Every method is one transaction, on disk when it returns. Raises as Inbox does. Losing it costs no fact: at worst
    a run comes a day late, or something is tried three times more.
    """

    async def due(self) -> datetime | None:
        """When the newest scheduled run was due that has been made; None at first."""

    async def set_due(self, moment: datetime) -> None:
        """Notes that the run which was due then is made."""

    async def attempts(self, space: str) -> Mapping[str, int]:
        """How often each batch has been begun that is not done."""

    async def attempt(self, space: str, batch: str) -> int:
        """Counts a beginning, and returns how many there were with it."""

    async def give_back(self, space: str, batches: Sequence[str]) -> None:
        """Takes one beginning of each back: it was interrupted by a clean stop."""

    async def done(self, space: str, batches: Sequence[str]) -> None:
        """Forgets the beginnings of these."""

    async def pass_over(self, passed: PassedOver) -> None:
        """Notes that a batch will not be read, and forgets its beginnings."""

    async def passed_over(self, space: str | None = None) -> Sequence[PassedOver]:
        """The newest hundred, of one space or of all, the newest first."""

    async def note(self, run: Run) -> None:
        """Keeps a receipt; of each space the newest hundred stay."""

    async def runs(self, space: str | None = None, most: int = 1) -> Sequence[Run]:
        """The newest receipts, of one space or of all, the newest first."""


EMPTY = "empty"
"""The base of a change that was thought of when there was no version yet."""


@dataclass(frozen=True, slots=True)
class Change:
    """A wish to change the memory.

    `propose` makes of the files as they were at version `base` (None: as they are now) what they shall be. What it
    drops is put back unless `removed` names it, or `reason` is given, which then holds for all of it. `trailers` tell
    where the change comes from; one with the `Id` of a version that is there already is that version, and is not
    made again.
    """

    kind: Kind
    propose: Callable[[MemoryFiles], MemoryFiles]
    base: str | None = None
    removed: Sequence[Removal] = ()
    reason: str = ""
    subject: str = ""
    trailers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was written: the version, None where nothing had to change; and what happened to each fact."""

    version: Version | None
    verdicts: Sequence[Verdict] = ()


class Memory(Protocol):
    """What is known in a space, and the one way to change it."""

    async def read(self, space: Space) -> MemoryFiles:
        """What is known now, with what a person has edited since; damage is reported to the log, never raised."""

    async def change(self, space: Space, change: Change) -> Receipt:
        """Returns once the change is committed and the files say so. Idempotent by the `Id` trailer.

        Raises CannotStore (nothing was changed), Refused (a file is in no state to be written; the text says which).
        """


class Versions(Protocol):
    """The truth of what is known: all that a space's three files ever were."""

    async def all(self, space: Space) -> Sequence[Version]:
        """Every version, the oldest first: number N is at N - 1. Cheap when asked again."""

    async def read(self, space: Space, version: str) -> MemoryFiles:
        """The files at a version, by its id. Raises KeyError: there is no such version."""

    async def commit(self, space: Space, files: MemoryFiles, message: str, at: datetime) -> Version:
        """One more version. For one writer at a time. Raises CannotStore, Stop."""

    async def placed(self, space: Space) -> str | None:
        """The id of the version that the working files were last seen to be."""

    async def set_placed(self, space: Space, version: str) -> None:
        """Notes that the working files are that version. Raises CannotStore, Stop."""


LARGEST_FILE = 1024 * 1024
"""Bytes of one of the three files; a larger one cannot be used."""


class WorkingFiles(Protocol):
    """The three files as a person sees and edits them. Names are `SOUL.md`, `USER.md`, `memory/MEMORY.md`.

    Bytes that are no UTF-8 are lone surrogates in the texts. All may raise CannotStore and Stop, and Refused for a file
    that cannot be used as it is.
    """

    async def read(self, space: Space) -> Mapping[str, str | None]:
        """Each file of the space by its name; None is a missing one."""

    async def place(self, space: Space, name: str, text: str) -> str | None:
        """Puts a text in place, atomically, and returns what was there instead, which is kept under another name
        until `compared`: somebody may have written it a moment ago."""

    async def left(self, space: Space) -> Mapping[str, str]:
        """What was replaced and is not `compared` yet, by name: a crash may have come between."""

    async def compared(self, space: Space, name: str) -> None:
        """What was replaced needs no keeping."""


class History(Protocol):
    """The truth of what was summarised: one append-only file in a space.

    All raise CannotStore where it cannot be read: it is never taken for an empty one.
    """

    async def append(self, space: Space, entries: Sequence[Entry]) -> list[Entry]:
        """The entries with their cursors, on disk. In O(new). Raises CannotStore (none or some are there), Stop."""

    async def last(self, space: Space) -> int:
        """The newest cursor; 0 if there is none."""

    async def entry(self, space: Space, cursor: int) -> Entry | None:
        """One entry, found without reading all."""

    async def after(self, space: Space, cursor: int) -> list[Entry]:
        """The entries behind a cursor, in order; in O(those)."""

    async def repair(self, space: Space) -> bool:
        """Makes what is only a view of the entries fit them again; whether that was needed."""

    async def dreamt(self, space: Space) -> int:
        """The newest cursor that Dream has noted; 0 if there is none that can be read."""

    async def set_dreamt(self, space: Space, cursor: int) -> None:
        """Notes that Dream has read up to there. Raises CannotStore, Stop."""


@dataclass(frozen=True, slots=True)
class Skill:
    """Something to read when it is needed. An `always` one is in every prompt; an `own` one is the owner's."""

    name: str
    description: str
    body: str
    triggers: tuple[str, ...] = ()
    always: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """A skill that was taken in; `kept` is where the owner's text that it replaced is, empty where it replaced none."""

    skill: Skill
    kept: str = ""


class Skills(Protocol):
    """What can be read: the package's skills and the owner's, one of the owner's in place of one of the same name.

    Drafts are in the owner's space only, and in no prompt until they are accepted.
    """

    async def all(self, space: Space) -> Sequence[Skill]:
        """By name. A broken file is reported to the log and passed over; cheap when asked again."""

    async def problems(self, space: Space) -> Mapping[str, str]:
        """What is wrong with the broken ones, drafts among them, by where they are."""

    async def text(self, space: Space, name: str) -> str | None:
        """The whole text, head and all: of the draft, else of the owner's skill, else of the package's; it may be
        broken. None: there is none of that name. Raises ShowModel: it is no text."""

    async def drafts(self, space: Space) -> Sequence[Skill]:
        """By name, broken ones passed over; none in a space that is not the owner's."""

    async def draft(self, space: Space, name: str, text: str) -> Skill:
        """Returns once the text is on disk as the draft of that name, in place of an older one.

        Raises ShowModel (it is no skill; the text says why), Refused (not the owner's space, or too many drafts),
        CannotStore. Not promised: that of two who write the same draft at once neither's text is lost.
        """

    async def accept(self, space: Space, name: str, mark: str = "") -> Accepted | None:
        """Makes the draft of that name the owner's skill, and keeps what it replaces; None: there is neither. With a
        `mark`, as `skills.mark` makes it of `text`, no other text is taken in.

        Idempotent: without a draft it is the owner's skill of that name, but `kept` is told only once. Raises Refused
        (not the owner's space, a broken draft, or one of another text), CannotStore.
        """


Vector = Sequence[float]
"""A direction. One without numbers, or of zeros, points nowhere and is near to nothing."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A vector for each text, all of one length but for those of nothing; and what they cost."""

    vectors: Sequence[Vector]
    usage: Usage = field(default_factory=Usage)


class Embedder(Protocol):
    """A model that makes vectors of texts: what means much the same points much the same way."""

    @property
    def name(self) -> str:
        """Another one as soon as its vectors cannot be compared with those made before."""

    @property
    def is_local(self) -> bool:
        """It asks nobody and takes milliseconds, and knows single words rather than sentences."""

    async def embed(self, texts: Sequence[str], question: bool = False) -> Embedded:
        """One call, tried once, for what is looked for (`question`) or for what is to be found.

        Raises TryLater, TooLong, TellUser (NotNow among them: nothing is wrong with the texts). Not promised: the very
        same numbers for the same text.
        """


@dataclass(frozen=True, slots=True)
class Bare:
    """A text of an index that has no vector yet. `id` is the index's own, and may pass to another text."""

    id: int
    text: str


class RecallIndex(Protocol):
    """What was said in each space, as a search can find it: a view, made of the logs and of what is known.

    Nothing in it is the truth: a damaged one is begun anew, and is whole again once all was read. No method looks at
    two spaces. Raises CannotStore, and BegunAnew: it was damaged, and all has to be taken in again.
    """

    async def logs(self, space: Space) -> Sequence[str]:
        """The names of the logs to read there; looks for damage, and drops what came from a log that is gone."""

    async def read(self, space: Space, log: str) -> bool:
        """Takes in some of what was appended to a log; False once there is no more. Idempotent."""

    async def know(self, space: Space, facts: Mapping[str, Sequence[str]]) -> None:
        """Takes in what is known now: the facts by the name of their file, all of them."""

    async def find(self, space: Space, sought: Sought) -> Found:
        """What fits best among what was taken in; the order does not depend on when that was."""


class VectorIndex(Protocol):
    """The vectors of a `RecallIndex`, of one model at most, by whose name it is made. Raises as that does."""

    async def people(self, space: Space) -> Mapping[str, Sequence[str]]:
        """The names of those who speak there, by their ids."""

    async def bare(self, space: Space, most: int) -> Sequence[Bare]:
        """Some of what has no vector, newer ones first. Vectors of another model are dropped."""

    async def embed(self, space: Space, texts: Sequence[Bare], vectors: Sequence[Vector]) -> None:
        """Takes in a vector for each of these texts, as far as they are still there."""


Search = Callable[[Space, Sought], Awaitable[tuple[Found, bool]]]
"""What fits best of all that was said in a space, and whether all of it was looked through. Raises CannotStore."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """New messages of a session, and what their prompt has anyway: the session from `in_sight` on, the text of the
    `prompt`, and what it was reminded of before (session and number of each)."""

    space: Space
    session: str
    said: str
    askers: frozenset[str] = frozenset()
    in_sight: int = 0
    prompt: str = ""
    told: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Reminded:
    """A line on what was said before, and which message of which session that was."""

    session: str
    n: int
    line: str


class Reminder(Protocol):
    """What comes to mind when something is said."""

    async def remind(self, occasion: Occasion) -> Sequence[Reminded]:
        """A few short lines at most, of that space alone; never raises, and takes milliseconds."""


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
