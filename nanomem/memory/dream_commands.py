"""The slash commands of the slow learner: `/dream`, `/dream-log`, `/dream-restore`; and what `/status` says of it.

Run again after a crash, each repeats its reply.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from nanomem.agent.commands import DENIED, Call, Command
from nanomem.facts import facts
from nanomem.memory.asked import Parts, answer, listed, number, restored
from nanomem.memory.commands import shortened, trailers, worded
from nanomem.memory.dreams import Dreams
from nanomem.memory.known import files_before, newest_dream
from nanomem.memory.rights import Rights
from nanomem.ports import Run
from nanomem.spaces import Space, is_group
from nanomem.versions import Version

MOST_PASSED = 10
"""Batches passed over that `/status` names."""
NOTHING_NEW = "Nothing new to learn."
_HOW = "There is /dream-restore --list and /dream-restore --version N."
_OPTION = re.compile("[-\u2010-\u2015\u2212 ]*(list|version)(?:[ =]+(\\S+))?")  # phones make one long dash of two


class DreamCommands:
    """What each of them does."""

    def __init__(self, dreams: Dreams, parts: Parts, rights: Rights) -> None:
        self._dreams = dreams
        self._parts = parts
        self._rights = rights

    @property
    def commands(self) -> Sequence[Command]:
        """In the order of `/help`."""
        may = self._rights.may
        return (
            Command("dream", "learn now from what is new", self._dream, urgent=True, may=may),
            Command("dream-log", "what learning changed last, or version N", self._log, urgent=True, may=may),
            Command(
                "dream-restore",
                "go back to a version: --list, --version N",
                self._restore,
                urgent=lambda argument: _wanted(argument)[0] != "version",
                may=may,
            ),
        )

    async def _dream(self, call: Call) -> str:
        if call.argument:
            return "/dream takes no words: it learns from all that is new. /dream-log N shows what version N changed."
        return await worded("Not learnt: ", self._learn(call))

    async def _learn(self, call: Call) -> str:
        space, inbound = self._space(call), f"{call.lane.address}#{call.message.id}"
        known = await self._parts.versions.all(space)
        made = next((version for version in reversed(known) if version.trailers.get("Inbound") == inbound), None)
        if made is not None:
            return await self._learnt(space, made) or NOTHING_NEW
        run = await self._dreams.learn(space, inbound)
        if run is None:
            return NOTHING_NEW
        version = (await self._parts.versions.all(space))[run.version - 1] if run.version else None
        learnt = await self._learnt(space, version) if version else ""
        drafted = [f"Drafted a skill: /skills show {name}" for name in run.drafted]
        return "\n".join(filter(None, (learnt, *drafted, run.reason))) or NOTHING_NEW

    async def _learnt(self, space: Space, version: Version) -> str:
        """What a version changed, a line for each file; empty where it only says what was put back."""
        known = await self._parts.versions.all(space)
        after = await self._parts.versions.read(space, version.id)
        before = await files_before(self._parts.versions, space, known, version)
        lines = [_changed(name, before.by_name[name], text) for name, text in after.by_name.items()]
        found = [line for line in lines if line]
        return "\n".join([f"Learned (version {version.number}).", *found]) if found else ""

    async def _log(self, call: Call) -> str:
        return shortened(await worded("", self._diff(call)))

    async def _diff(self, call: Call) -> str:
        space, argument = self._space(call), call.argument
        if not argument:
            newest = newest_dream(await self._parts.versions.all(space))
            if newest is None:
                return "Nothing was learnt in a Dream yet."
            argument = str(newest.number)
        return await answer(self._parts, "diff", space, argument)

    async def _restore(self, call: Call) -> str:
        what, argument = _wanted(call.argument)
        match what:
            case "list":
                return await worded("", self._listed(call, argument))
            case "version":
                if not self._rights.may_go_back(call.message):
                    return DENIED
                return await worded("Not restored: ", self._restored(call, argument))
        return _HOW

    async def _listed(self, call: Call, page: str) -> str:
        await self._parts.memory.read(self._space(call))  # with it comes in what a person has edited since
        known = await self._parts.versions.all(self._space(call))
        return listed(known, number(page or "1"), self._parts.zone, "/dream-restore --list")

    async def _restored(self, call: Call, argument: str) -> str:
        return await restored(self._parts, self._space(call), number(argument), trailers("dream-restore", call))

    async def status(self, call: Call) -> Sequence[str]:
        """The lines of `/status`; what it cost is for the owner alone."""
        space = self._space(call)
        runs, passed, due = await self._dreams.report(space)
        shows_cost = call.message.from_owner and not is_group(call.lane.address)
        last = self._told(runs[0], shows_cost) if runs else "not yet"
        lines = [f"Learning: last {last}; next {self._at(due) if due else 'only when asked'}"]
        lines += [f"Passed over: {one.batch} on {self._at(one.at)} ({one.reason})" for one in passed[:MOST_PASSED]]
        if len(passed) > MOST_PASSED:
            lines.append(f"Passed over: {len(passed) - MOST_PASSED} more")
        return lines

    def _told(self, run: Run, shows_cost: bool) -> str:
        counts = ((run.entries, "entry", "entries"), (run.messages, "message", "messages"))
        read = " and ".join(f"{n} {one if n == 1 else more}" for n, one, more in counts if n) or "nothing"
        cost = f", ${run.usage.cost_usd:.4f}" if shows_cost else ""
        left_out = f", {run.refused} not fit to be learnt" if run.refused else ""
        became = f"{run.new} in, {run.reworded} reworded, {run.out} out{left_out}"
        reason = f"; {run.reason}" if run.reason else ""
        return f"{self._at(run.at)} ({read} read: {became}; {run.usage.tokens:,} tokens{cost}{reason})"

    def _at(self, moment: datetime) -> str:
        return f"{moment.astimezone(self._parts.zone):%Y-%m-%d %H:%M}"

    def _space(self, call: Call) -> Space:
        return self._rights.space_of(call.lane.address)


def _wanted(argument: str) -> tuple[str, str]:
    """`list` or `version`, and its number; anything else is neither."""
    wanted = " ".join(argument.lower().split())
    if wanted.isdecimal():
        return "version", wanted
    found = _OPTION.fullmatch(wanted or "list")
    return (found[1], found[2] or "") if found and (found[2] or found[1] == "list") else ("", "")


def _changed(name: str, before: str, after: str) -> str:
    if before == after:
        return ""
    old, new = Counter(facts(before)), Counter(facts(after))
    came, went = (new - old).total(), (old - new).total()
    parts = [f"{count} {word}" for count, word in ((came, "in"), (went, "out")) if count]
    return f"{name.rpartition('/')[2]}: {', '.join(parts) or 'headings, marks or prose'}"
