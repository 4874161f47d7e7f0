"""What real clusters show beside a fault, and what must not be blamed for it."""

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
    WAITS,
    Gpu,
    Nic,
    Node,
    Play,
    blamed,
    named,
    rank,
    said,
    settled,
)

ALL_GPU = frozenset(("gpu", name) for name in ("util_pct", "power_w", "memory_util_pct"))


def after_good(*nodes: Node) -> Play:
    """Return a cluster in which these nodes have just done a minute of good work."""
    play = Play([node.name for node in nodes])
    play.run(tuple(named(GOOD, node.name)[0] for node in nodes), 60)
    return play


@pytest.mark.parametrize(
    "loaders",
    [
        {"loader": {"block-read": 0.6, "futex": 0.4}},
        {"loader": {"run": 0.75, "futex": 0.25}, "loader_run": 0.75},
        {"checkpoint": {"block-write": 0.8, "run": 0.2}, "checkpoint_write_mb": 2000.0},
        {"loader": {}},
    ],
    ids=["loaders read", "loaders decode", "asynchronous checkpoint", "no loaders"],
)
@pytest.mark.parametrize(
    ("culprit", "expected"),
    [(LATE, ("CPU", "system")), (HOT, ("GPU", "throttled"))],
    ids=["late", "hot"],
)
def test_a_main_thread_that_waits_for_its_backward_pass_waits_for_no_input(
    loaders: dict[str, object], culprit: Node, expected: tuple[str, str]
) -> None:
    """A main thread sits in a futex while autograd's thread launches the backward pass."""
    busy = replace(HALF.ranks[0], main={"futex": 0.6, "run": 0.4}, main_run=0.4, **loaders)  # type: ignore[arg-type]
    nodes = (*named(Node(ranks=(busy,)), *PEERS), *named(culprit, "x"))
    verdict = after_good(*nodes).run(nodes, 50)
    assert said(verdict.job) == expected
    assert {c.nodes for c in verdict.job.culprits} == {("x",)}
    assert {n.state for n in verdict.nodes[:-1]} == {"PEER"}


def test_loaders_that_also_rest_do_not_hide_the_main_thread_that_launches() -> None:
    launch = rank(
        gpu=Gpu(util=40, power=250),
        main={"run": 0.95, "futex": 0.05},
        main_run=0.95,
        loader={"block-read": 0.6, "futex": 0.4},
    )
    assert said(settled(named(launch, *PEERS)).job) == ("CPU", "main-thread")


@pytest.mark.parametrize(
    "main",
    [{"block-read": 0.9, "run": 0.1}, {"netfs": 0.9, "run": 0.1}, {"run": 0.5, "ready": 0.5}],
    ids=["loads a checkpoint", "imports from a network file system", "under a quota"],
)
def test_a_job_that_begins_is_not_blamed_for_what_it_begins_with(main: dict[str, float]) -> None:
    begins = rank(
        gpu=Gpu(util=0, power=110, memory=0),
        main=main,
        main_run=main["run"],
        main_delay=main.get("ready", 0.0),
        loader={},
    )
    verdict = settled(named(replace(begins, busy=0.3), *PEERS))
    assert {v.state for v in (verdict.job, *verdict.nodes)} == {"UNKNOWN"}
    assert "starting up" in verdict.job.text


def test_a_job_that_was_started_again_begins_anew() -> None:
    imports = rank(
        gpu=Gpu(util=0, power=110, memory=0), main={"netfs": 0.8, "run": 0.2}, main_run=0.2,
        loader={}, pid=5000,
    )  # fmt: skip
    nodes = named(imports, *PEERS)
    assert after_good(*nodes).run(nodes, 50).job.state == "UNKNOWN"


def test_a_job_that_worked_and_now_reads_without_end_waits_for_storage() -> None:
    stuck = rank(gpu=Gpu(util=0, power=130, memory=0), main={"netfs": 1.0}, main_run=0, loader={})
    nodes = named(stuck, *PEERS)
    assert said(after_good(*nodes).run(nodes, 50).job) == ("STORAGE", "read")


def test_loss_in_a_trickle_of_tcp_beside_rdma_is_told_with_doubt() -> None:
    """Sessions and mounts lose a packet too; what the job exchanges over RDMA is not counted."""
    quiet = replace(VICTIM, segments=500)
    lossy = replace(quiet, retransmits=5, fast=4)
    for nodes in ((*named(quiet, *PEERS), *named(lossy, "x")), named(lossy, *PEERS)):
        verdict = settled(nodes)
        assert all(
            v.confidence <= 0.5 for v in (verdict.job, *verdict.nodes) if v.state == "NETWORK"
        )


def test_a_main_thread_in_a_network_mount_that_moves_no_bytes_may_as_well_flush() -> None:
    flush = rank(
        gpu=Gpu(util=2, power=120, memory=0),
        main={"netfs": 0.9, "run": 0.1},
        main_run=0.1,
        loader={"futex": 1.0},
    )
    nodes = named(flush, *PEERS)
    verdict = after_good(*nodes).run(nodes, 50).job
    assert verdict.state == "STORAGE"
    assert verdict.confidence <= 0.5


def test_a_slow_port_that_only_carries_sessions_is_not_what_the_job_waits_for() -> None:
    fast = replace(VICTIM, nics=(Nic(rx_mb=0.2, speed=10_000),))
    slow = replace(VICTIM, nics=(Nic(rx_mb=1.2, speed=1000),))
    assert settled((*named(fast, *PEERS), *named(slow, "x"))).job.state == "UNKNOWN"


@pytest.mark.parametrize("seconds", [20, 90])
def test_whoever_comes_late_does_not_take_half_a_wait_for_work(seconds: int) -> None:
    middling = rank(gpu=Gpu(util=98, power=400, memory=15))
    verdict = settled(named(middling, *PEERS), seconds)
    assert verdict.job.confidence <= 0.6
    with_culprit = settled((*named(middling, *PEERS), *named(READS, "x")), seconds)
    assert with_culprit.job.confidence <= 0.6


def test_waiting_without_a_fault_says_what_of_the_network_is_not_read() -> None:
    blind = replace(VICTIM, absent={"rdma": "not permitted", "sockets": "no sock_diag"})
    verdict = settled(named(blind, *PEERS))
    missing = {(m.signal, m.reason) for m in verdict.nodes[0].missing}
    assert {("rdma", "not permitted"), ("sockets", "no sock_diag")} <= missing


def test_a_full_slow_port_beside_a_fast_one_may_be_a_strangers() -> None:
    ports = (Nic("eth0", rx_mb=1), Nic("eno1", rx_mb=118, speed=1000))
    verdict = settled((*named(VICTIM, *PEERS), *named(replace(VICTIM, nics=ports), "x")))
    assert verdict.job.confidence <= 0.6


def test_a_part_that_computes_is_not_the_job() -> None:
    nodes = (*named(HALF, "w1", "w2"), *named(GOOD, "c1", "c2"))
    verdict = after_good(*nodes).run(nodes, 60)
    assert verdict.job.state != "COMPUTE"


def test_how_much_the_job_computes_is_the_mean_of_its_nodes() -> None:
    nodes = (*named(GOOD, *PEERS, "g5"), *named(READS, "x"))
    assert "99 %" not in settled(nodes).job.text


def test_nodes_that_cannot_be_told_all_alike_are_not_said_to_differ() -> None:
    mig = rank(gpu=Gpu(util=None, power=300, memory=None))
    text = settled(named(mig, *PEERS)).job.text
    assert "different" not in text
    assert "utilisation is not reported" in text


def test_a_node_whose_processes_are_gone_is_named_by_those_that_wait() -> None:
    gone = Node("x", ranks=(), gpus=(Gpu(util=0, power=70, memory=0),), held=False)
    nodes = (*named(VICTIM, *PEERS), gone)
    verdict = after_good(*nodes).run(nodes, 50)
    assert verdict.job.state == "UNKNOWN"
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("unknown", "x")]
    assert verdict.job.waiting == PEERS


def test_ranks_of_one_node_that_all_spin_are_said_to() -> None:
    hung = Node("dgx", ranks=tuple(replace(WAITS, name=str(i)) for i in range(8)))
    verdict = settled((hung,))
    assert verdict.job.state == "UNKNOWN"
    assert "waits in a collective" in verdict.job.text
    assert len(verdict.job.waiting) == 8
    assert blamed(verdict.job) == {"unknown"}
