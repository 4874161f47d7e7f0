"""Faults of jobs with several ranks a node, through frames, decoder, cluster and judge: who is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import (
    HOT,
    READS,
    SEGMENTS,
    WAITS,
    WRITES,
    Gpu,
    Node,
    Rank,
    Wire,
    blamed,
    said,
)
from verdict.wired import Wired

WORKS = Rank(loaders=4)
STUCK = replace(WAITS, loaders=4)
HALF = replace(STUCK, gpu=Gpu(util=99, power=330, memory=10))
"""Waits half of the time, for a rank whose steps take twice as long."""
SLOW_DECODE = Rank(
    gpu=Gpu(util=45, power=240),
    main={"pipe": 0.7, "run": 0.3},
    main_run=0.3,
    loader={"run": 0.95, "futex": 0.05},
    loader_run=0.95,
    loaders=4,
)
SLOW_READ = replace(READS.ranks[0], gpu=Gpu(util=45, power=240), loaders=4)
FOUR = ("n1", "n2", "n3", "n4")


def node(name: str, rank: Rank, odd: dict[int, Rank] | None = None, *, count: int = 8) -> Node:
    """Return a node of so many ranks, alike but for the odd ones; ranks count over all nodes."""
    first = count * (int(name[1:]) - 1)
    ranks = tuple(
        replace((odd or {}).get(i, rank), name=str(first + i), pid=1000 * i) for i in range(count)
    )
    return Node(name, ranks=ranks, addresses=f"10.0.0.{name[1:]}")


@pytest.mark.parametrize("names", [FOUR[:1], FOUR], ids=["1 node", "4 nodes"])
@pytest.mark.parametrize(
    ("odd", "culprit", "rest", "host", "expected", "named"),
    [
        pytest.param(
            0, WRITES.ranks[0], STUCK, {"disk_write_mb": 2000, "disk_busy": 0.99},
            ("STORAGE", "checkpoint"), "rank 0 of n1", id="rank 0 checkpoints",
        ),
        pytest.param(
            5, SLOW_DECODE, HALF, {}, ("CPU", "data-prep"), "rank 5 of n1",
            id="the loaders of rank 5 decode slowly",
        ),
        pytest.param(
            5, SLOW_READ, HALF, {"disk_busy": 0.98, "disk_ms": 40}, ("STORAGE", "read"),
            "rank 5 of n1", id="the loaders of rank 5 read slowly",
        ),
        pytest.param(
            3, HOT.ranks[0], HALF, {}, ("GPU", "throttled"), "GPU 3 of n1", id="GPU 3 throttles",
        ),
    ],
)  # fmt: skip
def test_one_rank_of_eight_is_named(
    odd: int,
    culprit: Rank,
    rest: Rank,
    host: dict[str, float],
    expected: tuple[str, str],
    named: str,
    names: tuple[str, ...],
) -> None:
    play = Wired(names)
    play.run([node(name, WORKS) for name in names], 8)
    first = replace(node("n1", rest, {odd: culprit}), **host)  # type: ignore[arg-type]
    verdict = play.run([first, *(node(name, rest) for name in names[1:])], 14)
    assert said(verdict.job) == said(verdict.nodes[0]) == expected
    assert blamed(verdict.job) == {named}
    assert verdict.job.suspected_us is not None
    assert [said(r) for r in verdict.ranks if r.rank == str(odd)] == [expected]
    waits = [*verdict.nodes[1:], *(r for r in verdict.ranks if r.rank != str(odd))]
    assert {v.state for v in waits} == {"PEER"}
    assert all(blamed(v) == {named} for v in waits)
    assert len(verdict.job.waiting) == (3 if len(names) > 1 else 7)


Wires = Callable[[str, str], Wire]


def meshed(rank: Rank, wire: Wires, **host: float) -> list[Node]:
    """Return four nodes of two ranks that talk to all others."""
    found = []
    for name in FOUR:
        wires = tuple(
            replace(wire(name, peer), peer=f"10.0.0.{peer[1:]}") for peer in FOUR if peer != name
        )
        one = node(name, replace(rank, wires=wires), count=2)
        found.append(replace(one, segments=SEGMENTS, **host))  # type: ignore[arg-type]
    return found


def after_good(bad: list[Node], seconds: int = 20) -> JobVerdict:
    play = Wired(FOUR)
    play.run(meshed(WORKS, lambda *_: Wire()), 20)
    return play.run(bad, seconds)


def test_loss_on_the_way_into_a_node_names_the_receiver() -> None:
    """It is counted by the three that send to it, and by none of its own counters."""

    def wire(_: str, end: str) -> Wire:
        return Wire(again=0.02 if end == "n4" else 0.0)

    again = SEGMENTS * 0.006
    bad = [
        n if n.name == "n4" else replace(n, retransmits=again, fast=again)
        for n in meshed(HALF, wire)
    ]
    verdict = after_good(bad).job
    assert said(verdict) == ("NETWORK", "loss")
    assert [(c.kind, c.id) for c in verdict.culprits] == [("node", "n4")]


def test_a_bridge_that_is_slow_for_all_names_no_node() -> None:
    verdict = after_good(meshed(HALF, lambda *_: Wire(trip_ms=60, swing=0.02, busy=0.6))).job
    assert verdict.state == "NETWORK"
    assert [(c.kind, c.id) for c in verdict.culprits] == [("job", "network")]


def test_a_server_that_is_slow_for_all_names_the_mount() -> None:
    reads = Rank(
        gpu=Gpu(util=28, power=266, memory=12),
        main={"pipe": 1.0},
        main_run=0.04,
        loader={"netfs": 1.0},
        loader_run=0.0,
        loaders=4,
        read_mb=0.4,
    )
    mounts = {
        ("/data", "nfs4", "10.9.0.3:/export"): 156.0,
        ("/home", "nfs4", "10.9.0.9:/home"): 1.0,
    }
    bad = [replace(n, mounts=mounts) for n in meshed(reads, lambda *_: Wire())]
    verdict = after_good(bad).job
    assert said(verdict) == ("STORAGE", "read")
    assert [(c.kind, c.id) for c in verdict.culprits] == [("mount", "10.9.0.3:/export")]


def test_checkpoints_of_eight_seconds_each_minute_recur_and_their_stall_is_told() -> None:
    names = FOUR[:3]
    play = Wired(names)
    good = [node(name, WORKS, count=1) for name in names]
    first = replace(
        node("n1", STUCK, {0: WRITES.ranks[0]}, count=1), disk_write_mb=2000, disk_busy=0.99
    )
    writes = [first, *(node(name, STUCK, count=1) for name in names[1:])]
    play.run(good, 20)
    for _ in range(4):
        play.run(good, 52)
        play.run(writes, 8)
    found = {(r.scope, r.node): r for r in play.run(good, 30).recurring}
    assert found.keys() == {("job", None), ("node", "n1")}
    for again in found.values():
        assert (again.state, again.cause, again.count) == ("STORAGE", "checkpoint", 4)
        assert again.length_s == pytest.approx(8, rel=0.2)
        assert again.period_s == pytest.approx(60, rel=0.05)
        assert again.share == pytest.approx(8 / 60, rel=0.2)
