"""The scorer, on made-up reports of which it is known how good they are."""

import msgspec
import pytest

from gpuwatch.model.verdict import Culprit, JobVerdict, Recurring, State, Verdict
from lab.scenario import Accept, Scenario
from lab.score import GRACE_S, LINGER_S, Score, Seen, Truth, score

ONSET, LIFT, END = 40.0, 100.0, 150.0
TRUTH = Truth(0.0, ONSET, LIFT, END)
DISK = Scenario(
    name="slow-disk",
    kind="uml",
    nodes=2,
    job=Accept(("STORAGE/read", "STORAGE"), "it reads slowly"),
    on={"gpu01": Accept(("STORAGE/read",), "it reads slowly")},
    culprits=("gpu01",),
)
GPU01 = (Culprit("node", "gpu01", ("gpu01",)),)
SCORED_S = LIFT - ONSET - GRACE_S


def said(
    node: str | None,
    words: str,
    since_s: float = 0.0,
    at_s: float = 0.0,
    *,
    confidence: float = 0.8,
    culprits: tuple[Culprit, ...] = (),
) -> Verdict:
    """A verdict that is suspected 5 s and confirmed 30 s after it began."""
    state, _, cause = words.partition("/")
    age_s = at_s - since_s
    return Verdict(
        scope="node" if node else "job",
        node=node,
        state=msgspec.convert(state, State),
        cause=cause or None,
        confidence=0.0 if words == "UNKNOWN" else confidence,
        suspected_us=1 if age_s >= 5 else None,
        confirmed_us=1 if age_s >= 30 else None,
        culprits=culprits,
    )


def report(
    job: str = "STORAGE/read",
    first: str = "STORAGE/read",
    second: str = "PEER",
    *,
    healthy: str = "COMPUTE",
    culprits: tuple[Culprit, ...] = GPU01,
    confidence: float = 0.8,
    delay_s: float = 4.0,
) -> list[Seen]:
    """What is shown each second: some words in the fault, some words else."""
    seen = []
    for at_s in map(float, range(int(END))):
        if ONSET + delay_s <= at_s < LIFT + 5:
            since = ONSET + delay_s
            shown = JobVerdict(
                job=said(None, job, since, at_s, confidence=confidence, culprits=culprits),
                nodes=(
                    said("gpu01", first, since, at_s, confidence=confidence),
                    said("gpu02", second, since, at_s, confidence=confidence),
                ),
            )
        else:
            verdicts = [said(n, healthy, 0, at_s) for n in (None, "gpu01", "gpu02")]
            shown = JobVerdict(job=verdicts[0], nodes=tuple(verdicts[1:]))
        seen.append(Seen(at_s, shown))
    return seen


def shares(result: Score) -> dict[str, float | None]:
    return {s.name: s.share for s in result.subjects}


def test_a_perfect_report_has_full_marks() -> None:
    result = score(DISK, TRUTH, report())
    assert shares(result) == {"job": 1.0, "gpu01": 1.0, "gpu02": 1.0}
    assert [s.suspected_after_s for s in result.subjects] == [9.0, 9.0, 9.0]
    assert [s.confirmed_after_s for s in result.subjects] == [34.0, 34.0, 34.0]
    assert [s.alarm_s + s.misled_s for s in result.subjects] == [0, 0, 0]
    healthy_s = ONSET + END - LIFT - LINGER_S
    assert [(s.healthy_s, s.healthy_right_s) for s in result.subjects] == [(healthy_s,) * 2] * 3
    assert (result.blame.right_s, result.blame.wrong_s, result.blame.vague_s) == (SCORED_S, 0, 0)
    assert result.confusion["STORAGE/read"] == {"STORAGE/read": 2 * SCORED_S}
    assert result.confusion["PEER"] == {"PEER": SCORED_S}


def test_silence_scores_nothing_but_misleads_nobody() -> None:
    result = score(DISK, TRUTH, report("UNKNOWN", "UNKNOWN", "UNKNOWN", culprits=()))
    assert shares(result) == {"job": 0.0, "gpu01": 0.0, "gpu02": 0.0}
    assert all(s.suspected_after_s is None and s.misled_s == 0 for s in result.subjects)
    assert result.blame.vague_s == SCORED_S


def test_a_wrong_cause_is_not_acceptable_and_misleads_when_it_is_sure_of_itself() -> None:
    sure = score(DISK, TRUTH, report("STORAGE/checkpoint", "STORAGE/checkpoint"))
    doubting = score(DISK, TRUTH, report("NETWORK/loss", "NETWORK/loss", confidence=0.5))
    assert [s.misled_s for s in sure.subjects] == [SCORED_S, SCORED_S, 0]
    assert [s.misled_s for s in doubting.subjects] == [0, 0, 0]
    assert shares(sure) == shares(doubting) == {"job": 0.0, "gpu01": 0.0, "gpu02": 1.0}
    assert doubting.confusion["STORAGE/read"] == {"NETWORK/loss": 2 * SCORED_S}


def test_a_late_report_loses_what_it_was_late() -> None:
    result = score(DISK, TRUTH, report(delay_s=30))
    assert result.job.acceptable_s == LIFT - ONSET - 30
    assert result.job.suspected_after_s == 35.0
    assert result.job.confirmed_after_s is None


@pytest.mark.parametrize(
    ("culprits", "expected"),
    [
        (GPU01, (SCORED_S, 0.0, 0.0)),
        ((Culprit("node", "gpu02", ("gpu02",)),), (0.0, SCORED_S, 0.0)),
        ((*GPU01, Culprit("node", "gpu02", ("gpu02",))), (0.0, SCORED_S, 0.0)),
        ((Culprit("job", "all nodes", ("gpu01", "gpu02")),), (0.0, 0.0, SCORED_S)),
        ((), (0.0, 0.0, SCORED_S)),
    ],
)
def test_blame(culprits: tuple[Culprit, ...], expected: tuple[float, float, float]) -> None:
    result = score(DISK, TRUTH, report(culprits=culprits))
    assert (result.blame.right_s, result.blame.wrong_s, result.blame.vague_s) == expected
    assert result.job.misled_s == expected[1]
    assert result.job.share == 1.0


def test_alarms_in_healthy_time_are_false() -> None:
    result = score(DISK, TRUTH, report(healthy="NETWORK/loss"))
    healthy_s = ONSET + END - LIFT - LINGER_S
    assert [s.alarm_s for s in result.subjects] == [healthy_s] * 3
    assert [s.misled_s for s in result.subjects] == [healthy_s] * 3
    assert 0 < result.job.confirmed_alarm_s < healthy_s
    assert score(DISK, TRUTH, report(healthy="UNKNOWN")).job.alarm_s == 0


def test_imbalance_in_a_healthy_job_is_an_alarm() -> None:
    assert score(DISK, TRUTH, report(healthy="COMPUTE/imbalance")).job.alarm_s > 0


def test_seconds_without_a_verdict_count_as_missed() -> None:
    died = [s for s in report() if s.at_s < ONSET + GRACE_S + 20]
    result = score(DISK, TRUTH, died)
    assert result.job.share == pytest.approx(21 / SCORED_S)
    gone = [msgspec.structs.replace(s, verdict=JobVerdict(job=s.verdict.job)) for s in report()]
    assert shares(score(DISK, TRUTH, gone)) == {"job": 1.0, "gpu01": 0.0, "gpu02": 0.0}
    assert shares(score(DISK, TRUTH, [])) == {"job": 0.0, "gpu01": 0.0, "gpu02": 0.0}


def test_a_starved_period_is_not_scored() -> None:
    wrong = [
        msgspec.structs.replace(s, verdict=JobVerdict(job=said(None, "CPU/system")))
        if 60 <= s.at_s < 80
        else s
        for s in report()
    ]
    truth = msgspec.structs.replace(TRUTH, starved=((60.0, 80.0),))
    assert score(DISK, TRUTH, wrong).job.share == pytest.approx((SCORED_S - 20) / SCORED_S)
    result = score(DISK, truth, wrong)
    assert shares(result) == {"job": 1.0, "gpu01": 1.0, "gpu02": 1.0}
    assert (result.starved_s, result.job.fault_s) == (20.0, SCORED_S - 20)


def test_calibration_tells_how_often_a_confidence_was_right() -> None:
    result = score(DISK, TRUTH, report("CPU/system", confidence=0.5))
    middle = result.calibration[2]
    assert (middle.from_confidence, middle.shown_s) == (0.4, 3 * SCORED_S)
    assert middle.right_s == 2 * SCORED_S
    for edge, confidence in enumerate((0.0, 0.2, 0.4, 0.6, 0.8, 0.9)):
        least = score(DISK, TRUTH, report(confidence=confidence)).calibration[edge]
        assert (least.from_confidence, least.right_s) == (confidence, least.shown_s)
        assert least.shown_s > 0


def test_what_recurs_is_asked_for_by_name() -> None:
    again = Recurring("job", None, "STORAGE", "checkpoint", 3, 8.0, 60.0, 0.13)
    scenario = Scenario(name="x", kind="uml", nodes=1, recurring="STORAGE/checkpoint")
    seen = [
        Seen(s.at_s, msgspec.structs.replace(s.verdict, recurring=(again,))) if s.at_s > 90 else s
        for s in report()
    ]
    assert score(scenario, TRUTH, report()).recurring_after_s is None
    assert score(scenario, TRUTH, seen).recurring_after_s == 51.0


def test_words_take_any_cause_only_where_a_row_says_so() -> None:
    any_cause = Accept(("NETWORK/*",), "the cause is a matter of taste")
    assert any_cause.takes("NETWORK/loss")
    assert any_cause.takes("NETWORK")
    assert not any_cause.takes("STORAGE/read")
    assert not Accept(("COMPUTE",), "well").takes("COMPUTE/imbalance")


def test_a_score_survives_json() -> None:
    result = score(DISK, TRUTH, report())
    assert msgspec.json.decode(msgspec.json.encode(result), type=Score) == result
