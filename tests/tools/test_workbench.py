"""The set of tools a model is offered."""

import json
import subprocess
import sys
from datetime import UTC

from nanomem.messages import ToolSchema
from nanomem.recall.found import Found, Sought
from nanomem.spaces import Space
from nanomem.testing import FakeMemory, FakeSkills
from nanomem.tools import Workbench, load_tools

NAMES = [
    *("edit_file", "exec", "grep", "list_dir", "read_file", "read_skill"),
    *("recall", "remember", "web_fetch", "write_file"),
]


async def search(space: Space, sought: Sought) -> tuple[Found, bool]:
    return Found(), True


BENCH = Workbench(UTC, memory=FakeMemory(), skills=FakeSkills(), search=search)


def as_json(schema: ToolSchema) -> str:
    """As a provider is sent it."""
    return json.dumps({"name": schema.name, "description": schema.description, "parameters": schema.parameters})


def test_all_tools_are_found_in_a_fixed_order() -> None:
    """Twice the same names and the same bytes, so that a provider's cache holds."""
    first, second = (load_tools(BENCH) for _ in range(2))
    assert list(first) == NAMES
    assert [as_json(tool.schema) for tool in first.values()] == [as_json(tool.schema) for tool in second.values()]


def test_offering_tools_loads_nothing_large() -> None:
    """What a tool stands on is imported when it is first used: the start does not wait for it."""
    program = (
        "import sys; from datetime import UTC; from nanomem.tools import Workbench, load_tools\n"
        "load_tools(Workbench(UTC))\n"
        "print([name for name in ('httpx', 'httpcore', 'bs4', 'markdownify', 'regex') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_what_is_switched_off_is_not_there() -> None:
    """Neither in the list nor in the schemas."""
    tools = load_tools(Workbench(UTC, web_fetch=False, exec_enabled=False))
    assert list(tools) == [
        name for name in NAMES if name not in ("exec", "read_skill", "recall", "remember", "web_fetch")
    ]


def test_schemas_are_cheap() -> None:
    """They are in every request."""
    size = sum(len(as_json(tool.schema)) for tool in load_tools(BENCH).values())
    assert size / 4 < 900


def test_only_tools_that_change_nothing_run_side_by_side() -> None:
    """Two edits at once could lose one."""
    one_by_one = {name for name, tool in load_tools(BENCH).items() if not tool.parallel}
    assert one_by_one == {"edit_file", "exec", "remember", "write_file"}


def test_parameters_are_those_of_the_contract() -> None:
    """A scripted model relies on the names."""
    named = {name: list(tool.schema.parameters["properties"]) for name, tool in load_tools(BENCH).items()}
    assert named == {
        "edit_file": ["path", "old", "new"],
        "exec": ["command"],
        "grep": ["pattern", "path"],
        "list_dir": ["path"],
        "read_file": ["path", "offset", "limit"],
        "read_skill": ["name"],
        "recall": ["query", "who", "since", "until", "offset", "near"],
        "remember": ["fact"],
        "web_fetch": ["url", "offset"],
        "write_file": ["path", "content"],
    }
