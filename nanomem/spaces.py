"""Who shares a memory: every address belongs to one space, and a space is a value that is handed on.

Pure: decides from the address alone, reads nothing and looks nothing up.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

OWNER = "owner"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Space:
    """A folder with everything known to one audience. `shared_root` has the SOUL.md and prompts all see."""

    name: str
    root: Path
    shared_root: Path

    @property
    def is_owners(self) -> bool:
        """True for the space of the owner's private chats."""
        return self.name == OWNER


@dataclass(frozen=True, slots=True)
class Spaces:
    """The rule by which addresses fall into spaces; `owners` holds `channel:user` of each owner."""

    home: Path
    owners: frozenset[str] = frozenset()
    policy: Literal["audience", "shared"] = "audience"

    def of(self, address: str) -> Space:
        """The space of an address: the owner's private chats share one, all others have their own.

        A forum topic belongs to its group, so only `channel:chat` decides.
        """
        chat = ":".join(address.split(":")[:2])
        if self.policy == "shared" or chat.startswith("terminal:") or chat in self.owners:
            return self.named(OWNER)
        return self.named(chat)

    def named(self, name: str) -> Space:
        """The space of that name, whether or not anything is in it yet."""
        workspace = self.home / "workspace"
        root = workspace if name == OWNER else self.home / "spaces" / file_name(name)
        return Space(name, root, workspace)


def is_group(address: str) -> bool:
    """Whether several people may talk there: on Telegram the ids of groups are negative."""
    return address.split(":")[1:2] != [] and address.split(":")[1].startswith("-")


def file_name(key: str) -> str:
    """A file name for any key: percent-encoded, at most 200 bytes, different for different keys.

    Upper-case letters would make two keys one file where case does not count, so keys that have
    them carry a hash, as those do that had to be shortened. Addresses of known channels have none.
    """
    name = quote(key, safe="", errors="surrogatepass")
    if key != key.lower() or len(name) > _LONGEST_NAME or not name.strip("."):
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{name[: _LONGEST_NAME - 17]}~{digest}"
    return name
