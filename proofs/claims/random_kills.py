"""`kill -9` at random moments, again and again, while twenty people talk at once."""

import asyncio
from pathlib import Path

from proofs.chain import Chain
from proofs.claim import Effort, Report
from proofs.stage import PATIENCE_S
from tests.daemon.running import OTHERS, a_world

NAME = "random-kills"
CLAIM = "killed over and over while many talk, it answers each message once and keeps all that was said"

CHATS = OTHERS[-20:]
KILLS, QUICK_KILLS = 500, 12
SIDE_BY_SIDE = 2


async def prove(folder: Path, effort: Effort) -> Report:
    """So many kills in all, in homes of their own side by side."""
    each = (QUICK_KILLS if effort.quick else KILLS) // SIDE_BY_SIDE
    seeds = range(effort.seed * SIDE_BY_SIDE, (effort.seed + 1) * SIDE_BY_SIDE)
    homes = await asyncio.gather(*(suffered(folder / f"{seed}", seed, each) for seed in seeds))
    tried = {"kills": 0, "messages": 0, "chats": len(CHATS) * SIDE_BY_SIDE}
    violations: list[str] = []
    for seed, (kills, messages, found) in zip(seeds, homes, strict=True):
        tried["kills"] += kills
        tried["messages"] += messages
        violations += [f"dice {seed}, after {kills} kills: {problem}" for problem in found]
    return Report(tried, violations)


async def suffered(folder: Path, seed: int, kills: int) -> tuple[int, int, list[str]]:
    """What became of one home: how often it died, how many messages there were, and what is wrong."""
    chain = None
    try:
        async with a_world(folder) as world:
            world.patience_s = PATIENCE_S
            chain = Chain(world, seed, CHATS)
            await chain.suffers(kills, commands=True)
            found = chain.violations()
    except (AssertionError, TimeoutError) as error:
        found = [str(error) or repr(error)]
    deaths, told = (chain.deaths, chain.told) if chain else (0, {})
    return deaths, sum(map(len, told.values())), found
