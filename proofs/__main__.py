"""`python -m proofs [NAME ...] [--quick] [--seed N] [--seconds S] [--json]`: tries to break what nanomem promises.

Exit code 1 if anything was found, or a proof could not be made here, or tried nothing.
"""

import argparse
import asyncio
import json
import pkgutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from benchmarks import machine
from proofs import claims
from proofs.claim import Claim, Effort, Report, say


def known() -> dict[str, Claim]:
    """All claims by name."""
    names = (found.name for found in pkgutil.iter_modules(claims.__path__))
    modules = [cast(Claim, import_module(f"{claims.__name__}.{name}")) for name in names]
    return {module.NAME: module for module in modules}


async def proved(claim: Claim, effort: Effort) -> Report:
    """What came of one."""
    with tempfile.TemporaryDirectory(prefix="nanomem-proof-") as folder:
        return await claim.prove(Path(folder), effort)


def main(arguments: Sequence[str]) -> int:
    """Proves what is asked for, all of it if nothing is named."""
    all_of_them = known()
    parser = argparse.ArgumentParser(prog="scripts/prove", description="Tries to break what nanomem promises.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(all_of_them))
    parser.add_argument("--quick", action="store_true", help="a sample of each, as in the tests")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another sample, other dice")
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S", help="for what has no end of its own")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(all_of_them):
        parser.error(f"there is no proof called {unknown.pop()}; there are {', '.join(all_of_them)}")
    if sys.platform != "linux":
        parser.error("system calls are watched the way Linux lets it be done, so this needs Linux")
    with tempfile.TemporaryDirectory() as folder:
        header = machine.described(Path(folder)) | {"seed": str(asked.seed)}
    effort = Effort(asked.quick, asked.seed, asked.seconds)
    found: dict[str, Report] = {}
    if not asked.json:
        print(machine.in_words(header))
    for name in asked.names or all_of_them:
        say(f"{name} ...")
        found[name] = asyncio.run(proved(all_of_them[name], effort))
        if not asked.json:
            print("", f"## {name}: {all_of_them[name].CLAIM}", *found[name].lines(), sep="\n", flush=True)
    if asked.json:
        reports = {name: report.summary() for name, report in found.items()}
        print(json.dumps({"machine": header, "proofs": reports}, indent=1))
    return int(not all(report.holds for report in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
