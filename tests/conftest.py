"""What every test has: no way off this machine, a clean environment for child processes, steady properties."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.guard import sitecustomize as guard

Environment = Callable[[Path], dict[str, str]]

# Slow machines are no bugs; in the build the same examples are tried each time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def stays_on_this_machine() -> Iterator[list[str]]:
    """A test that tried to reach another machine fails, whoever swallowed the error. Gives what was tried."""
    guard.attempts.clear()
    yield guard.attempts
    if guard.attempts:
        pytest.fail(f"tried to leave this machine: {', '.join(guard.attempts)}")


@pytest.fixture
def guarded_env(tmp_path: Path) -> Environment:
    """`guarded_env(home)`: the whole environment of a child process that works on `home`, guarded like the tests.

    Nothing of the caller's environment but PATH gets in, so no key, proxy or setting of the person who runs the tests.
    """

    def environment(home: Path) -> dict[str, str]:
        person = tmp_path / "person"
        person.mkdir(exist_ok=True)
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "HOME": str(person),
            "LANG": "C.UTF-8",
            "NANOMEM_HOME": str(home),
            "PYTHONPATH": str(Path(guard.__file__).parent),
        }

    return environment
