"""A space on a real disk, and the tools as the daemon gets them."""

from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path

import pytest

from nanomem.spaces import Space
from nanomem.arguments import check_arguments
from nanomem.tools import Workbench, load_tools

Use = Callable[..., Awaitable[str]]


@pytest.fixture
def space(tmp_path: Path) -> Space:
    """The owner's space, in a home that has secrets beside it."""
    home = tmp_path / "home"
    root = home / "workspace"
    root.mkdir(parents=True)
    (home / "config.toml").write_text("token = 'CANARY-SECRET'")
    (home / "workspace-evil").mkdir()
    (home / "workspace-evil" / "secret").write_text("CANARY-SECRET")
    return Space("owner", root, root)


@pytest.fixture
def use(space: Space) -> Use:
    """Runs a tool by its name, its arguments checked as in a turn."""
    tools = load_tools(Workbench(UTC, web_allow_loopback=True))

    async def run(name: str, **arguments: object) -> str:
        import json

        tool = tools[name]
        return await tool.run(check_arguments(tool.schema, json.dumps(arguments)), space)

    return run
