"""The home folder: where everything is, how it is made, and the lock that keeps a second daemon out."""

import errno
import fcntl
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from nanomem.errors import Misuse, Stop
from nanomem.facts import NAMES
from nanomem.spaces import OWNER, Space, Spaces

_TRIES = 10
_PAUSE_S = 0.02


class Home:
    """Names the paths; whether they are there is another matter."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.state = path / "state"
        self.lock = self.state / "lock"
        self.socket = self.state / "daemon.sock"
        self.workspace = path / "workspace"
        self.versions = path / "versions"
        self.spaces = path / "spaces"

    def known_spaces(self) -> Iterator[Space]:
        """The spaces that there are."""
        spaces = Spaces(self.path)
        yield spaces.named(OWNER)
        for root in sorted(self.spaces.glob("*")):
            if (space := spaces.named(unquote(root.name))).root == root and root.is_dir():
                yield space

    def logs(self) -> Iterator[Path]:
        """The session logs of all spaces."""
        for root in (self.workspace, *sorted(self.spaces.glob("*"))):
            yield from sorted((root / "sessions").glob("*.jsonl"))

    def is_there(self) -> bool:
        """Whether this was ever a home; it may lack what is made at a start."""
        return self.workspace.is_dir() or self.config.exists()


def resolve(option: str | None, environ: Mapping[str, str]) -> Home:
    """The home that is meant: the option, else NANOMEM_HOME, else ~/.nanomem. Raises Misuse."""
    wanted = option if option is not None else environ.get("NANOMEM_HOME") or "~/.nanomem"
    if not wanted.strip():
        raise Misuse("The home folder needs a name: --home FOLDER.")
    return Home(Path(os.path.abspath(os.path.expanduser(wanted))))


def make(home: Home) -> list[Path]:
    """Makes what is missing, in full or not at all file by file; returns what was made.

    What exists is left as it is, so it may be called again after anything. Raises Misuse, CannotStore.
    """
    from nanomem.stores import durable

    space, made = home.workspace, []
    inside = [space / name for name in ("memory", "sessions", "skills", "prompts")]
    try:
        for folder in [home.path, home.state, home.versions, home.spaces, space, *inside]:
            if not folder.is_dir():
                folder.mkdir(mode=0o700, parents=folder == home.path)
                made.append(folder)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        raise Misuse(f"{home.path} cannot be made a home folder ({reason}); choose another with --home.") from None
    template = _template()
    for source in sorted(path for path in template.rglob("*") if path.is_file() and path.name != ".gitkeep"):
        name = source.relative_to(template)
        if str(name) in NAMES and (home.versions / "owner.git").exists():
            continue  # a person deleted it: what it was is put back, not what it was at the beginning
        target = home.config if name == Path("config.toml") else space / name
        if not os.path.lexists(target):
            durable.replace(target, source.read_bytes())
            made.append(target)
    return made


def try_writing(home: Home) -> None:
    """Makes a file in each folder of a home, and nothing stays of it. Raises Stop that says what to do."""
    from tempfile import TemporaryFile

    space = home.workspace
    for folder in (home.path, home.state, home.versions, home.spaces, space, space / "memory", space / "sessions"):
        try:
            with TemporaryFile(dir=folder):
                pass
        except FileNotFoundError:
            continue  # which the next start makes
        except OSError as error:
            raise Stop(f"Nothing can be written in {folder} ({error.strerror}). {_remedy(error, home.path)}.") from None


def _remedy(error: OSError, path: Path) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"Make it yours ({to_own(path)}), or start nanomem as its owner"
        case errno.EROFS:
            return "Mount it for writing"
    return "Make room, or mend the disk"


def to_own(path: Path) -> str:
    """The command that makes a folder, and all in it, one's own."""
    return f"chown -R $(id -un) {shlex.quote(str(path))}"


def to_close(path: Path) -> str:
    """The command that keeps all others out of a folder."""
    return f"chmod -R go-rwx {shlex.quote(str(path))}"


def open_to_others(paths: Iterable[Path]) -> Path | None:
    """The first of these that the group or everybody may reach."""
    return next((path for path in paths if path.exists() and path.stat().st_mode & 0o077), None)


def _template() -> Path:
    """In the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "workspace-template"
    return installed if installed.is_dir() else package.parent / "workspace-template"


class Lock:
    """One daemon, or one command that writes, on a home at a time; freed by the system if the process dies."""

    def __init__(self, home: Home) -> None:
        self._path = home.lock
        self._home = home.path

    def __enter__(self) -> Self:
        """Takes it, or raises Stop that names who has it; a few looks by `holder` meanwhile do no harm.

        Where the last one did not give it back, all that it has written is made durable first.
        """
        from nanomem.stores import durable

        is_new = not self._path.exists()
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            todo = "Try: nanomem init" if error.errno == errno.ENOENT else _remedy(error, self._home)
            raise Stop(f"{self._path} cannot be opened: {error.strerror}. {todo}.") from None
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(_PAUSE_S)
        else:
            pid = _pid(self._file) or "unknown"
            os.close(self._file)
            raise Stop(f"nanomem is already running here (pid {pid}). Stop it first, or choose another --home.")
        in_order = not is_new and os.fstat(self._file).st_size == 0
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        if not in_order:
            durable.settle(self._path)
        return self

    def __exit__(self, error: type[BaseException] | None, *_more: object) -> None:
        """Gives it back; the file stays, since removing it would let two hold one each."""
        if error is None:
            os.ftruncate(self._file, 0)
        os.close(self._file)


def holder(home: Home) -> int | None:
    """The pid of the process that has the lock, 0 if it cannot be told, None if nobody has; does not take it."""
    try:
        file = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return _pid(file)
    finally:
        os.close(file)


def _pid(file: int) -> int:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else 0
