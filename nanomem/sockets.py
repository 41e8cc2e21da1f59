"""How a connection notices that the other side is gone without a word: else it is waited on for minutes."""

import socket
from collections.abc import Sequence
from typing import Final

SIGNS_OF_LIFE: Final[Sequence[tuple[int, int, int]]] = [
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 2),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 2),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 3000),  # for what was sent and is not acknowledged
    )
    if hasattr(socket, name)
]
"""Arguments of `setsockopt`, of those that there are here: the other side is asked for a sign, and given 3 to 4 s."""
