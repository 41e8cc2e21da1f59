"""Skills: what is one, which of two of the same name counts, and what a hostile or careless file does (nothing)."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from structlog.typing import EventDict

from nanomem.ports import Skill
from nanomem.skills import triggered
from nanomem.spaces import Space, Spaces
from nanomem.stores.skills import LARGEST, LARGEST_HEAD, MOST, SkillFolders, skill_of


@pytest.fixture
def spaces(tmp_path: Path) -> Spaces:
    return Spaces(tmp_path / "home")


@pytest.fixture
def space(spaces: Spaces) -> Space:
    return spaces.of("terminal:local")


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    return tmp_path / "packaged"


def put(folder: Path, name: str, text: str | bytes | None = None) -> Path:
    """A skill's file; a plain good one if no text is given."""
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"---\ndescription: about it\n---\nDo {name}.\n" if text is None else text
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def own(space: Space) -> Path:
    return space.shared_root / "skills"


async def read(skills: SkillFolders, space: Space) -> tuple[dict[str, str], list[EventDict]]:
    """The texts by name, and what is said of the rest."""
    with capture_logs() as events:
        found = await skills.all(space)
    return {skill.name: skill.body for skill in found}, list(events)


async def test_all_that_a_skill_says_of_itself(space: Space, packaged: Path) -> None:
    """Only the description has to be there; keys that are not known are left alone."""
    put(packaged, "tea", "---\ndescription: brews\n---\n\nBoil water.\n\n---\n\nWait.\n")
    head = "name: garden\ndescription: >\n  What grows\n  where.\ntriggers: [plants, 'the  garden']\nalways: yes\nv: 3"
    put(packaged, "garden", f"\ufeff---\r\n{head}\r\n---  \r\nWater\r\nit.".encode())
    with capture_logs() as events:
        assert await SkillFolders(packaged).all(space) == [
            Skill("garden", "What grows where.", "Water\nit.", ("plants", "the garden"), always=True),
            Skill("tea", "brews", "Boil water.\n\n---\n\nWait."),
        ]
    assert events == []


async def test_ones_own_takes_the_place_of_a_packaged_one(spaces: Spaces, packaged: Path) -> None:
    """In every space the owner's count; a broken one leaves the packaged one where it is."""
    mine, theirs = spaces.of("terminal:local"), spaces.of("telegram:7")
    put(packaged, "tea")
    put(packaged, "walk")
    put(own(mine), "tea", "---\ndescription: mine\n---\nMy tea.")
    put(own(mine), "walk", "no head")
    put(own(mine), "swim")
    put(theirs.root / "skills", "theirs")
    skills = SkillFolders(packaged)
    for space in (mine, theirs):
        assert (await read(skills, space))[0] == {"swim": "Do swim.", "tea": "My tea.", "walk": "Do walk."}


async def test_what_is_no_skill(space: Space, packaged: Path) -> None:
    """Drafts, names that begin with a dot, files; nothing is said of them, nor of folders that are missing."""
    assert await read(SkillFolders(packaged), space) == ({}, [])
    put(own(space), "tea")
    put(own(space) / "drafts", "later")
    put(own(space), "drafts", "---\nbroken")
    put(own(space), "Drafts", "---\nbroken")
    put(own(space), ".hidden")
    (own(space) / "README.md").write_text("about skills")
    (own(space) / "loop").symlink_to("loop")
    assert await read(SkillFolders(packaged), space) == ({"tea": "Do tea."}, [])


def good(head: str) -> str:
    return f"---\ndescription: bad\n{head}\n---\ntext"


LAUGHS = "a: &a [ha, ha]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [*{a}, *{a}, *{a}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a head"),
        ("just text", "a head"),
        ("---\ndescription: never closed\ntext", "a head"),
        ("text\n---\ndescription: too late\n---\ntext", "a head"),
        ("---\n---\ntext", "no fields"),
        ("---\n- a\n- b\n---\ntext", "no fields"),
        ("---\ndescription: nothing to read\n---\n \n", "no text"),
        ("---\nname: bad\n---\ntext", "description"),
        ("---\ndescription: ''\n---\ntext", "description"),
        ("---\ndescription: 5\n---\ntext", "description"),
        ("---\ndescription: 2026-04-10\n---\ntext", "description"),
        ("---\ndescription: [a, b]\n---\ntext", "description"),
        ("---\ndescription: {a: b}\n---\ntext", "description"),
        (good("name: other"), "name"),
        (good("name: 7"), "name"),
        (good("name:"), "name"),
        (good("triggers: tea"), "triggers"),
        (good("triggers: [1]"), "triggers"),
        (good("triggers: ['']"), "triggers"),
        (good("triggers: {a: b}"), "triggers"),
        (good(f"triggers: [{'a, ' * 60}a]"), "more than 50"),
        (good('triggers: ["a\\ud800"]'), "no text"),
        (good('triggers: ["a\\0b"]'), "no text"),
        (good(f"triggers: [{'x' * 1_000_000}]"), "longer"),
        ('---\ndescription: "\\e[31mred"\n---\ntext', "no text"),
        ('---\ndescription: "\\udc80"\n---\ntext', "no text"),
        (good("always: maybe"), "always"),
        (good("always: 1"), "always"),
        (good("always: 'true'"), "always"),
        (good(LAUGHS), "anchors"),
        (good(MERGES), "anchors"),
        (good("me: &me [*me]"), "anchors"),
        (good("a: !!python/object/apply:os.system ['touch /tmp/hacked']"), "tags"),
        (good("a: !!int x"), "tags"),
        (good("a: [[[[1]]]]"), "lists in lists"),
        (good("a: " + "[" * 2_000), "brackets"),
        (good("a: " + "{a: " * 900), "brackets"),
        (good("- " * 1_500), "lists in lists|no YAML"),
        (good("a: b: c"), "no YAML"),
        (good("? {a: b}\n: c"), "no YAML"),
        (good("a: 2026-99-99"), "no YAML"),
        (good("a: \x1b[31m"), "no YAML"),
        (good("#" * LARGEST_HEAD), "longer"),
        (good("a: 1") + "x" * LARGEST, "longer"),
        (good("a: 1").encode() + b"caf\xe9", "UTF-8"),
        ("---\ndescription: caf\xe9\n---\ntext".encode("latin-1"), "UTF-8"),
        (good("a: 1").encode("utf-16"), "a head"),
    ],
)
async def test_a_broken_one_is_passed_over_and_said_once(
    space: Space, packaged: Path, text: str | bytes, why: str
) -> None:
    """Until it is in another state; the others are there."""
    put(packaged, "fine")
    path, skills = put(own(space), "bad", text), SkillFolders(packaged)
    found, [event] = await read(skills, space)
    assert found == {"fine": "Do fine."}
    assert (event["event"], event["file"]) == ("skill.broken", str(path)) and len(event["reason"]) < 250
    assert any(word in event["reason"] for word in why.split("|")), event["reason"]
    assert await read(skills, space) == (found, [])
    put(own(space), "bad", "another broken one")
    assert len((await read(skills, space))[1]) == 1
    put(own(space), "bad")
    assert await read(skills, space) == ({"bad": "Do bad.", "fine": "Do fine."}, [])


@pytest.mark.parametrize("name", ["two words", "a\nb", "a;b", "-x", "x" * 65, "<tag>"])
async def test_a_name_is_a_word(space: Space, packaged: Path, name: str) -> None:
    """It stands in prompts and paths. Letters of any script will do."""
    put(own(space), name)
    put(own(space), "сад-2.0_b")
    found, events = await read(SkillFolders(packaged), space)
    assert list(found) == ["сад-2.0_b"] and "name" in events[0]["reason"]


@pytest.mark.parametrize(
    "instead", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path)]
)
async def test_something_else_in_the_place_of_the_file(
    space: Space, packaged: Path, instead: Callable[[Path], None]
) -> None:
    """A folder, a pipe, a device: not waited for. No file at all is said, too."""
    path, skills = put(own(space), "bad"), SkillFolders(packaged)
    path.unlink()
    for spoil in (lambda _: None, instead):
        spoil(path)
        found, [event] = await read(skills, space)
        assert found == {} and "cannot be read" in event["reason"]
        assert await read(skills, space) == ({}, [])


async def test_a_link_to_a_skill_elsewhere_is_followed(space: Space, packaged: Path, tmp_path: Path) -> None:
    """It is only text."""
    put(tmp_path / "dotfiles", "tea")
    own(space).mkdir(parents=True)
    (own(space) / "tea").symlink_to(tmp_path / "dotfiles" / "tea")
    put(own(space), "walk").unlink()
    (own(space) / "walk" / "SKILL.md").symlink_to(tmp_path / "dotfiles" / "tea" / "SKILL.md")
    assert (await read(SkillFolders(packaged), space))[0] == {"tea": "Do tea.", "walk": "Do tea."}


async def test_a_folder_that_cannot_be_listed_is_said(space: Space, packaged: Path) -> None:
    """A file in its place; the packaged ones are there."""
    put(packaged, "tea")
    space.root.mkdir(parents=True)
    own(space).write_text("")
    skills = SkillFolders(packaged)
    found, events = await read(skills, space)
    assert found == {"tea": "Do tea."} and [e["file"] for e in events] == [str(own(space))]
    assert (await read(skills, space))[1] == []


async def test_of_too_many_the_first_are_there(space: Space, packaged: Path) -> None:
    """It is said where it ends."""
    put(packaged, "tea")
    for number in range(MOST + 50):
        put(own(space), f"s{number:03}")
    skills = SkillFolders(packaged)
    found, [event] = await read(skills, space)
    assert list(found) == [*(f"s{number:03}" for number in range(MOST)), "tea"]
    assert f"s{MOST:03}" in event["reason"] and await read(skills, space) == (found, [])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what is read")
async def test_what_is_as_it_was_is_not_read_again(space: Space, packaged: Path) -> None:
    """A change is seen at once, and one that is gone is gone."""
    big = "---\ndescription: big\n---\n" + "x" * 60_000
    for name in ("a", "b", "c"):
        put(own(space), name, big)
    skills = SkillFolders(packaged)
    await skills.all(space)
    before = int(Path("/proc/self/io").read_text().split()[1])
    assert len(await skills.all(space)) == 3
    assert int(Path("/proc/self/io").read_text().split()[1]) - before < 20_000
    put(own(space), "a", big + "y")
    shutil.rmtree(own(space) / "b")
    found, _ = await read(skills, space)
    assert list(found) == ["a", "c"] and found["a"].endswith("y")


heads = st.text("abc:-[]{}&*!|>#'\"\\\\?%@`,=<~0123456789.+eEx_ \n\t", max_size=120)


@given(heads, st.text(max_size=40))
def test_whatever_stands_in_a_file(head: str, body: str) -> None:
    """It is a skill that can be shown, or it is said why it is none; nothing else can happen."""
    for text in (f"---\n{head}\n---\n{body}", f"---\ndescription: {head}\n---\n{body}"):
        try:
            skill = skill_of("tea", text)
        except ValueError as error:
            assert 5 < len(str(error)) < 300
        else:
            assert "\n" not in skill.description
            assert (skill.description + skill.body + "".join(skill.triggers)).encode()


async def test_the_packages_own(space: Space) -> None:
    """How memory works is in every prompt, in few words, with the names that it goes by."""
    found, problems = {s.name: s for s in await SkillFolders().all(space)}, await SkillFolders().problems(space)
    assert [(skill.name, skill.own) for skill in found.values()] == [("memory", False), ("skill-making", False)]
    assert problems == {}
    memory = found["memory"]
    assert memory.always and len(memory.body.split()) <= 130
    for name in ("SOUL.md", "USER.md", "memory/MEMORY.md", "memory/HISTORY.md", "/undo", "/memory why"):
        assert name in memory.body
    for tool in ("`remember`", "`edit_file`", "`grep`", "`recall`"):
        assert tool in memory.body


async def test_how_a_skill_is_made_works_as_it_is_told(space: Space) -> None:
    """Read when somebody speaks of skills; the form that it shows is that of a skill."""
    skills = SkillFolders()
    [making] = [skill for skill in await skills.all(space) if skill.name == "skill-making"]
    assert triggered([making], ["Make a skill of that!"]) and not making.always and len(making.body.split()) < 160
    form = making.body[making.body.index("---") :].partition("\n\n")[0]
    assert (await skills.draft(space, "NAME", form)).triggers == ("a word", "or a phrase", "that calls for it")
