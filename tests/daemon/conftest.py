"""A world of its own for each story."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.daemon.running import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A home, both networks, and no daemon yet."""
    async with a_world(tmp_path) as found:
        yield found
