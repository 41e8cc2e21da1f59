"""What a person does with nanomem, one thing each: short enough that every moment of it can be tried.

Those with a model that is not `offline` cost seconds more at each start, for litellm.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proofs import invariants
from proofs.stage import Scenario, Visit
from tests.daemon.learning import NEVER, Diarist, Lesson
from tests.daemon.running import OWNER, PLACEHOLDER
from tests.emulators import Answer
from tests.persona import MEMORY

Json = dict[str, Any]
MODEL = "openai/gpt-test"
QUIET = {"agents__dream__schedule": NEVER}
PARAGRAPHS = "\n\n".join(f"Part {n}. " + f"This is what the {n}th lighthouse has seen. " * 12 for n in range(1, 20))


class Scribe(Diarist):
    """Keeps a fact of each tale as soon as it makes a conversation short."""

    def saved(self, text: str) -> Lesson:
        tales = [*dict.fromkeys(re.findall(r"tale \d+", text))]
        return Lesson(f"Ann told {', '.join(tales)}.", {MEMORY: [f"Ann told {tale} herself" for tale in tales]})


def worker() -> Callable[[Json], Answer]:
    """A model that uses three tools, two of them at once, before it answers."""

    def decide(asked: Json) -> Answer:
        newest = max(i for i, message in enumerate(asked["messages"]) if message["role"] == "user")
        number = re.findall(r"job (\d+)", str(asked["messages"][newest]["content"]))[0]
        match sum(message["role"] == "tool" for message in asked["messages"][newest:]):
            case 0:
                note = ("write_file", {"path": f"wrote-{number}", "content": "x"})
                return Answer(tool_calls=[note, ("exec", {"command": f"echo x >> ran-{number}1"})])
            case 2:
                return Answer("One more.", tool_calls=[("exec", {"command": f"echo x >> ran-{number}2"})])
        return Answer(f"Job {number} is done.")

    return decide


def no_tool_ran_twice(visit: Visit) -> list[str]:
    """Three were used for each of the two jobs."""
    return invariants.effects(visit.world.said(), visit.world.root(), 6)


def teller(text: str, delay_s: float = 0) -> Callable[[], Callable[[Json], Answer]]:
    """A model that always says the same, with a delay between its words."""
    return lambda: lambda asked: Answer(text, chunk_delay_s=delay_s)


async def talked(visit: Visit) -> None:
    """A few words, and a fact."""
    await visit.says("Hello", "My sister's name is Ida and she lives in Lübeck")
    visit.facts.append("The boat is called Petrel")
    await visit.asks("/remember The boat is called Petrel", "Saved (")


async def told_of_themselves(visit: Visit) -> None:
    """Twice, so that there is something to make short."""
    await visit.says("My sister Ida lives in Lübeck. We are moving in May.")
    await visit.says("I work as a baker. My boat is called Petrel.")


async def has_history(visit: Visit) -> None:
    """And that, made short; then they talked on."""
    await told_of_themselves(visit)
    await visit.asks("/new", "New session started.")
    await visit.says("I speak Danish")


async def told_tales(visit: Visit) -> None:
    """Two tales."""
    await visit.says("tale 1: once there was a king")
    await visit.says("tale 2: once there was a queen")


async def worked(visit: Visit) -> None:
    await visit.says("Please do job 1")


async def kept_two_facts(visit: Visit) -> None:
    for fact in ("The boat is called Petrel", "The cat is called Miso"):
        await visit.asks(f"/remember {fact}", "Saved (version 3)" if "Miso" in fact else "Saved (")
    visit.facts.append("The boat is called Petrel")
    await visit.says("Hello")


def without_an_index(home: Path) -> None:
    shutil.rmtree(home / "state" / "recall")


async def says_hello(visit: Visit) -> None:
    await visit.says("Hello")


async def asks_something(visit: Visit) -> None:
    await visit.says("What is the name of my sister?")


async def gives_a_job(visit: Visit) -> None:
    await visit.says("Please do job 2")


async def makes_it_short(visit: Visit) -> None:
    await visit.asks("/compact", "Consolidated messages ")


async def makes_tales_short(visit: Visit) -> None:
    await makes_it_short(visit)
    visit.facts.append("Ann told tale 1 herself")


async def starts_afresh(visit: Visit) -> None:
    await visit.asks("/new", "New session started.")


async def lets_it_learn(visit: Visit) -> None:
    await visit.asks("/dream", "Learned (", "Nothing new to learn.")


async def restores(visit: Visit) -> None:
    await visit.asks("/dream-restore --version 2", "Restored version ")


async def remembers(visit: Visit) -> None:
    visit.facts.append("The garden gate is green")
    await visit.asks("/remember The garden gate is green", "Saved (", "Already known: ")


async def edits(visit: Visit) -> None:
    visit.writes("Written by hand")
    await visit.says("Hello again")


async def stops_it_amid_an_answer(visit: Visit) -> None:
    visit.utters("Tell me of the lighthouse")
    seen = visit.world.telegram
    await visit.world.until(lambda: any(text not in ("", PLACEHOLDER) for text in seen.visible(OWNER)))
    visit.stops_it()


SCENARIOS = (
    Scenario("first-start", "The first start, and the first message.", says_hello, in_an_empty_home=True),
    Scenario("turn", "A message and its answer.", says_hello, talked),
    Scenario("remember", "Something is kept with /remember.", remembers, talked),
    Scenario("restore", "The files are as they were at an older version.", restores, kept_two_facts),
    Scenario("edit", "MEMORY.md is changed with an editor, then they talk on.", edits, talked),
    Scenario("recall", "The search index is gone, and a question needs it.", asks_something, talked, without_an_index),
    Scenario("compact", "A conversation is made short.", makes_it_short, told_of_themselves),
    Scenario("new", "A conversation is archived, and one begun.", starts_afresh, told_of_themselves),
    Scenario("dream", "It learns from what was archived.", lets_it_learn, has_history, settings=QUIET),
    Scenario(
        "consolidation",
        "A conversation is made short, and a fact kept of it.",
        makes_tales_short,
        told_tales,
        model=MODEL,
        script=lambda: Scribe().decide,
        settings=QUIET,
    ),
    Scenario(
        "tools",
        "A turn with three tools.",
        gives_a_job,
        worked,
        model=MODEL,
        script=worker,
        settings={"tools__exec__sandbox": "none"},
        also=no_tool_ran_twice,
    ),
    Scenario(
        "long-answer", "An answer in several messages.", says_hello, says_hello, model=MODEL, script=teller(PARAGRAPHS)
    ),
    Scenario(
        "stop",
        "It is stopped in the midst of an answer, and started again.",
        stops_it_amid_an_answer,
        says_hello,
        model=MODEL,
        script=teller("This is what the lighthouse has seen. " * 12, 0.02),
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
