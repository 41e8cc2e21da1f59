"""What the state machines share: a folder, an event loop, a process that may die, and how they are played.

A machine does what the application and the world may do to a store, in any order, and keeps a model of what has to be
there: a list or a dict. Hypothesis looks for an order after which the two differ, and shows the shortest one it finds.
"""

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.machines.kills import Disk, Killed

T = TypeVar("T")
_IN_MEMORY = "/dev/shm"  # a process dies here, no machine: what is synced where says nothing


class Machine(RuleBasedStateMachine):
    """`disk` watches the folder; `tally` counts over all machines that were played."""

    tally: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="nanomem-machine-", dir=_IN_MEMORY if _has_room() else None))
        self.loop = asyncio.new_event_loop()
        self.disk = Disk(self.folder)
        self.count("examples")
        self.count("steps", -1)  # the first look is at nothing

    def count(self, what: str, times: int = 1) -> None:
        """One more of these."""
        self.tally[f"{type(self).__name__}: {what}"] += times

    @invariant()
    def step_counts(self) -> None:
        """Each does."""
        self.count("steps")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What it returns."""
        return self.loop.run_until_complete(work)

    def survives(self, work: Coroutine[Any, Any, object], at: int, happens: Callable[[], None] | None = None) -> bool:
        """Does it in a process to which something happens just before its change of the disk of that number, death if
        nothing else is given; False if it died, and has to be started again."""
        self.disk.at(at, happens)
        try:
            self.run(work)
        except Killed:
            self.count("deaths")
            return False
        finally:
            self.disk.at(0)
        return True

    def teardown(self) -> None:
        """Nothing stays."""
        self.disk.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)


def play(machine: type[Machine], examples: int, steps: int, seed: int | None = None) -> None:
    """Plays it so often, with so many steps at most; with a seed always in the same way. Raises what it found."""
    how = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=[*HealthCheck]
    )
    if seed is not None:
        machine = hypothesis.seed(seed)(type(machine.__name__, (machine,), {}))
        how = settings(how, derandomize=False, database=None)
    run_state_machine_as_test(machine, settings=how)


def _has_room() -> bool:
    return os.path.isdir(_IN_MEMORY) and os.access(_IN_MEMORY, os.W_OK)
