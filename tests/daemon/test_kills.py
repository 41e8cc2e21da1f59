"""`kill -9` at random moments of a real daemon, and what is there after the next start.

`NANOMEM_KILL_ROUNDS` says how many times it dies in all; the seeds are fixed, the moments are the machine's.
"""

import asyncio
import os
from pathlib import Path

from proofs import invariants
from proofs.chain import Chain, Worker
from tests.daemon.running import OTHERS, OWNER, World, a_world

ROUNDS = int(os.environ.get("NANOMEM_KILL_ROUNDS", "15"))
CHATS = (OWNER, *OTHERS[:2])
SIDE_BY_SIDE = 2


async def test_nothing_is_lost_or_shown_twice(tmp_path: Path) -> None:
    """Each message is in exactly one turn, each turn has one end, and each end stands in its chat once, in order."""

    async def home(number: int) -> None:
        async with a_world(tmp_path / f"{number}") as world:
            chain = Chain(world, number, CHATS)
            await chain.suffers(ROUNDS * 4 // 5 // SIDE_BY_SIDE, commands=True)
            assert chain.violations() == []

    async with asyncio.TaskGroup() as homes:
        for number in range(SIDE_BY_SIDE):
            homes.create_task(home(number))


async def test_no_tool_runs_twice_in_silence(tmp_path: Path) -> None:
    """A command whose result was lost is reported as of unknown outcome; it ran at most once, all others just once."""

    async def home(number: int) -> None:
        async with a_world(tmp_path / f"{number}") as world:
            world.model.script(Worker().decide)
            chain = Chain(world, number, CHATS, "openai/gpt-test", tools__exec__sandbox="none")
            await chain.suffers(ROUNDS // 5 // SIDE_BY_SIDE, commands=False)
            assert chain.violations() == []
            assert [found for chat in CHATS for found in effects(world, chat)] == []

    async with asyncio.TaskGroup() as homes:
        for number in range(SIDE_BY_SIDE):
            homes.create_task(home(number))


def effects(world: World, chat: int) -> list[str]:
    """What a `Worker` should not have done in a chat, or did not do: it acts three times in a turn."""
    log = world.log_of(f"telegram:{chat}")
    assert log
    return invariants.effects(
        world.said(f"telegram:{chat}"), log.parent.parent, 3 * len(world.ends(f"telegram:{chat}"))
    )
