"""Reading skills, and writing them: what the agent writes is a draft, and the owner's prompt is out of its reach."""

from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path

import pytest

from nanomem.errors import CannotStore, Refused, ShowModel
from nanomem.ports import Origin, Skill
from nanomem.spaces import Space
from nanomem.stores.skills import LARGEST, PACKAGED, SkillFolders
from nanomem.testing import FakeSkills
from nanomem.tools import Workbench, load_tools

Use = Callable[..., Awaitable[str]]

TEA = "---\nname: tea\ndescription: how Ann likes it\n---\nThree minutes.\n"
ANSWER = (
    "Kept as a draft, skills/drafts/tea/SKILL.md. It is not in use yet: "
    "tell the owner that /skills accept tea takes it in."
)


def skill_files(space: Space) -> dict[str, str]:
    """All that stands in the skills' folder."""
    root = space.root / "skills"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def install(space: Space, name: str, text: str) -> None:
    """The owner writes a skill by hand."""
    (space.root / "skills" / name).mkdir(parents=True)
    (space.root / "skills" / name / "SKILL.md").write_text(text)


# --- reading


async def test_a_skill_is_read_whole(space: Space, use: Use) -> None:
    """Without its head; also one of the package's, and one that takes the place of such a one."""
    install(space, "tea", TEA.replace("Three", "x" * 60_000))
    assert await use("read_skill", name=" tea ") == "x" * 60_000 + " minutes."
    assert "`remember`" in await use("read_skill", name="memory")
    install(space, "memory", "---\ndescription: mine\n---\nMine.")
    assert await use("read_skill", name="memory") == "Mine."


@pytest.mark.parametrize("name", ["", "Tea", "../tea", "tea/SKILL.md", "drafts", "a\0b", "x" * 10_000, "\x1b[31m"])
async def test_an_unknown_skill_is_said_with_those_there_are(name: str) -> None:
    """The nearest first; not at any length."""
    tool = load_tools(Workbench(UTC, skills=FakeSkills(Skill("tea", "t", "T"), Skill("walk", "w", "W"))))["read_skill"]
    with pytest.raises(ShowModel, match=r"There are: tea, walk\.") as caught:
        await tool.run({"name": name}, Origin(Space("owner", Path("/nowhere"), Path("/nowhere"))))
    assert ("Did you mean tea?" in caught.value.text) == (name in ("Tea", "../tea"))
    assert len(caught.value.text) < 400 and caught.value.text.isprintable()


async def test_very_many_skills_are_not_all_named(space: Space) -> None:
    """And none at all is said, too."""
    for there, word in ((300, "and 250 more."), (0, "There are: none.")):
        skills = FakeSkills(*(Skill(f"s{n:03}", "d", "b") for n in range(there)))
        with pytest.raises(ShowModel) as caught:
            await load_tools(Workbench(UTC, skills=skills))["read_skill"].run({"name": "tea"}, Origin(space))
        assert caught.value.text.endswith(word)


# --- writing


@pytest.mark.parametrize(
    "path",
    [
        "skills/tea/SKILL.md",
        "./skills//tea/SKILL.md",
        "skills/x/../tea/SKILL.md",
        "Skills/tea/skill.md",
        "/workspace/skills/tea/SKILL.md",
        "skills/drafts/tea/SKILL.md",
        "SKILLS/Drafts/tea/Skill.MD",
    ],
)
async def test_what_is_written_is_a_draft(space: Space, use: Use, path: str) -> None:
    """By any spelling, also where there is such a skill already, which stays as it is."""
    assert await use("write_file", path=path, content=TEA) == ANSWER
    assert skill_files(space) == {"drafts/tea/SKILL.md": TEA}
    install(space, "tea", TEA)
    absolute = f"{space.root}/{path.removeprefix('/workspace/')}"
    assert await use("write_file", path=absolute, content=TEA.replace("Three", "Four")) == ANSWER
    assert skill_files(space) == {"drafts/tea/SKILL.md": TEA.replace("Three", "Four"), "tea/SKILL.md": TEA}
    with pytest.raises(ShowModel, match="There are: "):
        await use("read_skill", name="walk")


@pytest.mark.parametrize(
    "path",
    [
        "skills",
        "skills/tea",
        "skills/SKILL.md",
        "skills/drafts/SKILL.md",
        "skills/drafts/tea",
        "skills/drafts",
        "skills/tea/notes.md",
        "skills/tea/SKILL.md/x",
        "skills/tea/a/SKILL.md",
        "skills/drafts/tea/a/SKILL.md",
        "skills/.replaced/tea-1/SKILL.md",
        "skills/.hidden/SKILL.md",
        "skills/drafts/drafts/SKILL.md",
        "skills/two words/SKILL.md",
        "skills/a\nb/SKILL.md",
        f"skills/{'x' * 200}/SKILL.md",
        f"skills/{'x' * 1_900}/SKILL.md",
        f"skills/{'x' * 10_000}/SKILL.md",
    ],
)
async def test_nothing_else_of_them_can_be_written(space: Space, use: Use, path: str) -> None:
    """With a word on what can."""
    with pytest.raises(ShowModel) as caught:
        await use("write_file", path=path, content=TEA.replace("name: tea\n", ""))
    assert any(word in caught.value.text for word in ("as a draft", "its name", "too long", "is a folder"))
    with pytest.raises(ShowModel):
        await use("edit_file", path=path, old="Three", new="Four")
    assert skill_files(space) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Three minutes.", "a head"),
        (TEA.replace("tea", "coffee"), "its name"),
        (TEA.replace("how", "[how"), "no YAML"),
        (TEA + "x" * LARGEST, "longer than"),
        ("---\na: &a [x]\ndescription: *a\n---\ntext", "anchors"),
    ],
)
async def test_what_is_no_skill_is_not_written(space: Space, use: Use, text: str, why: str) -> None:
    """The model is told what is wrong, and how it should be; an older draft stays."""
    await use("write_file", path="skills/tea/SKILL.md", content=TEA)
    with pytest.raises(ShowModel, match=f"Nothing was written.*{why}.*\n---\nname: tea\ndescription: "):
        await use("write_file", path="skills/tea/SKILL.md", content=text)
    assert skill_files(space) == {"drafts/tea/SKILL.md": TEA}


async def test_an_edit_goes_on_with_the_draft(space: Space, use: Use) -> None:
    """Else with the skill; one passage, exactly once."""
    install(space, "tea", TEA)
    for old, new in (("Three", "Four"), ("Four", "Five")):
        assert await use("edit_file", path="skills/tea/SKILL.md", old=old, new=new) == ANSWER
    assert skill_files(space) == {"drafts/tea/SKILL.md": TEA.replace("Three", "Five"), "tea/SKILL.md": TEA}
    for old, word in (("Three", "is not in"), ("e", "times")):
        with pytest.raises(ShowModel, match=word):
            await use("edit_file", path="skills/drafts/tea/SKILL.md", old=old, new="x")
    with pytest.raises(ShowModel, match="no skill: its description"):
        await use("edit_file", path="skills/tea/SKILL.md", old="description: how Ann likes it\n", new="")
    with pytest.raises(ShowModel, match="no skill or draft walk yet: write it with write_file"):
        await use("edit_file", path="skills/walk/SKILL.md", old="a", new="b")
    assert skill_files(space)["drafts/tea/SKILL.md"] == TEA.replace("Three", "Five")


async def test_one_of_the_packages_can_be_changed(space: Space, use: Use) -> None:
    """As a draft of one's own; the package stays what it is."""
    before = (PACKAGED / "memory" / "SKILL.md").read_bytes()
    await use("edit_file", path="skills/memory/SKILL.md", old="Never passwords", new="No passwords")
    assert "No passwords" in skill_files(space)["drafts/memory/SKILL.md"]
    assert (PACKAGED / "memory" / "SKILL.md").read_bytes() == before


async def test_what_is_said_to_others_does_not_reach_the_owner(space: Space, tmp_path: Path) -> None:
    """In their spaces skills can be read and not drafted; nothing is called saved."""
    install(space, "tea", TEA)
    theirs = Origin(Space("telegram:7", tmp_path / "home" / "spaces" / "7", space.root))
    tools = load_tools(Workbench(UTC, skills=SkillFolders()))
    assert await tools["read_skill"].run({"name": "tea"}, theirs) == "Three minutes."
    for path in ("skills/tea/SKILL.md", "skills/drafts/tea/SKILL.md"):
        with pytest.raises(Refused, match="Nothing was saved"):
            await tools["write_file"].run({"path": path, "content": TEA}, theirs)
        with pytest.raises(Refused, match="Nothing was saved"):
            await tools["edit_file"].run({"path": path, "old": "Three", "new": "Four"}, theirs)
    assert skill_files(space) == {"tea/SKILL.md": TEA} and not theirs.space.root.exists()


async def test_a_draft_that_could_not_be_written_is_not_called_one(space: Space) -> None:
    """A full disk."""
    skills = FakeSkills()
    skills.fails.append(CannotStore("No room left."))
    with pytest.raises(CannotStore):
        await load_tools(Workbench(UTC, skills=skills))["write_file"].run(
            {"path": "skills/tea/SKILL.md", "content": TEA}, Origin(space)
        )
    assert skills.waiting == {}
