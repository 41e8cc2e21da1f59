"""A text that hides, and where it is found. Reads a file or the environment only when it is used."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from nanomem.errors import Misuse


class Secret:
    """A text that hides. `env:NAME` and `file:PATH` stand for what is found there when it is used.

    `setting` is the key it was written under, for complaints.
    """

    def __init__(self, written: str, setting: str = "") -> None:
        self.written = written
        self.setting = setting

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
            except FileNotFoundError:
                raise self._missing("there is no such file. Put the secret into it") from None
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it is no text"
                raise self._missing(f"that file cannot be read ({reason}). Mend that") from None
        else:
            return self.written
        if not value:
            raise self._missing(
                "that variable is not set, or empty. Set it where nanomem is started"
                if kind == "env"
                else "that file is empty. Put the secret into it"
            )
        return value

    def _missing(self, why: str) -> Misuse:
        named = f"{self.setting} = {self}" if self.setting else str(self)
        return Misuse(f"{named}: {why}, or change the setting.")
