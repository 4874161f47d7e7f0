"""Ranks that may run only on CPUs far from their GPU."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    DECODES,
    GOOD,
    PEERS,
    VICTIM,
    WAITS,
    Gpu,
    Node,
    Rank,
    blamed,
    named,
    quickly,
    said,
)

STARVES = Rank(gpu=Gpu(util=55, power=330, memory=14), main={"run": 1.0}, main_run=1.0)


def node(*, far: bool | None, near_starve: bool = False, siblings: bool | None = False) -> Node:
    """Return a node of eight ranks of which one starves, placed as told, and the others are near."""
    other = STARVES if near_starve else WAITS
    ranks = [replace(other, name=str(i), far=siblings, world=8) for i in range(8)]
    ranks[5] = replace(STARVES, name="5", far=far, world=8)
    return Node("x", ranks=tuple(ranks))


def test_a_rank_that_is_far_and_slower_than_those_that_are_near_is_named() -> None:
    verdict = quickly((node(far=True),))
    assert said(verdict.job) == ("CPU", "numa")
    assert blamed(verdict.job) == {"rank 5 of x"}
    assert verdict.job.confidence <= 0.6
    assert "only on 32 CPUs" in verdict.job.text


def test_several_ranks_that_are_far_and_all_slower_are_surer_than_one() -> None:
    ranks = node(far=True).ranks
    two = Node("x", ranks=tuple(ranks[5] if r.name == "4" else r for r in ranks))
    two = replace(two, ranks=tuple(replace(r, name=str(i)) for i, r in enumerate(two.ranks)))
    verdict = quickly((two,))
    assert said(verdict.job) == ("CPU", "numa")
    assert 0.6 < verdict.job.confidence <= 0.8


def test_a_far_rank_that_does_well_clears_another_of_being_far() -> None:
    slow = node(far=True)
    well = replace(slow, ranks=tuple(replace(r, far=r.name in ("2", "5")) for r in slow.ranks))
    assert said(quickly((well,)).ranks[5]) == ("CPU", "main-thread")


@pytest.mark.parametrize(
    "placed",
    [node(far=False), node(far=None, siblings=None), node(far=True, near_starve=True), node(far=True, siblings=True)],
    ids=["near", "not known", "near ranks no better", "all far"],
)  # fmt: skip
def test_a_main_thread_that_is_slow_wherever_it_runs_is_only_that(placed: Node) -> None:
    verdict = quickly((placed,))
    assert said(verdict.ranks[5]) == ("CPU", "main-thread")
    told = [c for v in (verdict.job, *verdict.ranks) for c in v.candidates if c.cause == "numa"]
    assert all(c.confidence <= 0.4 for c in told)


def test_being_far_is_nothing_while_gpus_compute_or_wait_or_loaders_are_the_limit() -> None:
    far = [replace(n.ranks[0], far=True) for n in (GOOD, VICTIM, DECODES)]
    good, waits, decodes = (Node(ranks=(r,)) for r in far)
    assert quickly(named(good, *PEERS)).job.state == "COMPUTE"
    assert quickly(named(waits, *PEERS)).job.state == "UNKNOWN"
    slow = replace(decodes, cpus=DECODES.cpus, busy=DECODES.busy)
    assert said(quickly((*named(VICTIM, *PEERS), *named(slow, "x"))).job) == ("CPU", "data-prep")
