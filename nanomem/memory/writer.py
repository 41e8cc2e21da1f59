"""The one writer of a space's memory, whoever asks. Knows nothing of git, of a disk, or of what a fact is.

What a person has edited is committed first, then what is asked for; then the files are put in place, and what was
replaced is compared with what was read; then `placed` follows. All of it but the commit of what is asked for is
`_settle`, which goes by what it finds: so after a crash between any two writes the next look does the rest, whoever
takes it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from nanomem.errors import CannotStore, Refused
from nanomem.facts import NAMES, MemoryFiles
from nanomem.memory.judging import LEARNT, decided, given_way, made, outgrown, readable, told
from nanomem.memory.manners import Manners
from nanomem.ports import EMPTY, LARGEST_FILE, Change, Clock, Receipt, Versions, WorkingFiles
from nanomem.spaces import OWNER, Space
from nanomem.versions import Version

log = structlog.get_logger()

COVERED = ("SOUL.md", "USER.md")
"""Files that commands are kept from one by one; MEMORY.md is in a folder that they are kept from."""
_SPACES = 64  # as many are known to be settled at a time

Found = Mapping[str, str | None]


class MemoryWriter:
    """`ports.Memory` on versions and files. `changed` is told of each commit; `still` holds off a space's commands.

    What it makes of the files it finds:
    - With no version yet, those with something in them are version 1. A space with nothing in it has no version
      until something is to be kept there; then nothing is version 1.
    - A file that is as at `placed`, which is behind: a write that was not finished. It is finished.
    - A missing one is put back.
    - Any other difference is a person's edit. It stands as it is; but where the memory has changed since the person
      read it, it is merged.
    - An empty one is an edit, too: each fact in it is removed by hand. SOUL.md or USER.md may also be empty because a
      command runs, which has it covered; so that is believed only while none does. A crash of the machine during a
      command may leave an empty file where one was missing; that is then taken for an edit, and `/undo` undoes it.
    """

    def __init__(
        self,
        versions: Versions,
        files: WorkingFiles,
        clock: Clock,
        changed: Callable[[Space], None],
        still: Callable[[Space], AbstractAsyncContextManager[object]],
    ) -> None:
        self._versions = versions
        self._files = files
        self._clock = clock
        self._changed = changed
        self._still = still
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._waiting: set[Path] = set()
        self._settled: OrderedDict[Path, tuple[str, Found]] = OrderedDict()
        self._reported: dict[Path, str] = {}
        self._manners = Manners(versions)

    async def read(self, space: Space) -> MemoryFiles:
        """See the port. Waits for a command only where SOUL.md or USER.md has to be put in place, and only one caller.

        SOUL.md is the owner's in every space; in others as a person last wrote it, since what was learnt about
        the owner is for the owner alone.
        """
        try:
            files = await self._known(space)
            self._reported.pop(space.root, None)
        except (Refused, CannotStore) as error:
            self._report(space, error)
            files = await self._as_far_as_known(space, error)
        if not space.is_owners:
            files = replace(files, soul=await self._manner(Space(OWNER, space.shared_root, space.shared_root)))
        return readable(files)

    async def change(self, space: Space, change: Change) -> Receipt:
        """See the port. What is committed but could not be put in place for want of room is put there later."""
        receipt: Receipt | None = None
        for alone in (False, True):
            async with self._held(space, alone):
                if receipt is None and await self._settle(space, alone):
                    receipt = await self._make(space, change)
                if receipt is not None and await self._put_in_place(space, alone):
                    return receipt
        raise AssertionError("who is alone with a space settles it")

    # --- what is known

    async def _known(self, space: Space) -> MemoryFiles:
        for alone in (False, True):
            if alone and space.root in self._waiting:
                break
            async with self._held(space, alone):
                if await self._settle(space, alone):
                    return _as_files(self._settled[space.root][1] if space.root in self._settled else {})
        return await self._newest(space)

    async def _as_far_as_known(self, space: Space, error: Exception) -> MemoryFiles:
        """The newest version where a file cannot be used; the files as they are where nothing can be stored."""
        if isinstance(error, CannotStore):
            with suppress(Refused):
                return _as_files(await self._files.read(space))
        with suppress(CannotStore):
            return await self._newest(space)
        return MemoryFiles()

    async def _manner(self, owners: Space) -> str:
        await self.read(owners)
        try:
            return await self._manners.of(owners)
        except CannotStore as error:
            self._report(owners, error)
            return ""

    async def _newest(self, space: Space) -> MemoryFiles:
        known = await self._versions.all(space)
        return await self._at(space, known[-1].id if known else None)

    async def _at(self, space: Space, version: str | None, otherwise: MemoryFiles | None = None) -> MemoryFiles:
        """The files at a version; `otherwise` or none where it is not known (any more)."""
        with suppress(KeyError):
            if version is not None:
                return await self._versions.read(space, version)
        return otherwise or MemoryFiles()

    # --- what is written, in this order

    @asynccontextmanager
    async def _held(self, space: Space, alone: bool) -> AsyncIterator[None]:
        """The space for one writer; `alone`: and for none of its commands, which are waited for first, so that nobody
        who only wants to read has to."""
        lock = self._locks.setdefault(space.root, asyncio.Lock())
        if not alone:
            async with lock:
                yield
            return
        self._waiting.add(space.root)
        try:
            async with self._still(space), lock:
                yield
        finally:
            self._waiting.discard(space.root)

    async def _settle(self, space: Space, alone: bool) -> bool:
        """Makes the versions and the files say the same. False: it takes to be `alone`; what it did so far holds."""
        known = await self._versions.all(space)
        found = await self._files.read(space)
        if known and self._settled.get(space.root) == (known[-1].id, found):
            return True
        head = await self._at(space, known[-1].id if known else None)
        if not alone and any(found.get(name) == "" != head.by_name[name] for name in COVERED):
            return False
        base = await self._edited_from(space, known, found, head)
        seen = (base.by_name, head.by_name, found)
        for name, text in (await self._files.left(space)).items():
            if all(text != texts[name] for texts in seen):
                head = await self._take_in(space, base, {name: text}, head)
            await self._files.compared(space, name)
        head = await self._take_in(space, base, found, head)
        late = [name for name, text in found.items() if (text or "") != head.by_name[name]]
        if not alone and any(name in COVERED for name in late):
            return False
        if not await self._place(space, late, found, head):
            return await self._settle(space, alone)
        await self._note(space, {**found, **{name: head.by_name[name] for name in late}})
        return True

    async def _edited_from(
        self, space: Space, known: Sequence[Version], found: Found, head: MemoryFiles
    ) -> MemoryFiles:
        """What a person had before them: the version that `placed` names.

        But one that was made of the files themselves was in place before it was a version. If `placed` does not
        follow it yet, that is the newest one, a person's, and no file is as it was before it.
        """
        placed = await self._versions.placed(space)
        base = await self._at(space, placed)
        before = known[-2].id if len(known) > 1 else None
        taken_in = bool(known) and known[-1].kind == "manual" and placed == before
        return head if taken_in and not any(_is_late(name, found, base, head) for name in found) else base

    async def _take_in(self, space: Space, base: MemoryFiles, texts: Found, head: MemoryFiles) -> MemoryFiles:
        """Commits what of the texts a person has written; returns the files of the newest version then."""
        old, new = base.by_name, head.by_name
        edits = {name: text for name, text in texts.items() if text not in (None, old[name], new[name])}
        if not edits:
            return head
        first = "" if await self._versions.all(space) else "First version"
        edited = _as_files({**old, **edits})
        change = Change("manual", lambda _: edited, reason="by hand", subject=first)
        receipt = await self._commit(space, change, base, head)
        return head if receipt.version is None else await self._at(space, receipt.version.id)

    async def _make(self, space: Space, change: Change) -> Receipt:
        known = await self._versions.all(space)
        if version := made(known, change.trailers):
            return Receipt(version)
        head = await self._at(space, known[-1].id if known else None)
        base = head if change.base is None else await self._at(space, change.base, head)
        return await self._commit(space, change, MemoryFiles() if change.base == EMPTY else base, head)

    async def _commit(self, space: Space, change: Change, base: MemoryFiles, head: MemoryFiles) -> Receipt:
        proposal = await asyncio.to_thread(change.propose, readable(base))
        if not space.is_owners:
            proposal = replace(proposal, soul="")
        result = await asyncio.to_thread(decided, change, base, proposal, head)  # long memories take a second
        if change.kind in LEARNT and base != head and (yielded := given_way(base, proposal, result.files)):
            log.info("memory.person_goes_first", space=space.name, kind=change.kind, facts=yielded)
        if result.files == head and not (change.kind in LEARNT and result.verdicts):
            return Receipt(None, result.verdicts)
        if change.kind != "manual" and (name := outgrown(result.files, head)):
            raise Refused(f"{name} would become larger than {LARGEST_FILE // 1024} kB. Take out what is not needed.")
        if change.kind != "manual" and not await self._versions.all(space):
            first = told(Change("manual", lambda files: files, subject="First version"), ())
            await self._versions.commit(space, MemoryFiles(), first, self._clock.now())
        text = told(change, result.verdicts)
        version = await self._versions.commit(space, result.files, text, self._clock.now())
        log.info("memory.changed", space=space.name, version=version.number, kind=change.kind)
        self._changed(space)
        return Receipt(version, result.verdicts)

    async def _put_in_place(self, space: Space, alone: bool) -> bool:
        """Settles what is committed, which stays so if that cannot be done now."""
        try:
            return await self._settle(space, alone)
        except (CannotStore, Refused) as error:
            self._report(space, error)
            return True

    async def _place(self, space: Space, late: Sequence[str], found: Found, head: MemoryFiles) -> bool:
        """False: somebody has written a file meanwhile; what it was is kept for the next look."""
        for name in late:
            replaced = await self._files.place(space, name, head.by_name[name])
            if replaced == (found[name] or ""):
                await self._files.compared(space, name)
        return not await self._files.left(space)

    async def _note(self, space: Space, found: Found) -> None:
        """The files are the newest version, and it is known that they are."""
        known = await self._versions.all(space)
        if not known:
            return
        if await self._versions.placed(space) != known[-1].id:
            await self._versions.set_placed(space, known[-1].id)
        self._settled[space.root] = (known[-1].id, found)
        self._settled.move_to_end(space.root)
        if len(self._settled) > _SPACES:
            self._settled.popitem(last=False)

    def _report(self, space: Space, error: Refused | CannotStore) -> None:
        """Once for each state of a space."""
        if self._reported.get(space.root) != error.text:
            self._reported[space.root] = error.text
            log.warning("memory.damaged", space=space.name, reason=error.text)


def _as_files(texts: Found) -> MemoryFiles:
    return MemoryFiles(*(texts.get(name) or "" for name in NAMES))


def _is_late(name: str, found: Found, base: MemoryFiles, head: MemoryFiles) -> bool:
    return found[name] == base.by_name[name] != head.by_name[name]
