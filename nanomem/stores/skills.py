"""Skills as folders with a SKILL.md: a head of YAML between two lines of `---`, then text for the model.

Reads them with suspicion and runs nothing. What is wrong with one is reported once for each state it is in.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import structlog

from nanomem.errors import Refused, ShowModel
from nanomem.ports import Accepted, Skill
from nanomem.skills import mark as mark_of
from nanomem.spaces import Space
from nanomem.stores import durable
from nanomem.stores.memory_files import State, open_regular, state_of

T = TypeVar("T")
log = structlog.get_logger()

PACKAGED = Path(__file__).parent.parent / "skills"
LARGEST = 64 * 1024
"""Bytes of a file."""
LARGEST_HEAD = 4 * 1024
"""Bytes between the two lines of `---`."""
MOST_TRIGGERS = 50
"""Of one skill; each is looked for in every message."""
MOST = 200
"""Skills in one place; of more, the first by name."""
_TOO_LONG = f"longer than {LARGEST} bytes"
_FILE, _DRAFTS, _REPLACED = "SKILL.md", "drafts", ".replaced"
_DEEPEST = 3
_BRACKETS = 100  # PyYAML takes eight seconds for 4,000 that are open
_NAME = re.compile(r"\w[\w.-]{0,63}")
_HEAD = re.compile(rb"---[ \t]*\n(.*?\n|)---[ \t]*(?:\n|\Z)", re.DOTALL)
_NO_TEXT = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\udfff]")  # YAML has escapes for what a file may not hold


class _Broken(Exception):
    """The file is no skill; the text says why."""


class SkillFolders:
    """`ports.Skills` on folders: those in `packaged`, and those in `skills/` of the owner's space.

    A folder's name is its skill's. `drafts` and names that begin with a dot are none. A file that is as it was is
    not read again.
    """

    def __init__(self, packaged: Path = PACKAGED) -> None:
        self._packaged = packaged
        self._known: dict[Path, tuple[State | str, Skill | str]] = {}
        self._lock = Lock()  # whoever looks while a draft moves would see a folder without its file

    async def all(self, space: Space) -> Sequence[Skill]:
        """See the port."""
        return await asyncio.to_thread(self._alone, self._all, space)

    async def problems(self, space: Space) -> Mapping[str, str]:
        """See the port. The places are paths below the space; of what is the package's, whole ones."""
        return await asyncio.to_thread(self._alone, self._problems, space)

    async def text(self, space: Space, name: str) -> str | None:
        """See the port."""
        return await asyncio.to_thread(self._alone, self._text, space, name)

    async def drafts(self, space: Space) -> Sequence[Skill]:
        """See the port."""
        return await asyncio.to_thread(self._alone, lambda: self._skills(self._drafts(space)))

    async def draft(self, space: Space, name: str, text: str) -> Skill:
        """See the port. It is `skills/drafts/NAME/SKILL.md`."""
        return await durable.finished(self._alone, self._draft, space, name, text)

    async def accept(self, space: Space, name: str, mark: str = "") -> Accepted | None:
        """See the port. What it replaces is kept in `skills/.replaced/NAME-N/SKILL.md`."""
        return await durable.finished(self._alone, self._accept, space, name, mark)

    def _alone(self, work: Callable[..., T], *arguments: Any) -> T:
        with self._lock:
            return work(*arguments)

    def _all(self, space: Space) -> Sequence[Skill]:
        mine = [replace(skill, own=True) for skill in self._skills(self._files(_own(space)))]
        skills = {skill.name: skill for skill in (*self._skills(self._files(self._packaged)), *mine)}
        return [skills[name] for name in sorted(skills)]

    def _problems(self, space: Space) -> Mapping[str, str]:
        own = _own(space)
        files = [*self._files(self._packaged), *self._files(own), *self._drafts(space)]
        for file in files:
            self._look(file)
        found = {path: self._known.get(path) for path in (self._packaged, own, own / _DRAFTS, *files)}
        return {
            _shown(path, space): _printable(seen[1])
            for path, seen in found.items()
            if seen and isinstance(seen[1], str)
        }

    def _text(self, space: Space, name: str) -> str | None:
        own = _own(space)
        drafts = [own / _DRAFTS] if space.is_owners else []
        files = [folder / name / _FILE for folder in (*drafts, own, self._packaged)] if _is_name(name) else []
        for file in filter(os.path.lexists, files):
            try:
                return _plain(_read(file)).decode()
            except (_Broken, UnicodeDecodeError) as error:
                reason = error if isinstance(error, _Broken) else "not UTF-8"
                raise ShowModel(f"The file of {name} cannot be used: {reason}. It has to be written anew.") from None
        return None

    def _draft(self, space: Space, name: str, text: str) -> Skill:
        _only_owners(space)
        try:
            skill = skill_of(name, text)
        except ValueError as error:
            raise ShowModel(f"Nothing was written, as this is no skill: {error}. {_form(name)}") from None
        file = _own(space) / _DRAFTS / name / _FILE
        drafts = self._drafts(space)
        if file not in drafts and len(drafts) >= MOST:
            raise Refused(f"There are {MOST} drafts already. The owner has to accept or delete some first.")
        durable.replace(file, text.encode())
        self._known.pop(file, None)
        log.info("skill.drafted", name=name)
        return skill

    def _accept(self, space: Space, name: str, mark: str) -> Accepted | None:
        _only_owners(space)
        if not _is_name(name):
            return None
        own = _own(space)
        draft, file = own / _DRAFTS / name / _FILE, own / name / _FILE
        if not os.path.lexists(draft):
            return self._accepted(file, mark) if os.path.lexists(file) else None
        try:
            data = _read(draft)
            skill = replace(_made_of(name, data), own=True)
        except _Broken as error:
            raise Refused(f"The draft {name} cannot be used: {error}.") from None
        if not _is_marked(data, mark):
            raise Refused(f"The draft {name} has changed since: see /skills show {name}.")
        kept = _put(data, file, own / _REPLACED)
        durable.remove(draft)
        _remove_empty(draft.parent)
        self._known.pop(file, None)
        log.info("skill.accepted", name=name)
        return Accepted(skill, _shown(kept, space) if kept else "")

    def _accepted(self, file: Path, mark: str) -> Accepted | None:
        """What was taken in before, if it can still be used and is that text."""
        with suppress(_Broken):
            data = _read(file)
            skill = replace(_made_of(file.parent.name, data), own=True)
            return Accepted(skill) if _is_marked(data, mark) else None
        return None

    def _drafts(self, space: Space) -> list[Path]:
        """The drafts' files; a folder without one may be what a crash has left."""
        files = self._files(_own(space) / _DRAFTS) if space.is_owners else []
        return [file for file in files if os.path.lexists(file)]

    def _files(self, folder: Path) -> list[Path]:
        """The SKILL.md of each folder in it, there or not."""
        try:
            found = sorted(os.listdir(folder))
        except FileNotFoundError:
            found = []
        except OSError as error:
            self._report(folder, "", f"cannot be read: {error.strerror}")
            return []
        named = (name for name in found if name.casefold() != _DRAFTS and not name.startswith("."))
        names = list(islice((name for name in named if os.path.isdir(folder / name)), MOST + 1))
        if len(names) > MOST:
            self._report(folder, names[MOST], f"more than {MOST} skills: those from {names[MOST]} on are left out")
        else:
            self._known.pop(folder, None)
        return [folder / name / _FILE for name in names[:MOST]]

    def _skills(self, files: Sequence[Path]) -> list[Skill]:
        return [skill for file in files if isinstance(skill := self._look(file), Skill)]

    def _look(self, file: Path) -> Skill | str:
        """The skill, or what is wrong with it."""
        state = _state(file)
        if file not in self._known or self._known[file][0] != state:
            try:
                self._known[file] = state, _made_of(file.parent.name, _read(file))
            except _Broken as error:
                self._report(file, state, str(error))
        return self._known[file][1]

    def _report(self, path: Path, state: State | str, reason: str) -> None:
        if self._known.get(path) != (state, reason):
            self._known[path] = state, reason
            log.warning("skill.broken", file=_printable(str(path)), reason=_printable(reason))


def skill_of(name: str, text: str) -> Skill:
    """The skill that a file of that text in a folder of that name is. Raises ValueError, whose text says why not."""
    try:
        return _made_of(name, text.encode("utf-8", "surrogatepass"))
    except _Broken as error:
        raise ValueError(str(error)) from None


def _own(space: Space) -> Path:
    return space.shared_root / "skills"


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.casefold() != _DRAFTS


def _only_owners(space: Space) -> None:
    """What is said to others must not come into the owner's prompt."""
    if not space.is_owners:
        raise Refused("Skills are written in the owner's private chats only. Nothing was saved.")


def _form(name: str) -> str:
    head = f"---\nname: {_printable(name[:64])}\ndescription: when to read it, in a line\n---"
    return f"It begins like this:\n{head}\nWhat to do."


def _shown(path: Path, space: Space) -> str:
    below = path.is_relative_to(space.shared_root)
    return _printable(str(path.relative_to(space.shared_root) if below else path))


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _put(data: bytes, file: Path, replaced: Path) -> Path | None:
    """Puts an accepted skill in place; where what it replaced is kept. Raises CannotStore, Stop."""
    with suppress(_Broken):
        if _read(file) == data:  # a crash came before the draft could go
            return None
    name = file.parent.name
    kept = next(folder for n in count(1) if not os.path.lexists(folder := replaced / f"{name}-{n}")) / _FILE
    try:
        return kept if durable.exchange(file, data, kept) else None
    finally:
        _remove_empty(kept.parent, replaced)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _state(file: Path) -> State | str:
    """What changes whenever the file does, or why it cannot be told."""
    try:
        return state_of(os.stat(file))
    except OSError as error:
        return error.strerror or str(error)


def _read(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise _Broken(f"cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise _Broken(_TOO_LONG)
    return data


def _plain(data: bytes) -> bytes:
    """Without what editors add: a mark at the beginning, line ends of another system."""
    return data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\0", b"")


def _is_marked(data: bytes, mark: str) -> bool:
    """Whether it is the text with that mark; without one any is."""
    return not mark or mark_of(_plain(data).decode("utf-8", "replace")) == mark


def _made_of(name: str, data: bytes) -> Skill:
    """The skill in a folder of that name. Raises _Broken."""
    if len(data) > LARGEST:
        raise _Broken(_TOO_LONG)
    data = _plain(data)
    if not (head := _HEAD.match(data)):
        raise _Broken("does not begin with a head between two lines of ---")
    if len(head[1]) > LARGEST_HEAD:
        raise _Broken(f"its head is longer than {LARGEST_HEAD} bytes")
    try:
        fields, body = _fields(head[1].decode()), data[head.end() :].decode().strip()
    except UnicodeDecodeError as error:
        raise _Broken("not UTF-8") from error
    return _made(name, fields, body)


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
    if not _is_name(folder) or name != folder:
        raise _Broken("its name is not its folder's, or has spaces or signs in it")
    if not isinstance(description, str) or not description.strip():
        raise _Broken("its description is no text")
    if not isinstance(triggers, list) or not all(isinstance(trigger, str) and trigger.strip() for trigger in triggers):
        raise _Broken("its triggers are no list of texts")
    if len(triggers) > MOST_TRIGGERS:
        raise _Broken(f"more than {MOST_TRIGGERS} triggers")
    if any(map(_NO_TEXT.search, map(_line, (description, *triggers)))):
        raise _Broken("its description or a trigger has signs in it that are no text")
    if not isinstance(always, bool):
        raise _Broken("its always is neither true nor false")
    if not body:
        raise _Broken("has no text")
    return Skill(name, _line(description), body, tuple(map(_line, triggers)), always)


def _line(text: str) -> str:
    return " ".join(text.split())
