"""The slash command for skills: `/skills` lists them, `show NAME` shows one, `accept NAME` takes a draft in.

A draft is shown with a mark of its text; `accept NAME MARK` takes in no other. Run again after a crash, it repeats its
reply. Knows nothing of files.
"""

from collections.abc import Callable, Iterable

import structlog

from nanomem.agent.commands import Call, Command
from nanomem.errors import CannotStore, Refused, ShowModel
from nanomem.messages import Inbound
from nanomem.ports import Skill, Skills
from nanomem.skills import fenced, line, mark
from nanomem.spaces import Space

log = structlog.get_logger()

LONGEST = 20_000
"""Characters of one reply."""

_HOW = "There is /skills, /skills show NAME and /skills accept NAME."


def commands(skills: Skills, space_of: Callable[[str], Space]) -> tuple[Command, ...]:
    """The command; `space_of` is the space of an address."""
    does = SkillCommands(skills, space_of).run
    return (
        Command(
            "skills", "what I can read when needed; also: show NAME, accept NAME", does, urgent=True, may=_is_owner
        ),
    )


def _is_owner(message: Inbound) -> bool:
    return message.from_owner


class SkillCommands:
    """What `/skills` does, for the owner."""

    def __init__(self, skills: Skills, space_of: Callable[[str], Space]) -> None:
        self._skills = skills
        self._space_of = space_of

    async def run(self, call: Call) -> str:
        """`/skills` and its kinds."""
        space = self._space_of(call.lane.address)
        match call.argument.split():
            case []:
                return await self._list(space)
            case [word, name, *marks] if word.lower() == "accept" and len(marks) < 2:
                return await self._accept(space, name, "".join(marks).lower())
            case [word, name] if word.lower() == "show":
                return await self._show(space, name)
            case [word] if word.lower() in ("accept", "show"):
                return f"Say which: /skills {word.lower()} NAME. {await self._which(space)}"
        return f"/skills knows no {call.argument[:50]!r}. {_HOW}"

    async def _list(self, space: Space) -> str:
        drafts = [await self._draft(space, skill) for skill in await self._skills.drafts(space)]
        parts = (
            ("Skills:", (f"{line(skill)} ({_kind(skill)})" for skill in await self._skills.all(space))),
            ("Drafts, not in use until /skills accept NAME:", drafts),
            ("Broken, and not in use:", (f"{at}: {why}" for at, why in (await self._skills.problems(space)).items())),
        )
        told = "\n\n".join("\n".join((title, *lines)) for title, lines in _filled(parts)) or "There are no skills."
        return told if len(told) <= LONGEST else f"{told[:LONGEST].rpartition(chr(10))[0]}\n[... more than fits here]"

    async def _show(self, space: Space, name: str) -> str:
        """The draft before the skill of that name: it is what there is to decide about."""
        try:
            text = await self._skills.text(space, name)
        except ShowModel as error:
            return error.text
        if text is None:
            return f"There is no skill or draft {name[:64]}. {await self._which(space)}"
        shown = fenced(text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[... more than fits here]")
        if all(skill.name != name for skill in await self._skills.drafts(space)):
            return shown
        return f"{shown}\nA draft; to take in this text: /skills accept {name} {mark(text)}"

    async def _accept(self, space: Space, name: str, wanted: str) -> str:
        try:
            accepted = await self._skills.accept(space, name, wanted)
        except (CannotStore, Refused) as error:
            if isinstance(error, CannotStore):
                log.warning("command.cannot_store", reason=error.text)
            return error.text
        if accepted is None:
            return f"There is no draft {name[:64]}. {await self._which(space)}"
        skill = accepted.skill
        lines = [f"Skill {skill.name} is installed: {skill.description}"]
        if skill.always:
            lines.append("It is always on: in every prompt.")
        if skill.triggers:
            lines.append(f"Triggers: {', '.join(skill.triggers)}")
        if accepted.kept:
            lines.append(f"What it replaces is kept: {accepted.kept}")
        return "\n".join(lines)

    async def _draft(self, space: Space, skill: Skill) -> str:
        """A line of the list; without a mark where the draft has gone meanwhile."""
        try:
            text = await self._skills.text(space, skill.name)
        except ShowModel:
            text = None
        notes = [*(["to be always on"] if skill.always else []), *([f"mark {mark(text)}"] if text else [])]
        return line(skill) + (f" ({', '.join(notes)})" if notes else "")

    async def _which(self, space: Space) -> str:
        names = ", ".join(skill.name for skill in await self._skills.drafts(space))
        return f"Drafts: {names}." if names else "There are no drafts."


def _filled(parts: Iterable[tuple[str, Iterable[str]]]) -> Iterable[tuple[str, list[str]]]:
    """Those with a line or more."""
    return ((title, found) for title, lines in parts if (found := list(lines)))


def _kind(skill: Skill) -> str:
    return ("yours" if skill.own else "built in") + (", always on" if skill.always else "")
