"""How much of the lost time a cause explains, and what is left of computing beside it."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    HALF,
    HOT,
    LATE,
    PEERS,
    READS,
    VICTIM,
    Gpu,
    Node,
    Play,
    Rank,
    blamed,
    named,
    rank,
    said,
    settled,
)

STARVED = Gpu(util=25, power=270, memory=5)


def test_a_main_thread_that_runs_for_all_of_the_starved_time_is_the_limit() -> None:
    """It works 1 s a step and sleeps while its GPU computes 0.4 s: 73 % of a CPU, not 90."""
    works = rank(
        gpu=STARVED,
        main={"run": 0.73, "sleep": 0.27},
        main_run=0.73,
        main_delay=0.03,
        loader={"futex": 1.0},
        loader_run=0.0,
    )
    verdict = settled((*named(VICTIM, *PEERS), *named(works, "x")))
    assert said(verdict.job) == ("CPU", "main-thread")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence >= 0.8


def test_a_main_thread_that_spins_for_its_gpu_and_then_waits_for_data_is_not() -> None:
    """Half of the time in a synchronise call, half in a queue that nobody fills."""
    spins = rank(
        gpu=Gpu(util=50, power=340),
        main={"run": 0.5, "pipe": 0.5},
        main_run=0.5,
        loader={"poll": 1.0},
        loader_run=0.0,
    )
    assert settled(named(spins, *PEERS)).nodes[0].cause != "main-thread"


def test_a_main_thread_that_is_kept_from_running_is_not_to_blame_itself() -> None:
    late = replace(LATE, ranks=(replace(LATE.ranks[0], gpu=Gpu(util=50, power=300)),))
    assert said(settled((*named(VICTIM, *PEERS), *named(late, "x"))).nodes[-1]) == ("CPU", "system")


def test_a_slow_gpu_is_named_by_its_counters_though_others_wait_little() -> None:
    """One of four ranks takes 1.3 times as long: the others spin a fifth of the time."""
    play = Play(("a", "b"))
    play.run(named(Node(ranks=(Rank(), Rank())), "a", "b"), 60)
    little = Rank(gpu=Gpu(util=99, power=535, memory=20))
    nodes = (
        *named(Node(ranks=(little, little)), "a"),
        *named(Node(ranks=(little, HOT.ranks[0])), "b"),
    )
    slow = replace(nodes[1], ranks=(nodes[1].ranks[0], replace(nodes[1].ranks[1], name="b.1")))
    verdict = play.run((nodes[0], slow), 50)
    assert said(verdict.job) == ("GPU", "throttled")
    assert {c.nodes for c in verdict.job.culprits} == {("b",)}


def test_that_it_computes_is_said_less_surely_beside_a_cause_of_waiting() -> None:
    """A quarter of the time is lost, and the main thread was ready and not running for most of it."""
    held = rank(
        gpu=Gpu(util=72, power=468, memory=30),
        main={"ready": 0.97, "futex": 0.03},
        main_run=0.09,
        main_delay=0.89,
        loader={"futex": 1.0},
        loader_run=0.0,
    )
    verdict = settled(named(replace(held, busy=0.13, cpus=2), "x")).nodes[0]
    assert verdict.state != "COMPUTE" or verdict.confidence < 0.5


def test_a_level_is_learned_within_seconds_of_full_work() -> None:
    play = Play(("x", *PEERS))
    shares = play.run(named(GOOD, "x", *PEERS), 18).nodes[0].shares
    assert shares is not None
    assert shares.levels == "learned"
    onset_us = play.now_us
    lost = play.run((*named(HALF, *PEERS), *named(LATE, "x")), 12)
    assert lost.job.suspected_us is not None
    assert lost.job.suspected_us - onset_us <= 8_000_000


@pytest.mark.parametrize(("disorder", "sure"), [(0.0, True), (0.002, False)])
def test_who_waits_behind_a_path_that_loses_may_wait_for_the_network(
    disorder: float, sure: bool
) -> None:
    clean = replace(VICTIM, segments=3000, received=3000)
    behind = replace(clean, disorder=disorder)
    verdict = settled((*named(clean, *PEERS), *named(behind, "y"), *named(READS, "x")))
    waits = next(n for n in verdict.nodes if n.node == "y")
    assert waits.state == "PEER"
    assert (waits.confidence > 0.5) == sure


def test_r_mig_without_utilisation_is_judged_by_its_sms() -> None:
    mig = rank(gpu=Gpu(util=None, power=300, memory=None, sm=78, tensor=30, dram=40))
    verdict = settled(named(mig, *PEERS))
    assert verdict.job.state == "COMPUTE"
    assert verdict.job.confidence <= 0.5


@pytest.mark.parametrize(
    ("sm", "tensor", "dram", "kind"),
    [(15, 0, 2, "spin"), (90, 40, 30, "compute"), (20, 15, 2, "unknown"), (50, 10, 20, "unknown")],
)
def test_what_sms_do_tells_spinning_from_work_at_a_middling_power(
    sm: float, tensor: float, dram: float, kind: str
) -> None:
    middling = rank(gpu=Gpu(util=100, power=300, memory=10, sm=sm, tensor=tensor, dram=dram))
    shares = settled(named(middling, *PEERS), 12).nodes[0].shares
    assert shares is not None
    assert getattr(shares, kind) > 0.9


def test_one_rank_alone_spins_for_nobody_by_its_sms_either() -> None:
    alone = rank(gpu=Gpu(util=98, power=180, memory=3, sm=15, tensor=0, dram=2))
    assert settled(named(alone, "x"), 12).job.state in ("COMPUTE", "UNKNOWN")


def test_who_waits_least_and_still_most_of_the_time_is_not_to_blame_for_that() -> None:
    """Behind jitter all three waited: 100, 77 and 77 %."""
    play = Play(("a", "b", "c"))
    play.run(named(GOOD, "a", "b", "c"), 40)
    some = rank(gpu=Gpu(util=100, power=250, memory=15), main={"socket": 1.0}, main_run=0.0)
    verdict = play.run((*named(VICTIM, "a", "b"), *named(some, "c")), 50)
    assert verdict.job.state == "UNKNOWN"
    assert blamed(verdict.job) == {"unknown"}
