"""The home folder: where everything is, how it is made, and the lock that keeps a second daemon out."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from nanomem.errors import CannotStore, Misuse, Stop

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE})
_TRIES = 10
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Home:
    """Names the paths; whether they are there is another matter."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def socket(self) -> Path:
        return self.state / "daemon.sock"

    @property
    def workspace(self) -> Path:
        return self.path / "workspace"

    @property
    def versions(self) -> Path:
        return self.path / "versions"

    @property
    def spaces(self) -> Path:
        return self.path / "spaces"


def resolve(option: str | None, environ: Mapping[str, str]) -> Home:
    """The home that is meant: the option, else NANOMEM_HOME, else ~/.nanomem. Raises Misuse."""
    wanted = option if option is not None else environ.get("NANOMEM_HOME") or "~/.nanomem"
    if not wanted.strip() or "\0" in wanted:
        raise Misuse("The home folder needs a name: --home FOLDER.")
    try:
        return Home(Path(os.path.abspath(Path(wanted).expanduser())))
    except RuntimeError:
        raise Misuse(f"{wanted}: whose home that is cannot be found out; use --home FOLDER.") from None


def make(home: Home) -> list[Path]:
    """Makes what is missing, in full or not at all file by file; returns what was made.

    What exists is left as it is, so it may be called again after anything. Raises Misuse, CannotStore.
    """
    try:
        return list(_make(home))
    except OSError as error:
        place = error.filename or home.path
        if error.errno in _DISK:
            raise CannotStore(f"{place} could not be written: {error.strerror}.") from None
        raise Misuse(
            f"{home.path} cannot be made a home folder ({place}: {error.strerror}); choose another with --home."
        ) from None


def _make(home: Home) -> Iterator[Path]:
    from nanomem.stores import durable

    space = home.workspace
    folders = [home.state, home.versions, home.spaces, space, space / "memory", space / "sessions", space / "skills"]
    for folder in [home.path, *folders, space / "prompts"]:
        if not folder.is_dir():
            folder.mkdir(parents=folder == home.path)
            folder.chmod(0o700)
            yield folder
    template = _template()
    for source in sorted(path for path in template.rglob("*") if path.is_file() and path.name != ".gitkeep"):
        inside = source.relative_to(template)
        target = home.config if inside == Path("config.toml") else space / inside
        if not os.path.lexists(target):
            durable.replace(target, source.read_bytes())
            yield target


def _template() -> Path:
    """In the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    return next((at for at in (package / "workspace-template",) if at.is_dir()), package.parent / "workspace-template")


class Lock:
    """One daemon, or one command that writes, on a home at a time; freed by the system if the process dies."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Takes it, or raises Stop that names who has it; a few looks by `holder` meanwhile do no harm."""
        try:
            file = os.open(self._home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Stop(f"{self._home.lock} cannot be opened: {error.strerror}. Try: nanomem init.") from None
        for _ in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(_PAUSE_S)
        else:
            pid = _pid(file)
            os.close(file)
            raise Stop(
                f"nanomem is already running here (pid {pid or 'unknown'}). "
                f"Stop it first, or choose another home with --home."
            )
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives it back; the file stays, since removing it would let two hold one each."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


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
        return _pid(file) or 0
    finally:
        os.close(file)


def _pid(file: int) -> int | None:
    text = os.pread(file, 32, 0).strip()
    return int(text) if text.isdigit() else None
