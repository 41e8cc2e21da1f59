"""What a proof reports, and when that is a proof."""

import pytest

from proofs.claim import Report


@pytest.mark.parametrize(
    "report",
    [
        Report({}),
        Report({"kills": 0, "messages": 0}),
        Report({"kills": 5}, ["a message is lost"]),
        Report({}, skipped="no tracer here"),
    ],
    ids=["nothing tried", "none of anything", "violated", "skipped"],
)
def test_what_is_no_proof(report: Report) -> None:
    """It says so, to people and to programs."""
    assert not report.holds and not report.summary()["holds"]
    assert any(word in "\n".join(report.lines()) for word in ("nothing was tried", "a message is lost", "skipped"))


def test_what_is_one() -> None:
    """Something was tried, and nothing found; some of what could happen may not have."""
    report = Report({"rounds": 3, "placeholders left over": 0})
    assert report.holds
    assert "nothing was tried" not in report.lines()
