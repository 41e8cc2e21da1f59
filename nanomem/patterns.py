"""Regular expressions that are made when they are first used, not at the start. Pure."""

import re
from collections.abc import Callable
from functools import cache, partial


def late(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Gives the pattern, made once. One with whole scripts or many words in it takes 1 to 8 ms, and there are many."""
    return cache(partial(re.compile, pattern, flags))
