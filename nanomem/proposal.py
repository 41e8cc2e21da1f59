"""What a model said in `save_memory`, and the memory it wants. Pure.

Forgiving about form, as `arguments.py` is; what has no history entry or no wish for the memory is no answer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from nanomem.arguments import check_arguments, tool_schema
from nanomem.errors import ShowModel
from nanomem.messages import ToolSchema
from nanomem.records import Edit
from nanomem.versions import Removal

NAME = "save_memory"
LONGEST = 250_000
"""Characters of what one call may want of the memory."""
_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+|\s*")
_COMMENT = re.compile(r"<!--.*?-->")
_DESCRIPTION = "Save what this part of the conversation was about, and what the memory shall be."
TEXTS = {"type": "array", "items": {"type": "string"}}


def objects(*names: str) -> dict[str, Any]:
    """The JSON Schema of a list of objects that have texts under these names."""
    properties = {name: {"type": "string"} for name in names}
    return {"type": "array", "items": {"type": "object", "properties": properties}}


REMOVED = objects("fact", "reason")
_EDIT = tuple(field.name for field in fields(Edit))
_CHANGES = objects(*_EDIT)
LOOSE = {"type": "array", "items": {}}

WHOLE = tool_schema(
    NAME,
    _DESCRIPTION,
    {"history_entry": "what it was about", "memory_update": "the whole new text of the memory"},
    key_facts=TEXTS,
    removed=REMOVED,
)
IN_CHANGES = tool_schema(
    NAME, _DESCRIPTION, {"history_entry": "what it was about", "changes": _CHANGES}, key_facts=TEXTS, removed=REMOVED
)


@dataclass(frozen=True, slots=True)
class Distilled:
    """What a stretch comes down to. Either `memory_update` or `changes` is there."""

    history_entry: str
    key_facts: tuple[str, ...] = ()
    memory_update: str | None = None
    changes: tuple[Edit, ...] | None = None
    removed: tuple[Removal, ...] = ()


def understood(schema: ToolSchema, raw: str) -> Distilled:
    """The meaning of a call's arguments. Raises ShowModel: they cannot be used."""
    given = check_arguments(_loosened(schema), raw)
    entry = str(given["history_entry"]).strip()
    if not entry:
        raise ShowModel("`history_entry` is empty.")
    update, wishes = given.get("memory_update"), given.get("changes")
    if update is None and wishes is None:
        raise ShowModel(f"`{'changes' if schema is IN_CHANGES else 'memory_update'}` is missing.")
    edits = texts(wishes or (), _EDIT)
    if len(update or "") + sum(len(text) for edit in edits for text in edit.values()) > LONGEST:
        raise ShowModel(f"What it shall be is longer than {LONGEST:,} characters.")
    if wishes and not any(edits):
        raise ShowModel(f"`changes` has to be a list of objects with {', '.join(_EDIT)}.")
    return Distilled(
        history_entry=entry,
        key_facts=tuple(fact for fact in map(str.strip, given.get("key_facts", ())) if fact),
        memory_update=update,
        changes=None if wishes is None else tuple(Edit(**edit) for edit in edits),
        removed=removals_in(given.get("removed", ())),
    )


def removals_in(items: Sequence[Any]) -> tuple[Removal, ...]:
    """What shall go, of a list of objects with `fact` and `reason`; a fact may be quoted with the mark behind it."""
    found = texts(items, ("fact", "reason"))
    return tuple(Removal(_COMMENT.sub("", one.get("fact", "")).strip(), one.get("reason", "")) for one in found)


def _loosened(schema: ToolSchema) -> ToolSchema:
    """The schema with either way to say what the memory shall be, and with lists of anything in place of lists of
    objects: one bad item does not spoil the others."""
    properties = {**schema.parameters["properties"], "memory_update": {"type": "string"}}
    loose = {name: LOOSE for name in ("removed", "changes")}
    return ToolSchema(
        schema.name, schema.description, {"properties": properties | loose, "required": ["history_entry"]}
    )


def texts(items: Sequence[Any], known: Sequence[str]) -> list[dict[str, str]]:
    """The texts under known names of each object among the items."""
    return [
        {name: _text(item[name]) for name in known if item.get(name) is not None}
        for item in opened(items)
        if isinstance(item, Mapping)
    ]


def opened(items: Sequence[Any]) -> Sequence[Any]:
    """The items of a list that may be one text of JSON."""
    if len(items) == 1 and isinstance(items[0], str) and items[0].lstrip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(items[0])
            return parsed if isinstance(parsed, list) else [parsed]
    return items


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def removals(removed: Sequence[Removal], changes: Sequence[Edit]) -> list[Removal]:
    """All that shall go, with its reason; a change with a reason lets the old wording go."""
    explained = [Removal(edit.remove or edit.change, edit.reason) for edit in changes if edit.reason.strip()]
    return [*removed, *(removal for removal in explained if removal.fact.strip())]


def edited(memory: str, changes: Sequence[Edit]) -> str:
    """The memory with the changes made, as a proposal: what is not found in it is left alone, or added as new."""
    lines = memory.split("\n")
    for edit in changes:
        new = " ".join(edit.to.split())
        if edit.change.strip() and new:
            place = _place(lines, edit.change)
            if place is None:
                lines.append(_item(new))
            else:
                lines[place] = _marker(lines[place]) + new[len(_marker(new)) :]
        elif edit.reason.strip() and (place := _place(lines, edit.remove)) is not None:
            del lines[place]
        if edit.add.strip():
            lines.append(_item(" ".join(edit.add.split())))
    return "\n".join(lines)


def _place(lines: Sequence[str], fact: str) -> int | None:
    wanted = _words(fact)
    return next((i for i, line in enumerate(lines) if wanted and _words(line) == wanted), None)


def _marker(line: str) -> str:
    found = _MARKER.match(line)
    return found[0] if found else ""


def _words(line: str) -> str:
    """A fact as it is compared: without its list marker, a comment behind it, and the last full stop."""
    plain = _COMMENT.sub("", line)
    return " ".join(plain[len(_marker(plain)) :].split()).rstrip(".").casefold()


def _item(text: str) -> str:
    return text if _marker(text) or text.startswith(("|", "#")) else f"- {text}"
