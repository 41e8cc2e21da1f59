"""A disk that refuses things, and a process that may open no more files: some stores, some faults."""

import errno
from pathlib import Path

import pytest

from proofs import tracer
from proofs.claim import Effort
from proofs.claims import faults
from proofs.record import Event
from proofs.trouble import synced_again

REFUSED = tracer.why_not()


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
async def test_what_a_disk_refuses(tmp_path: Path) -> None:
    """Nothing is found."""
    report = await faults.prove(tmp_path, Effort(quick=True))
    assert not report.skipped and not report.violations and sum(report.tried.values()) == 3


def test_a_sync_that_is_tried_again_is_found() -> None:
    """Of the same file after it had failed; of others, before, or of what can be made again, it is none."""

    def sync(path: str, result: int = 0) -> Event:
        return Event(1, "fdatasync", path, result)

    failed = sync("a", -errno.EIO)
    assert synced_again([sync("a"), failed, sync("b")]) == []
    assert synced_again([failed, sync("b"), sync("a")]) == ["a was synced again after that had failed"]
    assert synced_again([sync("state/recall/x.db", -errno.EIO), sync("state/recall/x.db")]) == []
