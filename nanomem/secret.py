"""A text that hides, and where it is found. Reads a file or the environment only when it is used."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from nanomem.errors import Misuse


class Secret:
    """A text that hides. `env:NAME` and `file:PATH` stand for what is found there when it is used."""

    def __init__(self, written: str) -> None:
        self.written = written

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __str__(self) -> str:
        is_reference = re.fullmatch(r"env:\w{1,64}|file:.+", self.written)
        return self.written if is_reference or not self.written else "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.written == self.written

    def reveal(self, environ: Mapping[str, str]) -> str:
        """The secret itself. Raises Misuse where the variable or file is missing or empty."""
        kind, _, place = self.written.partition(":")
        if kind == "env":
            value = environ.get(place, "").strip()
        elif kind == "file":
            try:
                value = Path(os.path.expanduser(place)).read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                raise Misuse(f"The file {place}, which is to hold a secret, cannot be read: {error}.") from None
        else:
            return self.written
        if not value:
            raise Misuse(f"{self} is to hold a secret, but is not set or empty.")
        return value
