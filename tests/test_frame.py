"""What stands around the code: the lock, the environment made from it, the scripts, the rules of the build."""

import os
import re
import socket
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()

# Python runs these files at every start, which is how a stolen release of a package once took people's keys.
KNOWN_PTH = {"distutils-precedence.pth", "_virtualenv.pth", "_editable_impl_nanomem.pth", "_nanomem.pth"}


def entries() -> list[str]:
    """Each package of the lock with its hashes."""
    return re.split(r"\n(?=[^ #\n])", LOCK.rstrip("\n"))


def contract(name: str) -> dict[str, Any]:
    """The import-linter contract whose name begins so."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    return next(c for c in contracts if c["name"].startswith(name))


def test_every_package_of_the_lock_has_an_exact_version_and_hashes() -> None:
    """What is installed is what was looked at, byte for byte."""
    assert len(entries()) > 50
    for entry in entries():
        assert re.match(r"[a-z0-9-]+==[^ ]+ ", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_lock_names_no_index() -> None:
    """Whoever installs from it uses the index of their own configuration."""
    assert "://" not in LOCK
    assert "--index" not in LOCK and "--extra-index" not in LOCK and "--find-links" not in LOCK


def test_litellm_is_pinned_to_the_same_version_everywhere() -> None:
    """Some of its releases break tool calls, two stole credentials: it is raised on purpose or not at all."""
    [pin] = [d for d in PYPROJECT["project"]["dependencies"] if d.startswith("litellm")]
    assert re.fullmatch(r"litellm==\d+(\.\d+)+", pin)
    assert any(entry.startswith(f"{pin} ") for entry in entries())


def test_no_unknown_pth_file_is_installed() -> None:
    """Nothing but what is known runs by itself when Python starts."""
    installed = {path.name for path in Path(sysconfig.get_path("purelib")).glob("*.pth")}
    assert installed <= KNOWN_PTH


@pytest.mark.parametrize(
    "script", ["scripts/setup", "scripts/run", "scripts/test", "scripts/lock", "scripts/bench", ".ci/run"]
)
def test_scripts_can_be_started(script: str) -> None:
    """They are executable and no shell stumbles over them."""
    assert os.access(ROOT / script, os.X_OK)
    shell = (ROOT / script).read_text().splitlines()[0].removeprefix("#!").split()[-1]
    subprocess.run([shell, "-n", str(ROOT / script)], check=True)


def test_the_readme_says_how_to_start_and_how_to_test() -> None:
    """Two commands are all there is to know at first."""
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("there is no README.md yet")
    text = readme.read_text()
    assert "scripts/run" in text and "scripts/test" in text


def test_the_rule_for_pure_modules_covers_the_two_lowest_layers() -> None:
    """A module that joins them is named in the contract, too."""
    lowest = ":".join(contract("Layers")["layers"][-2:]).split(":")
    assert {f"nanomem.{module.strip()}" for module in lowest} == set(contract("Pure")["source_modules"])


def test_pure_modules_may_import_no_package_that_is_installed_for_us() -> None:
    """A dependency added to pyproject.toml is added to the contract, too."""
    names = {re.split(r"[^a-zA-Z0-9_.-]", d)[0].replace("-", "_") for d in PYPROJECT["project"]["dependencies"]}
    names = names - {"python_telegram_bot", "python_stdnum"} | {"telegram", "stdnum"}
    assert names <= set(contract("Pure")["forbidden_modules"])


def test_the_tests_cannot_leave_this_machine(stays_on_this_machine: list[str]) -> None:
    """Neither a name nor an address gets through, and what was tried is remembered."""
    with pytest.raises(RuntimeError):
        socket.getaddrinfo("nanomem.invalid", 443)
    with socket.socket() as connection, pytest.raises(RuntimeError):
        connection.connect(("192.0.2.1", 443))
    assert stays_on_this_machine == ["socket.getaddrinfo nanomem.invalid", "socket.connect 192.0.2.1"]
    stays_on_this_machine.clear()


def test_loopback_and_unix_sockets_work(tmp_path: Path) -> None:
    """The emulators and the daemon are reached through them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + f"nanomem-{os.getpid()}" if sys.platform == "linux" else str(tmp_path / "s"))


def test_child_processes_cannot_leave_this_machine_either(
    guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """A program that a test starts is stopped by the same guard and sees nothing of our environment."""
    program = "import os, socket; print(sorted(os.environ)); socket.create_connection(('nanomem.invalid', 443))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=guarded_env(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.strip() == "['HOME', 'LANG', 'NANOMEM_HOME', 'PATH', 'PYTHONPATH']"
    assert "LeftTheMachine: socket.getaddrinfo nanomem.invalid" in done.stderr
