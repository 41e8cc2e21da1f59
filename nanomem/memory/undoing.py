"""Taking a change of the memory back, and going back to a version: both are one more version.

Knows which versions there are and what was taken back; how two changes go together is the ledger's.
"""

from collections.abc import Mapping, Sequence

from nanomem.errors import Refused
from nanomem.memory.judging import made
from nanomem.memory.known import files_before
from nanomem.ports import Change, Memory, Receipt, Versions
from nanomem.spaces import Space
from nanomem.versions import Version

_LONGEST = 80  # characters of a subject that are repeated in another


async def undo(
    memory: Memory, versions: Versions, space: Space, number: int | None, trailers: Mapping[str, str]
) -> Receipt | None:
    """Takes back change `number` alone, or the newest that is in force and no undo itself. None: nothing to undo.

    Idempotent by the trailers' `Id`. Raises Refused (there is no such version, or as the memory does), CannotStore.
    """
    await memory.read(space)
    known = await versions.all(space)
    if version := made(known, trailers):
        return Receipt(version)
    version = _newest(known) if number is None else _numbered(known, number)
    if version is None or _was_found(version):
        return None
    before = await files_before(versions, space, known, version)
    change = Change(
        kind="restore",
        propose=lambda _: before,
        base=version.id,
        reason="undone",
        subject=f"Undo of version {version.number}: {_told(version)}",
        trailers={**trailers, "Undoes": str(version.number)},
    )
    return await _changed(memory, space, change)


async def restore(
    memory: Memory, versions: Versions, space: Space, number: int, trailers: Mapping[str, str]
) -> Receipt | None:
    """The files exactly as at version `number`. None: they are. Idempotent and raises as `undo`."""
    await memory.read(space)
    known = await versions.all(space)
    version = _numbered(known, number)
    wanted = await versions.read(space, version.id)
    subject = f"Version {number}: {_told(version)}"
    change = Change("restore", lambda _: wanted, reason="restored", subject=subject, trailers=trailers)
    return await _changed(memory, space, change)


def undone(known: Sequence[Version]) -> set[int]:
    """The numbers of the versions that are taken back. One whose undo was itself undone is in force again."""
    found: set[int] = set()
    for version in reversed(known):
        number = version.trailers.get("Undoes", "")
        if version.number not in found and number.isdecimal():
            found.add(int(number))
    return found


async def _changed(memory: Memory, space: Space, change: Change) -> Receipt | None:
    receipt = await memory.change(space, change)
    return receipt if receipt.version else None


def _newest(known: Sequence[Version]) -> Version | None:
    gone = undone(known)
    return next(
        (v for v in reversed(known) if v.number not in gone and not v.is_note and "Undoes" not in v.trailers), None
    )


def _numbered(known: Sequence[Version], number: int) -> Version:
    if not 1 <= number <= len(known):
        newest = f"the newest one is {len(known)}" if known else "there are none yet"
        raise Refused(f"There is no version {number}; {newest}.")
    return known[number - 1]


def _was_found(version: Version) -> bool:
    """Whether it is what there was at first: before it there was nothing to go back to."""
    return version.number == 1 and version.kind == "manual"


def _told(version: Version) -> str:
    """Its subject without the kind."""
    told = version.subject.partition("] ")[2] or version.subject
    return told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…"
