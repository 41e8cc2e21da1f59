"""The tool `read_skill`: the whole text of a skill that the prompt only names."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Origin, Skills, Tool
from nanomem.tools.workbench import Workbench

_NAMED = 50


class ReadSkill:
    """Reads those that are in use; a draft is a file like others."""

    schema = tool_schema("read_skill", "Read one of your skills.", {"name": "as in the list of skills"})
    parallel = True

    def __init__(self, skills: Skills) -> None:
        self._skills = skills

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        name = arguments["name"].strip()
        bodies = {skill.name: skill.body for skill in await self._skills.all(origin.space)}
        if name not in bodies:
            raise ShowModel(_unknown(name[:64], list(bodies)))
        return bodies[name]


def build(workbench: Workbench) -> Tool | None:
    """None where there are no skills to read."""
    return ReadSkill(workbench.skills) if workbench.skills else None


def _unknown(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"There is no skill {name!r}.{meant} There are: {', '.join(names[:_NAMED]) or 'none'}{more}."
