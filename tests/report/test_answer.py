"""The first sentence: what was waited on, who is to blame, when, what it took; never more than known."""

from datetime import UTC, timedelta, timezone

import msgspec
import pytest

from gpuwatch.job.types import Cost
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import Candidate, Culprit, JobVerdict, Recurring, State, Verdict
from gpuwatch.report.answer import answer
from gpuwatch.report.build import Subject, build
from gpuwatch.report.text import text
from gpuwatch.report.timeline import Clock, said_of
from gpuwatch.report.types import Hourly, Peak, Report

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SUBJECT = Subject(
    job="llama", interval_s=1.0, clock=Clock(START_US, 0), thresholds={}, cost=Cost(gpu_hour=36.0)
)


def told(*phases: tuple[int, State, str | None], blamed: Culprit | None = None) -> Report:
    """Return the report of phases of seconds in a state; waits are suspected, and confirmed after 30 s."""
    second, ticks = 0, []
    for length, state, cause in phases:
        for passed in range(length):
            node = Verdict(scope="node", node="gpu01", state=state, cause=cause)
            job = msgspec.structs.replace(
                node, scope="job", node=None, confidence=0.9, culprits=(blamed,) if blamed else (),
                suspected_us=None if (state, cause) == ("COMPUTE", None) else second * 1_000_000,
                confirmed_us=second * 1_000_000 if passed >= 30 else None,
            )  # fmt: skip
            rank = msgspec.structs.replace(node, scope="rank", rank="0")
            at = (second + passed) * 1_000_000
            verdict = JobVerdict(job=job, nodes=(node,), ranks=(rank,))
            ticks.append((Tick(event_no=at, arrived_us=at, wall_us=START_US + at), verdict))
        second += length
    return build(SUBJECT, said_of(ticks), [])


def test_a_wait_is_told_with_time_blame_and_price() -> None:
    gpu03 = Culprit("node", "gpu03", ("gpu03",))
    found = told(
        (60, "COMPUTE", None), (100, "STORAGE", "read"), (40, "COMPUTE", None), blamed=gpu03
    )
    assert answer(found, UTC) == (
        "The job waited on storage (read) for 1 m 40 s, 50% of the time, from 00:01:00 UTC to 00:02:40 UTC;"
        " to blame: gpu03 (confirmed, confidence 0.90). It took 0.0278 GPU hours and 1.00 USD;"
        " without it the job would run about 2.00x as fast."
    )  # fmt: skip
    lines = text(found, UTC).splitlines()
    assert lines[1] == answer(found, UTC)
    assert [line.split() for line in lines if line.startswith(("  STORAGE", "  all"))] == [
        ["STORAGE/read", "0.0278", "50.0%", "1.00", "USD", "without", "it", "about", "2.00x", "as", "fast"],
        ["all", "0.0556", "100.0%", "1.00", "USD"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("phases", "says", "never"),
    [
        (((200, "COMPUTE", None),), "Nothing held the job up: it computed 100% of the time.", "blame"),
        (((20, "CPU", "quota"), (180, "COMPUTE", None)), "The job may have waited on CPUs (quota) for 20 s", "; to blame"),
        (((90, "IDLE", None), (20, "CPU", "quota")), "The job was idle", "CPU"),
        (((90, "IDLE", None), (40, "CPU", "quota")), "The job waited on CPUs (quota)", "idle"),
        (((40, "CPU", "quota"), (60, "NETWORK", "loss"), (9, "COMPUTE", None)), "The job waited on the network (loss)", "quota"),
        (((20, "GPU", "throttled"), (60, "COMPUTE", None)), "may have been held back by a GPU (throttled)", "was"),
        (((40, "STARTUP", None), (9, "COMPUTE", None)), "The job was starting up", "blame"),
        (((40, "COMPUTE", "imbalance"), (9, "COMPUTE", None)), "The job waited for ranks that had more to compute", "may"),
        (((20, "CPU", "quota"), (20, "COMPUTE", None), (9, "CPU", "quota")), "in 2 stretches from", "since"),
        (((20, "COMPUTE", None), (90, "HUNG", None)), "since 00:00:20 UTC, to the end", " from "),
        (((90, "UNKNOWN", None), (20, "COMPUTE", None)), "82% of the time is not known", "held the job up:"),
    ],
)  # fmt: skip
def test_no_more_is_told_than_is_known(
    phases: tuple[tuple[int, State, str | None], ...], says: str, never: str
) -> None:
    said = answer(told(*phases), UTC)
    assert says in said
    assert never not in said


def test_an_evening_peak_is_told_in_the_readers_zone() -> None:
    high = Peak(begin=18, end=21, level=62.0, ratio=3.1, days=4)
    row = Hourly(
        quantity="storage_latency", entity="/data", unit="ms", levels=(None,) * 24, median=20.0, days=5,
        peak=high,
    )  # fmt: skip
    found = msgspec.structs.replace(told((9, "COMPUTE", None)), hours=(row,))
    line = "by hour of day: storage latency on /data is 62 ms, 3.1x its median, between {} and {}, on 4 days"
    assert line.format("18:00", "21:00") in text(found, UTC)
    india = timezone(timedelta(hours=5, minutes=30))
    assert line.format("23:30", "02:30") in text(found, india)
    quiet = msgspec.structs.replace(found, hours=(msgspec.structs.replace(row, peak=None),))
    assert "by hour" not in text(quiet, UTC)


def test_a_wait_that_came_back_is_sure_and_rivals_are_named() -> None:
    found = told((9, "STORAGE", "checkpoint"), (60, "COMPUTE", None), (9, "STORAGE", "checkpoint"))
    assert "may have waited on storage (checkpoint)" in answer(found, UTC)
    again = (Recurring("job", None, "STORAGE", "checkpoint", 3, 9.0, 60.0, 0.13),)
    sure = answer(msgspec.structs.replace(found, recurring=again), UTC)
    assert sure.startswith("The job waited on storage (checkpoint) for 18 s")
    assert "(confirmed as it came back, 3 times, confidence 0.90)" in sure
    rivals = (Candidate("CPU", "quota", 0.45),)
    unsure = [msgspec.structs.replace(row, candidates=rivals) for row in found.verdicts]
    doubtful = msgspec.structs.replace(found, verdicts=tuple(unsure))
    assert "confidence 0.90, or CPU/quota)" in answer(doubtful, UTC)
