"""How the file tools change a memory file: through its one writer, with an answer that says what became of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nanomem.errors import ShowModel
from nanomem.facts import NAMES, MemoryFiles
from nanomem.ports import Change, Memory, Origin
from nanomem.versions import Verdict, line

_FIELDS = dict(zip(NAMES, ("soul", "user", "memory"), strict=True))
_MOST_LINES = 50


async def rewrite(memory: Memory, origin: Origin, name: str, edit: Callable[[str], str], reason: str = "") -> str:
    """Has the file of that name (one of `NAMES`) become what `edit` makes of it; `reason` is why what it drops goes.

    Raises what `edit` raises, and ShowModel, Refused, CannotStore: nothing was changed.
    """
    if name == "SOUL.md" and not origin.space.is_owners:
        raise ShowModel("SOUL.md is the owner's and kept read-only here. Tell the person that it is not saved.")

    def propose(files: MemoryFiles) -> MemoryFiles:
        return replace(files, **{_FIELDS[name]: edit(files.by_name[name])})

    receipt = await memory.change(origin.space, Change("agent", propose, reason=reason, trailers=origin.trailers))
    return _told(receipt.version.number if receipt.version else None, receipt.verdicts)


def _told(version: int | None, verdicts: Sequence[Verdict]) -> str:
    """The number of the version and what happened to each fact."""
    said = [f"Saved (version {version})." if version else "Nothing to change."]
    said += map(line, verdicts[:_MOST_LINES])
    if len(verdicts) > _MOST_LINES:
        said.append(f"... and {len(verdicts) - _MOST_LINES} more")
    if any(verdict.what == "kept" for verdict in verdicts):
        said.append("What was left out without a reason is put back. To remove a fact, use edit_file.")
    return "\n".join(said)
