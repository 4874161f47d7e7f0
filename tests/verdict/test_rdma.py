"""Networks of RDMA: what their ports count, which no TCP counter knows of."""

from dataclasses import replace

import pytest

from verdict.scenario import GOOD, PEERS, VICTIM, Nic, Node, blamed, named, said, settled

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
