"""The home folder: made once, completed after a crash, never overwritten, and held by one at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanomem.errors import CannotStore, Misuse, Stop
from nanomem.home import Home, Lock, holder, make, resolve
from nanomem.settings import Settings, load

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_new_home_is_complete_and_private(home: Home) -> None:
    """All folders 0700, all files 0600, whatever the umask; the settings are the defaults."""
    before = os.umask(0o022)
    try:
        made = make(home)
    finally:
        os.umask(before)
    assert home.workspace / "memory" / "MEMORY.md" in made
    found = {str(path.relative_to(home.path)) for path in home.path.rglob("*")}
    assert found >= {"state", "versions", "spaces", "workspace/sessions", "workspace/skills", "workspace/prompts"}
    assert found >= {"config.toml", "workspace/SOUL.md", "workspace/USER.md", "workspace/memory/HISTORY.md"}
    assert not [name for name in found if name.endswith((".gitkeep", ".draft")) or name == "workspace/config.toml"]
    for path in [home.path, *home.path.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert load(home.config, {}) == Settings()


def test_making_it_again_changes_nothing(home: Home) -> None:
    """What a person has changed or emptied stays."""
    make(home)
    (home.workspace / "SOUL.md").write_text("mine")
    home.config.write_text("")
    assert make(home) == []
    assert (home.workspace / "SOUL.md").read_text() == "mine"
    assert home.config.read_text() == ""


def test_a_half_made_home_is_completed(home: Home) -> None:
    """Whatever was still missing when the power went, half a file included."""
    make(home)
    everything = sorted(home.path.rglob("*"))
    (home.workspace / "USER.md").rename(home.workspace / ".USER.md.draft")
    (home.workspace / ".USER.md.draft").write_text("# Per")
    (home.workspace / "memory" / "HISTORY.md").unlink()
    home.versions.rmdir()
    assert len(make(home)) == 3
    assert sorted(home.path.rglob("*")) == everything
    assert "(to be filled)" in (home.workspace / "USER.md").read_text()


def test_a_memory_file_that_a_person_deleted_is_not_made_again(home: Home) -> None:
    """Once there are versions, what was in it is put back from them."""
    make(home)
    (home.versions / "owner.git").mkdir()
    (home.workspace / "USER.md").unlink()
    (home.workspace / "memory" / "MEMORY.md").unlink()
    assert make(home) == []


def test_what_cannot_be_a_home_is_refused(tmp_path: Path) -> None:
    """A file, a place below a file, a place where nothing can be made."""
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "home", Path("/proc/home")):
        with pytest.raises(Misuse, match="--home"):
            make(Home(place))
    assert file.read_text() == "mine"


def test_something_in_the_way_is_named(home: Home) -> None:
    """A folder where a new file is to be written."""
    make(home)
    home.config.unlink()
    (home.path / ".config.toml.draft").mkdir()
    with pytest.raises(CannotStore, match=r"config\.toml"):
        make(home)


def test_the_option_comes_before_the_variable_before_the_default(tmp_path: Path) -> None:
    """All are absolute."""
    assert resolve("/a/../b", {"NANOMEM_HOME": "/c"}).path == Path("/b")
    assert resolve(None, {"NANOMEM_HOME": "/c"}).path == Path("/c")
    assert resolve(None, {"NANOMEM_HOME": ""}).path == Path("~/.nanomem").expanduser()
    assert resolve("here", {}).path == Path.cwd() / "here"
    for nothing in ("", " "):
        with pytest.raises(Misuse):
            resolve(nothing, {})


def test_one_at_a_time(home: Home) -> None:
    """The second is refused and told the pid of the first; afterwards it is free."""
    make(home)
    assert holder(home) is None
    with Lock(home):
        assert holder(home) == os.getpid()
        with pytest.raises(Stop, match=rf"already running here \(pid {os.getpid()}\)"), Lock(home):
            pytest.fail("two have it")
        assert holder(home) == os.getpid()
    assert holder(home) is None
    with Lock(home):
        pass


def test_the_lock_of_a_killed_process_is_free(home: Home) -> None:
    """Nothing has to be cleaned up; while it lives, others see its pid."""
    make(home)
    program = (
        "import sys; from pathlib import Path; from nanomem.home import Home, Lock\n"
        "with Lock(Home(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert holder(home) == other.pid
        with pytest.raises(Stop, match=str(other.pid)), Lock(home):
            pytest.fail("two have it")
        other.kill()
        other.wait()
    assert holder(home) is None
    with Lock(home):
        assert holder(home) == os.getpid()


def test_a_lock_without_a_home_says_what_to_do(home: Home) -> None:
    """And looking for a holder there is no error."""
    assert holder(home) is None
    with pytest.raises(Stop, match="nanomem init"), Lock(home):
        pytest.fail("there is nothing to lock")
