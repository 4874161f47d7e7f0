"""Threads, CPUs and reads with the numbers that real kernels showed in the lab."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    PEERS,
    VICTIM,
    Gpu,
    Play,
    Rank,
    blamed,
    named,
    rank,
    said,
    settled,
)

FUSED = replace(
    rank(
        gpu=Gpu(util=20, power=215, memory=5),
        main={"pipe": 1.0},
        main_run=0.02,
        loader={"fuse": 0.5, "futex": 0.5},
        loader_run=0.0,
        loaders=4,
        read_mb=0.0,
    ),
    cpus=1,
    busy=0.06,
    iowait=0.94,
)
ONE_CPU = replace(
    rank(
        gpu=Gpu(util=50, power=337, memory=26),
        main={"pipe": 0.5, "sleep": 0.3, "ready": 0.2},
        main_run=0.06,
        main_delay=0.12,
        loader={"futex": 0.5, "ready": 0.4, "run": 0.1},
        loader_run=0.46,
        loader_delay=0.54,
        loaders=2,
    ),
    cpus=1,
    busy=1.0,
)


def test_loaders_whose_main_thread_waits_for_them_do_not_rest() -> None:
    """Some have handed in their part of a batch, and wait for the one that reads."""
    verdict = settled(named(FUSED, *PEERS))
    assert said(verdict.job) == ("STORAGE", "read")
    assert {said(n) for n in verdict.nodes} == {("STORAGE", "read")}


def test_loaders_that_have_the_only_cpu_wait_for_nobody_else() -> None:
    verdict = settled((*named(VICTIM, *PEERS), *named(ONE_CPU, "x")))
    assert said(verdict.job) == ("CPU", "data-prep")
    assert blamed(verdict.job) == {"x"}


def test_loaders_of_all_ranks_together_have_the_cpus() -> None:
    """Those of one of eight ranks use an eighth: the rest is no stranger's."""
    ranks = tuple(
        replace(
            ONE_CPU.ranks[0], name=str(i), loaders=4, loader={"run": 0.45, "ready": 0.55},
            loader_run=0.5, loader_delay=0.5,
        )
        for i in range(8)
    )  # fmt: skip
    verdict = settled(named(replace(ONE_CPU, ranks=ranks, cpus=16), "x"))
    assert said(verdict.job) == ("CPU", "data-prep")


def test_a_helper_among_busy_loaders_does_not_turn_them_into_strangers() -> None:
    """Three threads share one CPU of which one does little: 66 % busy each, all of it theirs."""
    helped = replace(ONE_CPU.ranks[0], loaders=3, loader_run=0.27, loader_delay=0.39)
    verdict = settled((*named(VICTIM, *PEERS), *named(replace(ONE_CPU, ranks=(helped,)), "x")))
    assert said(verdict.job) == ("CPU", "data-prep")


def test_a_stranger_that_has_the_only_cpu_is_still_told_from_own_loaders() -> None:
    hogged = replace(
        ONE_CPU.ranks[0], loader={"ready": 0.7, "futex": 0.3}, loader_run=0.04, loader_delay=0.7,
        main={"ready": 0.6, "pipe": 0.4}, main_run=0.02, main_delay=0.5,
    )  # fmt: skip
    verdict = settled(named(replace(ONE_CPU, ranks=(hogged,)), "x"))
    assert said(verdict.nodes[0]) == ("CPU", "system")


def test_a_main_thread_that_is_looked_at_seldom_is_judged_by_a_longer_stretch() -> None:
    """On a busy node few samples are taken: 5 in 5 seconds are no share, 30 in 30 are."""
    play = Play(("x",))
    play.run((named(GOOD, "x")[0],), 20)
    few = Rank(
        gpu=Gpu(util=20, power=215, memory=5), main={"pipe": 0.2}, main_run=0.02,
        loader={"fuse": 0.1, "futex": 0.1}, loader_run=0.0, loaders=4, read_mb=0.0,
    )  # fmt: skip
    verdict = play.run(named(replace(FUSED, ranks=(few,)), "x"), 40)
    assert said(verdict.nodes[0]) == ("STORAGE", "read")


PINNED = replace(
    rank(
        gpu=Gpu(util=45, power=410, memory=20),
        main={"pipe": 0.2, "sleep": 0.73, "run": 0.07},
        main_run=0.07,
        main_delay=0.01,
        loader={"futex": 0.5, "run": 0.27, "ready": 0.23},
        loader_run=0.5,
        loader_delay=0.5,
        loaders=2,
    ),
    cpus=2,
    busy=0.6,
)


def test_two_loaders_that_have_exactly_one_of_two_cpus_are_pinned() -> None:
    verdict = settled((*named(VICTIM, *PEERS), *named(PINNED, "x")))
    assert said(verdict.job) == ("CPU", "pinned")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence <= 0.6


@pytest.mark.parametrize(("cpus", "pinned"), [(1, True), (2, False)])
def test_where_loaders_may_run_decides_whether_they_are_pinned(cpus: int, pinned: bool) -> None:
    placed = replace(PINNED.ranks[0], loaders_on=cpus)
    verdict = settled(named(replace(PINNED, ranks=(placed,)), "x")).nodes[0]
    assert (verdict.cause == "pinned") == pinned
    assert not pinned or verdict.confidence > 0.6


def test_a_main_thread_as_late_as_its_loaders_is_under_a_quota_if_anything() -> None:
    held = replace(PINNED.ranks[0], main_run=0.1, main_delay=0.1)
    verdict = settled(named(replace(PINNED, busy=0.1, cpus=16, ranks=(held,)), "x")).nodes[0]
    assert said(verdict) == ("CPU", "quota")
    assert verdict.confidence <= 0.5


def test_a_main_thread_that_is_a_little_late_does_not_cost_half_of_the_time() -> None:
    """Behind a slow network: 18 % of run delay on an idle node, half of the GPU's time spun."""
    play = Play(("x", *PEERS))
    play.run((*named(GOOD, "x", *PEERS),), 60)
    late = rank(
        gpu=Gpu(util=99, power=315, memory=20),
        main={"ready": 0.7, "sleep": 0.2, "socket": 0.1},
        main_run=0.08,
        main_delay=0.18,
        loader={"futex": 1.0},
        loader_run=0.0,
    )
    waits = rank(gpu=Gpu(util=99, power=240, memory=10), main={"socket": 0.9, "sleep": 0.1})
    nodes = (
        *named(replace(waits, busy=0.1), *PEERS),
        *named(replace(late, busy=0.19, cpus=1), "x"),
    )
    verdict = play.run(nodes, 60)
    assert verdict.job.state != "CPU"
    assert all(n.state != "CPU" or n.confidence < 0.5 for n in verdict.nodes)
