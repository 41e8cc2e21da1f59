"""A talk of many turns with a model of a small window, and what its requests came to."""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks import remembered, wire
from benchmarks.daemons import running, with_model
from nanomem.models.tokens import O200kTokenizer
from tests.emulators import Answer, OpenAIServer
from tests.emulators.openai import Json, Scripted

Range = tuple[int, int]

BUDGET = 6144
SETTINGS: dict[str, str] = {
    "agents.defaults.context_window_tokens": "8192",
    "agents.defaults.max_completion_tokens": "1024",
    "agents.defaults.safety_buffer_tokens": "1024",
}
SAID, ANSWERED = (5, 50), (20, 120)
"""The least and the most words of a message, and of an answer."""
PAUSE_S = 0.05
"""A consolidation begins well within it."""
_TEXT = (
    "the train to Hamburg leaves at ten and I want to bring back all of those books that we spoke about last week, "
    "but then there is no time for a coffee at the station, unless you know of an earlier one that is not so full"
)
_MEMORY = re.compile(r"## Current Long-term Memory\n(.*?)\n\n## Conversation to Process\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Talk:
    """What a model was asked: the requests of the turns, and those of consolidations with what they were answered.

    `estimates` are what the daemon took each turn's request for, in o200k_base tokens; `prefixes` is how often it
    began a prompt anew; `said` are the bytes of all that was said and answered.
    """

    turns: Sequence[Json]
    consolidations: Sequence[tuple[Json, str]]
    estimates: Sequence[int]
    prefixes: int
    said: int


class Mind:
    """A model that answers in so many words, and keeps two new facts of each stretch; each answer takes `delay_s`.

    `turns_at` and `consolidations_at` are when it was asked.
    """

    def __init__(self, said: Range = SAID, answered: Range = ANSWERED, delay_s: float = 0.0) -> None:
        self._lengths = said, answered
        self._delay_s = delay_s
        self._random = Random(7)
        self._facts = remembered.facts(self._random)
        self.turns: list[Json] = []
        self.turns_at: list[float] = []
        self.consolidations: list[tuple[Json, str]] = []
        self.consolidations_at: list[float] = []
        self.said = 0

    def says(self) -> str:
        """What the person says next."""
        return self._counted(self._some(*self._lengths[0]))

    def answers(self, asked: Json) -> Scripted:
        """What it answers to a request."""
        if asked["tools"][0]["function"]["name"] != "save_memory":
            self.turns.append(asked)
            self.turns_at.append(time.monotonic())
            return Answer(self._counted(self._some(*self._lengths[1])), delay_s=self._delay_s)
        save = self._saved(asked)
        self.consolidations.append((asked, json.dumps(save)))
        self.consolidations_at.append(time.monotonic())
        return Answer(tool_calls=[("save_memory", save)], delay_s=self._delay_s)

    def _counted(self, text: str) -> str:
        self.said += len(text.encode())
        return text

    def _some(self, least: int, most: int) -> str:
        words = _TEXT.split()
        start, count = self._random.randrange(len(words)), self._random.randint(least, most)
        return " ".join(words[at % len(words)] for at in range(start, start + count))

    def _saved(self, asked: Json) -> Json:
        said = {"history_entry": self._some(60, 90) + ".", "key_facts": [self._some(8, 14)]}
        new = [f"- {next(self._facts)}" for _ in range(2)]
        properties = asked["tools"][0]["function"]["parameters"]["properties"]
        if "changes" in properties:
            return said | {"changes": [{"add": fact} for fact in new]}
        shown = _MEMORY.search(asked["messages"][-1]["content"])
        if shown is None:
            raise ValueError("the call shows no memory")
        return said | {"memory_update": "\n".join([shown[1], *new])}


async def talk(folder: Path, turns: int, mind: Mind, settings: Mapping[str, str]) -> Talk:
    """So many turns with a daemon on an empty home; each begins when all that the one before brought about is done."""
    folder.mkdir()
    with ThreadPoolExecutor(1) as thread:
        tokenizer = O200kTokenizer()
        async with OpenAIServer(count=lambda text: thread.submit(asyncio.run, tokenizer.count(text)).result()) as model:
            model.script(mind.answers)
            async with running(folder, {**with_model(model), **settings}) as daemon:
                await daemon.ready()
                for _ in range(turns):
                    await daemon.ask(mind.says())
                    await _quiet(mind, folder / "daemon.log")
    log = [json.loads(line) for line in (folder / "daemon.log").read_text().splitlines()]
    estimates = [event["estimate"] for event in log if event["event"] == "model.answered"]
    prefixes = _count(folder / "daemon.log", "prompt.prefix_built")
    return Talk(mind.turns, mind.consolidations, estimates, prefixes, mind.said)


async def _quiet(mind: Mind, log: Path) -> None:
    """Waits until no consolidation was asked for in a while, and none is unfinished."""
    asked = -1
    while asked < len(mind.consolidations) or _count(log, "memory.consolidated") < asked:
        asked = len(mind.consolidations)
        await asyncio.sleep(PAUSE_S)


def _count(log: Path, event: str) -> int:
    return log.read_text().count(f'"{event}"')


async def tokens(requests: Sequence[Json]) -> list[int]:
    """Of each request, in o200k_base."""
    tokenizer = O200kTokenizer()
    return [await wire.tokens(request, tokenizer) for request in requests]


async def tokens_of_texts(texts: Sequence[str]) -> list[int]:
    """Of each text, in o200k_base."""
    tokenizer = O200kTokenizer()
    return [await tokenizer.count(text) for text in texts]
