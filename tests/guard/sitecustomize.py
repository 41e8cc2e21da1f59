"""Keeps a Python process on this machine: Unix sockets and loopback work, anything else fails loudly.

Python imports a module of this name by itself at its start. So it guards the child processes of the tests, which find
it on their PYTHONPATH, and `tests/conftest.py` imports it for the test process. Knows nothing of nanomem.
"""

import ipaddress
import os
import socket
import sys
from typing import Any

attempts: list[str] = []
"""What was tried; in the test process each is an error even where the code under test swallowed the exception."""

_STDERR = os.dup(2)  # whatever the process does with its own later: that of litellm is silent
_ADDRESSED = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_RESOLVED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


class LeftTheMachine(RuntimeError):
    """Something asked for another machine. Not an OSError: who copes with a bad network shall not cope with this."""


def _host(value: object) -> str:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return text.partition("%")[0]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _guard(event: str, args: tuple[Any, ...]) -> None:
    if event in _ADDRESSED:
        connection, address = args
        # None: sent over a connection, which was judged when it was made.
        if address is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        host = _host(address[0])
        allowed = _is_loopback(host)
    elif event in _RESOLVED:
        if args[0] is None:
            return
        host = _host(args[0])
        allowed = _is_loopback(host) or not host or _is_number(host)  # numbers are not looked up
    else:
        return
    if not allowed:
        attempt = f"{event} {host}"
        attempts.append(attempt)
        os.write(_STDERR, f"tests/guard: {attempt}: the tests stay on this machine\n".encode())
        raise LeftTheMachine(attempt)


sys.addaudithook(_guard)
