"""The machines of `tests/machines`, played with other dice for as long as there is time."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from traceback import format_exception

from structlog.testing import capture_logs

from proofs.claim import Effort, Report, say
from tests.machines.playing import Machine, play
from tests.machines.test_bus import BusMachine
from tests.machines.test_ledger import LedgerMachine
from tests.machines.test_session_log import SessionLogMachine
from tests.machines.test_writer import WriterMachine

NAME = "machines"
CLAIM = (
    "In whatever order people, models and crashes come, the session log, the bus, the memory and the ledger hold what "
    "was acknowledged, once and in order."
)
MACHINES: tuple[type[Machine], ...] = (SessionLogMachine, BusMachine, WriterMachine, LedgerMachine)
EXAMPLES, STEPS = 25, 30
QUICK = 4
"""Examples of each machine."""


async def prove(folder: Path, effort: Effort) -> Report:
    """Each machine in turn, until the time is over; one that has found something is not played any more."""
    return await asyncio.to_thread(_prove, effort)


def _prove(effort: Effort) -> Report:
    machines, violations, seed = [*MACHINES], list[str](), effort.seed
    before, end = Counter(Machine.tally), time.monotonic() + effort.seconds
    say(f"the first seed is {seed}")
    while machines and (seed == effort.seed or (time.monotonic() < end and not effort.quick)):
        for machine in [*machines]:
            try:
                with capture_logs():
                    play(machine, QUICK if effort.quick else EXAMPLES, STEPS, seed)
            except Exception as error:
                violations.append(f"{machine.__name__}, seed {seed}: {''.join(format_exception(error, limit=-1))}")
                machines.remove(machine)
        seed += 1
    return Report(tried=Counter(Machine.tally) - before, violations=violations)
