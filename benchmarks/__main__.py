"""`python -m benchmarks [NAME ...] [--all] [--json] [--quick]`: runs benchmarks and prints their figures.

`recall --data FILE` measures on the questions of that file instead.
"""

import argparse
import asyncio
import json
import pkgutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from benchmarks import benches, machine
from benchmarks.benches import recall
from benchmarks.figures import Figure, table
from benchmarks.floor import Run

A_WHILE_S = 600.0
"""What may take longer is run only when it is named, or all are."""


class Bench(Protocol):
    """A module in `benches`. In a quick run it does little, and without litellm if it can, just to be tried.

    After `LONGEST_S` seconds it is given up.
    """

    NAME: str
    LONGEST_S: float

    async def measure(self, folder: Path, run: Run) -> list[Figure]:
        """Its figures; `folder` is empty and its own."""


def known() -> dict[str, Bench]:
    """All benchmarks by name."""
    names = (found.name for found in pkgutil.iter_modules(benches.__path__))
    modules = [cast(Bench, import_module(f"{benches.__name__}.{name}")) for name in names]
    return {module.NAME: module for module in modules}


async def measured(bench: Bench, run: Run) -> list[Figure]:
    """The figures of one. Raises TimeoutError."""
    with tempfile.TemporaryDirectory(prefix="nanomem-bench-") as folder:
        async with asyncio.timeout(bench.LONGEST_S):
            return await bench.measure(Path(folder), run)


async def measured_on(data: Path) -> dict[str, Any]:
    """How well recall finds what the questions of a file ask for. Raises TimeoutError, ValueError, OSError."""
    with tempfile.TemporaryDirectory(prefix="nanomem-bench-") as folder:
        async with asyncio.timeout(recall.LONGEST_S):
            return await recall.of_a_file(Path(folder), data)


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for; if nothing is named, all that takes no more than a while."""
    all_of_them = known()
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures nanomem on this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(all_of_them))
    parser.add_argument("--all", action="store_true", help="what takes long, too")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--save", type=Path, metavar="FILE", help="the same for programs beside what is shown")
    parser.add_argument("--quick", action="store_true", help="only try whether the benchmarks work")
    parser.add_argument("--turns", type=int, metavar="N", help="with soak: so many turns")
    parser.add_argument("--data", type=Path, metavar="FILE", help="with recall: what was said, and questions about it")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(all_of_them):
        parser.error(f"no benchmark is called {unknown.pop()}; there are {', '.join(all_of_them)}")
    if sys.platform != "linux":
        parser.error("what a process uses is read from /proc, so this needs Linux")
    with tempfile.TemporaryDirectory() as folder:
        header = machine.described(Path(folder))
    if asked.data:
        if asked.names != [recall.NAME]:
            parser.error(f"--data is for {recall.NAME} alone")
        try:
            summary = asyncio.run(measured_on(asked.data))
        except TimeoutError:
            print(f"{recall.NAME} was given up: it took too long", file=sys.stderr)
            return 1
        except (ValueError, OSError) as error:
            parser.error(f"--data: {error}")
        print(
            recall.as_json(summary, header)
            if asked.json
            else "\n".join([machine.in_words(header), "", *recall.shown(summary)])
        )
        return 0
    found: dict[str, list[Figure]] = {}
    wanted = asked.names or [name for name, one in all_of_them.items() if asked.all or one.LONGEST_S <= A_WHILE_S]
    run = Run(asked.quick, asked.turns)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no daemon is left behind
    for name in wanted:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            found[name] = asyncio.run(measured(all_of_them[name], run))
        except TimeoutError:
            print(f"{name} was given up: it took too long", file=sys.stderr)
    benches_found = {name: [figure.summary() for figure in figures] for name, figures in found.items()}
    header["load_after"] = machine.load()
    for_programs = json.dumps({"machine": header, "benches": benches_found}, indent=1)
    if asked.save:
        asked.save.write_text(for_programs + "\n")
    if asked.json:
        print(for_programs)
    else:
        print(machine.in_words(header))
        for name, figures in found.items():
            print("", f"## {name}", *table(figures), sep="\n")
    return int(found.keys() != set(wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
