"""Levels of a good run: who comes late to a slow run has no good minutes of its own to learn from."""

import pytest

from gpuwatch.model.verdict import Shares
from gpuwatch.verdict.judge import Judge, State
from verdict.scenario import GOOD, HALF, PEERS, Play, named

MODEL = "NVIDIA H100 80GB HBM3"


def late(watts: float | None) -> Play:
    """Watch from where all wait half of the time."""
    baseline = {MODEL: watts} if watts else {"NVIDIA A100": 390.0}
    play = Play(PEERS, Judge(None, State(baseline=baseline)))
    play.run(named(HALF, *PEERS), 40)
    return play


def shares(play: Play) -> Shares:
    found = play.history[-1].nodes[0].shares
    assert found is not None
    return found


def test_half_of_the_time_is_seen_lost_from_the_first_window_on() -> None:
    assert late(None).history[-1].nodes[0].state == "UNKNOWN"
    play = late(600.0)
    assert shares(play).levels == "baseline"
    assert shares(play).spin > 0.4
    assert play.history[-1].nodes[0].state == "PEER"
    first = next(v for v in play.history if v.nodes[0].shares)
    assert first.nodes[0].shares is not None
    assert first.nodes[0].shares.levels == "baseline"


def test_own_good_minutes_replace_it_where_they_are_as_good() -> None:
    play = late(400.0)
    assert shares(play).levels == "baseline"
    play.run(named(GOOD, *PEERS), 40)
    assert shares(play).levels == "learned"
    play.run(named(HALF, *PEERS), 10)
    assert shares(play).levels == "learned"


@pytest.mark.parametrize("watts", [120.0, 1e9])
def test_a_level_that_no_gpu_works_at_tells_nothing_wrong(watts: float) -> None:
    """Below what spinning draws it is none; above the limit it is the limit."""
    play = Play(PEERS, Judge(None, State(baseline={MODEL: watts})))
    assert play.run(named(GOOD, *PEERS), 40).job.state == "COMPUTE"


def test_it_is_part_of_the_judges_state() -> None:
    judge = Judge.from_state(late(600.0).judge.state())
    play = Play(PEERS, judge)
    play.run(named(HALF, *PEERS), 12)
    assert shares(play).levels == "baseline"
