"""More rules of thumb that go wrong, each as nodes that a person or a tool once judged wrongly."""

from dataclasses import replace

import pytest

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import (
    GOOD,
    HALF,
    PEERS,
    READS,
    SEGMENTS,
    VICTIM,
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


def watched(*nodes: Node, seconds: int = 18, good: int = 0) -> JobVerdict:
    play = Play([node.name for node in nodes])
    if good:
        play.run([named(GOOD, node.name)[0] for node in nodes], good)
    return play.run(nodes, seconds)


def test_r04_a_host_of_128_idle_cpus_reads_0_7_percent_iowait() -> None:
    node = replace(READS, busy=0.02, iowait=0.007, cpus=128)
    assert said(watched(*named(node, "x")).nodes[0]) == ("STORAGE", "read")


def test_r10_counters_of_another_network_namespace_prove_nothing() -> None:
    """The host's TCP counters lose packets; the job's container has its own, which are not read."""
    hidden = replace(
        VICTIM, segments=0.0, without=frozenset({("node", "tcp_out_segs")}),
        absent={"tcp": "the job has a network namespace of its own"},
    )  # fmt: skip
    verdict = watched(*named(hidden, *PEERS))
    assert verdict.job.state == "UNKNOWN"
    assert "tcp" in {m.signal for m in verdict.nodes[0].missing}
    assert verdict.nodes[0].confidence <= watched(*named(VICTIM, *PEERS)).nodes[0].confidence


@pytest.mark.parametrize("gpu", [Gpu(), Gpu(util=100, power=130, memory=2)])
def test_r16_threads_that_poll_the_network_prepare_no_data(gpu: Gpu) -> None:
    """NCCL proxies take a whole CPU each, with good or bad steps."""
    polls = replace(rank(gpu=gpu, workers=8), busy=0.6, cpus=16)
    verdict = watched(*named(polls, *PEERS))
    assert all(v.state != "CPU" for v in (verdict.job, *verdict.nodes))


def test_r17_a_process_that_writes_checkpoints_on_its_own_is_no_rank() -> None:
    """It has a context on the GPU, and writes for minutes while the GPU computes."""
    writes = replace(
        rank(checkpoint={"block-write": 0.9, "run": 0.1}, checkpoint_write_mb=3000),
        disk_write_mb=3000, disk_busy=0.99, kworkers={"flush-259:0": 0.9}, io_pressure=0.5,
    )  # fmt: skip
    verdict = watched(*named(writes, *PEERS))
    assert said(verdict.job) == ("COMPUTE", None)
    assert len(verdict.ranks) == len(PEERS)


def test_r20_gigabytes_from_the_page_cache_are_no_wait_for_storage() -> None:
    cached = replace(
        rank(gpu=Gpu(util=30, power=180), main={"unknown": 0.9, "run": 0.1}, main_run=0.1,
             loader={"futex": 0.95, "run": 0.05}, read_mb=5000),
        disk_busy=0.0, disk_read_mb=0.0,
    )  # fmt: skip
    assert all(v.state != "STORAGE" for v in watched(*named(cached, *PEERS)).nodes)


def test_r21_files_read_by_mapping_move_no_counter_of_reads() -> None:
    mapped = replace(READS, ranks=(replace(READS.ranks[0], read_mb=0.0),))
    assert said(watched(*named(mapped, "x")).nodes[0]) == ("STORAGE", "read")


HW_SLOWDOWN = 0x8


def test_r26_a_slowdown_that_blinks_as_clocks_change_throttles_nothing() -> None:
    blinks = rank(gpu=Gpu(reasons=HW_SLOWDOWN))
    assert said(watched(*named(blinks, *PEERS)).job) == ("COMPUTE", None)


def test_r28_a_lower_power_limit_is_neither_heat_nor_spinning() -> None:
    """A GPU set to 400 of 700 W runs at its limit and lower clocks, and holds up the others."""
    limited = named(rank(gpu=Gpu(util=99, power=395, limit=400, clock=1300, cap=0.95)), "x")
    play = Play((*PEERS, "x"))
    play.run((*named(GOOD, *PEERS), *limited), 15)
    verdict = play.run((*named(HALF, *PEERS), *limited), 22)
    assert said(verdict.nodes[-1]) == ("GPU", "throttled")
    assert said(verdict.job) == ("GPU", "throttled")
    assert blamed(verdict.job) == {"GPU 0 of x"}
    assert "power limit of 400 W" in verdict.job.text


def test_r29_a_power_floor_hides_spinning_so_that_nothing_is_told_surely_by_power() -> None:
    """Parts that smooth their power never fall below half of the limit, whatever they do."""
    floor = rank(gpu=Gpu(util=100, power=360, memory=2))
    verdict = watched(*named(floor, *PEERS), *named(READS, "x"))
    assert all(v.confidence <= 0.6 for v in (verdict.job, *verdict.nodes) if v.state == "COMPUTE")
    assert said(verdict.nodes[-1]) == ("STORAGE", "read")


@pytest.mark.parametrize("speed", [None, 10_000_000.0], ids=["virtio: unknown", "not its own"])
def test_r30_a_port_of_unknown_speed_is_not_full(speed: float | None) -> None:
    node = replace(VICTIM, nics=(Nic(rx_mb=1190, speed=speed),))
    assert watched(*named(node, *PEERS)).job.state != "NETWORK"


def test_r34_pcie_that_gpudirect_fills_is_an_exchange_and_no_narrow_link() -> None:
    flows = {"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e10, "rx_bytes": 4e10}
    ranks = (Rank(gpu=Gpu(util=99, power=250, memory=8, pcie_mb=50_000)),)
    verdict = watched(*named(Node(ranks=ranks, rdma=flows), *PEERS))
    assert all(v.state != "HOST-LINK" for v in (verdict.job, *verdict.nodes))


def test_r37_ports_idle_through_many_micro_steps_are_accumulation() -> None:
    quiet = replace(GOOD, nics=(Nic(rx_mb=0, tx_mb=0),))
    assert said(watched(*named(quiet, *PEERS)).job) == ("COMPUTE", None)


def test_r38_work_that_is_uneven_by_design_blames_nobody_surely() -> None:
    """Experts and long sequences: now one node has most to do, now another."""
    play = Play(PEERS)
    play.run(named(GOOD, *PEERS), 15)
    for turn in range(6):
        busy = PEERS[turn % len(PEERS)]
        rest = [name for name in PEERS if name != busy]
        verdict = play.run((*named(GOOD, busy), *named(HALF, *rest)), 7)
        assert verdict.job.state in ("COMPUTE", "UNKNOWN")
        assert verdict.job.confidence <= 0.6 or not blamed(verdict.job)


def test_r40_utilisation_of_a_gpu_that_nobody_holds_is_its_drivers() -> None:
    """The driver scrubs memory as it loads."""
    scrubs = Node("x", ranks=(), gpus=(Gpu(util=100, power=80, memory=60),) * 2, held=False)
    verdict = watched(scrubs).nodes[0]
    assert verdict.state in ("IDLE", "UNKNOWN") or verdict.confidence <= 0.5


def test_r42_what_the_agent_itself_costs_an_idle_node_is_no_job() -> None:
    idle = Node("x", ranks=(), gpus=(Gpu(util=0, power=70, memory=0),), held=False, busy=0.01)
    assert said(watched(idle).nodes[0]) == ("IDLE", None)


def test_r43_a_dead_rank_that_keeps_its_memory_is_not_merely_idle() -> None:
    dead = Node("x", ranks=(), gpus=(Gpu(util=0, power=120, memory=0),), held=True)
    verdict = watched(*named(VICTIM, *PEERS), dead, good=20)
    assert blamed(verdict.job) == {"x"}
    assert verdict.nodes[-1].state != "COMPUTE"
    assert said(verdict.nodes[-1]) != ("IDLE", "demand")


def test_r09_what_tcp_sends_again_beside_rdma_says_little_and_rdma_ports_say_it() -> None:
    flows = {"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e9, "rx_bytes": 4e9,
             "packet_seq_err": 0.0, "local_ack_timeout_err": 0.0}  # fmt: skip
    clean = replace(VICTIM, rdma=flows, segments=SEGMENTS / 100)
    lossy = replace(clean, rdma={**flows, "packet_seq_err": 50.0})
    verdict = watched(*named(clean, *PEERS), *named(lossy, "x")).job
    assert said(verdict) == ("NETWORK", "loss")
    assert "RDMA" in verdict.text
