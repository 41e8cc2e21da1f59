"""The one writer of the memory, over real files and real versions: people, changes, commands at the same time."""

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import CannotStore, Refused
from nanomem.facts import MemoryFiles, facts
from nanomem.memory.undoing import restore, undo
from nanomem.memory.writer import MemoryWriter
from nanomem.ports import Change, Receipt
from nanomem.spaces import Space
from nanomem.stores.memory_files import PlainWorkingFiles
from nanomem.stores.versions import GitVersions
from nanomem.testing import FakeClock
from nanomem.tools.stillness import Stillness
from nanomem.versions import Kind, Removal

SOUL, USER, MEMORY = "SOUL.md", "USER.md", "memory/MEMORY.md"


@dataclass
class Home:
    """A home on disk, the owner's space in it, and what a person sees and does there."""

    root: Path
    still: Stillness = field(default_factory=Stillness)
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.owner = Space("owner", self.root / "workspace", self.root / "workspace")
        self.group = Space("telegram:-7", self.root / "spaces" / "telegram%3A-7", self.root / "workspace")
        self.restart()

    def restart(self, files: PlainWorkingFiles | None = None) -> None:
        """A new process on the same disk."""
        self.versions = GitVersions(self.root / "versions")
        self.files = files or PlainWorkingFiles()
        changed = lambda space: self.commits.append(space.name)  # noqa: E731
        self.writer = MemoryWriter(self.versions, self.files, FakeClock(), changed, self.still)

    def write(self, name: str, text: str, space: Space | None = None) -> None:
        """As an editor does it."""
        path = (space or self.owner).root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    def text(self, name: str, space: Space | None = None) -> str:
        """What is in a file now, to the byte."""
        return ((space or self.owner).root / name).read_bytes().decode("utf-8", "surrogateescape")

    def append(self, name: str, text: str) -> None:
        """As `echo >>` does it."""
        path = self.owner.root / name
        self.write(name, (self.text(name) if path.exists() else "") + text)

    async def known(self) -> MemoryFiles:
        """What the owner's space knows."""
        return await self.writer.read(self.owner)

    async def subjects(self, space: Space | None = None) -> list[str]:
        """What the versions are called, the oldest first."""
        return [version.subject for version in await self.versions.all(space or self.owner)]

    async def lines(self) -> tuple[str, ...]:
        """What the newest version says of each fact, without list markers."""
        return tuple(map(bare, (await self.versions.all(self.owner))[-1].lines))

    async def add(self, fact: str, name: str = MEMORY, id: str = "", base: str | None = None) -> Receipt:
        """As `/remember` does it."""
        return await self.writer.change(self.owner, adding(fact, name, id, base))

    async def undo(self, number: int | None = None, id: str = "") -> Receipt | None:
        """As `/undo` does it."""
        return await undo(self.writer, self.versions, self.owner, number, {"Id": id})

    async def restore(self, number: int, id: str = "") -> Receipt | None:
        """As `/dream-restore` does it."""
        return await restore(self.writer, self.versions, self.owner, number, {"Id": id})

    async def at(self, number: int) -> MemoryFiles:
        """The files of a version."""
        return await self.versions.read(self.owner, (await self.versions.all(self.owner))[number - 1].id)

    async def committed(self, count: int) -> None:
        """Returns once there are so many versions."""
        while len(await self.subjects()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def check(self) -> None:
        """Files and versions say the same, and looking once more changes nothing."""
        await self.known()
        known = await self.versions.all(self.owner)
        head = await self.versions.read(self.owner, known[-1].id) if known else MemoryFiles()
        found = {name: text or "" for name, text in (await self.files.read(self.owner)).items()}
        assert found == head.by_name
        assert await self.versions.placed(self.owner) == (known[-1].id if known else None)
        assert await self.files.left(self.owner) == {}
        await self.known()
        assert len(await self.versions.all(self.owner)) == len(known)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def bare(line: str) -> str:
    """A line of a version, the fact in it without its list marker."""
    return re.sub(r"\A(\S) - ", r"\1 ", line)


def adding(fact: str, name: str = MEMORY, id: str = "", base: str | None = None) -> Change:
    """A wish for one more fact at a file's end."""
    return rewriting(lambda text: f"{text}- {fact}\n", name, base=base, trailers={"Id": id})


def rewriting(edit: Callable[[str], str], name: str = MEMORY, kind: Kind = "agent", **more: object) -> Change:
    """A wish for another text of one file."""
    part = {SOUL: "soul", USER: "user", MEMORY: "memory"}[name]
    return Change(kind, lambda files: replace(files, **{part: edit(files.by_name[name])}), **more)  # type: ignore[arg-type]


# --- a person and the files


async def test_a_space_with_nothing_in_it_has_no_version(home: Home) -> None:
    """Reading makes nothing, neither a file nor a version."""
    assert await home.known() == MemoryFiles()
    home.write(USER, "")
    assert await home.known() == MemoryFiles()
    assert await home.subjects() == [] and not (home.root / "versions").exists()


async def test_the_files_found_at_first_are_version_1(home: Home) -> None:
    """Each fact in them is a line of it."""
    home.write(SOUL, "Be kind.\n")
    home.write(MEMORY, "# Facts\n\n- tea\n- cats\n")
    assert await home.known() == MemoryFiles("Be kind.\n", "", "# Facts\n\n- tea\n- cats\n")
    assert await home.subjects() == ["[manual] First version"]
    assert await home.lines() == ("+ Be kind.", "+ tea", "+ cats")
    assert home.commits == ["owner"]
    await home.check()


async def test_before_the_first_change_of_an_empty_space_nothing_is_version_1(home: Home) -> None:
    """So that there is something to go back to."""
    receipt = await home.add("tea")
    assert receipt.version is not None and receipt.version.number == 2
    assert (await home.subjects())[0] == "[manual] First version"
    assert [verdict.what for verdict in receipt.verdicts] == ["new"]
    assert home.text(MEMORY) == "- tea\n"
    assert (undone := await home.undo()) and undone.version and undone.version.number == 3
    assert home.text(MEMORY) == ""
    await home.check()


async def test_what_a_person_writes_stands_as_it_is(home: Home) -> None:
    """To the byte; the version says by whose hand."""
    home.write(MEMORY, "- tea\n- cats\n")
    await home.known()
    edited = "# New order\r\n\r\n* cats\r\n<!-- mine -->\r\nsome prose\r\n"
    home.write(MEMORY, edited)
    assert (await home.known()).memory == edited.replace("\r\n", "\n")
    assert home.text(MEMORY) == edited and (await home.at(2)).memory == edited
    assert any(line.startswith("- tea (by hand)") for line in await home.lines())
    assert (await home.subjects())[1].startswith("[manual] ")
    await home.check()


async def test_a_missing_file_is_put_back(home: Home) -> None:
    """Without a version: nobody has said a thing against what is in it."""
    home.write(USER, "Name: Ann\n")
    home.write(MEMORY, "- tea\n")
    await home.known()
    for name in (USER, MEMORY):
        (home.owner.root / name).unlink()
        assert (await home.known()).user == "Name: Ann\n"
    assert (home.text(USER), home.text(MEMORY)) == ("Name: Ann\n", "- tea\n")
    assert len(await home.subjects()) == 1
    await home.check()


async def test_an_emptied_file_is_an_edit(home: Home) -> None:
    """Each fact in it is removed by hand, and an undo brings all back."""
    home.write(USER, "Name: Ann\nLives in: Bern\n")
    await home.known()
    home.write(USER, "")
    assert await home.known() == MemoryFiles()
    assert await home.lines() == ("- Name: Ann (by hand)", "- Lives in: Bern (by hand)")
    await home.check()
    await home.undo()
    assert home.text(USER) == "Name: Ann\nLives in: Bern\n"


async def test_damage_is_reported_once_and_what_was_known_is_used(home: Home) -> None:
    """A folder in a file's place: reading goes on, changing says which file it is, and changes nothing."""
    home.write(MEMORY, "- tea\n")
    await home.known()
    path = home.owner.root / MEMORY
    path.rename(path.with_name("aside"))
    path.mkdir()
    with capture_logs() as logs:
        assert (await home.known()).memory == (await home.known()).memory == "- tea\n"
        with pytest.raises(Refused, match=r"MEMORY\.md"):
            await home.add("cats")
    assert [entry["event"] for entry in logs] == ["memory.damaged"]
    assert len(await home.subjects()) == 1
    path.rmdir()
    path.with_name("aside").rename(path)
    await home.add("cats")
    assert home.text(MEMORY) == "- tea\n- cats\n"
    await home.check()


async def test_prompts_get_text_and_files_keep_their_bytes(home: Home) -> None:
    """CRLF, a byte order mark, a NUL and bytes that are no UTF-8 stay where nothing was changed, and only there."""
    home.write(MEMORY, "\ufeff- caf\udce9\r\n- nul\0l\r\n- tea\r\n")
    assert (await home.known()).memory == "- caf\ufffd\n- null\n- tea\n"
    await home.writer.change(home.owner, rewriting(lambda text: f"{text}- a\ud800b\n"))
    assert home.text(MEMORY) == "\ufeff- caf\udce9\r\n- nul\0l\r\n- tea\r\n- a\ufffdb\r\n"
    await home.writer.change(home.owner, rewriting(lambda text: text.replace("tea", "coffee"), reason="corrected"))
    assert home.text(MEMORY) == "\ufeff- caf\udce9\r\n- nul\0l\r\n- coffee\r\n- a\ufffdb\r\n"
    await home.check()


# --- changes


async def test_a_change_is_committed_and_in_place_when_it_returns(home: Home) -> None:
    """With its kind, a subject made from what changed, a line a fact, and where it came from."""
    home.write(MEMORY, "- tea\n")
    trailers = {"Session": "terminal:a", "Messages": "1-3", "Inbound": "terminal:a#1", "Id": "x"}
    receipt = await home.writer.change(home.owner, replace(adding("cats"), trailers=trailers))
    assert receipt.version and receipt.version.number == 2
    assert receipt.version.subject.endswith("cats") and await home.lines() == ("+ cats",)
    assert dict((await home.versions.all(home.owner))[-1].trailers) == trailers
    assert home.text(MEMORY) == "- tea\n- cats\n"
    await home.check()


async def test_a_change_that_changes_nothing_makes_no_version(home: Home) -> None:
    """The receipt says so."""
    home.write(MEMORY, "- tea\n")
    receipt = await home.writer.change(home.owner, rewriting(lambda text: text))
    assert receipt.version is None and len(await home.subjects()) == 1


async def test_what_a_proposal_drops_without_a_word_is_put_back(home: Home) -> None:
    """What it names with a reason goes; where the change as a whole has one, all goes that it drops."""
    home.write(MEMORY, "- tea in the morning\n- two cats\n- a red bicycle\n")
    dropping = rewriting(lambda _: "- a red bicycle\n", removed=[Removal("- two cats", "they ran away")])
    await home.writer.change(home.owner, dropping)
    assert set(facts(home.text(MEMORY))) == {"- tea in the morning", "- a red bicycle"}
    assert "- two cats (they ran away)" in await home.lines()
    await home.writer.change(home.owner, rewriting(lambda _: "- a red bicycle\n", reason="asked for"))
    assert home.text(MEMORY) == "- a red bicycle\n"
    assert await home.lines() == ("- tea in the morning (asked for)",)


async def test_a_change_with_the_same_id_is_made_once(home: Home) -> None:
    """Also by another process; the receipt names the version that is there, and nothing is asked again."""
    first = await home.add("tea", id="a")
    home.restart()
    again = await home.add("something else", id="a")
    assert first.version and again.version and again.version.id == first.version.id
    assert home.text(MEMORY) == "- tea\n" and len(await home.subjects()) == 2


async def test_an_edit_while_a_proposal_is_made_is_kept_with_it(home: Home) -> None:
    """What the person added and took away, and what the proposal adds; nothing that was taken away comes back."""
    home.write(MEMORY, "- tea in the morning\n- two cats\n")
    await home.known()
    base = (await home.versions.all(home.owner))[-1].id
    home.write(MEMORY, "- two cats\n- plays the cello\n")
    await home.writer.change(
        home.owner, rewriting(lambda text: f"{text}- lives in Bern\n", kind="consolidation", base=base)
    )
    assert sorted(facts(home.text(MEMORY))) == ["- lives in Bern", "- plays the cello", "- two cats"]
    assert [subject.split("]")[0] for subject in await home.subjects()] == ["[manual", "[manual", "[consolidation"]
    await home.check()


async def test_a_base_that_is_no_more_is_what_is_known_now(home: Home) -> None:
    """The versions may have been moved away since."""
    home.write(MEMORY, "- tea\n")
    await home.add("cats", base="0" * 40)
    assert home.text(MEMORY) == "- tea\n- cats\n"


class HastyEditor(PlainWorkingFiles):
    """Somebody saves a file in the very moment before it is replaced."""

    def __init__(self, home: Home, name: str, text: str) -> None:
        super().__init__()
        self.home, self.name, self.edit = home, name, text

    async def place(self, space: Space, name: str, text: str) -> str | None:
        if name == self.name and self.edit:
            self.home.write(name, self.edit)
            self.edit = ""
        return await super().place(space, name, text)


async def test_an_edit_in_the_moment_of_replacing_is_one_more_version(home: Home) -> None:
    """Both are kept, and what the person took away stays away."""
    home.write(MEMORY, "- tea in the morning\n- two cats\n")
    await home.known()
    home.restart(files=HastyEditor(home, MEMORY, "- two cats\n- plays the cello\n"))
    await home.add("lives in Bern")
    assert sorted(facts(home.text(MEMORY))) == ["- lives in Bern", "- plays the cello", "- two cats"]
    assert [subject.split("]")[0] for subject in await home.subjects()] == ["[manual", "[agent", "[manual"]
    assert "- tea in the morning (by hand)" in await home.lines()
    await home.check()


async def test_a_file_made_in_the_moment_of_putting_it_back_is_an_edit(home: Home) -> None:
    """It is what the person wants."""
    home.write(MEMORY, "- tea\n")
    await home.known()
    (home.owner.root / MEMORY).unlink()
    home.restart(files=HastyEditor(home, MEMORY, "- cats\n"))
    assert (await home.known()).memory == "- cats\n"
    assert home.text(MEMORY) == "- cats\n" and len(await home.subjects()) == 2
    await home.check()


async def test_changes_at_the_same_time_take_turns(home: Home) -> None:
    """None is lost, and each has a version of its own; other spaces do not wait."""
    home.write(MEMORY, "- tea\n")
    words = ["cello", "bicycle", "garden", "harbour", "museum", "orchard", "piano", "river", "sailing", "theatre"]
    await asyncio.gather(*(home.add(word, id=word) for word in words), *(home.known() for _ in words))
    assert set(facts(home.text(MEMORY))) == {"- tea", *(f"- {word}" for word in words)}
    assert len(await home.subjects()) == 11
    await home.check()


async def test_what_cannot_be_stored_is_not_acknowledged(home: Home) -> None:
    """A change that cannot be committed is an error, and nothing has changed; a person's edit is read all the same."""
    home.write(MEMORY, "- tea\n")
    await home.known()
    with full(home, "commit"):
        with pytest.raises(CannotStore):
            await home.add("cats")
        home.append(MEMORY, "- cello\n")
        with capture_logs() as logs:
            assert (await home.known()).memory == (await home.known()).memory == "- tea\n- cello\n"
        assert [entry["event"] for entry in logs] == ["memory.damaged"]
    assert len(await home.subjects()) == 1
    await home.add("cats")
    assert home.text(MEMORY) == "- tea\n- cello\n- cats\n"
    await home.check()


async def test_what_is_committed_is_saved_though_it_cannot_be_put_in_place(home: Home) -> None:
    """The next look puts it there."""
    home.write(MEMORY, "- tea\n")
    await home.known()
    with full(home, "place"), capture_logs() as logs:
        assert (await home.add("cats")).version
        assert home.text(MEMORY) == "- tea\n"
    assert "memory.damaged" in [entry["event"] for entry in logs]
    assert (await home.known()).memory == home.text(MEMORY) == "- tea\n- cats\n"
    await home.check()


class full:
    """While it lasts, one kind of write fails as on a full disk."""

    def __init__(self, home: Home, method: str) -> None:
        self._home, self._method = home, method

    def __enter__(self) -> None:
        async def fails(*_arguments: object) -> None:
            raise CannotStore("The disk is full.")

        class Full:
            def __init__(self, inner: object, method: str) -> None:
                self._inner, self._method = inner, method

            def __getattr__(self, name: str) -> object:
                return fails if name == self._method else getattr(self._inner, name)

        home, method = self._home, self._method
        home.writer = MemoryWriter(
            Full(home.versions, method),  # type: ignore[arg-type]
            Full(home.files, method),  # type: ignore[arg-type]
            FakeClock(),
            lambda _space: None,
            home.still,
        )

    def __exit__(self, *_error: object) -> None:
        self._home.restart()


# --- spaces


async def test_other_spaces_see_the_manner_as_a_person_last_wrote_it(home: Home) -> None:
    """What was learnt about the owner is for the owner alone, also where it went into SOUL.md."""
    assert await home.writer.read(home.group) == MemoryFiles()
    home.write(SOUL, "Be kind.\n")
    home.write(MEMORY, "- tea\n")
    home.write(USER, "Name: The group\n", home.group)
    expected = MemoryFiles("Be kind.\n", "Name: The group\n", "")
    assert await home.writer.read(home.group) == expected
    learnt = rewriting(lambda text: f"{text}Never mention the divorce.\n", SOUL, "Dream")
    await home.writer.change(home.owner, learnt)
    assert "divorce" in home.text(SOUL) and await home.writer.read(home.group) == expected
    home.write(MEMORY, "- coffee\n")
    assert await home.writer.read(home.group) == expected
    home.write(SOUL, "Be brief.\n")
    assert (await home.writer.read(home.group)).soul == "Be brief.\n"
    await home.undo()
    assert "divorce" in home.text(SOUL) and await home.writer.read(home.group) == expected


async def test_others_never_see_a_learnt_line_that_the_owner_left_standing(home: Home) -> None:
    """An edit of one line by hand does not make the lines around it the owner's own words; rewording one does."""
    home.write(SOUL, "# Manner\n\nYou are kind.\n\n- Be brief\n")
    await home.writer.read(home.owner)
    learnt = "- Never mention the divorce\n- Use short words\n"
    await home.writer.change(home.owner, rewriting(lambda text: f"{text}{learnt}", SOUL, "Dream"))
    edited = home.text(SOUL).replace("Be brief", "Be very brief indeed").replace("Use short", "Use plain and short")
    home.write(SOUL, edited)
    expected = "# Manner\n\nYou are kind.\n\n- Be very brief indeed\n- Use plain and short words\n"
    assert (await home.writer.read(home.group)).soul == expected
    assert "divorce" in (await home.writer.read(home.owner)).soul


MANNER = "# Manner\n\n- Be brief and kind with people.\n\nUse metric unts.\n\n* Speak French\n* Never shout\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with people.", "with people, Ann is getting divorced from Tom."),
        (
            "Be brief and kind with people.",
            "Be brief with people in the divorce.\n- Be kind with people in the divorce.",
        ),
        ("French\n* Never shout\n", "French and never shout, least of all about the divorce\n"),
        ("- Be brief and", "- Always be brief, in the divorce, too, and"),
    ],
)
async def test_others_see_a_reworded_line_as_a_person_worded_it(home: Home, before: str, after: str) -> None:
    """Where a Dream has put private words into it, merged or split it, and the owner then edits another line."""
    home.write(SOUL, MANNER)
    await home.writer.read(home.owner)
    await home.writer.change(home.owner, rewriting(lambda text: text.replace(before, after), SOUL, "Dream"))
    assert "divorce" in home.text(SOUL) and "~ " in "".join(await home.lines())
    home.write(SOUL, home.text(SOUL).replace("unts", "units"))
    assert (await home.writer.read(home.group)).soul == MANNER.replace("unts", "units")


async def test_a_learnt_line_that_a_person_rewords_is_theirs(home: Home) -> None:
    """As it stands then, until a Dream rewords it again."""
    home.write(SOUL, MANNER)
    await home.writer.read(home.owner)
    learnt = rewriting(lambda text: text.replace("unts.", "unts, as Ann prefers."), SOUL, "Dream")
    await home.writer.change(home.owner, learnt)
    home.write(SOUL, home.text(SOUL).replace("unts", "units"))
    expected = MANNER.replace("unts.", "units, as Ann prefers.")
    assert (await home.writer.read(home.group)).soul == expected
    learnt = rewriting(lambda text: text.replace("prefers.", "prefers in the divorce."), SOUL, "Dream")
    await home.writer.change(home.owner, learnt)
    home.write(SOUL, home.text(SOUL).replace("Never", "Do never"))
    assert (await home.writer.read(home.group)).soul == expected.replace("Never", "Do never")


async def test_a_wording_that_a_person_took_back_is_not_what_others_see(home: Home) -> None:
    """What a restore put back counts as whose it was."""
    home.write(SOUL, "- Be brief\n- Use metric unts\n")
    await home.writer.read(home.owner)
    home.write(SOUL, "- Be brief but friendly\n- Use metric unts\n")
    await home.writer.read(home.owner)
    await home.undo()
    home.write(SOUL, "- Be brief\n- Use metric units\n")
    assert (await home.writer.read(home.group)).soul == "- Be brief\n- Use metric units\n"


async def test_a_space_of_others_has_no_soul_of_its_own(home: Home) -> None:
    """Neither a proposal nor a stray file brings one in."""
    home.write(SOUL, "Be kind.\n")
    home.write(SOUL, "I am another.\n", home.group)
    wish = Change("Dream", lambda files: MemoryFiles("Be rude.", "", f"{files.memory}- tea\n"))
    receipt = await home.writer.change(home.group, wish)
    assert receipt.version and await home.versions.read(home.group, receipt.version.id) == MemoryFiles(
        "", "", "- tea\n"
    )
    assert await home.writer.read(home.group) == MemoryFiles("Be kind.\n", "", "- tea\n")
    assert home.text(SOUL, home.group) == "I am another.\n" and home.text(SOUL) == "Be kind.\n"
    assert await home.subjects(home.group) == ["[manual] First version", "[Dream] tea"]


# --- commands that run


async def test_a_running_command_holds_off_only_what_it_would_see(home: Home) -> None:
    """MEMORY.md is put in place meanwhile, SOUL.md and USER.md after it; reading never waits for that."""
    home.write(USER, "Name: Ann\n")
    home.write(MEMORY, "- tea\n")
    await home.known()
    async with home.still(home.owner):
        await home.add("cats")
        assert home.text(MEMORY) == "- tea\n- cats\n"
        saving = asyncio.create_task(home.add("Lives in: Bern", USER))
        await home.committed(3)
        assert (await home.known()).user == "Name: Ann\n- Lives in: Bern\n"
        assert home.text(USER) == "Name: Ann\n" and not saving.done()
    assert (await saving).version
    assert home.text(USER) == "Name: Ann\n- Lives in: Bern\n"
    await home.check()


async def test_a_file_that_is_empty_while_a_command_runs_was_not_emptied(home: Home) -> None:
    """It is there to be covered, since the file was missing."""
    home.write(USER, "Name: Ann\n")
    await home.known()
    (home.owner.root / USER).unlink()
    async with home.still(home.owner):
        home.write(USER, "")
        reading = asyncio.create_task(home.known())
        for _ in range(50):
            await asyncio.sleep(0)
        (home.owner.root / USER).unlink()
    assert (await reading).user == home.text(USER) == "Name: Ann\n"
    assert len(await home.subjects()) == 1


# --- undo and restore


async def test_undo_takes_back_one_change_after_the_other(home: Home) -> None:
    """Thirty versions back, each exactly, also those by hand; the first stays."""
    chance = random.Random(7)
    home.write(MEMORY, "# Facts\n\n- tea\n")
    await home.known()
    for number in range(2, 31):
        if chance.random() < 0.3:
            home.write(USER, f"Name: Ann {number}\r\n\r\nSome prose.\r\n")
            await home.known()
        elif chance.random() < 0.3:
            await home.writer.change(home.owner, rewriting(lambda text: text.replace("\n- ", "\n* "), reason="tidied"))
            await home.add(f"fact number {number}")
        else:
            await home.add(f"fact number {number}", chance.choice([SOUL, MEMORY]))
    count = len(await home.subjects())
    for number in range(count - 1, 0, -1):
        receipt = await home.undo()
        assert receipt and receipt.version and receipt.version.trailers["Undoes"] == str(number + 1)
        assert await home.at(receipt.version.number) == await home.at(number)
    assert await home.undo() is None and await home.undo(1) is None
    assert len(await home.subjects()) == 2 * count - 1
    await home.check()


async def test_undo_of_an_older_change_keeps_the_later_ones(home: Home) -> None:
    """And the undo can be undone; a change that is gone anyway is nothing to undo."""
    home.write(MEMORY, "- tea in the morning\n")
    for fact in ("two cats", "plays the cello", "lives in Bern"):
        await home.add(fact)
    home.append(MEMORY, "- a red bicycle\n")
    receipt = await home.undo(3)
    assert receipt and receipt.version and receipt.version.subject.startswith("[restore] Undo of version 3: ")
    assert "- plays the cello (undone)" in await home.lines()
    left = ["- a red bicycle", "- lives in Bern", "- tea in the morning", "- two cats"]
    assert sorted(facts(home.text(MEMORY))) == left
    assert await home.undo(3) is None
    redone = await home.undo(receipt.version.number)
    assert redone and sorted(facts(home.text(MEMORY))) == sorted([*left, "- plays the cello"])
    assert (newest := await home.undo()) and newest.version and newest.version.trailers["Undoes"] == "5"
    assert sorted(facts(home.text(MEMORY))) == sorted([*left[1:], "- plays the cello"])
    await home.check()


async def test_undo_brings_back_what_was_removed_and_reworded(home: Home) -> None:
    """With later facts kept."""
    home.write(MEMORY, "- tea in the morning\n- two cats named Tom and Kit\n")
    wish = rewriting(lambda _: "- two cats named Tom and Kit, both black\n", reason="tidied")
    await home.writer.change(home.owner, wish)
    await home.add("plays the cello")
    await home.undo(2)
    expected = ["- plays the cello", "- tea in the morning", "- two cats named Tom and Kit"]
    assert sorted(facts(home.text(MEMORY))) == expected


async def test_an_unsaved_edit_is_the_newest_change(home: Home) -> None:
    """It is a version before it is undone, so nothing of it is lost."""
    home.write(MEMORY, "- tea\n")
    await home.add("cats")
    home.write(MEMORY, "- cello\n")
    receipt = await home.undo()
    assert receipt and receipt.version and receipt.version.number == 4
    assert home.text(MEMORY) == "- tea\n- cats\n" and (await home.at(3)).memory == "- cello\n"


async def test_restore_makes_the_files_as_they_were(home: Home) -> None:
    """To the byte; what a person has edited is a version first; the same content is no new one."""
    home.write(MEMORY, "\ufeff# Facts\r\n\r\n- tea\r\n")
    await home.add("cats")
    home.write(MEMORY, "- cello\n")
    receipt = await home.restore(1)
    assert receipt and receipt.version and receipt.version.subject == "[restore] Version 1: First version"
    assert receipt.version.number == 4 and (await home.at(3)).memory == "- cello\n"
    assert home.text(MEMORY) == "\ufeff# Facts\r\n\r\n- tea\r\n"
    assert await home.restore(1) is None and await home.restore(4) is None
    assert (undone := await home.undo()) and undone.version and home.text(MEMORY) == "- cello\n"
    await home.check()


async def test_undo_and_restore_are_made_once_for_an_id(home: Home) -> None:
    """Also when nothing is left to undo."""
    home.write(MEMORY, "- tea\n")
    await home.add("cats")
    first, again = await home.undo(id="u"), await home.undo(id="u")
    assert first and again and first.version == again.version
    first, again = await home.restore(2, id="r"), await home.restore(2, id="r")
    assert first and again and first.version and first.version == again.version
    assert len(await home.subjects()) == 4


async def test_a_version_that_is_not_there_is_refused(home: Home) -> None:
    """In words for a person."""
    with pytest.raises(Refused, match=r"There is no version 1; there are none yet\."):
        await home.undo(1)
    home.write(MEMORY, "- tea\n")
    for number in (99, 0, -1):
        with pytest.raises(Refused, match=rf"There is no version {number}; the newest one is 1\."):
            await home.restore(number)
        with pytest.raises(Refused):
            await home.undo(number)
    assert await home.undo() is None


async def test_no_file_becomes_too_large_to_be_read_again(home: Home) -> None:
    """It is refused with a word on what to do; what takes something out of it is not."""
    home.write(MEMORY, "# Memory\n\n" + "\n\n".join(f"word {n} " * 8_000 for n in range(12)) + "\n")
    size = len(home.text(MEMORY))
    assert size < 1024 * 1024
    await home.known()
    room = "x" * (1024 * 1024 - size + 1)
    with pytest.raises(Refused, match="larger than 1024 kB"):
        await home.writer.change(home.owner, Change("agent", lambda f: replace(f, memory=f"{f.memory}\n- {room}\n")))
    assert (await home.writer.change(home.owner, Change("agent", lambda f: replace(f, user="- Ann\n")))).version
    assert len(home.text(MEMORY)) == size
