"""What people reported of their jobs, and what was the cause: each number a story of theirs."""

from dataclasses import replace

import pytest

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import (
    GOOD,
    PEERS,
    READS,
    VICTIM,
    WAITS,
    WRITES,
    Gpu,
    Nic,
    Node,
    Play,
    Rank,
    blamed,
    named,
    rank,
    said,
)


def watched(*nodes: Node, seconds: int = 22) -> JobVerdict:
    return Play([node.name for node in nodes]).run(nodes, seconds)


def test_d01_all_gpus_at_100_percent_and_sockets_over_a_full_port() -> None:
    """Sixteen GPUs of two nodes without InfiniBand, eight times slower than one node."""
    ranks = tuple(Rank(name=str(i), gpu=Gpu(util=100, power=150, memory=3)) for i in range(8))
    node = Node(ranks=ranks, nics=(Nic(rx_mb=1190, tx_mb=1190, speed=10_000),))
    verdict = watched(*named(node, "g1", "g2"))
    assert {said(v) for v in (verdict.job, *verdict.nodes)} == {("NETWORK", "bandwidth")}


def test_d09_a_job_that_sends_over_its_management_port() -> None:
    """It receives on 10 Gb/s and sends on 1: a sum of both looks harmless."""
    ports = (
        Nic("eno1", rx_mb=1, tx_mb=117, speed=1000),
        Nic("eth10", rx_mb=117, tx_mb=1, speed=10_000),
    )
    verdict = watched(*named(replace(VICTIM, nics=ports), *PEERS)).job
    assert said(verdict) == ("NETWORK", "bandwidth")
    assert "eno1 out" in verdict.text


def test_d15_one_cpu_that_takes_in_all_packets() -> None:
    """ksoftirqd/23 at 100 % while 24 CPUs are used 4 % in the mean."""
    soft = replace(VICTIM, busy=0.04, cpus=24, softirq=0.99, nics=(Nic(rx_mb=350, speed=10_000),))
    clean = replace(soft, softirq=0.2)
    verdict = watched(*named(clean, *PEERS), *named(soft, "x"))
    assert said(verdict.job) == ("NETWORK", "softirq")
    assert blamed(verdict.job) == {"x"}
    assert "one CPU" in verdict.job.text


@pytest.mark.parametrize("busy", [{"softirq": 0.99, "nics": (Nic(rx_mb=1),)}, {"softirq": 0.3}])
def test_d15_soft_interrupts_without_packets_or_time_are_no_cause(busy: dict[str, object]) -> None:
    node = replace(VICTIM, **busy)  # type: ignore[arg-type]
    assert watched(*named(VICTIM, *PEERS), *named(node, "x")).job.state == "UNKNOWN"


def test_d19_hiccups_of_rdma_that_tcp_counters_do_not_know_of() -> None:
    """A switch was suspected, and never proved: nothing is said surely, and what is not read is."""
    blind = replace(VICTIM, segments=20.0, absent={"rdma": "no /sys/class/infiniband"})
    verdict = watched(*named(blind, *PEERS))
    assert verdict.job.state == "UNKNOWN"
    assert "rdma" in {m.signal for m in verdict.nodes[0].missing}


def test_d35_many_shards_on_a_slow_disk() -> None:
    slow = replace(READS, iowait=0.3, disk_ms=60, disk_busy=1.0, cpus=16)
    verdict = watched(*named(slow, "x", "y")).job
    assert said(verdict) == ("STORAGE", "read")
    assert verdict.confidence >= 0.6


RECLAIM = {"events_unbound": 0.977, "kswapd": 0.488}


@pytest.mark.parametrize(
    ("loader", "delay", "expected"),
    [({"memory": 0.6, "run": 0.4}, 0.0, ("MEMORY", "reclaim")),
     ({"ready": 0.7, "run": 0.3}, 0.7, ("CPU", "system"))],
    ids=["threads in reclaim", "threads without a CPU"],
)  # fmt: skip
def test_d44_kernel_workers_and_kswapd_at_little_iowait_are_no_storage(
    loader: dict[str, float], delay: float, expected: tuple[str, str]
) -> None:
    node = replace(
        rank(
            gpu=Gpu(util=40, power=240), main={"pipe": 0.5, "ready": delay, "run": 0.5 - delay / 2},
            main_run=0.2, main_delay=delay, loader=loader, loader_run=0.2, loader_delay=delay,
            loaders=4,
        ),
        busy=0.9, iowait=0.0648, kworkers=RECLAIM, cpus=16,
    )  # fmt: skip
    assert said(watched(*named(node, "x")).nodes[0]) == expected


@pytest.mark.parametrize(("allowed", "loaders"), [(1, 8), (2, 16)], ids=["D48", "R13"])
def test_loaders_on_few_of_many_cpus(allowed: int, loaders: int) -> None:
    """After an import, or by a set of CPUs: the node is used 6 % in the mean."""
    node = replace(
        rank(
            gpu=Gpu(util=45, power=240), main={"pipe": 0.9, "run": 0.1}, main_run=0.1,
            loader={"run": 0.125, "ready": 0.875}, loader_run=0.125, loader_delay=0.875,
            loaders=loaders, loaders_on=allowed,
        ),
        busy=0.06, cpus=16 * allowed,
    )  # fmt: skip
    verdict = watched(*named(node, "x")).nodes[0]
    assert said(verdict) == ("CPU", "pinned")
    assert f"{allowed} CPU" in verdict.text or "one CPU" in verdict.text


def test_d60_a_first_checkpoint_of_minutes_by_rank_0() -> None:
    verdict = watched(*named(VICTIM, *PEERS), *named(WRITES, "x"))
    assert said(verdict.job) == ("STORAGE", "checkpoint")
    assert {n.state for n in verdict.nodes[:-1]} == {"PEER"}
    assert blamed(verdict.job) == {"x"}


def test_d67_a_quota_that_throttles_at_15_percent_load() -> None:
    held = {"quota_cpus": 4.0, "periods": 10.0, "throttled_periods": 6.0, "cpus_allowed": 64}
    node = replace(
        rank(gpu=Gpu(util=40, power=220), main={"run": 0.4, "ready": 0.6}, main_run=0.4,
             main_delay=0.6),
        busy=0.15, cpus=64, cgroup=held,
    )  # fmt: skip
    assert said(watched(*named(node, "x")).nodes[0]) == ("CPU", "quota")


@pytest.mark.parametrize("node", [GOOD, VICTIM], ids=["works", "waits for a peer"])
def test_d71_drivers_that_sleep_uninterruptibly_are_no_storage(node: Node) -> None:
    """A load of 9 by kernel threads in D, no iowait, and nothing is wrong."""
    sleepy = replace(node, io_pressure=0.4, kworkers={"events": 0.0, "rga": 0.0}, iowait=0.0)
    verdict = watched(*named(sleepy, *PEERS))
    assert all(v.state != "STORAGE" for v in (verdict.job, *verdict.nodes))


def test_d72_one_full_disk_that_many_cpus_hide() -> None:
    """21 % of iowait, 77.6 % idle; the disk is 98 % busy with 239 MB/s of writes."""
    node = replace(
        WRITES, busy=0.013, iowait=0.21, disk_busy=0.982, disk_ms=8, disk_write_mb=239, cpus=32,
        ranks=(replace(WRITES.ranks[0], write_mb=239),),
    )  # fmt: skip
    verdict = watched(*named(node, "x")).nodes[0]
    assert said(verdict) == ("STORAGE", "checkpoint")
    assert verdict.confidence >= 0.6


def test_d07_the_rank_at_zero_is_the_culprit_and_not_the_seven_at_100_percent() -> None:
    """Rank 0 waits for its standard input, and the others spin in a broadcast."""
    v100 = Gpu(util=100, power=66, limit=300, memory=1, model="V100")
    asks = Rank(gpu=replace(v100, util=0, power=53, memory=0), main={"unknown": 1.0}, main_run=0)
    spins = replace(WAITS, gpu=v100)
    ranks = (asks, *(replace(spins, name=str(i)) for i in range(1, 8)))
    verdict = watched(Node("glm", ranks=ranks), seconds=40)
    assert "rank 0 of glm" in blamed(verdict.job)
    assert [r.state for r in verdict.ranks[1:]] == ["PEER"] * 7
