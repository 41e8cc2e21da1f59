"""Importing a library without what it would take in only because it happens to be installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(package: str) -> Iterator[None]:
    """What is imported in here for the first time finds no such package, unless that has been imported already.

    For the start, where nothing else is imported at the same time: it holds for the whole process.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # with this, Python says: ModuleNotFoundError
    try:
        yield
    finally:
        del sys.modules[package]
