"""`kill -9` at random moments, again and again, while twenty people talk at once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs.chain import Chain
from proofs.claim import Effort, Report, say
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
    tried = sum((home.tried for home in homes), Counter(chats=len(CHATS) * SIDE_BY_SIDE))
    violations = [f"dice {home.seed}: {found}" for home in homes for found in home.violations]
    if 2 * tried["kills amid work"] < tried["kills"]:
        violations.append(f"of {tried['kills']} kills {tried['kills amid work']} met messages that were not answered")
    return Report(tried, violations)


@dataclass(frozen=True)
class Suffered:
    """What became of one home."""

    seed: int
    tried: Counter[str]
    violations: Sequence[str]


async def suffered(folder: Path, seed: int, kills: int) -> Suffered:
    """Killed so often, by these dice."""
    chain = None
    try:
        async with a_world(folder) as world:
            world.patience_s = PATIENCE_S
            chain = Chain(world, seed, CHATS)
            await chain.suffers(kills, commands=True)
            found = chain.violations()
    except (AssertionError, TimeoutError) as error:
        found = [str(error) or repr(error)]
    tried = Counter[str]()
    if chain:
        tried["kills"], tried["kills amid work"] = chain.deaths, chain.deaths_amid_work
        tried["messages"] = sum(map(len, chain.told.values()))
    say(f"dice {seed}: {dict(tried)}, {len(found)} violations")
    return Suffered(seed, tried, found)
