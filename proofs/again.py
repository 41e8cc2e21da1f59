"""`python -m proofs.again NAME ARGUMENTS ...`: tries once more what a proof has found wrong, as it says itself."""

import asyncio
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from proofs import claims


def main(name: str, *arguments: str) -> int:
    """1 if it is still wrong."""
    module = import_module(f"{claims.__name__}.{name.replace('-', '_')}")
    with tempfile.TemporaryDirectory(prefix="nanomem-proof-") as folder:
        found = asyncio.run(module.again(Path(folder), *arguments))
    print(*found or ["nothing is wrong"], sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
