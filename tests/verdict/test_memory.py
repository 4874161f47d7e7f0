"""Waits for memory, which look like waits for storage."""

from dataclasses import replace

import pytest

from verdict.scenario import PEERS, VICTIM, Gpu, blamed, named, rank, said, settled

STUCK = rank(
    gpu=Gpu(util=60, power=300),
    main={"pipe": 0.7, "run": 0.3},
    main_run=0.3,
    loader={"block-read": 0.4, "run": 0.3, "memory": 0.1, "futex": 0.2},
    loader_run=0.3,
)
TIGHT = {"memory_bytes": 63.9e9, "memory_limit_bytes": 64e9, "refaults": 40_000.0}
RECLAIMS = replace(
    STUCK, ranks=(replace(STUCK.ranks[0], loader={"memory": 0.7, "run": 0.3}, loader_run=0.3),)
)


def test_vp_r11_a_cgroup_at_its_limit_that_reads_again_what_it_dropped_is_no_slow_disk() -> None:
    verdict = settled((*named(VICTIM, *PEERS), *named(replace(STUCK, cgroup=TIGHT), "x")))
    assert said(verdict.job) == ("MEMORY", "reclaim")
    assert blamed(verdict.job) == {"x"}


@pytest.mark.parametrize(
    "roomy", [{**TIGHT, "refaults": 10.0}, {**TIGHT, "memory_bytes": 30e9}, {}]
)
def test_the_same_reads_with_room_are_storage(roomy: dict[str, float]) -> None:
    node = replace(STUCK, cgroup=roomy)
    assert settled(named(node, "x")).nodes[0].state == "STORAGE"


def test_threads_in_reclaim_wait_for_memory() -> None:
    verdict = settled((*named(VICTIM, *PEERS), *named(RECLAIMS, "x")))
    assert said(verdict.job) == ("MEMORY", "reclaim")


def test_r24_what_comes_back_from_swap_while_threads_wait_is_told() -> None:
    verdict = settled(named(replace(RECLAIMS, swap_in_pages=20_000), "x")).nodes[0]
    assert said(verdict) == ("MEMORY", "swap")


def test_swap_is_nothing_while_gpus_compute() -> None:
    node = replace(rank(gpu=Gpu()), swap_in_pages=20_000)
    assert settled(named(node, "x")).job.state == "COMPUTE"
