"""Sessions that look as if people had talked in them for long, in the layout of the session log."""

import json
import os
from datetime import UTC, datetime, timedelta

from nanomem.home import Home, make
from nanomem.messages import Sender
from nanomem.records import AssistantMessage, Metadata, Record, Reset, UserMessage, to_json
from nanomem.spaces import Spaces
from nanomem.stores.session_log import path_of

TOKENS = 32
"""Of each message, about."""


def write(home: Home, key: str, messages: int, unconsolidated: int | None = None) -> None:
    """A session with so many messages, a minute apart; all but the newest `unconsolidated` lie behind a pointer."""
    make(home)
    path = path_of(Spaces(home.path).of(key), key)
    now = datetime.now(UTC)
    with path.open("w", encoding="utf-8") as file:

        def add(record: Record) -> None:
            file.write(json.dumps(to_json(record), ensure_ascii=False) + "\n")

        add(Metadata(key=key, created_at=now - timedelta(minutes=messages)))
        for n in range(1, messages + 1):
            at = now - timedelta(minutes=messages - n)
            add(_message(n, f"{key}#{(n + 1) // 2}", at))
            if unconsolidated is not None and n == messages - unconsolidated:
                add(Reset(through=n, timestamp=at))
        file.flush()
        os.fsync(file.fileno())  # else the first turn would have to


def _message(n: int, turn: str, at: datetime) -> UserMessage | AssistantMessage:
    said = f"Number {n}: the train to Hamburg leaves at {n % 24:02}:{n % 60:02}, and I want to bring {n % 7} of the "
    said += "books that we spoke about last week."
    if n % 2:
        return UserMessage(n=n, turn=turn, timestamp=at, content=said, tokens=TOKENS, sender=Sender("local", "ann"))
    return AssistantMessage(n=n, turn=turn, timestamp=at, content=said, tokens=TOKENS, model="past", end="answer")
