"""Loss that only the job's own connections show."""

from dataclasses import replace

import pytest

from gpuwatch.model.verdict import JobVerdict
from verdict.scenario import GOOD, SEGMENTS, VICTIM, Node, Wire, blamed, quickly, said
from verdict.test_paths import meshed

NAMES = "abcd"


def judged(node: Node, bad: Wire, start: str | None = None, end: str | None = None) -> JobVerdict:
    """Return the verdict where ways from and to these nodes are bad."""

    def wire(own: str, peer: str) -> Wire:
        hit = start in (None, own) and end in (None, peer)
        return bad if hit else Wire()

    return quickly(meshed(node, NAMES, wire))


CONTAINER = replace(VICTIM, without=frozenset({("node", "tcp_out_segs")}))
BUSY = replace(VICTIM, segments=60 * SEGMENTS, retransmits=20.0, fast=20.0)
LOSSY = Wire(again=0.02)


@pytest.mark.parametrize("node", [VICTIM, CONTAINER, BUSY], ids=["trickle", "hidden", "diluted"])
def test_loss_towards_one_node_names_it_though_the_nodes_counters_show_none(node: Node) -> None:
    verdict = judged(node, LOSSY, end="b")
    assert said(verdict.job) == ("NETWORK", "loss")
    assert blamed(verdict.job) == {"b"}
    assert "2 % of its segments" in verdict.job.text or "way in" in verdict.job.text


def test_loss_on_one_way_names_it_and_either_end_may_be_at_fault() -> None:
    verdict = judged(VICTIM, LOSSY, start="a", end="b")
    assert said(verdict.job) == ("NETWORK", "loss")
    assert blamed(verdict.job) == {"a -> b"}
    assert verdict.job.confidence <= 0.7


@pytest.mark.parametrize(
    "bad",
    [
        Wire(again=0.0003),
        Wire(again=0.02, segments=3),
        Wire(again=0.02, sent_mb=0.001),
    ],
    ids=["under 0.1 %", "a handful", "a rendezvous"],
)
def test_little_loss_or_of_little_is_none(bad: Wire) -> None:
    assert judged(VICTIM, bad).job.state != "NETWORK"


def test_loss_is_nothing_while_gpus_compute() -> None:
    assert judged(GOOD, LOSSY).job.state == "COMPUTE"
