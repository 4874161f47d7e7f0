"""The recordings that come along are judged today as is true, and tell the same story each time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpuwatch.model.verdict import JobVerdict
from gpuwatch.report.timeline import word
from lab.rescore import judged_anew, rescored
from lab.score import Seen
from verdict.evident import lacking

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.json"))


def story(seen: list[Seen]) -> Iterator[str]:
    """Yield a line each time that what is said of the job or a node changes."""
    before = ""
    for one in seen:
        told = said(one.verdict)
        if told != before:
            yield f"{one.at_s - seen[0].at_s:5.0f} s  {told}"
        before = told


def said(verdict: JobVerdict) -> str:
    job = verdict.job
    culprits = ", ".join(culprit.id for culprit in job.culprits)
    sure = "confirmed" if job.confirmed_us else "suspected" if job.suspected_us else ""
    nodes = " ".join(f"{node.node}={word(node)}" for node in verdict.nodes)
    return f"{word(job)} {sure} ({culprits}) {nodes}"


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_recorded_fault_is_judged_as_is_true(file: Path) -> None:
    _, now = rescored(file)
    job, blame = now.score.job, now.score.blame
    assert not now.toothless
    assert job.share is not None
    assert job.share >= 0.95
    assert job.suspected_after_s is not None
    assert job.confirmed_after_s is not None
    assert job.confirmed_after_s - job.suspected_after_s <= 31
    assert blame.wrong_s == 0
    assert blame.right_s == pytest.approx(job.acceptable_s, abs=2)
    for subject in now.score.subjects:
        assert (subject.name, subject.alarm_s, subject.misled_s) == (subject.name, 0, 0)


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_it_tells_the_same_story_with_evidence_at_each_tick(
    file: Path, snapshot: SnapshotAssertion
) -> None:
    seen = judged_anew(file.with_suffix(""))
    assert [lack for one in seen for lack in lacking(one.verdict)] == []
    assert "\n".join(story(seen)) == snapshot


def test_there_is_one_of_each_kind() -> None:
    assert {file.stem for file in RECORDINGS} >= {
        "net-loss", "nfs-slow", "checkpoint", "main-thread", "gpu-throttled",
    }  # fmt: skip
