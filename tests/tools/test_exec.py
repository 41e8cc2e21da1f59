"""Commands: what they can do, what they cannot reach, and that nothing of them stays."""

import asyncio
import base64
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from nanomem.errors import ShowModel
from nanomem.ports import Origin
from nanomem.spaces import Space
from nanomem.tools import sandbox
from nanomem.tools.exec import Exec

Run = Callable[[str], Coroutine[Any, Any, str]]
WHY_NOT = sandbox.probe()
NAP = f"4242{os.getpid()}"
"""Seconds to sleep, in place of 4242424: what still sleeps so long afterwards is ours and has survived."""
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] + ["--map-current-user"] * (os.geteuid() != 0)
# Without a namespace nothing would hold a fork bomb back while the tests run as root.
needs_unshare = pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*APART, "true"], capture_output=True).returncode != 0,
    reason="no PID namespaces here",
)
needs_bubblewrap = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


def running(space: Space, boxed: bool = True, timeout_s: float = 30) -> Run:
    tool = Exec(sandbox.bubblewrap if boxed else sandbox.plain, lambda: None, timeout_s)
    return lambda command: tool.run({"command": command.replace("4242424", NAP)}, Origin(space))


@pytest.fixture(
    params=[
        pytest.param(True, marks=needs_bubblewrap, id="bubblewrap"),
        pytest.param(False, marks=needs_unshare, id="none"),
    ]
)
def boxed(request: pytest.FixtureRequest) -> bool:
    """Both settings."""
    return bool(request.param)


def alive(space: Space) -> list[str]:
    """Processes whose folder is the space, wherever they are hidden: the mark all commands here carry."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if str(space.root).encode() in command or NAP.encode() in command:
            found.append(command.decode(errors="replace"))
    return found


@pytest.fixture(autouse=True)
async def no_survivors(space: Space) -> AsyncIterator[None]:
    """After every test here, at once and without waiting."""
    yield
    assert alive(space) == []


async def test_output_and_exit_code_are_told(space: Space, boxed: bool) -> None:
    """Both streams in the order they were written; bytes that are no UTF-8 are replaced."""
    run = running(space, boxed)
    assert await run("echo out; echo err >&2; exit 3") == "exit code 3\nout\nerr\n"
    assert await run("true") == "exit code 0\n(no output)"
    assert await run("printf 'a\\377b'") == "exit code 0\na\ufffdb"
    assert await run("echo hi > made.txt; cat made.txt; pwd | grep -c .") == "exit code 0\nhi\n1\n"
    assert (space.root / "made.txt").stat().st_mode & 0o777 == 0o600


async def test_a_reader_of_input_gets_none(space: Space, boxed: bool) -> None:
    """It ends instead of waiting for ever."""
    assert await running(space, boxed)("cat; read x; echo done") == "exit code 0\ndone\n"


async def test_the_environment_is_empty(space: Space, boxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the daemon is seen, in the command's own environment or in its first process's."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "CANARY-SECRET")
    shown = await running(space, boxed)("env; cat /proc/$$/environ /proc/self/environ | tr '\\0' '\\n'")
    assert "PATH=" in shown and "CANARY" not in shown


async def test_300_megabytes_of_output_are_read_and_dropped(space: Space, boxed: bool) -> None:
    """Head and tail stay, and the daemon's memory does not grow with it."""
    before = _resident()
    shown = await running(space, boxed)("echo head; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo tail")
    assert shown.startswith("exit code 0\nhead\n") and shown.endswith("x\ntail\n")
    assert "bytes left out" in shown and len(shown) < 20_200
    assert _resident() - before < 50_000_000


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "command",
    ["sleep 4242424", "exec >&- 2>&-; sleep 4242424", "trap '' TERM INT HUP; sleep 4242424", "setsid sleep 4242424; :"],
)
async def test_what_takes_too_long_is_ended(space: Space, boxed: bool, command: str) -> None:
    """In time, whatever it does against it, and what it wrote before is shown."""
    started = time.monotonic()
    shown = await running(space, boxed, timeout_s=0.5)(f"echo before; {command}")
    assert shown.startswith("stopped: it took longer than 0.5 s\nbefore\n")  # `unshare` may say that it was ended
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "command",
    ["sleep 4242424 &", "nohup setsid sleep 4242424 >/dev/null 2>&1 &", "(setsid sleep 4242424 & ) & disown -a"],
)
async def test_background_children_end_with_the_command(space: Space, boxed: bool, command: str) -> None:
    """They neither hold it up nor stay behind."""
    started = time.monotonic()
    assert (await running(space, boxed)(f"{command}\necho over")).endswith("over\n")
    assert time.monotonic() - started < 5


async def test_a_fork_bomb_is_stopped(space: Space, boxed: bool, longest_lag: Callable[[], float]) -> None:
    """And the loop of the daemon stays well."""
    started = time.monotonic()
    shown = await running(space, boxed, timeout_s=20)(":(){ :|:& };: ; sleep 4242424")
    print(f"stopped after {time.monotonic() - started:.2f} s, the loop lagged {longest_lag():.2f} s")
    assert shown.startswith("stopped: it used more than 256 processes")
    assert time.monotonic() - started < 10 and longest_lag() < 2


async def test_memory_is_bounded(space: Space, boxed: bool) -> None:
    """Of all its processes together."""
    each = "python3 -c 'import time; x = b\"x\" * 300_000_000; time.sleep(4242424)' & "
    assert "stopped: it used more than 1,024 MB" in await running(space, boxed)(each * 4 + "wait")


async def test_a_file_cannot_grow_without_bound(space: Space, boxed: bool) -> None:
    """A single file ends at 256 MB; none of it is left in the way of others."""
    await running(space, boxed)("head -c 400000000 /dev/zero > big")
    assert (space.root / "big").stat().st_size <= 268_435_456
    (space.root / "big").unlink()


async def test_cancelling_ends_everything(space: Space, boxed: bool) -> None:
    """`/stop` in the middle of a command leaves nothing behind."""
    started = space.root / "started"
    os.mkfifo(started)
    task = asyncio.create_task(running(space, boxed)("echo > started; sleep 4242424 & sleep 4242424"))
    await asyncio.to_thread(started.read_text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@needs_bubblewrap
async def test_commands_end_with_the_daemon(space: Space) -> None:
    """Also when it is killed: what the command holds open is closed by its end."""
    os.mkfifo(space.root / "held")
    program = (
        "import asyncio, sys; from pathlib import Path; from nanomem.spaces import Space\n"
        "from nanomem.tools import sandbox; from nanomem.tools.exec import Exec; from nanomem.ports import Origin\n"
        "root = Path(sys.argv[1]); tool = Exec(sandbox.bubblewrap, lambda: None, 60)\n"
        f"asyncio.run(tool.run({{'command': 'exec 3> held; setsid sleep {NAP}'}}, Origin(Space('o', root, root))))"
    )
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(space.root))
    held = await asyncio.to_thread(open, space.root / "held", "rb")
    daemon.kill()
    await daemon.wait()
    async with asyncio.timeout(5):
        assert await asyncio.to_thread(held.read) == b""
    held.close()


@pytest.mark.parametrize("command", ["", "  ", "echo a\0b", "x" * 100_001])
async def test_what_is_no_command_is_refused(space: Space, command: str) -> None:
    """With a word, and nothing starts."""
    with pytest.raises(ShowModel):
        await running(space, boxed=False)(command)


ALL = "/dev /etc /proc /workspace ../workspace"
DESTRUCTION = [
    "rm -rf --no-preserve-root /",
    "rm -rf /; rm -rf /[!ubls]*",
    "rm -rf ~ $HOME/* ../w*",
    f"rm -r -f {ALL}",
    f"find {ALL} -delete",
    f"find {ALL} -type f -exec rm -f {{}} +",
    f"echo {base64.b64encode(f'rm -rf {ALL}'.encode()).decode()} | base64 -d | sh",
    f"python3 -c 'import shutil; [shutil.rmtree(p, ignore_errors=True) for p in \"{ALL}\".split()]'",
    f"perl -e 'system(\"rm -rf {ALL}\")'",
    f"$(printf 'r%s' m) -rf {ALL}",
    f"r''m -rf {ALL}",
    f"cd / && rm -rf {ALL}",
    f"eval \"$(echo 'rm -rf {ALL}')\"",
    "mv memory /tmp; mv USER.md x; mv /workspace /tmp; : > SOUL.md; : > memory/MEMORY.md; truncate -s 0 memory/* *.md",
    f"chmod -R 000 {ALL}; chown -R 1:1 {ALL}; chmod 000 /dev/null; touch -d 2000-01-01 /dev/* memory/* USER.md",
    "dd if=/dev/zero of=/dev/vda bs=1M count=1; mkfs.ext4 /dev/vda; mknod x b 254 0",
    "ln -f memory/MEMORY.md x && echo evil > x; ln -f USER.md y && echo evil > y; cp /dev/null memory/MEMORY.md",
    "umount memory USER.md; mount -o remount,rw memory; unshare -Urm umount memory; echo evil > memory/MEMORY.md",
    "kill -9 -1; kill -9 1; echo 1 > /proc/sys/vm/swappiness; echo evil > /proc/sys/kernel/core_pattern",
]


def outside(space: Space) -> list[list[Any]]:
    """What no command may change: the rest of the home, the truth, the kernel's settings, the devices."""
    files = [p for p in space.root.parent.rglob("*") if p.is_file() and p.name != "notes.txt"]
    kernel = [Path("/proc/sys", name).read_text() for name in ("vm/swappiness", "kernel/core_pattern")]
    devices = [Path("/dev", name).stat().st_mode for name in ("null", "zero", "full", "random", "urandom", "tty")]
    return [[(str(p), p.read_text(), p.stat().st_mode, p.stat().st_mtime) for p in files], kernel, devices]


@needs_bubblewrap
@pytest.mark.parametrize("command", DESTRUCTION)
async def test_only_the_workspace_can_be_harmed(space: Space, command: str) -> None:
    """Nothing outside changes, and of what is inside the truth stays as it was."""
    for folder in ("memory", "sessions", "skills", "prompts"):
        (space.root / folder).mkdir()
        (space.root / folder / "MEMORY.md").write_text("truth")
    for name in ("SOUL.md", "USER.md"):
        (space.root / name).write_text("truth")
    (space.root / "notes.txt").write_text("mine")
    before = outside(space)
    in_no_box = f"[ -e '{space.root.parent}' ] && exit 99"  # the test itself must harm nobody
    assert not (await running(space)(f"{in_no_box}; {command}")).startswith("exit code 99")
    left = [entry for entry in outside(space)[0] if Path(entry[0]).name not in ("x", "y")]
    assert [left, *outside(space)[1:]] == before


@needs_bubblewrap
async def test_truth_that_is_missing_cannot_be_made(space: Space) -> None:
    """A skill or a memory from a command would make itself permanent."""
    await running(space)(
        "mkdir -p sessions memory skills/evil prompts; "
        "for f in SOUL.md USER.md memory/MEMORY.md skills/evil/SKILL.md prompts/turn.j2 sessions/x.jsonl; "
        "do echo evil > $f; done; rm -rf skills USER.md; ln -s /tmp skills; echo evil > USER.md"
    )
    assert list(space.root.iterdir()) == []


@needs_bubblewrap
async def test_what_is_made_to_be_covered_goes_again(space: Space) -> None:
    """Nobody can take it for a person's edit; what the daemon writes meanwhile stays, and two commands take turns."""
    run = running(space)
    for name in ("started", "go"):
        os.mkfifo(space.root / name)
    hold = asyncio.create_task(run("echo > started; cat go; ls; rm started go"))
    await asyncio.to_thread((space.root / "started").read_text)
    second = asyncio.create_task(run("echo evil > SOUL.md; ls"))
    (space.root / "memory" / "MEMORY.md").write_text("fact")
    await asyncio.to_thread((space.root / "go").write_text, "")
    assert "USER.md" in await hold
    assert "Permission denied" in await second
    assert [str(p.relative_to(space.root)) for p in space.root.rglob("*")] == ["memory", "memory/MEMORY.md"]


@needs_bubblewrap
async def test_truth_behind_a_link_turns_commands_off(space: Space) -> None:
    """A link could be taken away and something else put in its place."""
    (space.root / "memory").symlink_to("../elsewhere")
    with pytest.raises(ShowModel, match="memory is a symbolic link"):
        await running(space)("true")


@needs_bubblewrap
async def test_memory_is_readable_and_conversations_are_not(space: Space) -> None:
    """As with the file tools."""
    for folder in ("memory", "sessions"):
        (space.root / folder).mkdir()
        (space.root / folder / "a.txt").write_text(f"in {folder}")
    shown = await running(space)("cat memory/a.txt; ls -A sessions; cat sessions/a.txt")
    assert "in memory" in shown and "in sessions" not in shown


@needs_bubblewrap
async def test_no_secret_is_to_be_found(space: Space) -> None:
    """Not the config, not the system's files, not other processes."""
    shown = await running(space)(
        f"cat {space.root.parent}/config.toml ../config.toml /etc/shadow /etc/passwd; ls -a /root /home /var /opt /run;"
        "ls /workspace/..; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline | tr '\\0' ' ';"
        "grep -rls CANARY /workspace /etc /tmp; find / -xdev -name '*.sock'"
    )
    assert "CANARY-" not in shown and "root:" not in shown and "-m pytest" not in shown and ".sock\n" not in shown


@needs_bubblewrap
async def test_there_is_no_network(space: Space) -> None:
    """Loopback included: a server on this machine hears nothing, by TCP, by UDP and on a local socket."""
    heard: list[str] = []
    server = await asyncio.start_server(lambda reader, writer: heard.append("tcp"), "127.0.0.1", 0)
    abstract = await asyncio.start_unix_server(lambda reader, writer: heard.append("unix"), f"\0nanomem-{os.getpid()}")
    port = server.sockets[0].getsockname()[1]
    reach = (
        "import socket\n"
        f"for kind, family, at in ((1, 2, ('127.0.0.1', {port})), (1, 2, ('192.0.2.1', 80)), (2, 2, ('192.0.2.1', 53)),"
        f" (1, 1, b'\\0nanomem-{os.getpid()}')):\n"
        "    s = socket.socket(family, kind); s.settimeout(2)\n"
        "    try: s.connect(at); print('CONNECTED', at)\n"
        "    except OSError as e: print('no', e)\n"
    )
    shown = await running(space)(f"python3 - <<'PY'\n{reach}\nPY")
    assert shown.count("no [") == 4 and "CONNECTED" not in shown
    assert heard == []
    for each in (server, abstract):
        each.close()
        await each.wait_closed()


@needs_bubblewrap
async def test_only_the_workspace_and_a_bounded_tmp_are_writable(space: Space) -> None:
    """Memory cannot be filled by way of a file system in memory."""
    shown = await running(space)(
        "for d in / /dev /etc /usr /proc /workspace/sessions; do touch $d/x 2>/dev/null && echo writable $d; done;"
        "for d in /tmp /dev/shm; do for n in 1 2; do head -c 200000000 /dev/zero > $d/$n; done; du -sm $d; done"
    )
    sizes = [int(line.split()[0]) for line in shown.splitlines() if line.endswith(("/tmp", "/shm"))]
    assert "writable" not in shown and len(sizes) == 2 and max(sizes) <= 257


@needs_bubblewrap
async def test_the_tool_as_the_daemon_gets_it(use: Callable[..., Awaitable[str]]) -> None:
    """Checked, probed and run."""
    assert await use("exec", command="echo $((6 * 7)); echo $PWD") == "exit code 0\n42\n/workspace\n"


async def test_without_bubblewrap_commands_are_off_and_say_so(space: Space) -> None:
    """Asked once, answered every time."""
    asked: list[str] = []

    def probe() -> str | None:
        asked.append("probe")
        return sandbox.probe("no-such-bwrap")

    tool = Exec(sandbox.bubblewrap, probe, 5)
    for _ in range(2):
        with pytest.raises(ShowModel, match="exec is off: bubblewrap is not installed"):
            await tool.run({"command": "touch /tmp/x"}, Origin(space))
    assert asked == ["probe"]


def test_a_bubblewrap_that_does_not_work_is_told() -> None:
    """Some systems forbid its namespaces."""
    assert "does not work here" in str(sandbox.probe("false"))
