"""The slash commands for what is known and was said: `/memory`, `/recall`, `/remember`, `/undo`.

What they commit carries the id of the message that asked for it, so that run again they repeat their reply.
"""

from collections.abc import Awaitable, Callable

import structlog

from nanomem.agent.commands import Call, Command
from nanomem.errors import CannotStore, Refused
from nanomem.memory.asked import Parts, answer, number
from nanomem.memory.rights import Rights
from nanomem.memory.undoing import undo
from nanomem.remembering import one_fact, remembered, told
from nanomem.spaces import Space

log = structlog.get_logger()

LONGEST = 30_000
"""Characters of one reply; what is longer is for an editor, not for a chat."""

_HOW = "There is /memory, /memory why WORDS, /memory log and /memory diff N."
_HOW_TO_REMEMBER = "Say what: /remember TEXT."


def commands(parts: Parts, space_of: Callable[[str], Space]) -> tuple[Command, ...]:
    """The commands; `space_of` is the space of an address."""
    memory, rights = MemoryCommands(parts, space_of), Rights(space_of)
    return (
        Command("memory", "what I know; also: why WORDS, log, diff N", memory.show, urgent=True, may=rights.may),
        Command("recall", "search all that was said: /recall WORDS", memory.recall, urgent=True, may=rights.may),
        Command("remember", "keep a fact: /remember TEXT", memory.remember, may=rights.may),
        Command("undo", "take back the newest change of the memory, or change N", memory.undo, may=rights.may_go_back),
    )


class MemoryCommands:
    """What each of them does."""

    def __init__(self, parts: Parts, space_of: Callable[[str], Space]) -> None:
        self._parts = parts
        self._space_of = space_of

    async def show(self, call: Call) -> str:
        """`/memory` and its kinds."""
        what, argument = [*call.argument.split(None, 1), "", ""][:2]
        what = what.lower() or "show"
        if what not in ("show", "why", "log", "diff"):
            return f"/memory knows no {what[:50]!r}. {_HOW}"
        if what == "log":
            argument = argument or "1"
        return shortened(await worded("", answer(self._parts, what, self._space_of(call.lane.address), argument)))

    async def recall(self, call: Call) -> str:
        """`/recall WORDS`."""
        return shortened(
            await worded("", answer(self._parts, "search", self._space_of(call.lane.address), call.argument))
        )

    async def remember(self, call: Call) -> str:
        """`/remember TEXT`."""
        return await worded("Not saved: ", self._remember(call)) if call.argument else _HOW_TO_REMEMBER

    async def _remember(self, call: Call) -> str:
        fact = one_fact(call.argument)
        change = remembered(fact, trailers("remember", call))
        return told(await self._parts.memory.change(self._space_of(call.lane.address), change), fact)

    async def undo(self, call: Call) -> str:
        """`/undo [N]`."""
        return await worded("Not undone: ", self._undo(call))

    async def _undo(self, call: Call) -> str:
        wanted = number(call.argument) if call.argument else None
        space = self._space_of(call.lane.address)
        receipt = await undo(self._parts.memory, self._parts.versions, space, wanted, trailers("undo", call))
        version = receipt.version if receipt else None
        return f"Undone (version {version.number})." if version else "Nothing to undo."


def trailers(name: str, call: Call) -> dict[str, str]:
    """Where a change that a command made comes from."""
    inbound = f"{call.lane.address}#{call.message.id}"
    return {"Session": call.lane.address, "Inbound": inbound, "By": call.message.sender.name, "Id": f"{name} {inbound}"}


async def worded(before: str, reply: Awaitable[str]) -> str:
    """The reply, or why there is none, in words."""
    try:
        return await reply
    except (CannotStore, Refused) as error:
        if isinstance(error, CannotStore):
            log.warning("command.cannot_store", reason=error.text)
        return f"{before}{error.text}"


def shortened(reply: str) -> str:
    if len(reply) <= LONGEST:
        return reply
    cut = reply[:LONGEST].rpartition("\n")[0] or reply[:LONGEST]
    close = "\n```" if cut.count("\n```") % 2 else ""
    return f"{cut}{close}\n[... {len(reply) - len(cut):,} characters more: see the files, or nanomem memory]"
