"""A space on a real disk, and the tools as the daemon gets them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pytest

from nanomem.arguments import check_arguments
from nanomem.ports import Origin
from nanomem.spaces import Space
from nanomem.stores.skills import SkillFolders
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
    tools = load_tools(Workbench(UTC, skills=SkillFolders(), web_allow_loopback=True))

    async def run(name: str, /, **arguments: object) -> str:
        tool = tools[name]
        return await tool.run(check_arguments(tool.schema, json.dumps(arguments)), Origin(space))

    return run


@pytest.fixture
async def longest_lag() -> AsyncIterator[Callable[[], float]]:
    """How long the event loop was kept from its work at most, in seconds, since the test began."""
    loop = asyncio.get_running_loop()
    beats = [loop.time()]

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.01)
            beats.append(loop.time())

    beating = asyncio.create_task(beat())
    yield lambda: max(later - earlier for earlier, later in pairwise([*beats, loop.time()]))
    beating.cancel()
