"""The tools that change what is known: all of it through the memory's one writer, with a receipt."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest

from nanomem.errors import CannotStore, Refused, ShowModel
from nanomem.memory.writer import MemoryWriter
from nanomem.ports import Origin, Tool
from nanomem.spaces import Space
from nanomem.testing import FakeClock, FakeVersions, FakeWorkingFiles
from nanomem.tools import Workbench, load_tools
from nanomem.tools.stillness import Stillness

OWNERS = Space("owner", Path("/nowhere/workspace"), Path("/nowhere/workspace"))
ANNS = Space("telegram:7", Path("/nowhere/spaces/7"), Path("/nowhere/workspace"))
MEMORY = "memory/MEMORY.md"
SPELLINGS = [
    "memory/MEMORY.md",
    "./memory//memory.MD",
    "/workspace/Memory/MEMORY.md",
    f"{OWNERS.root}/memory/MEMORY.md",
]

Use = Callable[..., Awaitable[str]]


@dataclass
class Known:
    """What the tools stand on."""

    versions: FakeVersions
    files: FakeWorkingFiles
    tools: dict[str, Tool]

    async def use(self, name: str, space: Space = OWNERS, call: str = "", **arguments: str) -> str:
        """Runs a tool as a turn does."""
        origin = Origin(space, "terminal:local", "terminal:local#7", 3, 4, call)
        return await self.tools[name].run(arguments, origin)

    def stands(self, name: str = MEMORY, space: Space = OWNERS) -> str:
        """What a person sees in a file now."""
        return self.files.files[space.name][name]


@pytest.fixture
def known() -> Known:
    versions, files = FakeVersions(), FakeWorkingFiles()
    files.files["owner"] = {
        "SOUL.md": "- Be kind\n",
        "USER.md": "Name: Ann\n",
        "memory/MEMORY.md": "# Memory\n\n- Likes green tea\n- Has a dog called Rex\n",
    }
    memory = MemoryWriter(versions, files, FakeClock(), lambda space: None, Stillness())
    return Known(versions, files, load_tools(Workbench(UTC, memory=memory)))


async def test_a_fact_is_saved_once_it_is_said_so(known: Known) -> None:
    """With where it comes from; a second time it is known."""
    assert await known.use("remember", fact="Works at the\nlibrary") == "Saved (version 2): Works at the library"
    assert known.stands().endswith("- Has a dog called Rex\n- Works at the library\n")
    newest = (await known.versions.all(OWNERS))[-1]
    assert newest.trailers == {"Session": "terminal:local", "Messages": "3-4", "Inbound": "terminal:local#7"}
    assert await known.use("remember", fact="Works at the library") == "Already known: Works at the library"


async def test_a_call_that_is_made_again_saves_nothing_twice(known: Known) -> None:
    """It is known by its id."""
    for _ in range(2):
        assert await known.use("remember", call="t/c1", fact="Likes cake") == "Saved (version 2): Likes cake"
    assert len(await known.versions.all(OWNERS)) == 2


async def test_what_could_not_be_saved_is_not_called_so(known: Known) -> None:
    """The model is told, and the file is as it was."""
    await known.use("remember", fact="Likes cake")
    known.versions.fails.append(CannotStore("No room left."))
    with pytest.raises(CannotStore):
        await known.use("remember", fact="Likes beer")
    with pytest.raises(Refused):
        await known.use("remember", fact=" - ")
    assert "beer" not in known.stands()


@pytest.mark.parametrize("path", SPELLINGS)
async def test_an_edit_of_memory_is_a_version(known: Known, path: str) -> None:
    """By any spelling; what it takes out is out, with a reason."""
    said = await known.use("edit_file", path=path, old="- Has a dog called Rex\n", new="")
    assert said.splitlines()[0] == "Saved (version 2)."
    assert "- Has a dog called Rex (edited by the agent)" in said.splitlines()
    assert known.stands() == "# Memory\n\n- Likes green tea\n"
    newest = (await known.versions.all(OWNERS))[-1]
    assert newest.kind == "agent" and newest.lines == ("- Has a dog called Rex (edited by the agent)",)


async def test_an_edit_that_turns_a_fact_into_another(known: Known) -> None:
    """Is done as it was meant, and says what became of the old one."""
    said = await known.use("edit_file", path=MEMORY, old="green tea", new="coffee")
    assert known.stands() == "# Memory\n\n- Likes coffee\n- Has a dog called Rex\n"
    assert said.startswith("Saved (version 2).\n") and "green tea" in said and "coffee" in said


async def test_an_edit_goes_by_what_stands_there_now(known: Known) -> None:
    """Also where a person has just written; what is there twice or not at all is not guessed."""
    await known.use("remember", fact="Likes cake")
    known.files.files["owner"]["memory/MEMORY.md"] = "# Memory\n\n- Likes green tea\n- Likes tea cups\n"
    with pytest.raises(ShowModel, match="2 times"):
        await known.use("edit_file", path=MEMORY, old="tea", new="x")
    with pytest.raises(ShowModel, match="is not in memory"):
        await known.use("edit_file", path=MEMORY, old="dog", new="x")
    with pytest.raises(ShowModel, match="nothing to change"):
        await known.use("edit_file", path=MEMORY, old="tea", new="tea")
    assert (await known.use("edit_file", path=MEMORY, old="tea cups", new="cups")).startswith("Saved (ver")
    assert known.stands() == "# Memory\n\n- Likes green tea\n- Likes cups\n"


async def test_a_file_written_anew_loses_no_fact(known: Known) -> None:
    """What was left out is put back, and the answer says so, and what to do."""
    said = await known.use("write_file", path=MEMORY, content="# Memory\n\n- Likes green tea\n- Likes cake\n")
    lines = said.splitlines()
    assert lines[0] == "Saved (version 2)."
    assert "+ Likes cake" in lines and "= Has a dog called Rex put back" in lines
    assert lines[-1] == "What was left out without a reason is put back. To remove a fact, use edit_file."
    assert all(fact in known.stands() for fact in ("Likes cake", "Likes green tea", "Has a dog called Rex"))


async def test_the_same_again_is_no_version(known: Known) -> None:
    """And says that nothing was to be done."""
    assert await known.use("write_file", path="USER.md", content="Name: Ann\n") == "Nothing to change."
    assert len(await known.versions.all(OWNERS)) == 1


async def test_each_file_of_the_owner_can_be_changed(known: Known) -> None:
    """The manner, too; by others it cannot."""
    await known.use("edit_file", path="SOUL.md", old="kind", new="kind and brief")
    await known.use("edit_file", path="user.md", old="Ann", new="Anna")
    assert (known.stands("SOUL.md"), known.stands("USER.md")) == ("- Be kind and brief\n", "Name: Anna\n")
    for arguments in ({"old": "kind", "new": "evil"}, {"content": "- Be evil\n"}):
        name = "edit_file" if "old" in arguments else "write_file"
        with pytest.raises(ShowModel, match="not saved"):
            await known.use(name, ANNS, path="soul.md", **arguments)
    assert known.stands("SOUL.md") == "- Be kind and brief\n"


async def test_others_write_their_own_memory(known: Known) -> None:
    """And nobody else's."""
    assert await known.use("write_file", ANNS, path="USER.md", content="Name: Bob\n") == (
        "Saved (version 2).\n+ Name: Bob"
    )
    assert known.stands("USER.md", ANNS).strip() == "Name: Bob"
    assert known.stands("USER.md") == "Name: Ann\n"


def test_without_a_memory_nothing_can_be_remembered() -> None:
    """The tool is not offered."""
    assert "remember" not in load_tools(Workbench(UTC))
