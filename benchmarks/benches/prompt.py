"""What a request costs in tokens, and how much of it the provider has seen in the request before."""

import json
from pathlib import Path

from benchmarks import wire
from benchmarks.daemons import running, with_model
from benchmarks.figures import Figure
from nanomem.models.tokens import O200kTokenizer
from tests.emulators import OpenAIServer
from tests.emulators.openai import Json

NAME = "prompt"

TURNS = 50
SAID = "This is what I say in turn {}: the train to Hamburg leaves at ten, and I want to bring the books back."
ANSWER = "Then you have time for a coffee before, and the books can be returned at the station as well."


async def measure(folder: Path, quick: bool) -> list[Figure]:
    """See the module."""
    async with OpenAIServer() as model:
        model.script(lambda _: ANSWER)
        async with running(folder, with_model(model)) as daemon:
            await daemon.ready()
            for turn in range(3 if quick else TURNS):
                await daemon.ask(SAID.format(turn + 1))
        requests: list[Json] = [json.loads(raw) for raw in model.raw_requests]
    tools, (system, first) = requests[0]["tools"], requests[0]["messages"]
    count = O200kTokenizer().count
    schemas, instructions = await count(wire.packed(tools)), await count(system["content"])
    said = await count(first["content"])
    prompts = [wire.as_cached(request) for request in requests]
    shared = wire.shared(prompts)
    of_new = [same / len(new) * 100 for same, new in zip(shared, prompts[1:], strict=True)]
    of_old = [same / len(old) * 100 for same, old in zip(shared, prompts, strict=False)]
    return [
        Figure(f"schemas of {len(tools)} tools", "tokens", [schemas], at_most=1500),
        Figure("system prompt of an empty home", "tokens", [instructions]),
        Figure("first message, with its context block", "tokens", [said]),
        Figure("first request of an empty chat", "tokens", [schemas + instructions + said]),
        Figure("of a request, the same as in the one before", "% of bytes", of_new),
        Figure(
            "of all requests, the same as in the one before",
            "% of bytes",
            [sum(shared) / sum(map(len, prompts[1:])) * 100],
        ),
        Figure("of the request before, still there", "% of bytes", of_old),
    ]
