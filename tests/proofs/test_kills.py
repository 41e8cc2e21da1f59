"""The proofs about kills, as far as half a minute lets them; and that they would see something if it were there."""

from dataclasses import replace
from pathlib import Path

import pytest

from proofs import again, tracer
from proofs.claim import Effort
from proofs.claims import kills, random_kills
from proofs.scenarios import BY_NAME, says_hello
from proofs.stage import Visit, prepared
from tests.daemon.running import a_world

REFUSED = tracer.why_not()
traced = pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
QUICK = Effort(quick=True)


@traced
async def test_some_moments(tmp_path: Path) -> None:
    """A few kills in a few scenarios leave nothing that should not be."""
    report = await kills.prove(tmp_path, QUICK)
    assert list(report.violations) == []
    assert sum(report.tried.values()) >= len(kills.QUICK) * kills.QUICK_POINTS
    assert all(report.tried[name] for name in kills.QUICK)


@traced
async def test_what_is_wrong_is_found_and_named(tmp_path: Path) -> None:
    """A play after which a file is gone: said with the event, the call, the path and how to see it again."""

    async def spoils(visit: Visit) -> None:
        await says_hello(visit)
        visit.told[42].append("never said")
        visit.is_settled = lambda: True  # type: ignore[method-assign]

    scenario = replace(BY_NAME["turn"], act=spoils)
    past = await prepared(scenario, tmp_path / "past")
    death = await kills.killed(9, scenario, past, tmp_path / "9")
    [found] = death.violations
    assert death.was_met
    assert found.startswith("turn, killed at 9 (")
    assert "never said" in found
    assert found.endswith("[python -m proofs.again kills turn 9]")


@traced
async def test_who_was_not_killed_does_not_count(tmp_path: Path) -> None:
    """Nothing is wrong where nothing was done; that is no evidence."""
    scenario = BY_NAME["turn"]
    past = await prepared(scenario, tmp_path / "past")
    assert await kills.killed(10_000, scenario, past, tmp_path / "10000") == kills.Death(False, [])


@traced
def test_one_moment_again(capsys: pytest.CaptureFixture[str]) -> None:
    """By the command that a violation names."""
    assert again.main("kills", "turn", "40") == 0
    assert capsys.readouterr().out == "nothing is wrong\n"


async def test_a_few_random_kills(tmp_path: Path) -> None:
    """While twenty people talk in each of two homes."""
    report = await random_kills.prove(tmp_path, QUICK)
    assert list(report.violations) == []
    assert report.tried["kills"] >= random_kills.QUICK_KILLS
    assert report.tried["kills amid work"] > 0


async def test_who_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    """Such an end is no kill, and is told."""
    with pytest.raises(AssertionError, match="it ended with 3"):
        async with a_world(tmp_path) as world:
            life = await world.daemon(under=("sh", "-c", "exit 3"))
            await life.dies_after(30)
