"""A disk that refuses things, and a process that may open no more files: some stores, some faults."""

import errno
import subprocess
from pathlib import Path

import pytest

from proofs import tracer
from proofs.claim import Effort
from proofs.claims import faults
from proofs.record import Event
from proofs.trouble import Case, Play, synced_again
from tests.daemon.running import PLACEHOLDER, TOKEN, World
from tests.emulators import OpenAIServer, TelegramServer

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


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (PLACEHOLDER, False),
        ("I cannot write to my disk", False),
        ("Nothing was found.", False),
        ("Hello! I am well.", True),
        ("Saved (version 2): The garden gate is green", True),
        ("Already known: The garden gate is green", True),
        ("Skill tides is installed", True),
        ("New session started.", True),
    ],
)
def test_what_is_shown_and_not_on_disk_is_found(tmp_path: Path, text: str, is_told: bool) -> None:
    """An answer that no log has, too; a word about what is wrong is none."""
    world = World(tmp_path / "home", TelegramServer(TOKEN), OpenAIServer())
    play = Play(Case(faults.STORES[0], "ENOSPC"), world, tmp_path / "record", 1.0, ["Hello"])
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@localhost"]
    subprocess.run([*git, "init", "-q", "-b", "main", str(world.repository())], check=True)
    subprocess.run([*git, "-C", str(world.repository()), "commit", "-qm", "one", "--allow-empty"], check=True)
    play.compare([text], 1.0)
    assert play.found == ([f"shown, but not on disk: {text}"] if is_told else [])
