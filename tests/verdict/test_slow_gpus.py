"""GPUs that are slower than others for what is set, shared or plugged in wrongly."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    PEERS,
    VICTIM,
    WAITS,
    Gpu,
    Node,
    Play,
    Rank,
    blamed,
    named,
    quickly,
    said,
)

LIMITED = Node(ranks=(Rank(gpu=Gpu(util=98, power=395, limit=400, clock=1200, cap=0.9)),))


def test_28_a_gpu_with_a_lower_power_limit_than_its_peers_holds_them_up() -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(LIMITED, "x")))
    assert said(verdict.job) == ("GPU", "throttled")
    assert blamed(verdict.job) == {"GPU 0 of x"}
    assert "400 W, other GPUs of this job have 700 W" in verdict.job.text


def test_one_of_eight_gpus_with_a_lower_limit_is_named() -> None:
    ranks = tuple(
        replace(LIMITED.ranks[0] if i == 3 else WAITS, name=str(i), world=8) for i in range(8)
    )
    assert blamed(quickly((Node("x", ranks=ranks),)).job) == {"GPU 3 of x"}


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu(util=98, power=200, limit=400, memory=60),
        Gpu(util=98, power=670, limit=680, cap=0.9),
        Gpu(util=98, power=395, limit=400, cap=0.9, model="NVIDIA L40S"),
    ],
    ids=["not reached", "hardly lower", "another model"],
)
def test_a_lower_limit_that_costs_nothing_or_belongs_to_the_model_is_no_fault(gpu: Gpu) -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(Node(ranks=(Rank(gpu=gpu),)), "x")))
    assert verdict.job.state != "GPU"


def test_a_low_limit_of_all_gpus_is_a_choice() -> None:
    assert quickly(named(LIMITED, *PEERS)).job.state == "COMPUTE"


PCIE = {
    "pcie_gen": 4, "pcie_gen_max": 4, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0,
    "pcie_rx_bytes": 1.2e9, "pcie_tx_bytes": 0.2e9,
}  # fmt: skip
"""A link in order: 31.5 GB/s each way, hardly used."""
COPIES = Gpu(util=35, power=230, memory=10)


def dgx(bad: Gpu, others: Gpu, **odd: float) -> Node:
    """Return a node of eight GPUs of which one has another link, and starves or waits as told."""
    ranks = [
        replace(WAITS, gpu=replace(others, more={**PCIE, **NVLINK}), name=str(i), world=8)
        for i in range(8)
    ]
    ranks[5] = Rank(gpu=replace(bad, more={**PCIE, **NVLINK, **odd}), name="5", world=8)
    return Node("x", ranks=tuple(ranks))


NVLINK = {
    "nvlink_up": 18, "nvlink_links": 18, "nvlink_crc_errors": 0, "nvlink_replays": 0,
    "nvlink_recoveries": 0, "nvlink_rx_bytes": 50e9, "nvlink_tx_bytes": 50e9,
}  # fmt: skip
SPINS = WAITS.gpu
NARROW = {"pcie_width": 1, "pcie_rx_bytes": 1.2e9}


def test_a_gpu_whose_link_lost_lanes_and_is_full_is_named() -> None:
    verdict = quickly((dgx(COPIES, SPINS, **NARROW),))
    assert said(verdict.job) == ("HOST-LINK", "pcie")
    assert blamed(verdict.job) == {"GPU 5 of x"}
    assert "gen 4 x1, which could be gen 4 x16, 61 % in use" in verdict.job.text


def test_a_link_that_sends_again_and_costs_time_is_named() -> None:
    verdict = quickly((dgx(COPIES, SPINS, pcie_replays=5, pcie_rx_bytes=17e9),))
    assert said(verdict.job) == ("HOST-LINK", "pcie")
    assert blamed(verdict.job) == {"GPU 5 of x"}


def test_a_full_link_in_order_is_told_with_doubt() -> None:
    verdict = quickly((dgx(COPIES, SPINS, pcie_rx_bytes=25e9),))
    assert said(verdict.job) == ("HOST-LINK", "pcie")
    assert verdict.job.confidence <= 0.7


@pytest.mark.parametrize(
    "odd",
    [
        {"pcie_width": 8, "pcie_rx_bytes": 0.3e9},
        {"pcie_width": 4, "pcie_width_max": 4, "pcie_rx_bytes": 1e9},
        {"pcie_width": 1, "pcie_gen": 1, "pcie_rx_bytes": 20e9},
        {"pcie_replays": 0.05},
    ],
    ids=["hardly used", "a slot of four lanes", "more than it can carry", "a replay now and then"],
)
def test_a_link_that_costs_nothing_or_cannot_be_so_is_not_blamed(odd: dict[str, float]) -> None:
    verdict = quickly((dgx(COPIES, SPINS, **odd),))
    assert all(v.state != "HOST-LINK" for v in (verdict.job, *verdict.ranks))


def test_what_a_slow_link_costs_is_not_known_without_its_bytes() -> None:
    node = dgx(COPIES, SPINS, **NARROW)
    hidden = frozenset({("gpu", "pcie_rx_bytes"), ("gpu", "pcie_tx_bytes")})
    verdict = quickly((replace(node, without=hidden),))
    found = (verdict.job, *verdict.ranks)
    assert all(v.state != "HOST-LINK" for v in found)
    assert all(c.state != "HOST-LINK" for v in found for c in v.candidates)


def test_a_link_that_fell_as_its_gpu_idles_is_nothing() -> None:
    idle = Gpu(util=0, power=70, memory=0)
    verdict = quickly((dgx(idle, idle, pcie_gen=1, pcie_rx_bytes=0),))
    assert all(v.state != "HOST-LINK" for v in (verdict.job, *verdict.ranks))


@pytest.mark.parametrize(
    "odd", [{"nvlink_up": 16}, {"nvlink_recoveries": 0.1}, {"nvlink_crc_errors": 2000}]
)
def test_a_gpu_with_bad_nvlinks_is_named(odd: dict[str, float]) -> None:
    verdict = quickly((dgx(SPINS, SPINS, **odd),))
    assert said(verdict.job) == ("HOST-LINK", "nvlink")
    assert blamed(verdict.job) == {"GPU 5 of x"}


def test_a_gpu_that_is_not_bridged_may_be_so_by_design() -> None:
    verdict = quickly((dgx(SPINS, SPINS, nvlink_up=0),))
    assert all(v.state != "HOST-LINK" or v.confidence <= 0.4 for v in (verdict.job, *verdict.ranks))


def all_over_pcie(**odd: float) -> Node:
    links = {**PCIE, **NVLINK, "nvlink_rx_bytes": 0, "nvlink_tx_bytes": 0, **odd}
    gpu = replace(SPINS, more=links)
    return Node("x", ranks=tuple(replace(WAITS, gpu=gpu, name=str(i), world=8) for i in range(8)))


def test_an_exchange_over_pcie_beside_nvlinks_that_carry_nothing_is_told() -> None:
    verdict = quickly((all_over_pcie(pcie_rx_bytes=9e9, pcie_tx_bytes=9e9),))
    assert said(verdict.job) == ("HOST-LINK", "nvlink")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence <= 0.7


def test_nvlinks_that_were_silent_for_a_step_alone_are_in_use() -> None:
    """Gradients accumulate for seconds, while activations go to the host's memory and back."""
    play = Play(["x"])
    play.run([all_over_pcie(**NVLINK)], 8)
    offloads = all_over_pcie(pcie_rx_bytes=9e9, pcie_tx_bytes=9e9)
    assert play.run([offloads], 16).job.state != "HOST-LINK"


def test_copies_to_gpus_and_what_adapters_move_is_no_such_exchange() -> None:
    copies = all_over_pcie(pcie_rx_bytes=9e9)
    adapters = replace(
        all_over_pcie(pcie_rx_bytes=9e9, pcie_tx_bytes=9e9),
        rdma={"rx_bytes": 9e9, "tx_bytes": 9e9, "rx_packets": 1e6, "tx_packets": 1e6},
    )
    for node in (copies, adapters):
        assert quickly((node,)).job.state != "HOST-LINK"


GUEST = Rank(name="0", group="session:9-1", gpu=Gpu(util=0, power=70, memory=0), main_run=0.9)
SHARED = Node(ranks=(Rank(), GUEST), guests={(0, 1001): 2e10})
"""A rank of another job, whose own GPU does nothing, works on this one."""


def test_a_gpu_that_another_jobs_rank_works_on_holds_up_the_others() -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(SHARED, "x")))
    assert said(verdict.job) == ("GPU", "shared")
    assert blamed(verdict.job) == {"GPU 0 of x"}
    assert "of another job" in verdict.job.text


@pytest.mark.parametrize(
    ("node", "most"),
    [
        (replace(SHARED, guests={}), 0.0),
        (replace(SHARED, ranks=(Rank(), replace(GUEST, main_run=0.0))), 0.0),
        (replace(SHARED, ranks=(Rank(gpu=Gpu(more={"mig_mode": 1})), GUEST)), 0.0),
        (replace(SHARED, ranks=(Rank(), replace(GUEST, group="slurm:1", name="1"))), 0.5),
        (Node(guests={(0, 77): 3e10}), 0.4),
        (Node(guests={(0, 77): 5e8}), 0.0),
        (Node(ranks=(WAITS,), guests={(0, 77): 3e10}), 0.0),
    ],
    ids=["alone", "asleep", "MIG", "own job's", "unknown", "a context", "waits"],
)
def test_a_guest_that_need_not_cost_anything_is_told_with_doubt(node: Node, most: float) -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(node, "x")))
    found = [verdict.job, *verdict.nodes, *verdict.ranks]
    assert all(v.cause != "shared" or v.confidence <= most for v in found)
    told = [c.confidence for v in found for c in v.candidates if c.cause == "shared"]
    assert max(told, default=0.0) <= most
