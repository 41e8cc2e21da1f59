"""A sample of what the networks do to the daemon; all of it is `scripts/prove network`."""

from pathlib import Path

from proofs.claim import Effort
from proofs.claims import network
from proofs.claims.network import too_early, unmet
from tests.emulators.telegram import Call


async def test_a_sample(tmp_path: Path) -> None:
    """Each message is answered once or its failure is told, and soon after the end all is as before."""
    report = await network.prove(tmp_path, Effort(quick=True))
    assert list(report.violations) == []
    assert report.tried["rounds"] == 3 and report.tried["turns that failed"] > 0
    assert report.tried["requests broken"] and report.tried["rounds whose calm was measured"]


def test_who_calls_too_early_is_found() -> None:
    """Only for the chat that was too much, or for polls; what was under way already is no fault."""
    polls = [Call("getUpdates", {}, at) for at in (10.0, 10.5, 12.1)]
    sends = [Call("sendMessage", {"chat_id": chat}, at) for chat, at in ((42, 10.0), (42, 10.1), (7, 11.0), (42, 13.0))]
    assert too_early([*polls, *sends], [(polls[0], 2), (sends[0], 2)]) == [
        "getUpdates for getUpdates came 1.50 s too early"
    ]
    assert too_early(sends, [(sends[0], 4)]) == ["sendMessage for 42 came 1.00 s too early"]


def test_a_fault_that_never_came_is_found() -> None:
    """Nobody can say of it that it was borne. What is blocked altogether is looked at elsewhere."""
    assert unmet({"cut": [0, 4, 0], "refused": [0, 0, 0], "gone": [0]}) == []
    assert unmet({"cut": [0, 0, 0]}) == ["cut: in 3 rounds nothing met it"]
