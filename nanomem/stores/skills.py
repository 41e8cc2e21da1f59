"""Skills as folders with a SKILL.md: a head of YAML between two lines of `---`, then text for the model.

Reads them with suspicion and runs nothing. What is wrong with one is reported once for each state it is in.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from nanomem.ports import Skill
from nanomem.spaces import Space
from nanomem.stores.memory_files import State, open_regular, state_of

log = structlog.get_logger()

PACKAGED = Path(__file__).parent.parent / "skills"
LARGEST = 64 * 1024
"""Bytes of a file."""
LARGEST_HEAD = 4 * 1024
"""Bytes between the two lines of `---`."""
MOST = 200
"""Skills in one place; of more, the first by name."""
_DEEPEST = 3
_BRACKETS = 100  # PyYAML takes eight seconds for 4,000 that are open
_NAME = re.compile(r"\w[\w.-]{0,63}")
_HEAD = re.compile(rb"---[ \t]*\n(.*?\n|)---[ \t]*(?:\n|\Z)", re.DOTALL)


class _Broken(Exception):
    """The file is no skill; the text says why."""


class SkillFolders:
    """`ports.Skills` on folders: those in `packaged`, and those in `skills/` of the owner's space.

    A folder's name is its skill's. `drafts` and names that begin with a dot are none. A file that is as it was is
    not read again.
    """

    def __init__(self, packaged: Path = PACKAGED) -> None:
        self._packaged = packaged
        self._known: dict[Path, tuple[State | str, Skill | None]] = {}

    async def all(self, space: Space) -> Sequence[Skill]:
        """See the port."""
        return await asyncio.to_thread(self._all, space.shared_root / "skills")

    def _all(self, own: Path) -> Sequence[Skill]:
        files = [*self._files(self._packaged), *self._files(own)]
        skills = {skill.name: skill for file in files if (skill := self._skill(file))}
        return [skills[name] for name in sorted(skills)]

    def _files(self, folder: Path) -> list[Path]:
        """The SKILL.md of each folder in it, there or not."""
        try:
            found = sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            self._report(folder, "", f"cannot be read: {error.strerror}")
            return []
        named = (name for name in found if name != "drafts" and not name.startswith("."))
        names = list(islice((name for name in named if os.path.isdir(folder / name)), MOST + 1))
        if len(names) > MOST:
            self._report(folder, names[MOST], f"more than {MOST} skills: those from {names[MOST]} on are left out")
        return [folder / name / "SKILL.md" for name in names[:MOST]]

    def _skill(self, file: Path) -> Skill | None:
        state = _state(file)
        if file not in self._known or self._known[file][0] != state:
            try:
                self._known[file] = state, _read(file)
            except _Broken as error:
                self._report(file, state, str(error))
        return self._known[file][1]

    def _report(self, path: Path, state: State | str, reason: str) -> None:
        if self._known.get(path) != (state, None):
            self._known[path] = state, None
            log.warning("skill.broken", file=str(path), reason=reason)


def _state(file: Path) -> State | str:
    """What changes whenever the file does, or why it cannot be told."""
    try:
        return state_of(os.stat(file))
    except OSError as error:
        return error.strerror or str(error)


def _read(file: Path) -> Skill:
    try:
        with open_regular(file) as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise _Broken(f"cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise _Broken(f"longer than {LARGEST} bytes")
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\0", b"")
    if not (head := _HEAD.match(data)):
        raise _Broken("does not begin with a head between two lines of ---")
    if len(head[1]) > LARGEST_HEAD:
        raise _Broken(f"its head is longer than {LARGEST_HEAD} bytes")
    try:
        fields, body = _fields(head[1].decode()), data[head.end() :].decode().strip()
    except UnicodeDecodeError as error:
        raise _Broken("not UTF-8") from error
    return _made(file.parent.name, fields, body)


def _fields(head: str) -> Mapping[Any, Any]:
    """The head's fields. Nothing in it may refer to anything else in it, which could unfold without end."""
    import yaml

    depth = 0
    if head.count("[") + head.count("{") > _BRACKETS:
        raise _Broken("its head has too many brackets")
    try:
        for event in yaml.parse(head, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST or getattr(event, "anchor", None) or getattr(event, "tag", None):
                raise _Broken("its head has tags, anchors, or too many lists in lists")
        fields = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _Broken(f"its head is no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(fields, dict):
        raise _Broken("its head has no fields")
    return fields


def _made(folder: str, fields: Mapping[Any, Any], body: str) -> Skill:
    name, description = fields.get("name", folder), fields.get("description")
    triggers, always = fields.get("triggers") or [], fields.get("always", False)
    if not _NAME.fullmatch(folder) or name != folder:
        raise _Broken("its name is not its folder's, or has spaces or signs in it")
    if not isinstance(description, str) or not description.strip():
        raise _Broken("its description is no text")
    if not isinstance(triggers, list) or not all(isinstance(trigger, str) and trigger.strip() for trigger in triggers):
        raise _Broken("its triggers are no list of texts")
    if not isinstance(always, bool):
        raise _Broken("its always is neither true nor false")
    if not body:
        raise _Broken("has no text")
    return Skill(name, _line(description), body, tuple(map(_line, triggers)), always)


def _line(text: str) -> str:
    return " ".join(text.split())
