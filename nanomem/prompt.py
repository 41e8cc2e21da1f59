"""What one model call sees: a prefix that stays byte-identical, the history, and the tail.

Pure: given the same values it gives the same bytes. Knows nothing of providers, files or the clock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from nanomem.facts import MemoryFiles
from nanomem.messages import Image, PromptMessage
from nanomem.records import AssistantMessage, ToolMessage, UserMessage
from nanomem.session import Said

Timestamps = Literal["relative", "absolute", "off"]


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stays as it is until it is rebuilt: the system text, and where the history begins.

    `last_n` is the newest message there was at the time: the marks of those up to it are relative to
    `built_at`, so they never change; newer ones carry their absolute time. `through` is the session's
    pointer then.
    """

    system: str
    files: MemoryFiles
    through: int
    first_n: int
    last_n: int
    built_at: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class Marks:
    """How user messages are marked with their time."""

    timestamps: Timestamps
    zone: tzinfo


def rendered(
    messages: Sequence[Said],
    own: Collection[str],
    prefix: Prefix,
    context: str,
    marks: Marks,
    named: bool = False,
    images: Mapping[str, Image] | None = None,
) -> tuple[tuple[PromptMessage, ...], int]:
    """The messages of a request, and how many of them are history: the same again in the next one.

    `own` are the turns that this request is about. The block of what changes stands behind the newest
    user message, so all before it stays shared. Neighbouring messages of a kind are one message, as
    strict chat templates want it. With `named`, user messages carry their sender's name.
    """
    newest = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    shown: list[PromptMessage] = []
    history: int | None = None
    for index, message in enumerate(messages):
        if history is None and (message.turn in own or index == newest):
            history = len(shown)
        one = _shown(message, prefix, marks, named, images or {})
        if index == newest:
            one = replace(one, text=f"{one.text}\n\n{context}")
        if shown and one.role == shown[-1].role != "tool" and not shown[-1].tool_calls:
            last = shown.pop()
            text = "\n\n".join(filter(None, (last.text, one.text)))
            one = replace(one, text=text, images=last.images + one.images)
            history = None if history is None else min(history, len(shown))
        shown.append(one)
    return tuple(shown), history or 0


def _shown(message: Said, prefix: Prefix, marks: Marks, named: bool, images: Mapping[str, Image]) -> PromptMessage:
    match message:
        case UserMessage():
            text = _marked(message, prefix, marks) + _said(message, named)
            return PromptMessage("user", text, images=tuple(images[f] for f in message.files if f in images))
        case AssistantMessage():
            return PromptMessage("assistant", message.content, tool_calls=message.tool_calls)
        case ToolMessage():
            return PromptMessage("tool", message.content, tool_call_id=message.tool_call_id, name=message.name)


def _said(message: UserMessage, named: bool) -> str:
    lines = []
    if message.reply_to:
        lines.append(f"[in reply to: {message.reply_to}]")
    if message.forwarded_from:
        lines.append(f"[forwarded from {message.forwarded_from}]")
    if message.edited:
        lines.append("[an earlier message, edited]")
    lines += [f"[file sent along: {path}]" for path in message.files]
    said = f"{message.sender.name}: {message.content}" if named and message.sender.name else message.content
    return "\n".join([*lines, said])


def _marked(message: UserMessage, prefix: Prefix, marks: Marks) -> str:
    if marks.timestamps == "off":
        return ""
    if marks.timestamps == "relative" and message.n <= prefix.last_n:
        return f"[{ago(prefix.built_at - message.timestamp)}] "
    return f"[{message.timestamp.astimezone(marks.zone):%Y-%m-%d %H:%M}] "


def ago(age: timedelta) -> str:
    """An age in the largest whole unit: `just now`, `5 minutes ago`, `3 days ago`, `2 years ago`."""
    seconds = age.total_seconds()
    for unit, length in (("year", 31_557_600), ("month", 2_629_800), ("week", 604_800), ("day", 86_400)):
        if seconds >= length:
            return _count(int(seconds // length), unit)
    if seconds >= 3600:
        return _count(int(seconds // 3600), "hour")
    return _count(int(seconds // 60), "minute") if seconds >= 60 else "just now"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' if number > 1 else ''} ago"


def memory_changes(before: MemoryFiles, after: MemoryFiles) -> str:
    """What is different in the files now, a line each: `USER.md + line`, `USER.md - line`; empty if nothing is."""
    lines = []
    for name, old, new in (
        ("SOUL.md", before.soul, after.soul),
        ("USER.md", before.user, after.user),
        ("MEMORY.md", before.memory, after.memory),
    ):
        before_lines, after_lines = set(old.splitlines()), set(new.splitlines())
        gone = [f"{name} - {line.strip()}" for line in old.splitlines() if line not in after_lines and line.strip()]
        come = [f"{name} + {line.strip()}" for line in new.splitlines() if line not in before_lines and line.strip()]
        lines += gone + come
    return "\n".join(lines)
