"""Whose a slow or lossy path is: the job's connections, joined by the addresses of its nodes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import (
    GOOD,
    LOSES,
    SEGMENTS,
    WAITS,
    Gpu,
    Node,
    Play,
    Wire,
    blamed,
    named,
    said,
)

HALF = replace(WAITS, gpu=Gpu(util=99, power=330, memory=12))
BRIDGE = "172.17.0.1"
Bad = Callable[[str, str], bool]


def address(name: str) -> str:
    return f"10.0.0.{ord(name)}"


def meshed(
    node: Node, names: str, wire: Callable[[str, str], Wire], ring: bool = False
) -> list[Node]:
    """Return nodes whose ranks talk to all others, or in a ring each to the next."""
    found = []
    for i, name in enumerate(names):
        following = names[(i + 1) % len(names)]
        peers = [following] if ring else [n for n in names if n != name]
        wires = tuple(replace(wire(name, peer), peer=address(peer)) for peer in peers)
        (own,) = named(node, name)
        ranks = tuple(replace(r, wires=wires) for r in own.ranks)
        found.append(replace(own, ranks=ranks, addresses=f"{address(name)} {BRIDGE}"))
    return found


def slow(bad: Bad, names: str = "abc", ring: bool = False) -> JobVerdict:
    play = Play(names)
    play.run(meshed(GOOD, names, lambda *_: Wire(), ring), 40)

    def wire(start: str, end: str) -> Wire:
        far = bad(start, end) or bad(end, start)
        return Wire(trip_ms=60, swing=0.02) if far else Wire()

    return play.run(meshed(Node(ranks=(HALF,)), names, wire, ring), 45)


def lossy(bad: Bad, names: str = "abcd") -> JobVerdict:
    def wire(start: str, end: str) -> Wire:
        return Wire(again=0.02 if bad(start, end) else 0.0)

    nodes = meshed(replace(LOSES, retransmits=0, fast=0), names, wire)
    senders = {n for n in names if any(bad(n, m) for m in names if m != n)}
    again = SEGMENTS * 0.006
    return Play(names).run(
        [replace(n, retransmits=again, fast=again) if n.name in senders else n for n in nodes], 45
    )


@pytest.mark.parametrize("ring", [True, False], ids=["ring", "mesh"])
def test_a_node_that_all_slow_paths_have_in_common_is_at_fault(ring: bool) -> None:
    verdict = slow(lambda start, end: "b" in (start, end), ring=ring)
    assert said(verdict.job) == ("NETWORK", "path")
    assert blamed(verdict.job) == {"b"}
    assert verdict.job.confidence >= 0.6


def test_one_slow_path_is_named_and_either_end_may_be_at_fault() -> None:
    verdict = slow(lambda start, end: {start, end} == {"a", "b"})
    assert said(verdict.job) == ("NETWORK", "path")
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [("path", "a <-> b")]
    assert "either end" in verdict.job.text
    assert verdict.job.confidence <= 0.7


@pytest.mark.parametrize("names", ["abc", "abcdef"])
def test_paths_that_are_all_slow_are_the_networks(names: str) -> None:
    verdict = slow(lambda *_: True, names)
    assert said(verdict.job) == ("NETWORK", "path")
    assert blamed(verdict.job) == {"network"}


def test_two_racks_that_are_far_from_each_other_blame_no_node() -> None:
    verdict = slow(lambda start, end: (start in "abc") != (end in "abc"), "abcdef")
    assert blamed(verdict.job) == {"network"}


@pytest.mark.parametrize(
    ("bad", "kind", "name"),
    [
        (lambda start, end: (start, end) == ("a", "b"), "path", "a -> b"),
        (lambda _, end: end == "b", "node", "b"),
        (lambda start, _: start == "b", "node", "b"),
        (lambda *_: True, "job", "network"),
    ],
    ids=["one way", "the way in of one", "the way out of one", "all"],
)
def test_loss_belongs_to_whom_lossy_ways_have_in_common(bad: Bad, kind: str, name: str) -> None:
    verdict = lossy(bad)
    assert said(verdict.job) == ("NETWORK", "loss")
    assert [(c.kind, c.id) for c in verdict.job.culprits] == [(kind, name)]


def test_an_address_that_several_nodes_have_leads_to_none() -> None:
    """Each node has a bridge of its own for its containers."""
    far = Wire(BRIDGE, trip_ms=60)
    nodes = [
        replace(n, ranks=tuple(replace(r, wires=(*r.wires, far)) for r in n.ranks))
        for n in meshed(Node(ranks=(HALF,)), "abc", lambda *_: Wire())
    ]
    assert Play("abc").run(nodes, 45).job.state != "NETWORK"


def test_peers_that_are_no_nodes_of_the_job_are_not_compared_with() -> None:
    """A logger in another country is far, and nobody waits for it."""
    logger = Wire("203.0.113.9", trip_ms=150, swing=0.02)
    nodes = [
        replace(n, ranks=tuple(replace(r, wires=(*r.wires, logger)) for r in n.ranks))
        for n in meshed(Node(ranks=(HALF,)), "abc", lambda *_: Wire())
    ]
    play = Play("abc")
    play.run(meshed(GOOD, "abc", lambda *_: Wire()), 40)
    verdict = play.run(nodes, 45)
    assert all(v.state != "NETWORK" for v in (verdict.job, *verdict.nodes))


def test_the_first_good_minute_may_end_in_a_fault_without_making_it_the_usual() -> None:
    """The level of a GPU was learned just as the path became slow, and so were its round trips."""
    play = Play("abc")
    play.run(meshed(GOOD, "abc", lambda *_: Wire(trip_ms=1.5)), 8)
    play.run(meshed(GOOD, "abc", lambda *_: Wire(trip_ms=33)), 3)
    far = meshed(Node(ranks=(HALF,)), "abc", lambda *_: Wire(trip_ms=60, swing=0.02))
    assert said(play.run(far, 45).job) == ("NETWORK", "path")


def test_who_comes_late_sees_which_paths_are_longer_than_others_and_is_not_sure() -> None:
    def wire(start: str, end: str) -> Wire:
        return Wire(trip_ms=60, swing=0.02) if "b" in (start, end) else Wire()

    verdict = Play("abc").run(meshed(Node(ranks=(HALF,)), "abc", wire, ring=True), 50)
    assert said(verdict.job) == ("NETWORK", "path")
    assert blamed(verdict.job) == {"b"}
    assert all(v.confidence <= 0.5 for v in (verdict.job, *verdict.nodes) if v.state == "NETWORK")


def test_what_swings_beside_a_path_that_is_surely_slow_is_slow_as_well() -> None:
    """Jitter on the way out of b: answers to a are as late as what c gets, and swing more."""
    play = Play("abc")
    play.run(meshed(GOOD, "abc", lambda *_: Wire(), ring=True), 40)

    def wire(start: str, end: str) -> Wire:
        if start == "b":
            return Wire(trip_ms=45, swing=0.2, busy=1.0)
        return Wire(trip_ms=30, swing=0.4) if end == "b" else Wire()

    verdict = play.run(meshed(Node(ranks=(HALF,)), "abc", wire, ring=True), 45)
    assert said(verdict.job) == ("NETWORK", "congestion")
    assert blamed(verdict.job) == {"b"}


def test_slow_paths_to_addresses_of_nobody_blame_no_node() -> None:
    """As of containers whose network the agent does not see."""

    def wire(start: str, end: str) -> Wire:
        return Wire(trip_ms=60, swing=0.02) if "b" in (start, end) else Wire()

    play = Play("abc")
    for node, seconds, wires in ((GOOD, 40, lambda *_: Wire()), (Node(ranks=(HALF,)), 45, wire)):
        nodes = [replace(n, addresses="") for n in meshed(node, "abc", wires, ring=True)]
        verdict = play.run(nodes, seconds)
    assert said(verdict.job) == ("NETWORK", "path")
    assert blamed(verdict.job) == {"network"}
    assert verdict.job.confidence <= 0.5
