"""Who may talk and who owns the daemon, as the settings say and as pairing adds. Implements `ports.Door`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Literal

import structlog

from nanomem.errors import CannotStore, Misuse, Refused
from nanomem.settings import set_values
from nanomem.spaces import Space, Spaces

log = structlog.get_logger()

NOT_NOW = "I cannot let you in now, as my settings cannot be changed. Please send the code again in a minute."


class TelegramDoor:
    """The door of the Telegram channel, and the rule of spaces that follows from who owns the daemon.

    `is_valid` says whether a code lets somebody in now, `spend` ends that.
    """

    def __init__(
        self,
        home: Path,
        allowed: Iterable[int],
        owners: Iterable[int],
        policy: Literal["audience", "shared"],
        is_valid: Callable[[str], Awaitable[bool]],
        spend: Callable[[str], Awaitable[None]],
    ) -> None:
        self._home = home
        self._allowed = set(allowed)
        self._owners = set(owners)
        self._policy = policy
        self._is_valid = is_valid
        self._spend = spend
        self._pairing = asyncio.Lock()

    def admits(self, user: int) -> bool:
        """See the port."""
        return user in self._allowed

    def is_owner(self, user: int) -> bool:
        """See the port."""
        return user in self._owners

    def space(self, address: str) -> Space:
        """The space that an address belongs to."""
        owners = frozenset(f"telegram:{user}" for user in self._owners)
        return Spaces(self._home, owners, self._policy).of(address)

    async def pair(self, code: str, user: int) -> bool:
        """See the port. The newcomer stands in the settings before the door opens; the first one is the owner.

        Where the settings cannot be changed nobody behind that message waits for it.
        """
        async with self._pairing:
            if not await self._is_valid(code):
                return False
            allowed, owners = self._allowed | {user}, self._owners or {user}
            changes = {
                "channels.telegram.allow_from": sorted(allowed),
                "channels.telegram.owner": sorted(owners),
            }
            try:
                await asyncio.to_thread(set_values, self._home / "config.toml", changes)
            except (CannotStore, Misuse, OSError) as error:  # the last where the library for it cannot be opened
                log.error("telegram.pairing_failed", user=user, error=str(error))
                raise Refused(NOT_NOW) from error
            await self._spend(code)
            self._allowed, self._owners = allowed, owners
        log.info("telegram.paired", user=user, owner=user in owners)
        return True
