"""What people send along: fetched once into `files/` of their space."""

import asyncio
import re
from pathlib import Path

from nanomem.errors import Refused, TryLater
from nanomem.messages import Attachment, Image, Inbound
from nanomem.ports import Channel
from nanomem.spaces import Space
from nanomem.stores import durable

FOLDER = "files"
LARGEST_IMAGE = 10 * 1024 * 1024
_LONGEST_NAME = 100
_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


class ReceivedFiles:
    """`ports.Files` on a folder."""

    async def receive(self, space: Space, message: Inbound, channel: Channel) -> tuple[list[str], list[str]]:
        """See the port."""
        paths: list[str] = []
        notes: list[str] = []
        for number, attachment in enumerate(message.attachments, 1):
            path = f"{FOLDER}/{_name(message, number, attachment)}"
            target = space.root / path
            try:
                if target.is_symlink() or not target.exists():
                    draft = await asyncio.to_thread(_draft, target)
                    await channel.fetch(attachment, draft)
                    await asyncio.to_thread(durable.put, draft, target)
                paths.append(path)
            except (Refused, TryLater, OSError) as error:
                notes.append(f"[{attachment.name[:_LONGEST_NAME]} could not be taken: {error}]")
        return paths, notes

    async def image(self, space: Space, path: str) -> Image | None:
        """See the port. What a file is, its first bytes say, not its name."""
        return await asyncio.to_thread(_image, space.root / path)


def _draft(target: Path) -> Path:
    """Where a file is fetched to, so that a kill leaves no half of it under its name. Raises Refused, OSError.

    The folder is one that the agent's tools may write: no link in it leads us out of the space.
    """
    target.parent.mkdir(0o700, parents=True, exist_ok=True)
    if target.parent.is_symlink():
        raise Refused(f"{FOLDER}/ is a link to another place")
    draft = target.with_name(f".{target.name}.part")
    draft.unlink(missing_ok=True)
    return draft


def _image(path: Path) -> Image | None:
    try:
        if path.stat().st_size > LARGEST_IMAGE:
            return None
        data = path.read_bytes()
    except OSError:
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
