"""How many tokens a request may have, and how one that is too large is shortened.

Pure: counts are given, as stored with each message. Shortening touches a request, never the log.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from nanomem.errors import TellUser
from nanomem.records import ToolMessage, UserMessage
from nanomem.session import Said, starts_turn

PER_MESSAGE = 4
"""Tokens that each message costs beside its text, and 3 for the whole: OpenAI's rule of thumb for chats."""
PER_REQUEST = 3
MARK = 10
"""Tokens of the mark and name before a user message, rounded up."""

UNSEEN_FACTOR = 1.2
LEAST_FACTOR, GREATEST_FACTOR = 0.5, 3.0
SHORT_RESULT = 400
"""Tokens below which a tool result is not cut any further."""


@dataclass(slots=True)
class Calibration:
    """What one o200k token is in tokens of each model: from its newest usage, 1.2 before there is any."""

    _factors: dict[str, float] = field(default_factory=dict)

    def factor(self, model: str) -> float:
        """The factor to multiply an estimate with."""
        return self._factors.get(model, UNSEEN_FACTOR)

    def learn(self, model: str, estimate: int, prompt_tokens: int) -> None:
        """Takes in what the provider counted for a request that was estimated at so many o200k tokens."""
        if estimate > 0 and prompt_tokens > 0:
            self._factors[model] = _clamped(prompt_tokens / estimate)

    def too_small(self, model: str) -> None:
        """The provider found a request too long that was estimated to fit."""
        self._factors[model] = _clamped(self.factor(model) * 1.5)


def _clamped(factor: float) -> float:
    return min(max(factor, LEAST_FACTOR), GREATEST_FACTOR)


def estimate(messages: Sequence[Said], fixed: int) -> int:
    """The o200k tokens of a request: its messages and what is `fixed` (system prompt, schemas, block, pictures)."""
    return fixed + PER_REQUEST + sum(map(cost, messages))


def cost(message: Said) -> int:
    """What one message adds to a request."""
    return message.tokens + PER_MESSAGE + (MARK if isinstance(message, UserMessage) else 0)


def drop_oldest(messages: Sequence[Said], own: Collection[str], excess: int) -> list[Said]:
    """The messages without the oldest turns, as many as free `excess` tokens; the turns in `own` always stay."""
    freed = 0
    first = 0
    for index, message in enumerate(messages):
        if message.turn in own:
            break
        if starts_turn(messages, index):
            first = index
            if freed >= excess:
                return list(messages[first:])
        freed += cost(message)
    else:
        return list(messages[first:])
    return list(messages[index:])


def cut_results(messages: Sequence[Said], own: Collection[str], excess: int) -> list[Said]:
    """The messages with the longest tool results of `own` cut to head and tail, until `excess` tokens are freed.

    Raises TellUser where that is not enough; its text names the size.
    """
    cut = list(messages)
    order = sorted(
        (i for i, m in enumerate(cut) if isinstance(m, ToolMessage) and m.turn in own),
        key=lambda i: -cut[i].tokens,
    )
    for index in order:
        if excess <= 0:
            break
        message = cut[index]
        keep = max(SHORT_RESULT, message.tokens - excess)
        if keep >= message.tokens:
            break
        cut[index] = replace(message, content=_head_and_tail(message.content, keep / message.tokens), tokens=keep)
        excess -= message.tokens - keep
    if excess > 0:
        raise TellUser(f"This is about {excess:,} tokens too large for the model's context window. Send less at once.")
    return cut


def _head_and_tail(text: str, share: float) -> str:
    room = max(min(200, len(text) // 2), int(len(text) * share) - 160)
    head, tail = room * 2 // 3, room // 3
    left_out = len(text) - head - tail
    note = f"\n[... {left_out:,} characters left out to fit; ask again, with an offset or for less ...]\n"
    return text[:head] + note + text[len(text) - tail :]
