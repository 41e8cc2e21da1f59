"""What the system says: of this machine, and of one process. Reads /proc, so it needs Linux."""

import os
import platform
import time
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
        "load": f"{os.getloadavg()[0]:.1f}",
        "fdatasync_ms": f"{quantile(_syncs(folder), 0.5):.2f}",
    }


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


def cpu_s(pid: int) -> float:
    """Processor time of all threads of a process, those that have ended included, in seconds."""
    return time.clock_gettime((~pid << 3) | 2)  # how Linux numbers these clocks, see clock_getcpuclockid(3)


def written(pid: int) -> int:
    """Bytes a process has handed to write(2) and its like: files and logs; sockets use send(2) and do not count."""
    return _number(f"/proc/{pid}/io", "wchar:")


def resident(pid: int) -> float:
    """Memory in use, in MB."""
    return _number(f"/proc/{pid}/smaps_rollup", "Rss:") * 1024 / MB


def proportional(pid: int) -> float:
    """The same, where pages shared with other processes count in proportion, in MB."""
    return _number(f"/proc/{pid}/smaps_rollup", "Pss:") * 1024 / MB


def wake_ups(pid: int) -> int:
    """How often its threads have gone to sleep, and so were woken."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return sum(_number(f"{task}/status", "voluntary_ctxt_switches:") for task in tasks)


def _number(path: str, key: str) -> int:
    return next(int(line.split()[1]) for line in Path(path).read_text().splitlines() if line.startswith(key))
