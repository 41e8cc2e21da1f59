"""In how many messages a word stands, without counting it each time. Pure."""

from collections.abc import Callable

_LATELY = 0.05
"""By what part there may be more messages since a common term was counted."""
_COMMON, _MOST = 100, 2_000


class Counts:
    """In how many messages of one index each term stood lately: to count takes the longer the commoner a term is, and
    the common ones are in every message.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def forget(self) -> None:
        """The next are counted anew."""
        self._known.clear()

    def of(self, phrase: str, total: int, counted: Callable[[str], int]) -> int:
        """As `counted` says, or said when there were hardly fewer messages than the `total` of now."""
        count, then = self._known.get(phrase, (0, 0))
        if not then <= total <= then * (1 + _LATELY):
            count = counted(phrase)
            if count >= _COMMON:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[phrase] = count, total
        return count
