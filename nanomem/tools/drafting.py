"""How the file tools write a skill: as a draft, which counts once the owner has taken it in."""

from collections.abc import Callable

from nanomem.errors import ShowModel
from nanomem.ports import Origin, Skills


async def draft(skills: Skills, origin: Origin, name: str, text: str) -> str:
    """Raises ShowModel, Refused, CannotStore: nothing was written."""
    skill = await skills.draft(origin.space, name, text)
    return (
        f"Kept as a draft, skills/drafts/{skill.name}/SKILL.md. It is not in use yet: "
        f"tell the owner that /skills accept {skill.name} takes it in."
    )


async def redraft(skills: Skills, origin: Origin, name: str, edit: Callable[[str], str]) -> str:
    """Makes a draft of what `edit` makes of the draft, or else of the skill, of that name. Raises as `draft` does."""
    text = await skills.text(origin.space, name)
    if text is None:
        raise ShowModel(f"There is no skill or draft {name[:64]} yet: write it with write_file.")
    return await draft(skills, origin, name, edit(text))
