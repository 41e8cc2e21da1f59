"""What the system says of a process and its descendants."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from benchmarks import machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is read from /proc")

A_FAMILY = """
import subprocess, sys
child = "import os; os.write(os.open('/dev/null', os.O_WRONLY), bytes(100_000)); sum(range(10**6))"
subprocess.run([sys.executable, "-c", child], check=True)
held = "import sys; held = b'x' * 40_000_000; print(flush=True); sys.stdin.read()"
parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
subprocess.run([sys.executable, "-c", parent, held])
"""
"""A child that has ended, and one that has a child with 40 MB."""


@pytest.fixture
def family() -> Iterator[int]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", A_FAMILY], stdin=pipe, stdout=pipe) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_a_tree_is_all_that_a_process_has_started(family: int) -> None:
    """Itself first, children of children too, none that has ended."""
    found = machine.tree(family)
    assert found[0] == family and len(found) == 3


def test_what_is_used_is_added_up(family: int) -> None:
    """Memory of the living; processor time and what was written also of those that have ended."""
    assert machine.resident(family) < 40 < machine.of_all(machine.resident, family)
    assert machine.of_all(machine.proportional, family) < machine.of_all(machine.resident, family)
    assert machine.written(family) >= 100_000
    itself = time.clock_gettime((~family << 3) | 2)
    assert machine.of_all(machine.cpu_s, family) > machine.cpu_s(family) >= itself + 0.01
    for measure in (machine.threads, machine.handles):
        assert machine.of_all(measure, family) >= 3
