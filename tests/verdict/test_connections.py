"""What connections and mounts tell: slow paths, full queues, stores and servers outside the job."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    PEERS,
    VICTIM,
    WAITS,
    Gpu,
    Node,
    Play,
    Wire,
    blamed,
    named,
    rank,
    said,
    settled,
)

HALF = Gpu(util=99, power=330, memory=12)


def wired(node: Node, *wires: Wire) -> Node:
    return replace(node, ranks=tuple(replace(r, wires=wires) for r in node.ranks))


WORKS = wired(GOOD, Wire("10.0.0.2"), Wire("10.0.0.3"))
FAR = Wire("10.0.0.2", trip_ms=60, swing=0.05)
NEAR = Wire("10.0.0.3")
WAITING = Node(ranks=(replace(WAITS, gpu=HALF),))


def after_good(*nodes: Node) -> Play:
    play = Play([node.name for node in nodes])
    play.run(tuple(named(WORKS, node.name)[0] for node in nodes), 40)
    return play


@pytest.mark.parametrize("swing", [0.05, 0.4])
def test_long_round_trips_with_loss_are_a_full_queue(swing: float) -> None:
    nodes = named(wired(WAITING, replace(FAR, swing=swing, again=0.01)), "a", "b")
    assert said(after_good(*nodes).run(nodes, 45).job) == ("NETWORK", "congestion")


def test_loss_makes_round_trips_late_and_swing_and_is_no_queue() -> None:
    """With 9 % of packets lost, trips of 0.5 ms were 2 to 18 ms, with a deviation of twice that."""
    lossy = replace(WAITING, segments=20_000, retransmits=1_800, fast=1_500)
    late = Wire("10.0.0.2", trip_ms=14, swing=1.9, again=0.09, busy=1.0)
    nodes = (*named(wired(lossy, late), "a"), *named(wired(WAITING, NEAR), "b", "c"))
    assert said(after_good(*nodes).run(nodes, 45).job) == ("NETWORK", "loss")


def test_what_a_full_queue_drops_is_congestion() -> None:
    full = replace(WAITING, segments=20_000, retransmits=400, fast=300)
    late = Wire("10.0.0.2", trip_ms=90, swing=0.2, again=0.02, busy=0.9)
    nodes = named(wired(full, late), "a", "b")
    assert said(after_good(*nodes).run(nodes, 45).job) == ("NETWORK", "congestion")


def test_trips_of_a_store_that_only_beats_are_no_path() -> None:
    """A rendezvous store's trips went to 125 ms while its node's CPUs were taken."""
    beats = Wire("10.0.0.2", trip_ms=125, swing=0.5, busy=0.0, sent_mb=0.0001)
    nodes = named(wired(WAITING, beats), *PEERS)
    verdict = after_good(*nodes).run(nodes, 45)
    assert all(told.state != "NETWORK" for told in (verdict.job, *verdict.nodes))


def test_round_trips_that_swing_without_loss_may_be_a_far_end_short_of_cpu() -> None:
    """Behind a main thread that had its node's only CPU, trips to it went from 1 to 20 ms."""
    nodes = named(wired(WAITING, replace(FAR, trip_ms=20, swing=0.4)), *PEERS)
    verdict = after_good(*nodes).run(nodes, 45)
    for told in (verdict.job, *verdict.nodes):
        assert told.state != "NETWORK" or told.confidence <= 0.5


def test_round_trips_as_long_as_in_good_minutes_are_no_fault() -> None:
    far = wired(GOOD, FAR)
    play = Play(PEERS)
    play.run(named(far, *PEERS), 40)
    verdict = play.run(named(wired(WAITING, FAR), *PEERS), 45)
    assert verdict.job.state != "NETWORK"


def test_who_comes_late_to_long_round_trips_is_not_told_surely() -> None:
    verdict = settled(named(wired(VICTIM, FAR, NEAR), *PEERS))
    assert all(v.confidence <= 0.5 for v in (verdict.job, *verdict.nodes))


def test_a_fault_does_not_become_the_usual_round_trip() -> None:
    nodes = named(wired(WAITING, FAR), "a", "b")
    play = after_good(*nodes)
    for seconds in (60, 120):
        assert play.run(nodes, seconds).job.state == "NETWORK"


def test_long_round_trips_are_nothing_while_gpus_compute() -> None:
    nodes = named(wired(GOOD, FAR), "a", "b")
    assert after_good(*nodes).run(nodes, 45).job.state == "COMPUTE"


@pytest.mark.parametrize(("power", "felt"), [(460, True), (600, False)])
def test_a_delay_is_felt_by_the_time_that_data_are_under_way(power: float, felt: bool) -> None:
    """Round trips of 61 ms, 1.3 before; 46 % of the time data under way, 4 before; power by a quarter less."""
    far = replace(FAR, busy=0.46, received_mb=0.0)
    moves = replace(WAITING, ranks=(replace(WAITS, gpu=Gpu(util=95, power=power, memory=28)),))
    nodes = named(wired(moves, far), "a", "b")
    verdict = after_good(*nodes).run(nodes, 45).job
    assert (said(verdict) == ("NETWORK", "path")) == felt


def test_a_connection_that_only_receives_has_no_round_trip() -> None:
    silent = replace(FAR, sent_mb=0.0, segments=0.0)
    nodes = named(wired(WAITING, silent), "a", "b")
    assert after_good(*nodes).run(nodes, 45).job.state != "NETWORK"


STORE = Wire("10.9.0.3:8080", role="loader", trip_ms=1, received_mb=0.8, sent_mb=0.0)
ASKS = rank(
    gpu=Gpu(util=28, power=260, memory=10),
    main={"pipe": 1.0},
    main_run=0.04,
    loader={"poll": 0.5, "futex": 0.5},
    loader_run=0.01,
)


def test_vz_loaders_that_wait_for_a_store_outside_the_job_name_it() -> None:
    nodes = named(wired(ASKS, STORE, Wire("10.0.0.2")), *PEERS)
    verdict = settled(nodes)
    assert said(verdict.job) == ("STORAGE", "object")
    assert blamed(verdict.job) == {"10.9.0.3:8080"}
    assert {said(n) for n in verdict.nodes} == {("STORAGE", "object")}


@pytest.mark.parametrize(
    "wires",
    [(), (replace(STORE, received_mb=0.001),), (replace(STORE, peer="10.0.0.2:7000"), Wire())],
    ids=["no connection", "nothing comes", "another rank's address"],
)
def test_loaders_in_poll_without_a_store_are_not_told(wires: tuple[Wire, ...]) -> None:
    assert settled(named(wired(ASKS, *wires), *PEERS)).job.state != "STORAGE"


def test_a_store_is_no_wait_while_gpus_compute() -> None:
    busy = replace(ASKS, ranks=(replace(ASKS.ranks[0], gpu=Gpu()),))
    assert settled(named(wired(busy, STORE), *PEERS)).job.state == "COMPUTE"


NFS = ("/data", "nfs4", "10.9.0.3:/export")
READING = rank(
    gpu=Gpu(util=28, power=266, memory=12),
    main={"pipe": 1.0},
    main_run=0.04,
    loader={"netfs": 1.0},
    loader_run=0.0,
    read_mb=0.4,
)


def test_a_server_that_is_slow_for_all_its_clients_is_named() -> None:
    slow = replace(READING, mounts={NFS: 156.0, ("/home", "nfs4", "10.9.0.9:/home"): 1.0})
    verdict = settled(named(slow, *PEERS))
    assert said(verdict.job) == ("STORAGE", "read")
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("mount", "10.9.0.3:/export")]
    assert any(f.metric == "mount.read" and f.value == 156 for f in verdict.job.support)


def test_nodes_that_read_from_different_servers_have_none_in_common() -> None:
    other = replace(READING, mounts={("/data", "nfs4", "10.9.0.4:/b"): 156.0})
    slow = replace(READING, mounts={NFS: 156.0})
    verdict = settled((*named(slow, "a", "b"), *named(other, "c", "d")))
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("job", "all nodes")]


def test_a_mount_that_is_slow_on_one_node_alone_is_that_nodes() -> None:
    slow = replace(READING, mounts={NFS: 156.0})
    well = replace(VICTIM, mounts={NFS: 2.0})
    assert blamed(settled((*named(well, *PEERS), *named(slow, "x"))).job) == {"x"}
