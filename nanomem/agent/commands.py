"""Slash commands: one registry for every channel.

A command and its reply are not part of the conversation.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from nanomem.agent.asking import Asker
from nanomem.agent.conversation import Conversations
from nanomem.agent.prompting import Prompter
from nanomem.bus import Kind, Lane
from nanomem.facts import facts
from nanomem.messages import Inbound
from nanomem.ports import Memory
from nanomem.spaces import is_group

_COMMAND = re.compile(r"/([A-Za-z0-9_-]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)

NOTHING_TO_RETRY = "Nothing to retry."
DENIED = "Only the owner can do that."

_ORDER = (
    *("new", "compact", "stop", "retry", "status", "dream", "dream-log", "dream-restore"),
    *("undo", "memory", "remember", "recall", "skills", "help"),
)
"""Of the commands in `/help` and in menus; others come after these."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command as it was given, and the lane of its session."""

    message: Inbound
    argument: str
    lane: Lane


def _everyone(message: Inbound) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One command. An `urgent` one is answered at once, also while a turn runs; that may depend on its argument. `may`
    says from whom it is taken."""

    name: str
    summary: str
    run: Callable[[Call], Awaitable[str]]
    urgent: bool | Callable[[str], bool] = False
    may: Callable[[Inbound], bool] = _everyone

    def is_urgent(self, argument: str) -> bool:
        """Whether it is with that argument."""
        return self.urgent(argument) if callable(self.urgent) else self.urgent


def parse(text: str) -> tuple[str, str] | None:
    """(name, argument) of a command; None for anything else, such as `/etc/hosts is a file`."""
    found = _COMMAND.fullmatch(text.strip())
    return (found[1].lower().replace("_", "-"), (found[2] or "").strip()) if found else None


class Commands:
    """All commands, by name: those of the conversation itself, and `more` of what stands beside it. `learning` gives
    `/status` what it says of Dreams."""

    def __init__(
        self,
        conversations: Conversations,
        prompter: Prompter,
        asker: Asker,
        memory: Memory,
        more: Iterable[Command] = (),
        learning: Callable[[Call], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self._conversations = conversations
        self._prompter = prompter
        self._asker = asker
        self._memory = memory
        self._learning = learning
        everyones = (
            Command("stop", "stop the running answer", self._stop, urgent=True),
            Command("retry", "answer the last message again, if that failed or was stopped", self._retry),
            Command("status", "model, context, messages, memory, tokens today", self._status, urgent=True),
            Command("help", "all commands", self._help, urgent=True),
        )
        named = {command.name: command for command in (*everyones, *more)}
        self._all = {name: named.pop(name) for name in _ORDER if name in named} | named

    @property
    def menu(self) -> list[tuple[str, str]]:
        """(name, summary) of each, in the order of `/help`."""
        return [(command.name, command.summary) for command in self._all.values()]

    def kind(self, message: Inbound) -> Kind:
        """How the lane shall serve a message; a typo in a command is answered at once."""
        parsed = parse(message.text)
        if parsed is None:
            return "message"
        command = self._all.get(parsed[0])
        return "urgent" if command is None or command.is_urgent(parsed[1]) else "command"

    def is_retry(self, message: Inbound) -> bool:
        """Whether the message asks for the last turn to be done again."""
        return (parse(message.text) or ("",))[0] == "retry"

    async def run(self, message: Inbound, lane: Lane) -> str:
        """The reply to a message that is a command. Run again after a crash, it repeats its reply."""
        name, argument = parse(message.text) or ("", "")
        if name == "start":
            name = "help"
        command = self._all.get(name)
        if command is None:
            return self._unknown(name)
        return await command.run(Call(message, argument, lane)) if command.may(message) else DENIED

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._all, n=1)
        meant = f" Did you mean /{near[0]}?" if near else ""
        return f"Unknown command /{name[:64]}.{meant} /help lists all."

    async def _help(self, call: Call) -> str:
        return "\n".join(f"/{name}: {summary}" for name, summary in self.menu)

    async def _stop(self, call: Call) -> str:
        if call.lane.stop is None:
            return "Nothing is running."
        call.lane.stop()
        async with call.lane.gate:  # free again once what was written so far is with the person
            return "Stopped."

    async def _retry(self, call: Call) -> str:
        return NOTHING_TO_RETRY

    async def _status(self, call: Call) -> str:
        conversation = await self._conversations.open(call.lane.address)
        session, model = conversation.session, self._asker.model.name
        files = await self._memory.read(conversation.space)
        known = await asyncio.to_thread(lambda: sum(map(len, map(facts, (files.soul, files.user, files.memory)))))
        spent = await self._asker.spent_today()
        cost = f", ${spent.cost_usd:.4f}" if call.message.from_owner and not is_group(call.lane.address) else ""
        used, budget = await self._prompter.used(conversation, model), self._prompter.limits.budget
        return "\n".join(
            (
                f"Model: {model}",
                f"Context: {used:,} of {budget:,} tokens",
                f"Messages: {session.last_n} ({session.last_n - session.last_consolidated} unconsolidated)",
                f"Memory: {known} facts",
                f"Today: {spent.tokens:,} tokens{cost}",
                *(await self._learning(call) if self._learning else ()),
            )
        )
