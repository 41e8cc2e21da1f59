"""What people ask of the memory, in the chat or from a shell: one function, whose answers are texts for people."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from difflib import unified_diff
from typing import Any

from nanomem.errors import Refused
from nanomem.facts import MemoryFiles
from nanomem.memory.known import files_before
from nanomem.memory.undoing import restore
from nanomem.memory.why import Why, as_text, own
from nanomem.ports import History, Memory, Versions
from nanomem.skills import fenced
from nanomem.spaces import OWNER, Space
from nanomem.versions import Version

A_PAGE = 20
"""Versions that are listed at once where pages are asked for."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What knows the answers. `search` looks through what was said in a space; `zone` is that of people."""

    memory: Memory
    versions: Versions
    history: History
    why: Why
    search: Callable[[Space, str], Awaitable[str]]
    zone: tzinfo


async def answer(parts: Parts, what: str, space: Space, argument: str = "") -> str:
    """The answer to `show`, `log [PAGE]`, `diff [N]`, `restore N`, `why WORDS`, `search WORDS` or `rebuild`.

    Raises Refused, with a word on what to ask instead, and CannotStore.
    """
    files = await parts.memory.read(space)  # with it comes in what a person has edited since
    match what:
        case "show":
            return show(own(space, files), space)
        case "log":
            page = number(argument) if argument else None
            return listed(await parts.versions.all(space), page, parts.zone, "/memory log")
        case "diff":
            return await diff(parts.versions, space, number(argument) if argument else None, parts.zone)
        case "restore":
            return await restored(parts, space, number(argument), {})
        case "why":
            return as_text(await parts.why.explain(space, _words(argument)), argument, parts.zone)
        case "search":
            return await parts.search(space, argument)
        case "rebuild":
            needed = await parts.history.repair(space)
            return f"HISTORY.md {'did not fit history.jsonl and is rebuilt' if needed else 'fits history.jsonl'}."
    raise Refused(f"The memory knows no {what[:50]!r}.")


async def answer_client(parts: Parts, named: Callable[[str], Space], asked: Mapping[str, Any]) -> dict[str, Any]:
    """As `answer`, for a client of the daemon: `what`, `argument` and the name of the `space` as it sent them."""
    what, space, argument = (str(asked.get(name, "")) for name in ("what", "space", "argument"))
    return {"text": await answer(parts, what, named(space or OWNER), argument)}


def number(text: str) -> int:
    """A number that somebody typed. Raises Refused."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Refused(f"A number is needed, not {text[:50]!r}.")
    return int(text)


def show(files: MemoryFiles, space: Space) -> str:
    """What is known, file by file."""
    names = files.by_name if space.is_owners else [name for name in files.by_name if name != "SOUL.md"]
    parts = [f"# {name.rpartition('/')[2]}\n\n{files.by_name[name].strip() or '(empty)'}" for name in names]
    return "\n\n".join(parts)


def listed(versions: Sequence[Version], page: int | None, zone: tzinfo, command: str) -> str:
    """The versions, a line each, the newest first; without a page all of them. `command` shows further pages."""
    lines = [line_of(version, zone) for version in reversed(versions)]
    if page is None:
        return "\n".join(lines) or "There are no versions yet."
    pages = max(1, -(-len(lines) // A_PAGE))
    if not 1 <= page <= pages:
        raise Refused(f"There is no page {page}; the last one is {pages}.")
    shown = lines[(page - 1) * A_PAGE : page * A_PAGE]
    if page < pages:
        shown.append(f"Older ones: {command} {page + 1}")
    return "\n".join(shown) or "There are no versions yet."


def line_of(version: Version, zone: tzinfo) -> str:
    """`N  YYYY-MM-DD HH:MM  subject`."""
    return f"{version.number}  {version.at.astimezone(zone):%Y-%m-%d %H:%M}  {version.subject}"


async def diff(versions: Versions, space: Space, wanted: int | None, zone: tzinfo) -> str:
    """What a version changed, the newest one if none is named: its lines, and what went in and out of the files.

    Raises Refused: there is no such version.
    """
    known = await versions.all(space)
    if not known and wanted is None:
        return "There are no versions yet."
    if wanted is not None and not 1 <= wanted <= len(known):
        raise Refused(f"There is no version {wanted}; the newest one is {len(known)}.")
    version = known[(wanted or len(known)) - 1]
    after = await versions.read(space, version.id)
    before = await files_before(versions, space, known, version)
    changed = await asyncio.to_thread(_lines_of_diff, before, after)
    body = "\n".join((*version.lines, "", *changed)).strip("\n")
    return f"{line_of(version, zone)}\n{fenced(body or '(nothing changed)')}"


def _lines_of_diff(before: MemoryFiles, after: MemoryFiles) -> list[str]:
    found: list[str] = []
    for name, text in after.by_name.items():
        old = before.by_name[name].splitlines()
        found += unified_diff(old, text.splitlines(), f"a/{name}", f"b/{name}", lineterm="")
    return found


async def restored(parts: Parts, space: Space, wanted: int, trailers: Mapping[str, str]) -> str:
    """Goes back to a version. Raises Refused, CannotStore."""
    receipt = await restore(parts.memory, parts.versions, space, wanted, trailers)
    if receipt is None or receipt.version is None:
        return "Nothing to restore."
    return f"Restored version {wanted} as version {receipt.version.number}."


def _words(argument: str) -> str:
    if not argument.strip():
        raise Refused("Say what to look for: some words of it.")
    return argument.strip()
