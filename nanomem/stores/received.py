"""What people send along: fetched once into `files/` of their space."""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanomem.errors import CannotStore, Refused, TryLater, passes
from nanomem.messages import Attachment, Image, Inbound
from nanomem.ports import Channel
from nanomem.spaces import Space
from nanomem.stores import durable
from nanomem.stores.memory_files import open_regular

FOLDER = "files"
LARGEST_IMAGE = 10 * 1024 * 1024
_LONGEST_NAME = 100
_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class ReceivedFiles:
    """`ports.Files` on a folder that the agent's tools may write: nothing planted there is followed or waited for.

    What cannot be taken is noted; but a full disk is waited for. Files are fetched to `drafts`, which the tools cannot
    reach; it is on the same file system.
    """

    def __init__(self, drafts: Path) -> None:
        self._drafts = drafts

    async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
        """See the port."""
        paths: list[str] = []
        notes: list[str] = []
        for number, attachment in enumerate(message.attachments, 1):
            name = _name(message, number, attachment)
            draft = self._drafts / hashlib.sha256(os.fsencode(space.root / name)).hexdigest()
            try:
                if not await asyncio.to_thread(_is_there, space.root, name):
                    await asyncio.to_thread(durable.make_folder, self._drafts)
                    await channel.fetch(attachment, draft)
                    await asyncio.to_thread(_put, draft, space.root, name)
                paths.append(f"{FOLDER}/{name}")
            except (Refused, TryLater, OSError) as error:
                if isinstance(error, OSError) and passes(error):
                    raise CannotStore(durable.reason(space.root / FOLDER / name, error)) from error
                notes.append(f"[{attachment.name[:_LONGEST_NAME]} could not be taken: {error}]")
        return paths, notes

    async def image(self, space: Space, path: str) -> Image | None:
        """See the port. What a file is, its first bytes say, not its name."""
        return await asyncio.to_thread(_image, space.root, path)


@contextmanager
def _folder(root: Path) -> Iterator[int]:
    """The folder of a space, as a descriptor. Raises FileNotFoundError, Refused, OSError."""
    try:
        fd = os.open(root / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise Refused(f"{FOLDER}/ is no folder, or a link to another place") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _is_there(root: Path, name: str) -> bool:
    """Whether the file was put there before. Raises Refused, OSError."""
    try:
        with _folder(root) as folder:
            return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _put(draft: Path, root: Path, name: str) -> None:
    """Puts a fetched file in its place, durably, and whatever waits there away. Raises Refused, OSError, Stop."""
    try:
        with draft.open("rb") as file:
            os.fchmod(file.fileno(), 0o600)
            durable.sync(file.fileno(), draft)
        if not os.path.lexists(root / FOLDER):
            durable.make_folder(root / FOLDER)
        with _folder(root) as folder:
            os.replace(draft, name, dst_dir_fd=folder)
            durable.sync_names(folder, root / FOLDER)
    finally:
        draft.unlink(missing_ok=True)


def _image(root: Path, path: str) -> Image | None:
    place, _, name = path.partition("/")
    if place != FOLDER or "/" in name:
        return None
    try:
        with _folder(root) as folder, open_regular(name, folder) as file:
            data = file.read(LARGEST_IMAGE + 1)
    except (Refused, OSError, ValueError):
        return None
    if len(data) > LARGEST_IMAGE:
        return None
    found = next((kind for magic, kind in _TYPES.items() if data.startswith(magic)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":  # RIFF alone may be a sound or a film
        found = "image/webp"
    return Image(found, data) if found else None


def _name(message: Inbound, number: int, attachment: Attachment) -> str:
    """A harmless name that tells which message it came with: `<id>-<number>-<name>`."""
    plain = re.sub(r"[^\w.() -]", "_", attachment.name.rpartition("/")[2]).strip(". ")
    stem, dot, ending = plain.rpartition(".")
    short = f"{(stem or ending)[: _LONGEST_NAME // 4]}{dot if stem else ''}{ending[:10] if stem else ''}"
    return f"{re.sub(r'[^0-9A-Za-z-]', '_', message.id)[:40]}-{number}-{short or attachment.kind}"
