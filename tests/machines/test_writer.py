"""The memory's writer against a set of facts, over real files and real versions.

A person, the agent, proposals of a model, undo and restore change the memory, at once or one after the other, and the
process dies before any change of the disk. Then each fact is where the model has it, and versions tell of each why.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from nanomem.facts import NAMES, MemoryFiles, facts
from nanomem.memory.undoing import restore, undo
from nanomem.memory.writer import MemoryWriter
from nanomem.ports import EMPTY, Change
from nanomem.remembering import bare, remembered
from nanomem.spaces import Space
from nanomem.stores.memory_files import PlainWorkingFiles
from nanomem.stores.versions import GitVersions
from nanomem.testing import FakeClock
from nanomem.tools.stillness import Stillness
from nanomem.versions import Removal
from tests.machines.playing import Machine, play

MEMORY = "memory/MEMORY.md"
Known = frozenset[tuple[str, str]]
"""Facts, each with the name of its file."""
names = st.sampled_from(NAMES)
shares = st.floats(0, 1)
deaths = st.just(0) | st.integers(1, 60)
"""Before which change of the disk; 0: none."""


@dataclass(frozen=True)
class Thought:
    """What a model was shown and has not answered yet."""

    base: str
    files: MemoryFiles


class WriterMachine(Machine):
    """The owner's space. `known` is what has to be in its files, `at` what it was at each version."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Space("owner", self.folder / "workspace", self.folder / "workspace")
        (self.space.root / "memory").mkdir(parents=True)
        self.known: Known = frozenset()
        self.at: dict[str, Known] = {}
        self.seen: list[str] = []
        self.number = 0
        self.thought: Thought | None = None
        self.restarts()

    @rule()
    def restarts(self) -> None:
        """Another process."""
        self.disk.restart()
        self.versions = GitVersions(self.folder / "versions")
        self.files = PlainWorkingFiles()
        self.writer = MemoryWriter(self.versions, self.files, FakeClock(), lambda space: None, Stillness())

    # --- what is asked for

    @rule(dies=deaths)
    def remembers(self, dies: int) -> None:
        """One more fact."""
        fact = self.new_fact()
        self.changes(lambda: self.change(remembered(fact, {"Id": fact})), {*self.known, (MEMORY, fact)}, dies)

    @rule(dies=deaths)
    def is_asked_again(self, dies: int) -> None:
        """What a person took out since does not come back when the same wish is made once more."""
        fact = self.new_fact()
        wish = remembered(fact, {"Id": fact})
        self.changes(lambda: self.change(wish), {*self.known, (MEMORY, fact)}, dies)
        self.save(MEMORY, [line for line in self.lines(MEMORY) if bare(line) != fact])
        self.known -= {(MEMORY, fact)}
        self.changes(lambda: self.change(wish), self.known, dies)

    @rule(dies=deaths)
    def remember_at_once(self, dies: int) -> None:
        """Two facts, and somebody reads."""
        one, two = self.new_fact(), self.new_fact()

        async def both() -> None:
            wishes = [remembered(fact, {"Id": fact}) for fact in (one, two)]
            await together(*(self.writer.change(self.space, wish) for wish in wishes), self.writer.read(self.space))

        known = self.known
        self.changes(
            both, {*known, (MEMORY, one), (MEMORY, two)}, dies, {*known, (MEMORY, one)}, {*known, (MEMORY, two)}
        )

    @rule()
    def is_shown(self) -> None:
        """A model sees the memory as it is; its answer comes later."""
        files = self.run(self.writer.read(self.space))
        versions = self.run(self.versions.all(self.space))
        self.thought = Thought(versions[-1].id if versions else EMPTY, files)

    @precondition(lambda self: self.thought)
    @rule(
        dropped=st.sets(st.integers(0, 20), max_size=3),
        lost=st.sets(st.integers(0, 20), max_size=3),
        added=st.lists(names, max_size=2),
        dies=deaths,
    )
    def proposes(self, dropped: set[int], lost: set[int], added: Sequence[str], dies: int) -> None:
        """A model's answer leaves some facts out with a reason, some without, and adds some."""
        assert self.thought
        thought, self.thought = self.thought, None
        base = known_in(thought.files)
        old = sorted(base)
        gone = {old[at] for at in dropped if at < len(old)}
        left_out = gone | {old[at] for at in lost if at < len(old)}
        new = {(name, self.new_fact()) for name in added}
        texts = {
            name: "".join(
                f"- {fact}\n" for file, fact in [*old, *sorted(new)] if file == name and (file, fact) not in left_out
            )
            for name in NAMES
        }
        change = Change(
            "consolidation",
            lambda _: MemoryFiles(*(texts[name] for name in NAMES)),
            base=thought.base,
            removed=[Removal(fact, "is over") for _, fact in sorted(gone)],
            trailers={"Id": f"proposal {self.number}"},
        )
        self.number += 1
        self.changes(lambda: self.change(change), (self.known - gone) | new, dies)

    @precondition(lambda self: self.at)
    @rule(share=shares, dies=deaths)
    def undoes(self, share: float, dies: int) -> None:
        """One change alone, whichever."""
        self.look()
        number = 1 + int(share * (len(self.seen) - 1))
        if number == 1:
            return
        before, after = self.at[self.seen[number - 2]], self.at[self.seen[number - 1]]
        trailers = {"Id": f"undo {self.number}"}
        self.number += 1
        wanted = (self.known - (after - before)) | (before - after)
        self.changes(lambda: undo(self.writer, self.versions, self.space, number, trailers), wanted, dies)

    @precondition(lambda self: self.at)
    @rule(share=shares, dies=deaths)
    def restores(self, share: float, dies: int) -> None:
        """All as at a version, to the byte."""
        self.look()
        number = 1 + int(share * (len(self.seen) - 1))
        trailers = {"Id": f"restored {self.number}"}
        self.number += 1
        wanted = self.at[self.seen[number - 1]]
        self.changes(lambda: restore(self.writer, self.versions, self.space, number, trailers), wanted, dies)
        if self.known == wanted and not dies:
            there = self.run(self.versions.read(self.space, self.seen[number - 1]))
            assert self.run(self.versions.read(self.space, self.seen[-1])) == there

    # --- what a person does with an editor

    @rule(name=names, share=shares, dies=deaths)
    def writes(self, name: str, share: float, dies: int) -> None:
        """A line more, somewhere; then it is looked at."""
        self.edit(name, self.new_fact(), share)
        self.looks(dies)

    @rule(name=names, share=shares, dies=deaths)
    def takes_out(self, name: str, share: float, dies: int) -> None:
        """A line less."""
        lines = self.lines(name)
        if lines:
            place = int(share * (len(lines) - 1))
            self.known -= {(name, bare(lines[place]))}
            self.save(name, [*lines[:place], *lines[place + 1 :]])
        self.looks(dies)

    @rule(name=names, dies=deaths)
    def empties(self, name: str, dies: int) -> None:
        """All is gone, on purpose."""
        if self.lines(name):
            self.known = frozenset((file, fact) for file, fact in self.known if file != name)
            self.save(name, [])
        self.looks(dies)

    @rule(name=names, dies=deaths)
    def loses(self, name: str, dies: int) -> None:
        """A file is gone, which says nothing: it is put back."""
        self.look()
        (self.space.root / name).unlink(missing_ok=True)
        self.looks(dies)

    @rule(name=names, share=shares, at=st.integers(1, 60), dies=deaths)
    def writes_meanwhile(self, name: str, share: float, at: int, dies: int) -> None:
        """In the moment before any change of the disk, while a fact is being remembered: both are there, also where
        the process dies a moment later."""
        fact, written = self.new_fact(), self.new_fact()

        def meanwhile() -> None:
            self.edit(name, written, share)
            self.disk.at(dies)

        remember = self.change(remembered(fact, {"Id": fact}))
        if not self.survives(remember, at, meanwhile):
            self.restarts()
            found = known_in(self.run(self.writer.read(self.space)))
            assert found - {(MEMORY, fact)} == self.known
            self.known = found
        else:
            self.known |= {(MEMORY, fact)}
        self.look()

    @rule(dies=deaths)
    def looks(self, dies: int) -> None:
        """A command reads the memory."""
        self.changes(lambda: self.writer.read(self.space), self.known, dies)

    # --- what holds at any time

    @invariant()
    def versions_tell_all(self) -> None:
        """They count up, none is changed, none is there twice, and none takes a fact away without a word."""
        versions = self.run(self.versions.all(self.space))
        assert [version.number for version in versions] == list(range(1, len(versions) + 1))
        assert [version.id for version in versions][: len(self.seen)] == self.seen
        ids = [version.trailers["Id"] for version in versions if "Id" in version.trailers]
        assert len(ids) == len(set(ids))
        for version in versions[len(self.seen) :]:
            before = self.at[self.seen[-1]] if self.seen else frozenset()
            after = known_in(self.run(self.versions.read(self.space, version.id)))
            told = {bare(re.sub(r" \([^()]*\)\Z", "", line[2:])) for line in version.lines if line.startswith("- ")}
            assert {fact for _, fact in before} - {fact for _, fact in after} <= told, version.lines
            self.at[version.id] = after
            self.seen.append(version.id)

    # --- what the rules are made of

    def changes(self, work: Callable[[], Awaitable[object]], wanted: Any, dies: int, *halves: Any) -> None:
        """Does it; where the process dies over it, it is done or not, and asked for again it is done once."""
        before = self.known
        if not self.survives(doing(work), dies):
            self.restarts()
            self.known = known_in(self.run(self.writer.read(self.space)))
            assert self.known in (before, frozenset(wanted), *map(frozenset, halves)), self.known ^ before
            self.versions_tell_all()
            self.run(doing(work))
        self.known = frozenset(wanted)
        self.look()

    async def change(self, change: Change) -> None:
        await self.writer.change(self.space, change)

    def look(self) -> None:
        """Files, versions and model say the same."""
        assert known_in(self.run(self.writer.read(self.space))) == self.known
        self.run(self.check_files())
        self.versions_tell_all()
        assert not self.seen or self.at[self.seen[-1]] == self.known

    async def check_files(self) -> None:
        versions = await self.versions.all(self.space)
        head = await self.versions.read(self.space, versions[-1].id) if versions else MemoryFiles()
        found = {name: text or "" for name, text in (await self.files.read(self.space)).items()}
        assert found == head.by_name
        assert await self.versions.placed(self.space) == (versions[-1].id if versions else None)
        assert await self.files.left(self.space) == {}

    def new_fact(self) -> str:
        self.number += 1
        return f"Fact{self.number} about Person{self.number}"

    def lines(self, name: str) -> list[str]:
        path = self.space.root / name
        return path.read_text().splitlines() if path.exists() else []

    def edit(self, name: str, fact: str, share: float) -> None:
        """As an editor does it: what it has read is written with a line more."""
        lines = self.lines(name)
        place = int(share * len(lines))
        self.known |= {(name, fact)}
        self.save(name, [*lines[:place], f"- {fact}", *lines[place:]])

    def save(self, name: str, lines: Sequence[str]) -> None:
        draft = self.folder / "draft"
        draft.write_text("".join(f"{line}\n" for line in lines))
        draft.replace(self.space.root / name)


async def doing(work: Callable[[], Awaitable[object]]) -> None:
    await work()


async def together(*work: Coroutine[Any, Any, object]) -> None:
    """Side by side; the first death is that of all."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def known_in(files: MemoryFiles) -> Known:
    found = [(name, bare(fact)) for name, text in files.by_name.items() for fact in facts(text)]
    assert len(found) == len(set(found)), "a fact stands there once"
    return frozenset(found)


def test_the_memory_writer() -> None:
    """A sample, the same each time in the build."""
    play(WriterMachine, 12, 15)
