"""Networks of RDMA: what their ports count, which no TCP counter knows of."""

from dataclasses import replace

import pytest

from verdict.scenario import (
    GOOD,
    PEERS,
    VICTIM,
    WAITS,
    Nic,
    Node,
    Wire,
    blamed,
    named,
    said,
    settled,
)

FLOWS = {"tx_packets": 1e6, "rx_packets": 1e6, "tx_bytes": 4e9, "rx_bytes": 4e9}
COUNTS = {**FLOWS, "packet_seq_err": 0.0, "local_ack_timeout_err": 0.0}
CLEAN = replace(VICTIM, rdma=COUNTS)
LOSES = replace(CLEAN, rdma={**COUNTS, "packet_seq_err": 50.0})
STALLS = replace(CLEAN, rdma={**COUNTS, "local_ack_timeout_err": 0.2})
DROPS = replace(CLEAN, rdma={**COUNTS, "link_downed": 0.1})
HOLDS = replace(CLEAN, nics=(Nic(pauses_us=300_000.0, paused_us=0.0),))


@pytest.mark.parametrize(
    ("bad", "cause"),
    [(LOSES, "loss"), (STALLS, "loss"), (DROPS, "link"), (HOLDS, "congestion")],
    ids=["sent again", "no acknowledgement", "link down", "pauses the others"],
)
def test_a_port_that_fails_the_job_is_named(bad: Node, cause: str) -> None:
    verdict = settled((*named(CLEAN, *PEERS), *named(bad, "x")))
    assert said(verdict.job) == ("NETWORK", cause)
    assert blamed(verdict.job) == {"mlx5_0/1 of x"}


def test_ports_without_a_fault_are_no_cause() -> None:
    assert settled(named(CLEAN, *PEERS)).job.state == "UNKNOWN"


def test_loss_is_nothing_while_gpus_compute() -> None:
    busy = replace(GOOD, rdma=LOSES.rdma)
    assert settled(named(busy, *PEERS)).job.state == "COMPUTE"


def test_pauses_as_short_as_bursts_are_no_congestion() -> None:
    short = replace(CLEAN, nics=(Nic(pauses_us=5_000.0, paused_us=5_000.0),))
    assert settled((*named(CLEAN, *PEERS), *named(short, "x"))).job.state == "UNKNOWN"


SILENT = {"state": 4.0, "rate_mbps": 400_000.0, "tx_bytes": 0.0, "rx_bytes": 0.0}


def beside_rdma(*exchanged_mb: float) -> list[Node]:
    """Return three nodes with an Ethernet port at work, that wait, and what each sends to the next."""
    nodes = []
    for i in range(3):
        wires = [Wire(f"10.0.0.{(i + 1) % 3}", sent_mb=m, received_mb=m) for m in exchanged_mb]
        nodes.append(
            replace(
                VICTIM, name=f"n{i}", addresses=f"10.0.0.{i}", rdma=SILENT,
                ranks=(replace(WAITS, name=str(i), wires=tuple(wires)),),
                nics=(Nic("eth1", rx_mb=600, tx_mb=600),),
            )
        )  # fmt: skip
    return nodes


def test_r31_ranks_that_exchange_by_tcp_beside_silent_rdma_ports_fell_back() -> None:
    verdict = settled(beside_rdma(500))
    assert {said(v) for v in (verdict.job, *verdict.nodes)} == {("NETWORK", "fallback")}
    assert all(node.confidence > 0.8 for node in verdict.nodes)


def test_files_on_the_ethernet_port_while_rdma_is_silent_are_no_exchange() -> None:
    verdict = settled(beside_rdma(0.01))
    assert all(v.cause != "fallback" for v in (verdict.job, *verdict.nodes))


def test_without_connections_what_a_port_carries_may_be_files() -> None:
    verdict = settled(beside_rdma())
    assert {said(node) for node in verdict.nodes} == {("NETWORK", "fallback")}
    assert all(node.confidence <= 0.7 for node in verdict.nodes)
