"""Skills that a Dream would like to have: drafts, which are in no prompt until the owner takes them in."""

import json
import re
from collections.abc import Callable, Sequence

import structlog

from nanomem.errors import CannotStore, Refused, ShowModel
from nanomem.extraction import SkillDraft
from nanomem.ports import Skills
from nanomem.spaces import Space

log = structlog.get_logger()

_NO_NAME = re.compile(r"[^\w.-]+")


async def draft(
    skills: Skills, space: Space, wanted: Sequence[SkillDraft], is_fit: Callable[[str], bool]
) -> Sequence[str]:
    """Keeps each that is fit as a draft, unless there is a skill or a draft of its name; returns the names of those.
    What fails is logged: what was learnt beside it stands."""
    drafted = []
    for skill in wanted:
        name = _NO_NAME.sub("-", skill.name.strip().lower()).strip("-.")[:64]
        if not name or not is_fit(f"{skill.description}\n{skill.text}"):
            log.info("dream.no_draft", space=space.name)
            continue
        try:
            if await skills.text(space, name) is None:
                await skills.draft(space, name, _as_file(name, skill))
                log.info("dream.skill_drafted", space=space.name, skill=name)
                drafted.append(name)
        except (CannotStore, Refused, ShowModel) as error:
            log.warning("dream.no_draft", space=space.name, reason=error.text)
    return drafted


def _as_file(name: str, skill: SkillDraft) -> str:
    description = " ".join(skill.description.split()) or name
    return f"---\nname: {name}\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n{skill.text.strip()}\n"
