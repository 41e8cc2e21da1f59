"""Who may do what with the memory of the space they are in."""

from collections.abc import Callable
from dataclasses import dataclass

from nanomem.messages import Inbound
from nanomem.spaces import Space, is_group


@dataclass(frozen=True, slots=True)
class Rights:
    """The owner may all; others what concerns a space that is not the owner's. `space_of` is that of an address."""

    space_of: Callable[[str], Space]

    def may(self, message: Inbound) -> bool:
        """Whether they may see and add to what is known where they are."""
        return message.from_owner or not self.space_of(message.address).is_owners

    def may_go_back(self, message: Inbound) -> bool:
        """Whether they may take back changes there, too: in a group only the owner."""
        return message.from_owner or (self.may(message) and not is_group(message.address))
