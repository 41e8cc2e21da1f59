"""What the daemon and the process of litellm say to each other: msgpack, each frame with its length before it.

Knows neither sockets nor processes nor litellm.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from nanomem import errors
from nanomem.errors import NanomemError, TryLater
from nanomem.messages import Reply, Request, Usage

Vector = tuple[float, ...]
T = TypeVar("T")
_LENGTH = 4
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reach(Struct, frozen=True):
    """How a provider is reached: its key as the settings have it, perhaps `env:NAME`; `extra` is litellm's own."""

    api_key: str = ""
    api_base: str = ""
    extra: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"Reach(api_base={self.api_base!r})"  # the rest may be secret


class Target(Struct, frozen=True):
    """Which model is asked, and by which way; `providers` by litellm's names for them."""

    model: str
    providers: Mapping[str, Reach]
    timeout_s: float


class Ask(Struct, frozen=True, tag=True):
    """A request to a language model. Answered by any number of `Grown`, then `Answered` or `Failed`."""

    id: int
    target: Target
    request: Request


class Embed(Struct, frozen=True, tag=True):
    """Texts that are to become vectors. Answered by `Vectored` or `Failed`."""

    id: int
    target: Target
    texts: list[str]
    question: bool


class Cancel(Struct, frozen=True, tag=True):
    """Nobody waits for that call any more."""

    id: int


class Grown(Struct, frozen=True, tag=True):
    """The answer goes on with these words."""

    id: int
    more: str


class Answered(Struct, frozen=True, tag=True):
    """All of an answer; `resident` is the memory in use after it, in bytes."""

    id: int
    reply: Reply
    resident: int


class Vectored(Struct, frozen=True, tag=True):
    """The vectors, in the order of the texts."""

    id: int
    vectors: list[Vector]
    usage: Usage
    resident: int


class Alive(Struct, frozen=True, tag=True):
    """Said once a second while anybody waits."""


class Failed(Struct, frozen=True, tag=True):
    """The call came to nothing. `kind` is the name of one of our errors, "" for a bug, which `text` places."""

    id: int
    kind: str
    text: str
    after_s: float | None = None
    gist: str | None = None

    @staticmethod
    def of(id: int, error: NanomemError) -> "Failed":
        """As it is sent."""
        return Failed(id, type(error).__name__, error.text, getattr(error, "after_s", None), error.gist)

    @property
    def error(self) -> Exception:
        """As it is raised."""
        kind = vars(errors).get(self.kind)
        if not (isinstance(kind, type) and issubclass(kind, NanomemError)):
            return RuntimeError(self.text)
        error = kind(self.text, gist=self.gist)
        if isinstance(error, TryLater):
            error.after_s = self.after_s
        return error


Call = Ask | Embed | Cancel
Word = Grown | Answered | Vectored | Failed | Alive


class Frames(Generic[T]):
    """Takes bytes as they come and gives the frames in them, which are of the type `kind`."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._held = bytearray()

    def take(self, data: bytes) -> Iterator[T]:
        """The frames that these bytes complete. Raises msgspec.DecodeError: the other side is not ours."""
        self._held += data
        begin = 0
        while len(self._held) - begin >= _LENGTH:
            end = begin + _LENGTH + int.from_bytes(self._held[begin : begin + _LENGTH])
            if len(self._held) < end:
                break
            yield self._decoder.decode(self._held[begin + _LENGTH : end])
            begin = end
        del self._held[:begin]


_encoder = msgspec.msgpack.Encoder()


def packed(frame: Call | Word) -> bytes:
    """A frame as bytes. Halves of a surrogate pair, which no encoding can hold, are shown as U+FFFD."""
    try:
        data = _encoder.encode(frame)
    except UnicodeEncodeError:
        data = _encoder.encode(_storable(msgspec.to_builtins(frame, builtin_types=(bytes,))))
    return len(data).to_bytes(_LENGTH) + data


def _storable(value: Any) -> Any:
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case dict():
            return {_storable(key): _storable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_storable(inner) for inner in value]
    return value
