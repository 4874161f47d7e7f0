"""Situations whose truth is known, each as real samples of some minutes of several nodes."""

from dataclasses import replace

import pytest

from gpuwatch.verdict.rank import name_of
from verdict.scenario import (
    DECODES,
    GOOD,
    HOT,
    LOSES,
    PEERS,
    READS,
    SEGMENTS,
    SENDS,
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
    settled,
)

NFS = rank(
    gpu=Gpu(util=45, power=240),
    main={"pipe": 0.7, "run": 0.3},
    main_run=0.3,
    loader={"netfs": 0.7, "run": 0.2, "futex": 0.1},
)
FUSE = rank(
    gpu=Gpu(util=20, power=130),
    main={"futex": 0.9, "run": 0.1},
    main_run=0.1,
    loader={"fuse": 0.9, "run": 0.1},
    loader_run=0.1,
)
LAUNCH = rank(gpu=Gpu(util=30, power=190), main={"run": 0.99, "futex": 0.01}, main_run=0.99)
QUOTA = rank(
    gpu=Gpu(util=40, power=220), main={"run": 0.4, "ready": 0.6}, main_run=0.4, main_delay=0.6
)
FULL = replace(
    VICTIM,
    ranks=(replace(WAITS, gpu=Gpu(util=100, power=150, memory=3)),),
    nics=(Nic(rx_mb=1190, tx_mb=1190, speed=10_000),),
)
ASYNC = replace(
    rank(
        gpu=Gpu(util=98, power=600),
        checkpoint={"block-write": 0.8, "run": 0.2},
        checkpoint_write_mb=3000,
    ),
    disk_write_mb=3000,
    disk_busy=0.99,
    kworkers={"writeback": 0.5},
)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(GOOD, ("COMPUTE", None), id="Va compute-bound"),
        pytest.param(NFS, ("STORAGE", "read"), id="Ve, R05 reads over NFS, iowait 0"),
        pytest.param(DECODES, ("CPU", "data-prep"), id="Vf data preparation"),
        pytest.param(LAUNCH, ("CPU", "main-thread"), id="Vg, R14 launches on an idle host"),
        pytest.param(FUSE, ("STORAGE", "read"), id="Vi, R06 FUSE, all pressure 0"),
        pytest.param(ASYNC, ("COMPUTE", None), id="Vk asynchronous checkpoint"),
        pytest.param(
            rank(gpu=Gpu(util=98, power=650, cap=0.9)),
            ("COMPUTE", None),
            id="Vm, R25 power cap is work",
        ),
        pytest.param(FULL, ("NETWORK", "bandwidth"), id="full ports"),
    ],
)
def test_all_nodes_alike_are_told_and_none_of_them_is_blamed(
    node: Node, expected: tuple[str, str | None]
) -> None:
    verdict = settled(named(node, *PEERS))
    assert said(verdict.job) == expected
    assert {said(n) for n in verdict.nodes} == {expected}
    assert all(culprit.kind == "job" for culprit in verdict.job.culprits)
    assert verdict.job.confidence >= 0.6
    assert verdict.job.confirmed_us is not None


def test_vh_r12_a_quota_on_an_idle_host_is_only_likely_without_its_own_counters() -> None:
    verdict = settled(named(replace(QUOTA, busy=0.08), *PEERS))
    assert said(verdict.job) == ("CPU", "quota")
    assert verdict.job.confidence <= 0.5


@pytest.mark.parametrize(
    ("culprit", "expected"),
    [
        pytest.param(READS, ("STORAGE", "read"), id="Vb slow disk on one node"),
        pytest.param(NFS, ("STORAGE", "read"), id="slow mount on one node"),
        pytest.param(DECODES, ("CPU", "data-prep"), id="data preparation on one node"),
        pytest.param(LAUNCH, ("CPU", "main-thread"), id="main thread on one node"),
        pytest.param(WRITES, ("STORAGE", "checkpoint"), id="Vj, R18 rank 0 writes a checkpoint"),
        pytest.param(HOT, ("GPU", "throttled"), id="Vl one hot GPU"),
    ],
)
def test_one_node_does_something_else_and_the_others_wait_for_it(
    culprit: Node, expected: tuple[str, str]
) -> None:
    verdict = settled((*named(VICTIM, *PEERS), *named(culprit, "x")))
    assert said(verdict.job) == expected
    assert [c.nodes for c in verdict.job.culprits] == [("x",)]
    assert verdict.job.waiting == PEERS
    assert said(verdict.nodes[-1]) == expected
    for peer in verdict.nodes[:-1]:
        assert peer.state == "PEER"
        assert peer.culprits == verdict.job.culprits
        assert peer.cause is None
    assert "4 nodes wait for it" in verdict.job.text


def test_vc_loss_on_the_way_out_of_one_node() -> None:
    verdict = settled((*named(SENDS, *PEERS), *named(LOSES, "x")))
    assert said(verdict.job) == ("NETWORK", "loss")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.waiting == PEERS
    assert [n.state for n in verdict.nodes] == ["PEER"] * 4 + ["NETWORK"]
    assert verdict.nodes[-1].confidence > 0.6
    assert not verdict.nodes[-1].candidates


def test_loss_towards_one_node_is_counted_by_its_innocent_senders() -> None:
    verdict = settled((*named(LOSES, *PEERS), *named(SENDS, "x")))
    assert said(verdict.job) == ("NETWORK", "loss")
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence <= 0.5


def test_loss_both_ways_between_two_nodes_names_the_path() -> None:
    verdict = settled(named(LOSES, "g1", "g2"))
    assert [(c.kind, c.nodes) for c in verdict.job.culprits] == [("path", ("g1", "g2"))]
    assert verdict.job.confidence <= 0.7


def test_little_loss_beside_much_comes_with_it() -> None:
    minor = replace(LOSES, retransmits=SEGMENTS * 0.003, fast=SEGMENTS * 0.002)
    major = replace(LOSES, retransmits=SEGMENTS * 0.05, fast=SEGMENTS * 0.04)
    assert blamed(settled((*named(minor, "g1"), *named(major, "g2"))).job) == {"g2 -> g1"}


def test_loss_on_all_nodes_is_the_fabrics() -> None:
    verdict = settled(named(LOSES, *PEERS))
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("job", "network")]


def test_vd_r08_retransmits_that_are_all_loss_probes_are_no_loss() -> None:
    probes = replace(SENDS, retransmits=SEGMENTS * 0.0029, probes=SEGMENTS * 0.0029)
    verdict = settled(named(probes, *PEERS))
    assert verdict.job.state != "NETWORK"
    assert {n.state for n in verdict.nodes} == {"PEER"}


def test_reordering_is_the_paths_and_no_loss() -> None:
    reorders = replace(LOSES, dsack=LOSES.retransmits, fast=0)
    verdict = settled((*named(SENDS, *PEERS), *named(reorders, "x")))
    assert said(verdict.job) == ("NETWORK", "path")
    assert verdict.job.confidence <= 0.75


def test_a_link_that_flaps_or_is_slower_than_its_peers_is_blamed() -> None:
    flaps = replace(SENDS, nics=(Nic(rx_mb=500, flaps=0.2),))
    slow = replace(SENDS, nics=(Nic(rx_mb=500, speed=10_000),))
    both = replace(SENDS, nics=(Nic(rx_mb=500, flaps=0.2), Nic("eth1", flaps=0.2)))
    for bad, name in ((flaps, "eth0 of x"), (slow, "eth0 of x"), (both, "x")):
        verdict = settled((*named(SENDS, *PEERS), *named(bad, "x")))
        assert said(verdict.job) == ("NETWORK", "link")
        assert blamed(verdict.job) == {name}
        assert verdict.job.waiting == PEERS


def test_vn_all_spin_and_no_fault_is_seen_so_nobody_is_blamed() -> None:
    still = replace(VICTIM, nics=(Nic(rx_mb=0, tx_mb=0),))
    verdict = settled(named(still, *PEERS), 120)
    assert verdict.job.state == "UNKNOWN"
    assert {c.kind for c in verdict.job.culprits} == {"unknown"}
    assert all(n.confidence <= 0.5 for n in verdict.nodes)


@pytest.mark.parametrize("count", [1, 4])
def test_vr_mig_reports_no_utilisation_so_nothing_is_told(count: int) -> None:
    mig = rank(gpu=Gpu(util=None, power=300, memory=None))
    verdict = settled(named(mig, *PEERS[:count]))
    assert verdict.job.state == "UNKNOWN"
    assert "nvml" in {m.signal for m in verdict.nodes[0].missing}
    assert verdict.nodes[0].shares is not None
    assert verdict.nodes[0].shares.unknown == 1


def test_vr_mig_counters_of_activity_stand_for_utilisation() -> None:
    slice_ = rank(gpu=Gpu(util=None, power=300, memory=None, sm=70, tensor=30, dram=40))
    verdict = settled(named(slice_, *PEERS))
    assert {said(v) for v in (verdict.job, *verdict.nodes)} == {("COMPUTE", None)}


def test_vo_compilers_on_many_cores_are_no_wait() -> None:
    """Nothing is on the GPU yet, the main thread waits for 64 compilers."""
    compiles = rank(
        gpu=Gpu(util=0, power=110, memory=0), main={"process": 1.0}, main_run=0.0, loader={},
        age_s=60, workers=64,
    )  # fmt: skip
    verdict = settled(named(replace(compiles, busy=0.5), *PEERS))
    assert {v.state for v in (verdict.job, *verdict.nodes)} <= {"STARTUP", "UNKNOWN"}


def test_vs_without_a_power_limit_spin_and_compute_cannot_be_told_apart() -> None:
    spark = rank(gpu=Gpu(util=100, power=12, limit=None, memory=None, model="NVIDIA GB10"))
    verdict = settled(named(spark, "m1", "m2"))
    assert verdict.job.confidence <= 0.5
    assert all(n.confidence <= 0.5 for n in verdict.nodes)


def test_vt_r36_two_healthy_nodes_that_others_wait_for_have_more_to_do() -> None:
    busy = rank(gpu=Gpu(util=97, power=560))
    verdict = settled((*named(busy, "p1", "p2"), *named(VICTIM, *(f"w{i}" for i in range(8)))))
    assert said(verdict.job) == ("COMPUTE", "imbalance")
    assert blamed(verdict.job) == {"p1", "p2"}
    assert verdict.job.confidence <= 0.6


def test_vu_low_power_with_memory_traffic_is_work() -> None:
    verdict = settled(named(rank(gpu=Gpu(util=100, power=250, memory=85)), "s"))
    assert said(verdict.job) == ("COMPUTE", None)


@pytest.mark.parametrize("memory", [2, 5, 20])
def test_vv_one_gpu_alone_waits_for_no_peer(memory: float) -> None:
    verdict = settled(named(rank(gpu=Gpu(util=98, power=180, memory=memory)), "s"))
    for one in (verdict.job, *verdict.nodes, *verdict.ranks):
        assert one.state in ("COMPUTE", "UNKNOWN")


def test_vw_r35_eight_gpus_of_one_node_with_idle_ports_are_not_hung() -> None:
    ranks = tuple(Rank(name=str(i), gpu=Gpu(util=98, power=450)) for i in range(8))
    verdict = settled((Node("dgx", ranks=ranks, nics=(Nic(rx_mb=0, tx_mb=0),)),))
    assert said(verdict.job) == ("COMPUTE", None)


def test_vx_a_server_without_requests_is_idle_and_no_fault() -> None:
    asked = rank(gpu=Gpu(util=0, power=120, memory=0), main={"poll": 1.0}, main_run=0.0, loader={})
    verdict = settled(named(asked, "s"))
    assert said(verdict.job) == ("IDLE", "demand")


def test_vy_rank_zero_of_eight_writes_and_all_others_wait() -> None:
    eight = tuple(replace(WAITS, name=str(i)) for i in range(8))
    first = Node("y1", ranks=(replace(WRITES.ranks[0], name="0"), *eight[1:]), disk_busy=0.99,
                 disk_write_mb=2000)  # fmt: skip
    others = named(Node(ranks=eight), "y2", "y3", "y4")
    verdict = settled((first, *others))
    assert said(verdict.job) == ("STORAGE", "checkpoint")
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("rank", "rank 0 of y1")]
    assert verdict.job.waiting == ("y2", "y3", "y4")
    assert said(verdict.nodes[0]) == ("STORAGE", "checkpoint")
    assert [r.state for r in verdict.ranks[:8]] == ["STORAGE"] + ["PEER"] * 7
    assert all(blamed(r) == {"rank 0 of y1"} for r in verdict.ranks[1:])


def test_vy_the_same_inside_one_node() -> None:
    eight = tuple(replace(WAITS, name=str(i)) for i in range(1, 8))
    node = Node("y1", ranks=(replace(WRITES.ranks[0], name="0"), *eight), disk_busy=0.99)
    verdict = settled((node,))
    assert said(verdict.job) == ("STORAGE", "checkpoint")
    assert blamed(verdict.job) == {"rank 0 of y1"}
    assert len(verdict.job.waiting) == 7


def test_vz_loaders_in_poll_are_undetermined_and_said_so() -> None:
    remote = rank(
        gpu=Gpu(util=20, power=150),
        main={"poll": 0.9, "run": 0.1},
        main_run=0.1,
        loader={"poll": 0.95, "run": 0.05},
        loader_run=0.05,
    )
    verdict = settled(named(remote, *PEERS))
    assert verdict.job.state == "UNKNOWN"
    assert "poll" in verdict.nodes[0].text


def test_of_two_nodes_loss_names_the_path_and_both_ends() -> None:
    verdict = settled((*named(LOSES, "g1"), *named(SENDS, "g2")))
    (culprit,) = verdict.job.culprits
    assert (culprit.kind, culprit.id, culprit.nodes) == ("path", "g1 -> g2", ("g1", "g2"))
    assert set(verdict.job.waiting) == {"g1", "g2"}
    assert verdict.job.confidence <= 0.7


CLEAN = replace(SENDS, received=5000)
BEHIND = replace(SENDS, received=5000, disorder=0.14)


def test_of_several_nodes_the_far_end_is_where_segments_come_out_of_order() -> None:
    sender = replace(LOSES, received=5000)
    verdict = settled((*named(CLEAN, "a", "d"), *named(sender, "b"), *named(BEHIND, "c")))
    (culprit,) = verdict.job.culprits
    assert (culprit.kind, culprit.id, culprit.nodes) == ("path", "b -> c", ("b", "c"))
    assert verdict.job.confidence <= 0.7


def test_both_ends_of_a_path_that_loses_say_so() -> None:
    sender = replace(LOSES, received=5000)
    verdict = settled((*named(CLEAN, "a", "d"), *named(sender, "b"), *named(BEHIND, "c")))
    told = {node.node: node for node in verdict.nodes}
    assert said(told["b"]) == said(told["c"]) == ("NETWORK", "loss")
    assert "far end" in told["c"].text
    assert told["c"].confidence <= 0.7
    assert {told["a"].state, told["d"].state} == {"PEER"}


def test_segments_out_of_order_keep_no_blame_alive_when_nobody_loses_any_more() -> None:
    play = Play(["a", "b", "c", "d"])
    sender = replace(LOSES, received=5000)
    lost = play.run((*named(CLEAN, "a", "d"), *named(sender, "b"), *named(BEHIND, "c")), 35)
    assert said(lost.job) == ("NETWORK", "loss")
    after = play.run((*named(CLEAN, "a", "b", "d"), *named(BEHIND, "c")), 50)
    assert {v.state for v in (after.job, *after.nodes)} <= {"UNKNOWN", "PEER"}


def test_a_node_that_several_send_again_to_loses_on_its_way_in() -> None:
    sender = replace(LOSES, received=5000)
    verdict = settled((*named(CLEAN, "a"), *named(sender, "b", "c"), *named(BEHIND, "d")))
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("node", "d")]
    assert "on its way in" in verdict.job.text


def test_a_node_behind_which_several_see_gaps_loses_on_its_way_out() -> None:
    sender = replace(LOSES, received=5000)
    verdict = settled((*named(CLEAN, "a"), *named(sender, "b"), *named(BEHIND, "c", "d")))
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("node", "b")]


def test_loss_that_no_node_of_the_job_sees_come_in_is_doubted() -> None:
    sender = replace(LOSES, received=5000)
    verdict = settled((*named(CLEAN, "a", "c", "d"), *named(sender, "b")))
    assert verdict.job.confidence <= 0.5


def test_nobody_waits_for_himself() -> None:
    waits = replace(SENDS, ranks=(Rank(gpu=Gpu(util=99, power=192)),) * 2)
    moves = replace(SENDS, ranks=(Rank(gpu=Gpu(util=99, power=298)), waits.ranks[0]))
    play = Play(("x", "y", "z"))
    play.run(named(GOOD, "x", "y", "z"), 90)
    verdict = play.run((*named(moves, "x"), *named(waits, "y", "z")), 60)
    for told in (*verdict.nodes, *verdict.ranks):
        own = told.node if told.rank is None else name_of(told.node or "", told.rank)
        assert own not in {c.id for c in told.culprits}
        if told.state == "PEER" and verdict.job.state == "UNKNOWN":
            assert told.confidence <= 0.5


def test_loss_between_many_is_the_network_and_no_nodes() -> None:
    both = replace(LOSES, received=5000, disorder=0.1)
    verdict = settled((*named(both, "a", "b"), *named(BEHIND, "c"), *named(CLEAN, "d")))
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("job", "network")]
