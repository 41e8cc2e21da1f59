"""What skills promise, whoever keeps them: one suite over the fake and the folders, then what only folders can meet."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import CannotStore, Refused, ShowModel
from nanomem.ports import Accepted, Skill, Skills
from nanomem.skills import mark
from nanomem.spaces import Space, Spaces
from nanomem.stores.skills import LARGEST, MOST, SkillFolders
from nanomem.testing import FakeSkills

TEA = "---\nname: tea\ndescription: how Ann likes it\ntriggers: [tea]\n---\nThree minutes.\n"
READ = Skill("tea", "how Ann likes it", "Three minutes.", ("tea",))
MINE = Skill("tea", "how Ann likes it", "Three minutes.", ("tea",), own=True)


@pytest.fixture
def spaces(tmp_path: Path) -> Spaces:
    return Spaces(tmp_path / "home")


@pytest.fixture
def space(spaces: Spaces) -> Space:
    return spaces.of("terminal:local")


@pytest.fixture
def other(spaces: Spaces) -> Space:
    return spaces.of("telegram:7")


@pytest.fixture
def folders(tmp_path: Path) -> SkillFolders:
    """With one skill of the package's."""
    walk = tmp_path / "packaged" / "walk" / "SKILL.md"
    walk.parent.mkdir(parents=True)
    walk.write_text("---\ndescription: where to\n---\nGo out.\n")
    return SkillFolders(tmp_path / "packaged")


@pytest.fixture(params=["fake", "folders"])
def skills(request: pytest.FixtureRequest, folders: SkillFolders) -> Skills:
    return FakeSkills(Skill("walk", "where to", "Go out.")) if request.param == "fake" else folders


# --- both


async def test_a_draft_counts_once_it_is_accepted(skills: Skills, space: Space, other: Space) -> None:
    """Until then it is in no list but its own; afterwards in every space."""
    assert await skills.draft(space, "tea", TEA) == READ
    assert await skills.drafts(space) == [READ]
    assert [skill.name for skill in await skills.all(space)] == ["walk"]
    assert await skills.accept(space, "tea") == Accepted(MINE)
    assert await skills.drafts(space) == []
    for where in (space, other):
        assert [(skill.name, skill.own) for skill in await skills.all(where)] == [("tea", True), ("walk", False)]
    assert await skills.problems(space) == {}


async def test_accepted_again_it_is_the_same(skills: Skills, space: Space) -> None:
    """As after a crash; what has neither a draft nor is the owner's is None."""
    await skills.draft(space, "tea", TEA)
    first = await skills.accept(space, "tea")
    assert await skills.accept(space, "tea") == first == Accepted(MINE)
    for name in ("coffee", "walk", "", "../tea", "drafts", "x" * 10_000, "a\0b", "t\ud800"):
        assert await skills.accept(space, name) is None


async def test_with_a_mark_no_other_text_is_accepted(skills: Skills, space: Space) -> None:
    """Neither of a draft nor of what was accepted before."""
    other = TEA.replace("Three", "Four")
    await skills.draft(space, "tea", TEA)
    with pytest.raises(Refused, match="has changed since"):
        await skills.accept(space, "tea", mark(other))
    assert await skills.drafts(space) == [READ]
    for _ in range(2):
        assert await skills.accept(space, "tea", mark(TEA)) == Accepted(MINE)
    assert await skills.accept(space, "tea", mark(other)) is None


async def test_what_is_replaced_is_kept(skills: Skills, space: Space) -> None:
    """And it is said where; nothing is said where one of the package's steps back."""
    await skills.draft(space, "tea", TEA)
    await skills.accept(space, "tea")
    for minutes in ("Four", "Five"):
        await skills.draft(space, "tea", TEA.replace("Three", minutes))
        accepted = await skills.accept(space, "tea")
        assert accepted and "tea" in accepted.kept and accepted.skill.body == f"{minutes} minutes."
    await skills.draft(space, "walk", "---\ndescription: mine\n---\nStay.")
    assert await skills.accept(space, "walk") == Accepted(Skill("walk", "mine", "Stay.", own=True))
    assert [skill.own for skill in await skills.all(space)] == [True, True]


async def test_a_draft_takes_the_place_of_the_one_before(skills: Skills, space: Space) -> None:
    """The installed skill stays as it is meanwhile."""
    await skills.draft(space, "tea", TEA)
    await skills.accept(space, "tea")
    for minutes in ("Four", "Five"):
        await skills.draft(space, "tea", TEA.replace("Three", minutes))
    assert [skill.body for skill in await skills.drafts(space)] == ["Five minutes."]
    assert [skill.body for skill in await skills.all(space)] == ["Three minutes.", "Go out."]


async def test_the_text_of_a_skill(skills: Skills, space: Space, other: Space) -> None:
    """The draft's, else the owner's, else the package's; drafts are not for others."""
    assert await skills.text(space, "tea") is None
    assert await skills.text(space, "walk") == "---\ndescription: where to\n---\nGo out.\n"
    await skills.draft(space, "tea", TEA)
    assert await skills.text(space, "tea") == TEA and await skills.text(other, "tea") is None
    await skills.accept(space, "tea")
    assert await skills.text(space, "tea") == await skills.text(other, "tea") == TEA
    await skills.draft(space, "tea", f"{TEA}Or four.\n")
    assert await skills.text(space, "tea") == f"{TEA}Or four.\n" and await skills.text(other, "tea") == TEA
    for name in ("", "../tea", "drafts", "x" * 10_000, "a\0b", "t\ud800"):
        assert await skills.text(space, name) is None


async def test_what_others_say_does_not_come_into_the_owners_prompt(skills: Skills, space: Space, other: Space) -> None:
    """Neither as a draft nor by accepting one."""
    await skills.draft(space, "tea", TEA)
    for write in (skills.draft(other, "evil", TEA), skills.accept(other, "tea")):
        with pytest.raises(Refused):
            await write
    assert await skills.drafts(other) == [] and await skills.drafts(space) == [READ]
    assert not other.root.exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tea", ""),
        ("tea", "Three minutes."),
        ("tea", "---\nname: tea\n---\nno description"),
        ("tea", "---\nname: coffee\ndescription: another\n---\ntext"),
        ("tea", "---\ndescription: tea\n---\n"),
        ("tea", "---\ndescription: tea\ntriggers: ['']\n---\ntext"),
        ("tea", f"---\ndescription: tea\ntriggers: [{'x' * 1_000_000}]\n---\ntext"),
        ("tea", "---\na: &a [x, x]\ndescription: [*a, *a]\n---\ntext"),
        ("tea", TEA + "x" * LARGEST),
        ("tea", TEA + "\ud800"),
        ("tea", '---\ndescription: "a \\ud800"\n---\ntext'),
        ("tea", '---\ndescription: tea\ntriggers: ["a\\0b"]\n---\ntext'),
        ("", TEA),
        ("drafts", "---\ndescription: tea\n---\ntext"),
        ("Drafts", "---\ndescription: tea\n---\ntext"),
        (".hidden", "---\ndescription: tea\n---\ntext"),
        ("..", "---\ndescription: tea\n---\ntext"),
        ("a/b", "---\ndescription: tea\n---\ntext"),
        ("a\0b", "---\ndescription: tea\n---\ntext"),
        ("two words", "---\ndescription: tea\n---\ntext"),
        ("t\ud800", "---\ndescription: tea\n---\ntext"),
        ("x" * 10_000, "---\ndescription: tea\n---\ntext"),
    ],
)
async def test_what_is_no_skill_is_no_draft(skills: Skills, space: Space, name: str, text: str) -> None:
    """The model is told why, in few words, and nothing is written."""
    with pytest.raises(ShowModel) as caught:
        await skills.draft(space, name, text)
    assert 10 < len(caught.value.text) < 600
    assert await skills.drafts(space) == [] and not space.root.exists()


# --- folders only


def files(space: Space) -> dict[str, str]:
    """All below the skills' folder."""
    root = space.root / "skills"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


async def test_where_they_are(folders: SkillFolders, space: Space) -> None:
    """Private, with no folder left behind."""
    await folders.draft(space, "tea", TEA)
    assert files(space) == {"drafts/tea/SKILL.md": TEA}
    assert stat.S_IMODE((space.root / "skills/drafts/tea/SKILL.md").stat().st_mode) == 0o600
    await folders.accept(space, "tea")
    assert files(space) == {"tea/SKILL.md": TEA}
    assert sorted(os.listdir(space.root / "skills")) == ["drafts", "tea"]
    assert os.listdir(space.root / "skills" / "drafts") == []


async def test_each_replaced_one_has_a_place_of_its_own(folders: SkillFolders, space: Space) -> None:
    """And is no skill there."""
    kept = []
    for number in range(3):
        await folders.draft(space, "tea", f"{TEA}{number}")
        accepted = await folders.accept(space, "tea")
        assert accepted
        kept.append(accepted.kept)
    assert kept == ["", "skills/.replaced/tea-1/SKILL.md", "skills/.replaced/tea-2/SKILL.md"]
    assert files(space) == {
        ".replaced/tea-1/SKILL.md": f"{TEA}0",
        ".replaced/tea-2/SKILL.md": f"{TEA}1",
        "tea/SKILL.md": f"{TEA}2",
    }
    assert [skill.name for skill in await folders.all(space)] == ["tea", "walk"]


async def test_a_crash_before_the_draft_could_go(folders: SkillFolders, space: Space) -> None:
    """Nothing is replaced by itself, and what was replaced is kept once."""
    for text in (TEA, f"{TEA}new"):
        await folders.draft(space, "tea", text)
        await folders.accept(space, "tea")
    await folders.draft(space, "tea", f"{TEA}new")
    accepted = await folders.accept(space, "tea")
    assert accepted and accepted.kept == "" and accepted.skill.body.endswith("new")
    assert sorted(files(space)) == [".replaced/tea-1/SKILL.md", "tea/SKILL.md"]


async def test_reading_beside_writing(folders: SkillFolders, space: Space) -> None:
    """What is read is whole, the old or the new, and nobody waits or fails."""
    await folders.draft(space, "tea", TEA)
    await folders.accept(space, "tea")
    for number in range(40):
        written = [folders.draft(space, "tea", f"{TEA}{number}"), folders.accept(space, "tea")]
        looks = [look(space) for look in (folders.all, folders.drafts, folders.all, folders.problems, folders.all)]
        *_, first, _, second, problems, third = await asyncio.gather(*written, *looks)
        for found in (first, second, third):
            assert isinstance(found, list) and [skill.name for skill in found] == ["tea", "walk"]
        assert problems == {}


async def test_what_a_crash_leaves_beside_a_skill_is_not_written_over(folders: SkillFolders, space: Space) -> None:
    """It may be the text that was to be kept."""
    await folders.draft(space, "tea", TEA)
    await folders.accept(space, "tea")
    await folders.draft(space, "tea", f"{TEA}new")
    (space.root / "skills" / ".replaced" / "tea-1").mkdir(parents=True)
    (space.root / "skills" / ".replaced" / "tea-1" / "SKILL.draft").write_text(f"{TEA}n")
    accepted = await folders.accept(space, "tea")
    assert accepted and accepted.kept == "skills/.replaced/tea-2/SKILL.md"
    assert files(space)[".replaced/tea-2/SKILL.md"] == TEA and files(space)["tea/SKILL.md"] == f"{TEA}new"


async def test_what_a_crash_leaves_half_written_is_nothing(folders: SkillFolders, space: Space) -> None:
    """Neither a draft nor a broken one; the next write does away with it."""
    draft = space.root / "skills" / "drafts" / "tea"
    draft.mkdir(parents=True)
    (draft / ".SKILL.md.draft").write_text("---\ndescr")
    assert await folders.drafts(space) == [] and await folders.problems(space) == {}
    await folders.draft(space, "tea", TEA)
    assert files(space) == {"drafts/tea/SKILL.md": TEA}


async def test_a_person_may_write_drafts_too(folders: SkillFolders, space: Space) -> None:
    """One that is broken is said to be so, and is not taken in; its text can still be mended."""
    draft = space.root / "skills" / "drafts" / "tea" / "SKILL.md"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"\xef\xbb\xbfno\r\nhead")
    assert await folders.drafts(space) == []
    assert "a head" in (await folders.problems(space))["skills/drafts/tea/SKILL.md"]
    assert await folders.text(space, "tea") == "no\nhead"
    with pytest.raises(Refused, match=r"tea cannot be used: .*a head"):
        await folders.accept(space, "tea")
    draft.write_text(TEA)
    assert await folders.drafts(space) == [READ] and await folders.problems(space) == {}
    draft.write_bytes(b"caf\xe9")
    with pytest.raises(ShowModel, match="not UTF-8"):
        await folders.text(space, "tea")


async def test_what_is_wrong_is_said_with_its_place(folders: SkillFolders, space: Space, other: Space) -> None:
    """Once in the log, as often as asked in the list, in signs that can be sent; drafts are not for others."""
    own = space.root / "skills"
    for name in ("bad", "a\nb", os.fsdecode(b"\xff"), "drafts/late"):
        (own / name).mkdir(parents=True)
        (own / name / "SKILL.md").write_text("no head")
    with capture_logs() as events:
        found = [await folders.problems(space) for _ in range(2)]
        await folders.all(space)
    assert len(events) == 4 and all("\n" not in event["file"] for event in events)
    assert found[0] == found[1]
    assert sorted(found[0]) == [
        "'skills/\\udcff/SKILL.md'",
        "'skills/a\\nb/SKILL.md'",
        "skills/bad/SKILL.md",
        "skills/drafts/late/SKILL.md",
    ]
    assert len(await folders.problems(other)) == 3
    assert "\n".join(found[0]).encode()


SPOILED: list[Callable[[Path], object]] = [
    Path.mkdir,
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to(path),
    lambda path: path.write_bytes(b"x" * 5_000_000),
]


@pytest.mark.parametrize("spoil", SPOILED)
async def test_something_else_in_the_place_of_a_draft(
    folders: SkillFolders, space: Space, spoil: Callable[[Path], object]
) -> None:
    """A folder, a pipe, a device, megabytes: not waited for, not taken in, and said."""
    draft = space.root / "skills" / "drafts" / "tea" / "SKILL.md"
    draft.parent.mkdir(parents=True)
    spoil(draft)
    assert await folders.drafts(space) == []
    assert list(await folders.problems(space)) == ["skills/drafts/tea/SKILL.md"]
    with pytest.raises(Refused, match="tea cannot be used"):
        await folders.accept(space, "tea")
    with pytest.raises(ShowModel, match="tea cannot be used"):
        await folders.text(space, "tea")
    assert [skill.name for skill in await folders.all(space)] == ["walk"]


@pytest.mark.parametrize("spoil", SPOILED[:3])
async def test_something_else_in_the_place_of_a_skill(
    folders: SkillFolders, space: Space, spoil: Callable[[Path], object]
) -> None:
    """It is not written over: it is the owner's. The draft stays, and nothing is left beside it."""
    await folders.draft(space, "tea", TEA)
    file = space.root / "skills" / "tea" / "SKILL.md"
    file.parent.mkdir()
    spoil(file)
    with pytest.raises(CannotStore, match="SKILL"):
        await folders.accept(space, "tea")
    assert await folders.drafts(space) == [READ]
    assert sorted(os.listdir(space.root / "skills")) == ["drafts", "tea"]


async def test_a_file_where_folders_should_be(folders: SkillFolders, space: Space) -> None:
    """Is a write that failed, not an end."""
    space.root.mkdir(parents=True)
    (space.root / "skills").write_text("")
    with pytest.raises(CannotStore):
        await folders.draft(space, "tea", TEA)
    assert await folders.accept(space, "tea") is None and await folders.text(space, "tea") is None


async def test_drafts_are_not_without_end(folders: SkillFolders, space: Space) -> None:
    """A model that goes on and on fills no disk; those that are there can still be written."""
    for number in range(MOST):
        path = space.root / "skills" / "drafts" / f"s{number:03}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_text("---\ndescription: one of many\n---\ntext")
    with pytest.raises(Refused, match="200 drafts"):
        await folders.draft(space, "tea", TEA)
    await folders.draft(space, "s007", "---\ndescription: anew\n---\ntext")
    assert len(await folders.drafts(space)) == MOST
