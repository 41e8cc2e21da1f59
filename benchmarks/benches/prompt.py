"""What a request costs in tokens, and how much of it the provider has seen in the request before; who waits when the
conversation is made shorter.
"""

import json
import time
from itertools import pairwise
from pathlib import Path

from benchmarks import talks, wire
from benchmarks.daemons import running, with_model
from benchmarks.figures import Figure
from benchmarks.floor import Run
from nanomem.models.tokens import O200kTokenizer
from tests.emulators import OpenAIServer
from tests.emulators.openai import Json

NAME = "prompt"
LONGEST_S = 400.0

TURNS = 50
SAID = "This is what I say in turn {}: the train to Hamburg leaves at ten, and I want to bring the books back."
ANSWER = "Then you have time for a coffee before, and the books can be returned at the station as well."
LONG = (100, 100), (240, 240)
"""Words of what is said and of what is answered: 350 tokens."""
SLOW_S = 0.3


async def measure(folder: Path, run: Run) -> list[Figure]:
    """See the module."""
    for name in ("new", "waiting"):
        (folder / name).mkdir()
    figures = await _of_a_new_chat(folder / "new", 3 if run.quick else TURNS)
    figures += await _of_a_talk(folder / "talk", 3 if run.quick else 2 * TURNS)
    return figures + await _waiting(folder / "waiting", 3 if run.quick else TURNS)


async def _of_a_new_chat(folder: Path, turns: int) -> list[Figure]:
    async with OpenAIServer() as model:
        model.script(lambda _: ANSWER)
        async with running(folder, with_model(model)) as daemon:
            await daemon.ready()
            for turn in range(turns):
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
        Figure("first request of an empty chat", "tokens", [schemas + instructions + said], at_most=2500),
        Figure("of a request, the same as in the one before", "% of bytes", of_new),
        Figure(
            "of all requests, the same as in the one before",
            "% of bytes",
            [sum(shared) / sum(map(len, prompts[1:])) * 100],
        ),
        Figure("of the request before, still there", "% of bytes", of_old),
    ]


async def _of_a_talk(folder: Path, turns: int) -> list[Figure]:
    """With the settings that everybody has; a turn begins when the consolidation after the one before is done."""
    talk = await talks.talk(folder, turns, talks.Mind(*LONG), {})
    prompts = [wire.as_cached(request) for request in talk.turns]
    new = sum(map(len, prompts[1:])) - sum(wire.shared(prompts))
    systems = [request["messages"][0]["content"] for request in talk.turns]
    changes = sum(one != other for one, other in pairwise(systems))
    name = f"{turns} turns of 350 tokens"
    return [
        Figure(f"{name}: not the same as in the request before", "kB", [new / 1000], at_most=150),
        Figure(f"{name}: said and answered", "kB", [talk.said / 1000]),
        Figure(f"{name}: not the same, beyond what was said", "kB", [max(0.0, (new - talk.said) / 1000)]),
        Figure(f"{name}: consolidations", "times", [len(talk.consolidations)]),
        Figure(f"{name}: prefix changed", "times", [changes], at_most=len(talk.consolidations)),
    ]


async def _waiting(folder: Path, turns: int) -> list[Figure]:
    """With a small window, a model that takes its time, and a person who does not: each turn is begun at once."""
    mind, said = talks.Mind(*LONG, delay_s=SLOW_S), []
    async with OpenAIServer() as model:
        model.script(mind.answers)
        async with running(folder, with_model(model) | talks.SETTINGS) as daemon:
            await daemon.ready()
            for _ in range(turns):
                said.append(time.monotonic())
                await daemon.ask(mind.says())
    beside, alone, waited = [0.0], [0.0], 0
    for spoken, asked in list(zip(said, mind.turns_at, strict=True))[1:]:  # the first waits for litellm
        near = [at for at in mind.consolidations_at if at - SLOW_S / 3 < spoken < at + SLOW_S]
        (beside if near else alone).append((asked - spoken) * 1000)
        waited += any(spoken < at + SLOW_S / 3 and asked >= at + SLOW_S for at in near)
    return [
        Figure(f"model of {SLOW_S * 1000:.0f} ms: consolidations", "times", [len(mind.consolidations)]),
        Figure("a turn until the model is asked, none running", "ms", alone[1:]),
        *([Figure("a turn until the model is asked, one running", "ms", beside[1:])] if beside[1:] else []),
        Figure("the slowest turn for a consolidation waited", "ms", [max(0.0, max(beside) - max(alone))]),
        Figure("turns that waited for a consolidation to be answered", "times", [waited], at_most=0),
    ]
