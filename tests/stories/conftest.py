"""What some stories need."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest


class AtOnce(ThreadPoolExecutor):
    """Does what is given to a thread on the spot."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done = Future[Any]()
        try:
            done.set_result(call(*args, **more))
        except Exception as error:
            done.set_exception(error)
        return done


@pytest.fixture
async def no_threads() -> None:
    """For stories that wait for so many rounds of the loop, which say nothing of how far a thread is."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
