"""What the system says: of this machine, of one process, and of one with all its descendants. Reads /proc, so it
needs Linux.
"""

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.figures import quantile

MB = 1_000_000


def described(folder: Path) -> dict[str, str]:
    """What figures depend on: the machine, and how busy it and its disk are now."""
    model = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return {
        "cpu": model.partition(":")[2].strip(),
        "cores": str(len(os.sched_getaffinity(0))),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": load(),
        "fdatasync_ms": f"{quantile(_syncs(folder), 0.5):.2f}",
    }


def in_words(described: Mapping[str, str]) -> str:
    """The same, in a line for people."""
    return ", ".join(f"{key} {value}" for key, value in described.items())


def load() -> str:
    """How many processes wanted a processor in the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _syncs(folder: Path) -> list[float]:
    """Milliseconds that it takes to make 1 kB durable, some times."""
    took = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(21):
            file.write(bytes(1000))
            began = time.monotonic()
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - began) * 1000)
    return took


def tree(pid: int) -> list[int]:
    """A process and all its descendants that are alive, itself first."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            children[int(_stat(path)[1])].append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children[one]
    return found


def of_all(measure: Callable[[int], float], pid: int) -> float:
    """What is measured of a process and of each of its living descendants, added up."""
    total = measure(pid)
    for child in tree(pid)[1:]:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += measure(child)
    return total


def cpu_s(pid: int) -> float:
    """Processor time in seconds of all threads of a process and of its children that have ended, which the system
    counts in hundredths.
    """
    ended = sum(map(int, _stat(Path(f"/proc/{pid}/stat"))[13:15])) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime((~pid << 3) | 2) + ended  # how Linux numbers these clocks, see clock_getcpuclockid(3)


def written(pid: int) -> int:
    """Bytes a process and its children that have ended have handed to write(2) and its like: files, logs and pipes;
    sockets use send(2) and do not count.
    """
    return _number(f"/proc/{pid}/io", "wchar:")


def resident(pid: int) -> float:
    """Memory in use, in MB. Added up over several processes it counts what they share more than once."""
    return _number(f"/proc/{pid}/smaps_rollup", "Rss:") * 1024 / MB


def proportional(pid: int) -> float:
    """The same, where pages shared with other processes count in proportion, in MB."""
    return _number(f"/proc/{pid}/smaps_rollup", "Pss:") * 1024 / MB


def wake_ups(pid: int) -> int:
    """How often its threads have gone to sleep, and so were woken."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return sum(_number(f"{task}/status", "voluntary_ctxt_switches:") for task in tasks)


def handles(pid: int) -> int:
    """Files, sockets and the like that it has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """Of this process, now."""
    return len(os.listdir(f"/proc/{pid}/task"))


def _stat(path: Path) -> list[str]:
    """What follows the name in it, which may have spaces: the state, the parent ..."""
    return path.read_text().rpartition(")")[2].split()


def _number(path: str, key: str) -> int:
    return next(int(line.split()[1]) for line in Path(path).read_text().splitlines() if line.startswith(key))
