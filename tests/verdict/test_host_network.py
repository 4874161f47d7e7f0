"""What a node's own CPUs and ports do to its packets."""

from dataclasses import replace

import pytest

from verdict.scenario import LOSES, PEERS, VICTIM, Nic, Node, blamed, named, quickly, said

SOFT = Node(
    ranks=VICTIM.ranks, softirq=0.97, cores={0: 0.02, 5: 0.97}, nics=(Nic(rx_mb=350, speed=10_000),),
    more={"softnet_packets": 60_000.0, "softnet_dropped": 60.0, "softnet_time_squeezed": 50.0},
)  # fmt: skip
CALM = replace(SOFT, softirq=0.1, cores={}, more={})


def test_a_cpu_full_of_soft_interrupts_holds_up_its_node_and_is_named() -> None:
    verdict = quickly((*named(CALM, *PEERS), *named(SOFT, "x")))
    assert said(verdict.job) == ("NETWORK", "softirq")
    assert blamed(verdict.job) == {"x"}
    assert "on CPU 5 alone" in verdict.job.text
    assert verdict.job.waiting == PEERS


@pytest.mark.parametrize(
    "odd",
    [{"busy": 0.97}, {"nics": (Nic(rx_mb=1240, speed=10_000),)}, {"softirq": 0.5}],
    ids=["all CPUs full", "a full port", "not full"],
)
def test_a_hot_cpu_that_something_else_explains_is_no_cause(odd: dict[str, object]) -> None:
    verdict = quickly((*named(CALM, *PEERS), *named(replace(SOFT, **odd), "x")))  # type: ignore[arg-type]
    assert all(v.cause != "softirq" for v in (verdict.job, *verdict.nodes))


def port(**more: float) -> Node:
    return replace(VICTIM, nics=(Nic(rx_mb=600, tx_mb=600, more=more),))


TAKES = port(tx_pause_us=0, rx_pause_us=0, rx_discards=0, bw_in_exceeded=0)
PACKETS_S = 600 * 700.0


@pytest.mark.parametrize(
    ("bad", "cause", "most"),
    [
        (port(tx_pause_us=300_000, rx_pause_us=0), "congestion", 1.0),
        (port(tx_pause_frames=5000, rx_pause_frames=0), "congestion", 0.5),
        (port(rx_discards=PACKETS_S * 0.002), "congestion", 1.0),
        (port(rx_out_of_buffer=PACKETS_S * 0.002), "congestion", 1.0),
        (port(bw_in_exceeded=PACKETS_S * 0.01), "bandwidth", 1.0),
    ],
    ids=["pauses", "pause frames only", "card drops", "host posts no buffers", "allowance"],
)
def test_a_node_that_cannot_take_what_comes_is_named(bad: Node, cause: str, most: float) -> None:
    verdict = quickly((*named(TAKES, *PEERS), *named(bad, "x")))
    assert said(verdict.job) == ("NETWORK", cause)
    assert blamed(verdict.job) == {"x"}
    assert verdict.job.confidence <= most


def test_who_pauses_the_others_is_at_fault_not_who_is_paused() -> None:
    held = port(rx_pause_us=250_000, tx_pause_us=0)
    holds = port(rx_pause_us=0, tx_pause_us=300_000)
    verdict = quickly((*named(held, *PEERS), *named(holds, "x")))
    assert said(verdict.job) == ("NETWORK", "congestion")
    assert blamed(verdict.job) == {"x"}


def test_a_path_that_reorders_is_no_end_of_anothers_queue() -> None:
    reorders = replace(LOSES, dsack=LOSES.retransmits)
    held = port(rx_pause_us=250_000, tx_pause_us=0)
    verdict = quickly((*named(TAKES, *PEERS), *named(reorders, "x"), *named(held, "y")))
    told = {node.node: said(node) for node in verdict.nodes}
    assert told["x"] == ("NETWORK", "path")
    assert told["y"] == ("NETWORK", "congestion")
    assert said(verdict.job) == ("NETWORK", "path")
    assert [c.cause for c in verdict.job.candidates] == ["congestion"]


@pytest.mark.parametrize(
    "node",
    [
        port(tx_pause_us=5_000, rx_pause_us=5_000),
        port(tx_pause_frames=50, rx_pause_frames=50),
        port(rx_discards=1),
        port(bw_in_exceeded=1),
        replace(VICTIM, nics=(Nic(rx_mb=0.01, tx_mb=0.01, more={"rx_discards": 5}),)),
        replace(VICTIM, nics=(Nic(rx_mb=0.3, tx_mb=0.3, more={"rx_discards": 5}),)),
    ],
    ids=["bursts", "few frames", "a packet", "a burst over", "a port for sessions", "few packets"],
)
def test_what_cards_count_in_healthy_bursts_is_no_fault(node: Node) -> None:
    assert quickly((*named(TAKES, *PEERS), *named(node, "x"))).job.state == "UNKNOWN"
