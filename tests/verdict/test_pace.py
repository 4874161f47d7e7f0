"""How much slower than at its best, when the job's own log tells its steps."""

import msgspec
import pytest

from gpuwatch.model.progress import Progress
from gpuwatch.verdict.pace import Pace, follow_steps, slowdown
from gpuwatch.verdict.thresholds import Thresholds

GOOD_MINUTES = Pace(mean=0.4, best=0.8, known=True)
"""By its GPUs' shares it would be twice as slow as at its best."""


def told(period_s: float | None, span_s: float = 30.0, still_s: float = 0.0) -> Progress:
    return Progress(step=1, still_s=still_s, period_s=period_s, span_s=span_s)


def after(*progress: Progress | None, pace: Pace = GOOD_MINUTES) -> Pace:
    for one in progress:
        pace = follow_steps(pace, one)
    return pace


def factor(*progress: Progress | None, pace: Pace = GOOD_MINUTES) -> float | None:
    return slowdown(after(*progress, pace=pace), Thresholds())


def test_steps_stand_above_what_gpus_seem_to_do() -> None:
    assert factor(told(0.5), told(1.45)) == 2.9
    assert factor(told(0.5), told(0.52)) == 1.0


def test_without_steps_the_gpus_shares_tell() -> None:
    assert factor(None) == 2.0
    assert factor(told(0.5), told(None)) == 2.0


def test_who_comes_late_is_not_told_that_all_is_well() -> None:
    assert factor(told(1.45), pace=Pace()) is None
    assert factor(told(1.45), told(0.5), told(1.45), pace=Pace()) == 2.9


def test_a_period_from_a_few_seconds_is_no_best() -> None:
    assert factor(told(0.2, span_s=3.0), told(0.5), told(0.5)) == 1.0


@pytest.mark.parametrize(("still_s", "expected"), [(4.0, 2.9), (6.0, None)])
def test_a_job_that_stands_has_no_speed(still_s: float, expected: float | None) -> None:
    stands = told(1.45, still_s=still_s)
    assert factor(told(0.5), stands, pace=Pace()) == expected


def test_the_best_survives_in_the_state() -> None:
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(after(told(0.5))), type=Pace)
    assert factor(told(1.45), pace=kept) == 2.9


def test_a_state_from_before_there_were_steps_is_read() -> None:
    old = msgspec.msgpack.encode([0.4, 30.0, 0.8, 5, True])
    assert factor(None, pace=msgspec.msgpack.decode(old, type=Pace)) == 2.0
