"""A bare git repository on disk, as any git client reads it: its objects, loose and packed, and its refs.

Knows nothing of what is kept in it, and never looks at a hook, filter or setting of it. dulwich's own way to store is
not used: it takes a torn object for a good one, syncs no folder, and a kill can leave a lock behind that nobody takes
away. All of it blocks: call it in a thread.
"""

import hashlib
import os
import re
import shutil
import stat
import time
import zlib
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nanomem.errors import CannotStore
from nanomem.stores import durable

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore

MAIN = "refs/heads/main"
_CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tsharedRepository = 0600
\tfsync = committed,reference
[gc]
\tauto = 0
\tpackRefs = false
[receive]
\tautogc = false
\tdenyDeletes = true
\tdenyNonFastForwards = true
"""
_AUTHOR = b"nanomem <nanomem@localhost>"
_ID = re.compile(r"[0-9a-f]{40}")
_HEAD = re.compile(rb"(ref: refs/\S+|[0-9a-f]{40})\s*")
_OURS = "nanomem"  # what a lock of ours points to
_TRIES, _PAUSE_S = 20, 0.05  # a person's git holds a lock for milliseconds


class Commit(NamedTuple):
    """A commit, whoever made it: `parent` is the first one, empty where there is none; so is `tree`."""

    id: str
    tree: str
    parent: str
    at: datetime
    message: str


def damaged(path: Path, what: str) -> CannotStore:
    """What a person is told of a repository that cannot be used."""
    return CannotStore(
        f"Cannot use {path}: {what}. `git fsck` in there tells more. Put the folder back from a copy "
        f"(`git clone --bare` makes one), or move it away to begin a new history."
    )


def repositories(root: Path) -> list[Path]:
    """The repositories in a folder, or what stands in the place of one."""
    return sorted(root.glob("[!.]*.git"))


def ids(path: Path) -> list[str]:
    """The ids of all commits, the oldest first. Raises CannotStore."""
    return [commit.id for commit in commits(path, tip(path))][::-1]


# --- refs


def tip(path: Path) -> str | None:
    """The newest commit; None only where nothing is: anything unclear is damage, never an empty history."""
    if not os.path.lexists(path):
        return None
    try:
        head = (path / "HEAD").read_bytes()
    except OSError as error:
        raise damaged(path, f"HEAD cannot be read ({error.strerror})") from error
    if not (_HEAD.fullmatch(head) and (path / "objects").is_dir() and (path / "refs").is_dir()):
        raise damaged(path, "HEAD is damaged, or it has no objects or no refs")
    if found := read_ref(path, MAIN):
        return found
    raise damaged(path, "it has no branch main")


def read_ref(path: Path, ref: str) -> str | None:
    """The id that a ref points to; None where there is no such ref. Raises CannotStore."""
    try:
        try:
            found = (path / ref).read_text("ascii", "replace").strip()
        except FileNotFoundError:
            packed = path / "packed-refs"
            lines = packed.read_text("utf-8", "replace").splitlines() if packed.exists() else []
            found = next((line[:40] for line in lines if line[40:] == f" {ref}"), "")
    except OSError as error:
        raise damaged(path, f"{ref} cannot be read ({error.strerror})") from error
    if found and not _ID.fullmatch(found):
        raise damaged(path, f"{ref} is no id of a commit")
    return found or None


def move(path: Path, ref: str, old: str | None, new: str) -> None:
    """Makes a ref that points to `old` point to `new`, durably. Raises CannotStore (it was not moved), Stop.

    The lock is git's own, but a link that says whose it is. So one that a kill has left is known, and taken away:
    there is one writer at a time.
    """
    file = path / ref
    lock = _locked(file)
    try:
        if read_ref(path, ref) != old:
            raise CannotStore(f"Somebody else has just moved {ref} of {path}. Try again.")
        durable.replace(file, f"{new}\n".encode(), path / f"new-{file.name}")
    finally:
        durable.discard(lock)


def _locked(file: Path) -> Path:
    lock = file.with_name(f"{file.name}.lock")
    try:
        durable.make_folder(file.parent)
        if lock.is_symlink() and os.readlink(lock) == _OURS:
            lock.unlink()
        for _ in range(_TRIES):
            try:
                os.symlink(_OURS, lock)
                return lock
            except FileExistsError:
                time.sleep(_PAUSE_S)
    except OSError as error:
        raise CannotStore(durable.reason(file, error)) from error
    raise CannotStore(f"{lock} is there: git is at work, or was interrupted. If no git runs, remove that file.")


# --- objects


class Objects:
    """The objects of a repository. Loose ones are read here, three times as fast as by dulwich; packed ones by it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._packs: DiskObjectStore | None = None

    def close(self) -> None:
        """Lets go of the packs."""
        if self._packs is not None:
            self._packs.close()

    def commit(self, name: str) -> Commit | None:
        """A commit by its id; None where it is missing, damaged, or no commit. Raises CannotStore: no access."""
        is_commit, content = self._find(name) or (False, b"")
        return _parsed(name, content) if is_commit else None

    def file(self, tree: str, name: str) -> bytes:
        """A file in a tree; empty where it is missing or no plain file. Raises CannotStore."""
        from dulwich.objects import parse_tree

        first, _, rest = name.partition("/")
        entries = {entry: (mode, item.decode()) for entry, mode, item in parse_tree(self._read(tree), 20)}
        mode, item = entries.get(first.encode(), (0, ""))
        if rest:
            return self.file(item, rest) if stat.S_ISDIR(mode) else b""
        return self._read(item) if stat.S_ISREG(mode) else b""

    def _read(self, name: str) -> bytes:
        if found := self._find(name):
            return found[1]
        raise damaged(self._path, f"object {name} is missing or damaged")

    def _find(self, name: str) -> tuple[bool, bytes] | None:
        """Whether an object is a commit, and its content; None where it is missing or damaged."""
        if not _ID.fullmatch(name):
            return None
        try:
            with open(f"{self._path}/objects/{name[:2]}/{name[2:]}", "rb", buffering=0) as file:
                data = zlib.decompress(file.readall())
        except (FileNotFoundError, zlib.error):
            data = b""
        except OSError as error:
            raise damaged(self._path, f"object {name} cannot be read ({error.strerror})") from error
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name:
            return self._packed(name)
        return data.startswith(b"commit "), data.partition(b"\0")[2]

    def _packed(self, name: str) -> tuple[bool, bytes] | None:
        from dulwich.object_store import DiskObjectStore
        from dulwich.objects import Commit, ObjectID

        self._packs = self._packs or DiskObjectStore(self._path / "objects")
        try:
            kind, content = self._packs.get_raw(ObjectID(name.encode()))
        except KeyError:
            return None
        except Exception as error:  # a damaged pack: dulwich raises whatever its parsing comes upon
            raise damaged(self._path, f"a pack cannot be read ({error})") from error
        return kind == Commit.type_num, content


def commits(path: Path, name: str | None, known: Container[str] = ()) -> Iterator[Commit]:
    """By first parents, from the commit of that id back to the last one that is not known. Raises CannotStore."""
    with closing(Objects(path)) as objects:
        while name and name not in known:
            if not (commit := objects.commit(name)):
                raise damaged(path, f"commit {name} is missing or damaged")
            yield commit
            name = commit.parent


def _parsed(name: str, raw: bytes) -> Commit:
    """One that somebody else made may say anything."""
    head, _, message = raw.decode("utf-8", "replace").partition("\n\n")
    fields: dict[str, str] = {}
    for line in head.split("\n"):
        field, _, value = line.partition(" ")
        fields.setdefault(field, value)
    try:
        at = datetime.fromtimestamp(int(fields["committer"].rsplit(" ", 2)[1]), UTC)
    except (LookupError, ValueError, OverflowError, OSError):
        at = datetime.fromtimestamp(0, UTC)
    return Commit(name, fields.get("tree", ""), fields.get("parent", ""), at, message)


def made(files: Mapping[str, bytes], message: str, at: datetime, parent: str | None) -> tuple[Commit, dict[str, bytes]]:
    """A commit, and all that it consists of, by id, as it is stored. A file's name has one folder at most."""
    from dulwich import objects as git

    trees: defaultdict[str, git.Tree] = defaultdict(git.Tree)
    blobs = []
    for name, data in files.items():
        blobs.append(blob := git.Blob.from_string(data))
        folder, _, last = name.rpartition("/")
        trees[folder].add(last.encode(), 0o100644, blob.id)
    for folder in trees.keys() - {""}:
        trees[""].add(folder.encode(), 0o040000, trees[folder].id)
    commit = git.Commit()
    commit.tree = trees[""].id
    commit.parents = [git.ObjectID(parent.encode())] if parent else []
    commit.author = commit.committer = _AUTHOR
    commit.author_time = commit.commit_time = int(at.timestamp())
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = message.replace("\0", " ").encode("utf-8", "replace")
    objects = {item.id.decode(): item.as_legacy_object() for item in (*blobs, *trees.values(), commit)}
    return _parsed(commit.id.decode(), commit.as_raw_string()), objects


def create(path: Path, description: str, objects: Mapping[str, bytes], tip: str) -> None:
    """A new repository with its first commit, there as a whole or not at all. Raises CannotStore, Stop."""
    draft = path.with_name(f".{path.name}.new")
    files = {
        "config": _CONFIG,
        "description": f"{description}\n".encode("utf-8", "replace"),
        MAIN: f"{tip}\n".encode(),
        "HEAD": f"ref: {MAIN}\n".encode(),
    }
    try:
        if draft.is_dir():
            shutil.rmtree(draft)
        durable.make_folder(draft / "objects" / "pack")
        store(draft, objects)
        for name, data in files.items():
            durable.replace(draft / name, data)
        with durable.names_synced(path.parent):
            os.rename(draft, path)
    except OSError as error:
        raise CannotStore(durable.reason(path, error)) from error


def store(path: Path, objects: Mapping[str, bytes]) -> None:
    """Writes loose objects, durably; a torn one of the same name is replaced. Raises CannotStore, Stop."""
    for name, data in objects.items():
        _store(path / "objects" / name[:2] / name[2:], data, _TRIES)


def _store(file: Path, data: bytes, tries: int) -> None:
    """A person's `git gc` may take away a folder between two steps: it was empty, or what was in it is in a pack."""
    try:
        durable.replace(file, data, file.with_name(f"tmp_obj_{file.name}"))
    except CannotStore as error:
        if tries == 1 or not isinstance(error.__cause__, FileNotFoundError):
            raise
        _store(file, data, tries - 1)


def loose_objects(path: Path) -> list[Path]:
    """The objects that have a file of their own."""
    files = (path / "objects").glob("[0-9a-f][0-9a-f]/*")
    return [file for file in files if _ID.fullmatch(file.parent.name + file.name)]


def drop_loose(path: Path) -> None:
    """Takes away the files of objects that are in a pack, too. No folder goes, so a commit may run beside it."""
    from dulwich.object_store import DiskObjectStore
    from dulwich.objects import ObjectID

    with closing(DiskObjectStore(path / "objects")) as packs:
        try:
            for file in loose_objects(path):
                if packs.contains_packed(ObjectID((file.parent.name + file.name).encode())):
                    file.unlink(missing_ok=True)
        except OSError as error:
            raise CannotStore(durable.reason(path, error)) from error
