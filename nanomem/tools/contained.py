"""Opens and writes files of one space and of nothing else: the kernel itself refuses every way out.

Also knows what of a space tools may not write (the truth) or not see. Checking a path and opening it
afterwards lost a race with a symbolic link in 11 of 6,548 tries, so a path is never checked: it is
opened with openat2 and RESOLVE_BENEATH, and what is forbidden is judged by where that led.
"""

import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath

from nanomem.errors import ShowModel
from nanomem.spaces import Space

SHOWN_AS = "/workspace"
"""Where commands see the space; accepted in paths."""
TRUTH_FOLDERS = ("sessions", "memory", "skills", "prompts")
TRUTH_FILES = ("SOUL.md", "USER.md")

_MEMORY = {("soul.md",), ("user.md",), ("memory", "memory.md")}
_KEPT = {name.casefold() for name in TRUTH_FOLDERS + TRUTH_FILES}
_HIDDEN = "sessions"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO would wait for its writer
_OPENAT2 = 437  # the same number on all architectures of Linux but alpha
_BENEATH = 0x08 | 0x02  # RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS
_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "is not a folder, or goes through something that is none",
    errno.EISDIR: "is a folder",
    errno.EXDEV: "is outside the workspace",
    errno.ELOOP: "goes through symbolic links that cannot be followed",
    errno.ENAMETOOLONG: "is too long",
    errno.ENXIO: "is no regular file",
    errno.EACCES: "may not be opened",
    errno.ENOSPC: "could not be written: the disk is full",
    errno.EROFS: "could not be written: the disk is read-only",
}


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def opened(space: Space, path: str) -> Iterator[tuple[int, tuple[str, ...], bool]]:
    """What tools may read: a descriptor, where it is (its parts below the root), whether it is a folder.

    Raises ShowModel, also for what is neither a folder nor a regular file.
    """
    name = relative(path, space.root)
    with _in_words(path), _root(space) as root, ExitStack() as stack:
        fd = open_beneath(root, name, _FILE)
        stack.callback(os.close, fd)
        place, kind = _place(root, fd, PurePosixPath(name).parts), os.fstat(fd).st_mode
        if is_hidden(place):
            raise ShowModel("The folder sessions is not for reading: use recall to search conversations.")
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise ShowModel(f"{path} is no regular file.")
        yield fd, place, stat.S_ISDIR(kind)


@contextmanager
def opened_file(space: Space, path: str) -> Iterator[BufferedReader]:
    """A regular file tools may read. Raises ShowModel."""
    with opened(space, path) as (fd, _, is_folder):
        if is_folder:
            raise ShowModel(f"{path} is a folder.")
        with open(fd, "rb", closefd=False) as file:
            yield file


def is_hidden(place: tuple[str, ...]) -> bool:
    """Whether tools may not even read there: conversations are found through recall."""
    return bool(place) and place[0].casefold() == _HIDDEN


def write(space: Space, path: str, content: bytes) -> None:
    """Puts a file in place as a whole, with the folders on its way. Raises ShowModel: nothing was changed."""
    *folders, name = PurePosixPath(relative(path, space.root)).parts or ("",)
    if name in ("", ".."):
        raise ShowModel(f"{path} is a folder.")
    with _in_words(path), _root(space) as root, ExitStack() as stack:
        folder = _made(root, folders, name, stack)
        _refuse_truth((*_place(root, folder, folders), name))
        _put(folder, name, content, path)


def relative(path: str, root: Path) -> str:
    """The path below the root; absolute ones are taken if they lie there by their letters. Raises ShowModel."""
    if not path or "\0" in path:
        raise ShowModel("The path is empty or has a NUL in it.")
    if len(os.fsencode(path)) > 4000 or any(len(os.fsencode(part)) > 255 for part in path.split("/")):
        raise ShowModel("The path is too long.")
    for base in (SHOWN_AS, str(root), os.path.realpath(root)):
        if path == base or path.startswith(f"{base}/"):
            return path[len(base) :].lstrip("/") or "."
    if path.startswith("/"):
        raise ShowModel(f"{path} is outside the workspace. Give a path relative to it.")
    return path


def open_beneath(root: int, name: str, flags: int) -> int:
    """A descriptor of what is at `name` below the folder `root`; raises OSError, EXDEV for a way out."""
    for _ in range(16):
        try:
            return _openat2(root, name, flags)
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a container that forbids it
                return walk_beneath(root, name, flags)
            if error.errno != errno.EAGAIN:  # a folder was moved meanwhile
                raise
    raise OSError(errno.EXDEV, "moved all the time")


def walk_beneath(root: int, name: str, flags: int) -> int:
    """The same without openat2: part by part, following no symbolic link and no `..` at all."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OSError(errno.EXDEV, "a way up")
    current = os.open(".", _FOLDER, dir_fd=root)
    for number, part in enumerate(parts, 1):
        wanted = flags if number == len(parts) else _FOLDER
        try:
            deeper = os.open(part, wanted | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
        finally:
            os.close(current)
        current = deeper
    return current


def _openat2(root: int, name: str, flags: int) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "no openat2 here")
    how = _How(flags, 0, _BENEATH)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(_OPENAT2, root, os.fsencode(name), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(fd)


@contextmanager
def _root(space: Space) -> Iterator[int]:
    space.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(space.root, _FOLDER)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = _WORDS.get(error.errno or 0, f"could not be opened ({error.strerror})")
        raise ShowModel(f"{path} {words}.") from None


def _place(root: int, fd: int, parts: Sequence[str]) -> tuple[str, ...]:
    """Where a descriptor really is, below the root: symbolic links may have led elsewhere than `parts`."""
    if sys.platform != "linux":
        return tuple(parts)  # walked without links
    there, base = os.readlink(f"/proc/self/fd/{fd}"), os.readlink(f"/proc/self/fd/{root}")
    if not PurePosixPath(there).is_relative_to(base):
        raise OSError(errno.EXDEV, "moved away")
    return PurePosixPath(there).relative_to(base).parts


def _refuse_truth(place: tuple[str, ...]) -> None:
    folded = tuple(part.casefold() for part in place)
    if folded in _MEMORY:
        raise ShowModel(
            f"{'/'.join(place)} is memory, which tools cannot write yet: changes to memory come with "
            "consolidation. Tell the person that it is not saved."
        )
    if folded and folded[0] in _KEPT:
        raise ShowModel(f"{'/'.join(place)} is kept read-only.")


def _made(root: int, folders: list[str], file: str, stack: ExitStack) -> int:
    """The folder of that path, made where it is missing, part by part; judged before."""
    current = open_beneath(root, ".", _FOLDER)
    stack.callback(os.close, current)
    for number, name in enumerate(folders, 1):
        path = "/".join(folders[:number])
        try:
            deeper = open_beneath(root, path, _FOLDER)
        except FileNotFoundError:
            _refuse_truth((*_place(root, current, folders[: number - 1]), *folders[number - 1 :], file))
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=current)
            deeper = open_beneath(root, path, _FOLDER)
        current = deeper
        stack.callback(os.close, current)
    return current


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
    if stat.S_ISLNK(mode):
        raise ShowModel(f"{path} is a symbolic link: write the file it leads to.")
    if not stat.S_ISREG(mode):
        raise ShowModel(f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}.")
    return mode & 0o777
