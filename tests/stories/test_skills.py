"""A skill's life: the agent drafts it, the owner takes it in, a word calls for it."""

import json
import re
from datetime import UTC
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.agent.commands import DENIED
from nanomem.agent.skill_commands import LONGEST
from nanomem.errors import CannotStore
from nanomem.ports import Skill
from nanomem.skills import mark
from nanomem.stores.skills import SkillFolders
from nanomem.stores.templates import JinjaTemplates
from nanomem.testing import FakeChannel, FakeModel, FakeSkills, calls, inbound, updates
from nanomem.tools import Workbench, load_tools
from tests.stories.chat import Chat, World, running

OWNERS = "terminal:local"
ANNS = "fake:42"
GROUP = "fake:-1001"
TEA = "---\nname: tea\ndescription: how Ann likes it\ntriggers: [tea]\n---\nThree minutes.\n"
INSTALLED = "Skill tea is installed: how Ann likes it\nTriggers: tea"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The package's skills, and the owner's on a disk."""
    skills = SkillFolders()
    tools = load_tools(Workbench(UTC, skills=skills, exec_enabled=False, web_fetch=False))
    templates = JinjaTemplates(Path("/nowhere"))
    return World(skills=skills, tools=tools, templates=templates, home=tmp_path, channels=[FakeChannel("terminal")])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "skills"


def put(folder: Path, name: str, text: str = TEA) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text)


async def asks(chat: Chat, *texts: str, address: str = OWNERS, owner: bool = True) -> list[str]:
    return await chat.asks(*texts, address=address, owner=owner)


async def test_from_a_draft_to_the_prompt(world: World, own: Path) -> None:
    """It is used only once the owner has taken it in; then from the next message on."""
    wish = json.dumps({"path": "skills/tea/SKILL.md", "content": TEA})
    world.model = FakeModel(calls(("write_file", wish)), "Drafted.", "Which tea?", "Three minutes.", "Welcome.")
    async with running(world) as chat:
        assert await asks(chat, "learn how I like my drink", "tea?") == ["Drafted.", "Which tea?"]
        assert "Kept as a draft" in world.model.requests[1].messages[-1].text
        assert "Three minutes" not in world.model.requests[2].messages[-1].text
        listed, accepted = await asks(chat, "/skills", "/skills accept tea")
        assert listed.endswith(
            f"Drafts, not in use until /skills accept NAME:\ntea: how Ann likes it (mark {mark(TEA)})"
        )
        assert accepted == INSTALLED
        await asks(chat, "My TEA, please", "Thanks")
    newest, after = (request.messages[-1].text for request in world.model.requests[3:])
    assert "## Skill: tea\nThree minutes.\n</context>" in newest and "## Skill: tea" not in after
    assert (own / "tea" / "SKILL.md").read_text() == TEA and not (own / "drafts" / "tea").exists()


async def test_the_agent_reads_what_the_prompt_names(world: World, own: Path) -> None:
    """Also one that is not there, which it is told."""
    put(own, "tea")
    read, wrong = (calls(("read_skill", json.dumps({"name": name}))) for name in ("tea", "coffee"))
    world.model = FakeModel(wrong, read, "Three minutes.")
    async with running(world) as chat:
        assert await asks(chat, "how long for my drink?") == ["Three minutes."]
    first, second, third = world.model.requests
    assert "\ntea: how Ann likes it" in first.system and first.system == third.system
    assert "There is no skill 'coffee'" in second.messages[-1].text
    assert third.messages[-1].text == "Three minutes."


async def test_what_there_is(world: World, own: Path) -> None:
    """Whose it is, what is always on, what waits, and what is broken and why."""
    put(own, "tea")
    put(own / "drafts", "walk", "---\ndescription: where to\nalways: true\n---\nOut.")
    put(own, "bad", "no head")
    async with running(world) as chat:
        [listed] = await asks(chat, "/skills")
    skills, drafts, broken = listed.split("\n\n")
    assert skills.splitlines()[0] == "Skills:"
    assert "memory: How what you know is kept, changed, found and undone. (built in, always on)" in skills.splitlines()
    assert skills.splitlines()[-1] == "tea: how Ann likes it (yours)"
    assert re.search(r":\nwalk: where to \(to be always on, mark [0-9a-f]{6}\)\Z", drafts)
    assert broken == "Broken, and not in use:\nskills/bad/SKILL.md: does not begin with a head between two lines of ---"


async def test_a_draft_is_read_before_it_is_accepted(world: World, own: Path) -> None:
    """The draft before the skill of its name; built-in ones, too; what is none is said."""
    put(own, "tea", TEA.replace("Three", "Two"))
    put(own / "drafts", "tea")
    async with running(world) as chat:
        draft, packaged, none = await asks(chat, "/skills show tea", "/skills show memory", "/skills show ../tea")
    assert draft == f"```\n{TEA.rstrip()}\n```\nA draft; to take in this text: /skills accept tea {mark(TEA)}"
    assert packaged.startswith("```\n---\nname: memory\n") and "A draft" not in packaged
    assert none == "There is no skill or draft ../tea. Drafts: tea."


async def test_accepted_again_after_a_crash(world: World, own: Path) -> None:
    """The draft is gone and the skill is there: the same reply; what was replaced stays where it was kept."""
    put(own, "tea", TEA.replace("Three", "Two"))
    put(own / "drafts", "tea")
    async with running(world) as chat:
        [accepted] = await asks(chat, "/skills ACCEPT tea")
    async with running(world) as chat:
        chat.number = 10
        [again] = await asks(chat, "/skills accept tea")
    assert again == INSTALLED
    assert accepted == f"{again}\nWhat it replaces is kept: skills/.replaced/tea-1/SKILL.md"
    assert "Two minutes" in (own / ".replaced" / "tea-1" / "SKILL.md").read_text()


async def test_what_is_taken_in_is_what_was_shown(world: World, own: Path) -> None:
    """A draft that was written anew since is not; without a mark it is. Done again after a crash, it is the same."""
    put(own / "drafts", "tea")
    async with running(world) as chat:
        [shown] = await asks(chat, "/skills show tea")
        accept = shown.rpartition(": ")[2]
        file = own / "drafts" / "tea" / "SKILL.md"
        file.write_text(TEA.replace("Three", "Tell Mallory. Three"))
        refused, another = await asks(chat, accept, "/skills accept tea 000000")
        assert refused == another == "The draft tea has changed since: see /skills show tea."
        assert file.exists() and not (own / "tea").exists()
        file.write_text(TEA)
        assert await asks(chat, accept.upper().replace("/SKILLS", "/skills").replace("TEA", "tea")) == [INSTALLED]
        assert await asks(chat, accept) == [INSTALLED]
        assert await asks(chat, "/skills accept tea 000000") == ["There is no draft tea. There are no drafts."]


async def test_what_will_be_in_every_prompt_is_said(world: World, own: Path) -> None:
    """And what calls for the others."""
    put(own / "drafts", "walk", "---\ndescription: where to\nalways: true\ntriggers: [out, air]\n---\nOut.")
    async with running(world) as chat:
        assert await asks(chat, "/skills accept walk") == [
            "Skill walk is installed: where to\nIt is always on: in every prompt.\nTriggers: out, air"
        ]


async def test_what_cannot_be_accepted(world: World, own: Path) -> None:
    """It is said why, and what could be."""
    async with running(world) as chat:
        assert await asks(chat, "/skills accept tea", "/skills accept memory", "/skills accept", "/skills eat tea") == [
            "There is no draft tea. There are no drafts.",
            "There is no draft memory. There are no drafts.",
            "Say which: /skills accept NAME. There are no drafts.",
            "/skills knows no 'eat tea'. There is /skills, /skills show NAME and /skills accept NAME.",
        ]
        put(own / "drafts", "walk", TEA.replace("tea", "walk"))
        put(own / "drafts", "bad", TEA)
        for name in ("tea", "../../tea", "x" * 10_000):
            assert await asks(chat, f"/skills accept {name}") == [f"There is no draft {name[:64]}. Drafts: walk."]
        [broken] = await asks(chat, "/skills accept bad")
    assert broken.startswith("The draft bad cannot be used: its name is not its folder's")
    assert (own / "drafts" / "bad" / "SKILL.md").exists()


async def test_only_the_owner_and_only_at_home(world: World, own: Path) -> None:
    """Others are refused; in a group the owner sees what all may see, and takes nothing in."""
    put(own, "tea")
    put(own / "drafts", "secret", TEA.replace("tea", "secret"))
    put(own / "drafts", "bad", "no head")
    async with running(world) as chat:
        assert await asks(chat, "/skills", "/skills accept secret", address=ANNS, owner=False) == [DENIED, DENIED]
        listed, accepted = await asks(chat, "/skills", "/skills accept secret", address=GROUP)
    assert "tea: how" in listed and "secret" not in listed and "bad" not in listed
    assert accepted == "Skills are written in the owner's private chats only. Nothing was saved."
    assert (own / "drafts" / "secret" / "SKILL.md").exists()


async def test_a_full_disk_is_said(world: World) -> None:
    """And nothing is called installed."""
    skills = FakeSkills()
    skills.waiting["tea"] = TEA
    skills.fails.append(CannotStore("No room left."))
    world.skills = skills
    async with running(world) as chat:
        assert await asks(chat, "/skills accept tea", "/skills accept tea") == [
            "No room left.",
            INSTALLED,
        ]


async def test_the_list_is_answered_while_a_turn_runs(world: World) -> None:
    """It does not wait for the model."""
    world.model.gate.clear()
    async with running(world) as chat:
        await chat.bus.take("terminal", updates([inbound("think", 1, OWNERS)]))
        await chat.until_asked()
        terminal = world.channels[0]
        assert isinstance(terminal, FakeChannel)
        await chat.bus.take("terminal", updates([inbound("/skills", 2, OWNERS)]))
        await terminal.until(lambda: any("built in" in text for text in terminal.screen(OWNERS)))
        world.model.gate.set()
        await terminal.until(lambda: len(terminal.finished) == 2)


async def test_a_list_is_bounded(world: World) -> None:
    """However many there are and however much they say; none at all is said."""
    world.skills = FakeSkills(*(Skill(f"s{n}", "x" * 5_000, "text") for n in range(400)))
    async with running(world) as chat:
        [listed] = await asks(chat, "/skills")
    assert len(listed) < LONGEST + 100 and listed.endswith("\n[... more than fits here]")
    world.skills = FakeSkills()
    async with running(world) as chat:
        chat.number = 10
        assert await asks(chat, "/skills") == ["There are no skills."]


async def test_a_skill_that_breaks_while_it_is_used_stops_nothing(world: World, own: Path) -> None:
    """It is said once in the log, and the answers go on."""
    put(own, "tea")
    file = own / "tea" / "SKILL.md"
    async with running(world) as chat:
        await asks(chat, "tea?")
        with capture_logs() as events:
            for text in (b"\xff" * 100, b"---\ndescription: [" * 300, b"x" * 3_000_000, b"---\n\0"):
                file.write_bytes(text)
                for _ in range(2):
                    assert len(await asks(chat, "tea?")) == 1
        assert [event["file"] for event in events if event["event"] == "skill.broken"] == [str(file)] * 4
        file.write_text(TEA)
        await asks(chat, "tea?")
    assert ["## Skill: tea" in r.messages[-1].text for r in world.model.requests] == [True, *[False] * 8, True]
