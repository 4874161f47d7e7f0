"""Ranks whose own threads work on CPUs in their GPU's stead."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    DECODES,
    GOOD,
    PEERS,
    READS,
    VICTIM,
    Gpu,
    Node,
    Rank,
    blamed,
    named,
    quickly,
    said,
)

OFFLOADS = Rank(
    gpu=Gpu(util=45, power=330, memory=12), main={"run": 0.9, "futex": 0.1}, main_run=0.9,
    workers=31, worker_run=0.5, worker_while=(0.05, 0.95),
)  # fmt: skip
"""An optimizer on 32 CPUs in half of each step: the GPU computes in the other half."""
PIPELINE = replace(
    OFFLOADS, main={"futex": 0.9, "run": 0.1}, main_run=0.1, workers=16, worker_run=0.95, loaders=0,
    worker_while=(0.95, 0.95),
)  # fmt: skip
"""A data pipeline of threads that is the limit all the time."""
POLLS = replace(OFFLOADS, workers=2, worker_run=1.0, worker_while=(1.0, 1.0))


def test_threads_that_work_while_the_gpu_is_idle_are_named() -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(Node(ranks=(OFFLOADS,)), "x")))
    assert said(verdict.job) == ("CPU", "in-rank")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence >= 0.6


def test_threads_that_take_all_cpus_wait_for_no_stranger() -> None:
    late = replace(OFFLOADS, workers=8, main_run=0.5, main_delay=0.4, worker_run=0.9)
    verdict = quickly((*named(VICTIM, *PEERS), *named(Node(ranks=(late,), cpus=8, busy=0.97), "x")))
    assert said(verdict.job) == ("CPU", "in-rank")


def test_threads_that_work_all_the_time_may_poll_or_be_the_limit() -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(Node(ranks=(PIPELINE,)), "x")))
    assert said(verdict.job) == ("CPU", "in-rank")
    assert verdict.job.confidence <= 0.5


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        (replace(OFFLOADS, workers=0), ("CPU", "main-thread")),
        (POLLS, ("CPU", "main-thread")),
        (replace(READS.ranks[0], workers=2), ("STORAGE", "read")),
        (replace(DECODES.ranks[0], workers=2), ("CPU", "data-prep")),
    ],
    ids=["none", "pollers", "reads beside pollers", "loaders beside pollers"],
)
def test_16_pollers_are_not_it(like: Rank, expected: tuple[str, str]) -> None:
    node = replace(DECODES if expected[1] == "data-prep" else Node(), ranks=(like,))
    verdict = quickly((*named(VICTIM, *PEERS), *named(node, "x")))
    assert said(verdict.job) == expected


@pytest.mark.parametrize("node", [GOOD, VICTIM])
def test_threads_that_burn_are_nothing_while_gpus_compute_or_spin(node: Node) -> None:
    burns = replace(node, ranks=(replace(node.ranks[0], workers=16, worker_run=1.0),))
    assert quickly(named(burns, *PEERS)).job.state in ("COMPUTE", "UNKNOWN")
