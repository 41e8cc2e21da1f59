"""The tool `exec`: a shell command, its output and its end, within limits that hold whatever it does.

Knows the running, not the box it runs in. A command is watched for its number of processes and its
memory, since the system's own limit on processes does not hold for root and that on memory counts
each process alone.
"""

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from nanomem.arguments import tool_schema
from nanomem.errors import ShowModel
from nanomem.ports import Origin, Tool
from nanomem.spaces import Space
from nanomem.tools import sandbox
from nanomem.tools.stillness import Stillness
from nanomem.tools.workbench import Workbench

_SHOWN = 20_000
_MEMORY = 1024 * 1024 * 1024
_ENDS_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.05


class Exec:
    """Runs commands, one at a time in a space; `probe` says once, at the first use, why it cannot, or None."""

    schema = tool_schema(
        "exec",
        "Run a shell command in the workspace (/workspace). No network, no input; nothing keeps running after it.",
        {"command": "for bash"},
    )
    parallel = False

    def __init__(
        self,
        box: Callable[[str, Path], sandbox.Box],
        probe: Callable[[], str | None],
        timeout_s: float,
        still: Callable[[Space], AbstractAsyncContextManager[object]] | None = None,
    ) -> None:
        self._box = box
        self._probe = probe
        self._timeout_s = timeout_s
        self._off: list[str | None] = []
        self._still = still or Stillness()

    async def run(self, arguments: Mapping[str, Any], origin: Origin) -> str:
        if not self._off:
            self._off.append(await asyncio.to_thread(self._probe))
        if self._off[0]:
            raise ShowModel(f"exec is off: {self._off[0]}. Tell the person.")
        command = arguments["command"]
        if not command.strip() or "\0" in command or len(command) > 100_000:
            raise ShowModel("The command is empty, too long, or has a NUL in it.")
        async with self._still(origin.space):
            origin.space.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            box = self._box(command, origin.space.root)
            try:
                return await _run(box, origin.space.root, self._timeout_s)
            finally:
                box.clear()


def build(workbench: Workbench) -> Tool | None:
    """None where the settings switch it off."""
    if not workbench.exec_enabled:
        return None
    if workbench.exec_sandbox == "none":
        return Exec(sandbox.plain, lambda: None, workbench.exec_timeout_s, workbench.still)
    return Exec(sandbox.bubblewrap, sandbox.probe, workbench.exec_timeout_s, workbench.still)


async def _run(box: sandbox.Box, folder: Path, timeout_s: float) -> str:
    process = await asyncio.create_subprocess_exec(
        *box.argv,
        env=box.environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = _Output(process.stdout)
    try:
        stopped = await _watch(process, output, timeout_s)
    finally:
        sandbox.kill(process.pid)
        with suppress(TimeoutError):  # on a machine without a process to spare, nobody may tell us that it has ended
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await process.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await output.drain()
    return f"{stopped or f'exit code {process.returncode}'}\n{output.told()}"


async def _watch(process: Process, output: "_Output", timeout_s: float) -> str:
    """Reads until the command ends; why it must be stopped, or nothing."""
    clock = asyncio.get_running_loop().time
    end = clock() + timeout_s
    while process.returncode is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_LOOK_EVERY_S, max(0.0, end - clock()))):
                await output.drain()
                await process.wait()
        if clock() >= end:
            return f"stopped: it took longer than {timeout_s:g} s"
        if excess := _excess(process.pid):
            return f"stopped: it used {excess}"
    return ""


def _excess(pid: int) -> str:
    running = list(islice(sandbox.processes(pid), sandbox.PROCESSES + 1))
    if len(running) > sandbox.PROCESSES:
        return f"more than {sandbox.PROCESSES} processes"
    if sum(map(_memory, running)) > _MEMORY:
        return f"more than {_MEMORY // 1024 // 1024:,} MB of memory"
    return ""


def _memory(process: str) -> int:
    """Bytes a process alone has in memory; field by field as proc(5) has them in statm."""
    try:
        resident, shared = Path(process, "statm").read_text().split()[1:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class _Output:
    """Reads all of a stream and keeps its head and its tail."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._kept = bytearray()
        self._left_out = 0

    async def drain(self) -> None:
        """Reads on to the end; cancelled, it has lost nothing."""
        while chunk := await self._stream.read(65_536):
            self._kept += chunk
            excess = max(0, len(self._kept) - _SHOWN)
            del self._kept[_SHOWN // 2 : _SHOWN // 2 + excess]
            self._left_out += excess

    def told(self) -> str:
        """The output as text, with a word where some is left out."""
        head, tail = self._kept[: _SHOWN // 2], self._kept[_SHOWN // 2 :]
        middle = f"\n[{self._left_out:,} bytes left out]\n".encode() if self._left_out else b""
        return (head + middle + tail).decode("utf-8", "replace") or "(no output)"
