"""How much slower than at its best, when the job's own log tells its steps."""

from dataclasses import replace

import msgspec
import pytest

from gpuwatch.model.progress import Progress
from gpuwatch.verdict.pace import Pace, follow_steps, slowdown
from gpuwatch.verdict.thresholds import Thresholds
from verdict.scenario import GOOD, HOT, PEERS, READS, VICTIM, WAITS, Gpu, Node, Play, blamed, named

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


@pytest.mark.parametrize(
    ("period_s", "state"), [(0.5, "COMPUTE"), (0.68, "PEER"), (None, "COMPUTE")]
)
def test_a_fault_that_costs_little_is_no_computing_for_who_waits_if_the_log_tells_that_steps_are_longer(
    period_s: float | None, state: str
) -> None:
    """Steps of 0.5 s took 0.68 s; those who waited for it spun 28 % of the time."""
    spins = Node(ranks=(replace(WAITS, gpu=Gpu(util=96, power=480, memory=20)),))
    play = Play(("x", *PEERS))
    play.progress = told(0.5) if period_s else None
    play.run(named(GOOD, "x", *PEERS), 40)
    play.progress = told(period_s) if period_s else None
    verdict = play.run((*named(HOT, "x"), *named(spins, *PEERS)), 45)
    assert {n.state for n in verdict.nodes[1:]} == {state}


@pytest.mark.parametrize(("period_s", "state"), [(0.5, "COMPUTE"), (0.9, "PEER")])
def test_who_exchanges_at_high_power_waits_as_long_as_the_log_tells_where_another_is_at_fault(
    period_s: float, state: str
) -> None:
    """Steps of 0.5 s took 0.8 s by a delay of 60 ms: the third node read 90 % of its full power."""
    busy = Node(ranks=(replace(WAITS, gpu=Gpu(util=98, power=580, memory=20)),))
    play = Play(("x", *PEERS))
    play.progress = told(0.5)
    play.run(named(GOOD, "x", *PEERS), 40)
    play.progress = told(period_s)
    verdict = play.run(
        (*named(READS, "x"), *named(VICTIM, *PEERS[:-1]), *named(busy, PEERS[-1])), 60
    )
    assert blamed(verdict.job) == {"x"}
    assert verdict.nodes[-1].state == state


def test_steps_that_are_longer_are_no_waiting_where_nobody_spins() -> None:
    """Evaluation and accumulation make steps longer, too."""
    play = Play(PEERS)
    for period_s in (0.5, 1.9):
        play.progress = told(period_s)
        verdict = play.run(named(GOOD, *PEERS), 40)
    assert {v.state for v in (verdict.job, *verdict.nodes)} == {"COMPUTE"}
    assert verdict.job.confidence >= 0.8
