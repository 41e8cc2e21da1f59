"""Opens and writes files of one space and of nothing else, and knows what of it tools may not write or see.

Checking a path and opening it afterwards lost a race with a symbolic link in 11 of 6,548 tries. So a path is
judged by its letters alone and then walked part by part, each opened in the folder before, no link followed.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import PurePosixPath

from nanomem.errors import ShowModel
from nanomem.facts import NAMES
from nanomem.spaces import Space

SHOWN_AS = "/workspace"
"""Where commands see the space; accepted in paths."""
HIDDEN = "sessions"
TRUTH_FOLDERS = (HIDDEN, "memory", "skills", "prompts")
TRUTH_FILES = ("SOUL.md", "USER.md")

_MEMORY = {tuple(name.casefold().split("/")): name for name in NAMES}
_KEPT = {name.casefold() for name in TRUTH_FOLDERS + TRUTH_FILES}
_LONGEST = 2_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO would wait for its writer
_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "is not a folder, or goes through a file or a symbolic link",
    errno.ELOOP: "is a symbolic link, which is not followed: name the file itself",
}


@contextmanager
def opened(space: Space, path: str) -> Iterator[tuple[int, tuple[str, ...], bool]]:
    """What tools may read: a descriptor, where it is (its parts below the root), whether it is a folder.

    Raises ShowModel, also for what is neither a folder nor a regular file.
    """
    place = _place(space, path)
    if is_hidden(place):
        raise ShowModel(f"The folder {HIDDEN} is not for reading: use recall to search conversations.")
    with _in_words(path), _folder(space, place[:-1]) as folder:
        fd = os.open(place[-1] if place else ".", _FILE, dir_fd=folder)
        try:
            kind = os.fstat(fd).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
                raise ShowModel(f"{path} is no regular file.")
            yield fd, place, stat.S_ISDIR(kind)
        finally:
            os.close(fd)


@contextmanager
def opened_file(space: Space, path: str) -> Iterator[BufferedReader]:
    """A regular file tools may read. Raises ShowModel."""
    with opened(space, path) as (fd, _, is_folder):
        if is_folder:
            raise ShowModel(f"{path} is a folder.")
        with open(fd, "rb", closefd=False) as file:
            yield file


def is_hidden(place: Sequence[str]) -> bool:
    """Whether tools may not even read there: conversations are found through recall."""
    return bool(place) and place[0].casefold() == HIDDEN


def memory_file(space: Space, path: str) -> str | None:
    """The name of the memory file that a path means by any spelling; None for all other files. Raises ShowModel."""
    return _MEMORY.get(tuple(part.casefold() for part in _place(space, path)))


def skill_name(space: Space, path: str) -> str | None:
    """The name of the skill whose SKILL.md, or whose draft, a path means by any spelling; None for all other files.

    Raises ShowModel.
    """
    place = _place(space, path)
    match [part.casefold() for part in place]:
        case ["skills", name, "skill.md"] if name != "drafts":
            return place[1]
        case ["skills", "drafts", _, "skill.md"]:
            return place[2]
    return None


def write(space: Space, path: str, content: bytes) -> None:
    """Puts a file in place as a whole, with the folders on its way. Raises ShowModel: no file was changed."""
    place = _place(space, path)
    if not place:
        raise ShowModel(f"{path} is a folder.")
    _refuse_truth(place)
    with _in_words(path), _folder(space, place[:-1], make=True) as folder:
        _put(folder, place[-1], content, path)


def _place(space: Space, path: str) -> tuple[str, ...]:
    """The parts of a path below the root; absolute ones are taken if they lie there. Raises ShowModel."""
    if not path or "\0" in path or len(path) > _LONGEST:
        raise ShowModel("The path is empty, too long, or has a NUL in it.")
    inside = path
    for base in (SHOWN_AS, str(space.root), os.path.realpath(space.root)):
        if path == base or path.startswith(f"{base}/"):
            inside = path[len(base) :].lstrip("/") or "."
            break
    parts = PurePosixPath(os.path.normpath(inside)).parts
    if parts and parts[0] in ("..", "/", "//"):
        raise ShowModel(f"{path} is outside the workspace. Give a path relative to it.")
    return parts


def _refuse_truth(place: tuple[str, ...]) -> None:
    folded = tuple(part.casefold() for part in place)
    if folded in _MEMORY:
        raise ShowModel(
            f"{'/'.join(place)} is memory, which cannot be written here. Tell the person that it is not saved."
        )
    if folded[0] == "skills":
        raise ShowModel(f"{'/'.join(place)} is kept read-only. Only skills/NAME/SKILL.md can be written, as a draft.")
    if folded[0] in _KEPT:
        raise ShowModel(f"{'/'.join(place)} is kept read-only.")


@contextmanager
def _folder(space: Space, parts: Sequence[str], make: bool = False) -> Iterator[int]:
    """A descriptor of that folder of the space; raises OSError where a part is a link or no folder."""
    space.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(space.root, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
            above, fd = fd, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(above)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = _WORDS.get(error.errno or 0, f"cannot be used: {error.strerror}")
        raise ShowModel(f"{path} {words}.") from None


def _put(folder: int, name: str, content: bytes, path: str) -> None:
    mode = _replaceable(folder, name, path)
    temporary = f".{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _replaceable(folder: int, name: str, path: str) -> int:
    """The permissions the file shall have: as before, or private if it is new."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0o600
    if stat.S_ISDIR(mode):
        raise ShowModel(f"{path} is a folder.")
    if not stat.S_ISREG(mode):
        raise ShowModel(f"{path} is a symbolic link or no regular file.")
    return mode & 0o777
