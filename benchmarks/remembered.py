"""Memories that look as if they had been kept for long: facts, versions of them, and the entries of history behind."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from benchmarks import past
from nanomem.entries import Entry
from nanomem.facts import MemoryFiles
from nanomem.home import Home, make
from nanomem.spaces import OWNER, Space, Spaces
from nanomem.stores.history import JsonlHistory
from nanomem.stores.versions import GitVersions
from nanomem.versions import Verdict, headline, line, message

KEY = "terminal:past"
FIRST = "Zoe"
"""Whom the oldest fact is about, and no other."""
FACTS = 200
"""As many a memory has when it is old; a new one then drives an old one out."""
MESSAGES = 4
"""Behind each version."""

_WHO = (
    "Ann, Ben, Carla, David, Elif, Farid, Greta, Hugo, Ines, Jonas, Karim, Lena, Milo, Nadia, Omar, Paula, Rosa, Sami"
)
_DOES = "likes, teaches, collects, paints, sells, repairs, studies, misses, wrote about, is afraid of, saves up for"
_WHAT = "green tea, old maps, wooden boats, mountain huts, steam engines, wild bees, chess problems, jazz records, "
_WHAT += "folding bicycles, sourdough bread, paper lamps, stone walls, night trains, herb gardens, glass marbles"
_WHERE = "Hamburg, Bern, Lisbon, Ankara, Oslo, Turin, Ghent, Porto, Kyoto, Lima, Quito, Tartu, Galway, Trieste"
_START = datetime(2020, 1, 1, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something known of somebody; `way` is the wording, which may be any number."""

    who: str
    does: str
    what: str
    where: str
    year: int
    way: int = 0

    def __str__(self) -> str:
        wordings = (
            f"{self.who} {self.does} {self.what} in {self.where} since {self.year}",
            f"In {self.where}, {self.who} {self.does} {self.what} since {self.year}",
            f"Since {self.year} {self.who} {self.does} {self.what}, which began in {self.where}",
        )
        return wordings[self.way % len(wordings)]

    @property
    def reworded(self) -> "Fact":
        """The same in other words."""
        return replace(self, way=self.way + 1)


def facts(random: Random) -> Iterator[Fact]:
    """Facts without end, each of them once."""
    seen = set()
    while True:
        who, does, what, where = (random.choice(words.split(", ")) for words in (_WHO, _DOES, _WHAT, _WHERE))
        fact = Fact(who, does, what, where, random.randrange(1950, 2026))
        if fact not in seen:
            seen.add(fact)
            yield fact


def as_file(known: list[Fact]) -> str:
    """A memory file with these facts."""
    return "\n".join(["# Memory", "", *(f"- {fact}" for fact in known)]) + "\n"


def entry(number: int) -> Entry:
    """An entry of history about a few messages."""
    return Entry(
        timestamp=_START + timedelta(hours=number),
        type="consolidation",
        session=KEY,
        first=(number - 1) * MESSAGES + 1,
        last=number * MESSAGES,
        summary=f"In part {number} they spoke of the trains to Hamburg, and of which books to bring. It was decided to "
        f"leave on day {number % 365}. Whether the tickets can be returned is still open.",
        key_facts=(f"The train of part {number} leaves at {number % 24:02}:00.",),
    )


async def write(home: Home, versions: int) -> Space:
    """The owner's space with so many versions, each with its entry and messages; returns it.

    Built in memory where the system has a place for that, since making each version durable takes long.
    """
    make(home)
    space = Spaces(home.path).named(OWNER)
    past.write(home, KEY, versions * MESSAGES)
    await JsonlHistory(UTC).append(space, [entry(number) for number in range(1, versions + 1)])
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=quick if quick.is_dir() else home.path) as folder:
        files = await _write_versions(GitVersions(Path(folder)), space, versions)
        shutil.copytree(folder, home.versions, dirs_exist_ok=True)
    _put_in_place(space, files)
    return space


async def with_one_version(home: Home, files: MemoryFiles) -> Space:
    """The owner's space as it is after its first version; returns it."""
    make(home)
    space = Spaces(home.path).named(OWNER)
    await GitVersions(home.versions).commit(space, files, "[manual] First version\n", _START)
    _put_in_place(space, files)
    return space


def _put_in_place(space: Space, files: MemoryFiles) -> None:
    """The files as a person would write them."""
    for name, text in files.by_name.items():
        (space.root / name).write_text(text)


async def _write_versions(versions: GitVersions, space: Space, count: int) -> MemoryFiles:
    random = Random(5)
    more = facts(random)
    memory = [replace(next(more), who=FIRST), *(next(more) for _ in range(29))]
    user = [next(more)]
    files = MemoryFiles("Be kind.\n", as_file(user), as_file(memory))
    verdicts = [Verdict("new", str(fact)) for fact in (*user, *memory)]
    for number in range(1, count + 1):
        if number > 1:
            verdicts = _changed(memory, user, next(more), number, random)
            files = MemoryFiles("Be kind.\n", as_file(user), as_file(memory))
        about = entry(number)
        trailers = {
            "Session": about.session,
            "Messages": f"{about.first}-{about.last}",
            "History": str(number),
            "Id": f"past-{number}",
        }
        text = message(headline("consolidation", verdicts), list(map(line, verdicts)), trailers)
        await versions.commit(space, files, text, about.timestamp)
    return files


def _changed(memory: list[Fact], user: list[Fact], new: Fact, number: int, random: Random) -> list[Verdict]:
    """One new fact each time; every second time a rewording, every tenth a move; the oldest go when there are many."""
    memory.append(new)
    verdicts = [Verdict("new", str(new))]
    if number % 2 == 0:
        at = 0 if number % 20 == 0 else random.randrange(1, len(memory) - 1)
        verdicts.append(Verdict("reworded", str(memory[at]), str(memory[at].reworded)))
        memory[at] = memory[at].reworded
    if number % 10 == 5:
        moved = memory.pop(random.randrange(1, len(memory) - 1))
        user.append(moved)
        verdicts.append(Verdict("moved", str(moved), "USER.md"))
    for known, least in ((memory, FACTS * 3 // 4), (user, FACTS // 4)):
        if len(known) > least:
            verdicts.append(Verdict("removed", str(known.pop(1)), "no longer true"))
    return verdicts
