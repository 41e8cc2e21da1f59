"""What a model said in the two calls of a Dream: what there is to learn, and how one file shall be. Pure.

Forgiving about form, as `proposal.py` is; an answer that names nothing at all is no answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanomem.arguments import check_arguments, tool_schema
from nanomem.errors import ShowModel
from nanomem.facts import NAMES
from nanomem.messages import ToolSchema
from nanomem.proposal import LONGEST, LOOSE, REMOVED, TEXTS, objects, opened, removals_in, texts
from nanomem.versions import Removal, flat

_UPDATES = {"SOUL.md": "soul_updates", "USER.md": "user_updates", "memory/MEMORY.md": "memory_updates"}
_KNOWN = (*_UPDATES.values(), "outdated")
_SKILL = ("name", "description", "text")

EXTRACT = tool_schema(
    "extract_facts",
    "Say what is worth knowing from now on, and what holds no longer.",
    {},
    user_updates=TEXTS,
    memory_updates=TEXTS,
    soul_updates=TEXTS,
    outdated=REMOVED,
    processed_entries=TEXTS,
    skill_drafts=objects(*_SKILL),
)
_LOOSENED = tool_schema(
    EXTRACT.name, EXTRACT.description, {}, **{name: LOOSE for name in (*_KNOWN, "skill_drafts", "processed_entries")}
)


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill that a model would like to have."""

    name: str
    description: str
    text: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """New facts by the file that they are for, what is outdated, and skills to propose."""

    updates: dict[str, tuple[str, ...]]
    outdated: tuple[Removal, ...] = ()
    skills: tuple[SkillDraft, ...] = ()


def extracted(raw: str) -> Extracted:
    """The meaning of `extract_facts`' arguments. Raises ShowModel: they cannot be used."""
    given = check_arguments(_LOOSENED, raw)
    if not any(name in given for name in _KNOWN):
        raise ShowModel(f"`{EXTRACT.name}` says nothing: give {', '.join(_KNOWN)}, each a list, empty for nothing.")
    updates = {file: _facts(given.get(name, ())) for file, name in _UPDATES.items()}
    if sum(len(fact) for facts in updates.values() for fact in facts) > LONGEST:
        raise ShowModel(f"What there is to learn is longer than {LONGEST:,} characters.")
    drafts = [
        SkillDraft(*(draft.get(name, "") for name in _SKILL)) for draft in texts(given.get("skill_drafts", ()), _SKILL)
    ]
    return Extracted(updates, removals_in(given.get("outdated", ())), tuple(draft for draft in drafts if draft.text))


def joined(parts: Sequence[Extracted]) -> Extracted:
    """All of them as one."""
    return Extracted(
        {file: tuple(dict.fromkeys(fact for part in parts for fact in part.updates[file])) for file in NAMES},
        tuple(dict.fromkeys(removal for part in parts for removal in part.outdated)),
        tuple(draft for part in parts for draft in part.skills),
    )


def update_of(file: str) -> ToolSchema:
    """The schema of the call that says how one file shall be."""
    path = {"type": "string", "enum": [file], "description": "the file, as it is named here"}
    content = "the whole new text of the file"
    return tool_schema("update_file", f"Say how {file} shall be.", {"path": path, "content": content}, removed=REMOVED)


def updated(file: str, raw: str) -> tuple[str, tuple[Removal, ...]]:
    """The new text of a file, and what is left out of it on purpose. Raises ShowModel: it cannot be used."""
    schema = tool_schema("update_file", "", {"path": "", "content": ""}, removed=LOOSE)
    given = check_arguments(schema, raw)
    if given["path"].strip().removeprefix("./") != file:
        raise ShowModel(f"The model answered for another file than {file}.")
    if len(given["content"]) > LONGEST:
        raise ShowModel(f"What {file} shall be is longer than {LONGEST:,} characters.")
    return given["content"], removals_in(given.get("removed", ()))


def _facts(items: Sequence[Any]) -> tuple[str, ...]:
    """Each on one line, without a list marker."""
    said = [item.get("fact") if isinstance(item, Mapping) else item for item in opened(items)]
    flattened = (flat(fact).removeprefix("- ") for fact in said if isinstance(fact, str))
    return tuple(fact for fact in flattened if fact)
