"""Whether the model is kept ready while a network is away."""

import asyncio
from dataclasses import dataclass
from typing import cast

from nanomem.daemon import STAY_WARM_EVERY_S, stay_warm
from nanomem.models.offline import OfflineModel
from nanomem.ports import Channel
from nanomem.testing import FakeClock


class Warmed(OfflineModel):
    """Counts."""

    times = 0

    async def warm_up(self) -> None:
        self.times += 1


@dataclass
class Network:
    """Nothing but whether it is there."""

    error: str | None = None


async def test_the_model_is_kept_ready_while_a_network_is_away() -> None:
    """What is said meanwhile comes all at once; in peace nobody needs a model that nobody asks."""
    clock, model, network = FakeClock(rushing=False), Warmed(), Network()
    staying = asyncio.create_task(stay_warm([cast(Channel, network)], model, clock))
    heard = []
    for network.error in (None, "no answer", "no answer", None):
        await asyncio.sleep(0)
        clock.pass_time(STAY_WARM_EVERY_S)
        await asyncio.sleep(0)
        heard.append(model.times)
    staying.cancel()
    assert heard == [0, 1, 2, 2]
