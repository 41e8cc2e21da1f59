"""What flows: messages from people, and what a model is asked and answers.

Frozen values only. Knows nothing of files, networks, clocks or any library.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

End = Literal["answer", "stopped", "limit", "failed"]
"""How a turn ended; on the last record of every turn."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who speaks: the network's own id, and a name for people."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something sent along with a message; `ref` is what its channel fetches it with.

    `name` is the sender's word and no path; `size` is in bytes, as announced.
    """

    kind: Literal["image", "document"]
    name: str
    media_type: str
    size: int | None
    ref: str


@dataclass(frozen=True, slots=True)
class Inbound:
    """One message from a person. `address` is where it came from and the session's key.

    `id` is the network's id of the update, unique in its channel. `album` is shared by updates
    that are one message to a person. `from_owner` is the channel's finding about the sender.
    """

    address: str
    id: str
    text: str
    sender: Sender
    sent_at: datetime
    from_owner: bool = False
    reply_to: str | None = None
    forwarded_from: str | None = None
    edited: bool = False
    attachments: tuple[Attachment, ...] = ()
    album: str | None = None

    @property
    def channel(self) -> str:
        """The first part of the address."""
        return self.address.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Outbound:
    """One message from the agent to a person, as the outbox keeps it.

    `id` is the turn's id, or the session key, `#` and the id of the command it replies to.
    `text` is None while the answer is being written; `end` is None for a reply to a command.
    `placed` holds the network's ids of the messages that show it, a part each, in order.
    `answers` holds the ids of the inbound messages it covers.
    """

    id: str
    address: str
    text: str | None = None
    end: End | None = None
    placed: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool run; `arguments` is the raw text it gave."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """What a model is told of a tool; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def text(self) -> str:
        """All that a model is told, as it is counted."""
        return f"{self.name}{self.description}{dict(self.parameters)}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost: tokens as the provider counts them, `cached_tokens` among the prompt's; dollars."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for a model that can see."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt, already in the words the model sees."""

    role: Literal["user", "assistant", "tool"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. `forced` names the only tool that may and must be called; "" forbids all.

    `history` is how many of `messages` will be the same in the next call: where a provider's
    explicit cache mark belongs.
    """

    system: str
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    forced: str | None = None
    history: int = 0
    max_tokens: int = 8192
    temperature: float = 0.1


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered. `cut` is why it ended early ("length", "content_filter"), if it did."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    cut: str | None = None
