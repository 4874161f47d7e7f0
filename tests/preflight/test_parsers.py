"""What tools print: the real thing, and anything else."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.preflight import iperf3
from gpuwatch.preflight.checks import all_reduce, round_trip, storage
from gpuwatch.preflight.checks.round_trip import Trip
from gpuwatch.preflight.checks.storage import Reads
from gpuwatch.preflight.iperf3 import Measure

PING = """PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.

--- 10.0.0.2 ping statistics ---
100 packets transmitted, 97 received, 3% packet loss, time 4998ms
rtt min/avg/max/mdev = 0.031/0.062/0.412/0.020 ms
"""
NOTHING_BACK = """--- 10.0.0.9 ping statistics ---
100 packets transmitted, 0 received, 100% packet loss, time 4998ms
"""
IPERF3 = {
    "start": {"tcp_mss_default": 1448},
    "end": {
        "sum_sent": {"bytes": 1.448e9, "retransmits": 2000, "bits_per_second": 1.2e9},
        "sum_received": {"bits_per_second": 1.1e9},
        "cpu_utilization_percent": {"host_total": 12.5, "remote_total": 40.0},
    },
}
FIO = {
    "jobs": [
        {
            "read": {
                "iops": 5000.5,
                "bw_bytes": 20482048,
                "clat_ns": {"mean": 51e6, "max": 2e8, "percentile": {"99.000000": 120e6}},
            }
        }
    ]
}
NCCL = """#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    112.7   74.43  130.25      0    112.1   74.84  130.97      0
  1073741824     268435456     float     sum      -1   3903.1  275.10  481.42      0   3898.5  275.42  481.99      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 306.158
"""


def test_ping() -> None:
    assert round_trip.parsed(PING) == Trip(1 - 0.97, 0.062, 0.020)
    assert round_trip.parsed(NOTHING_BACK) == Trip(1.0, None, None)
    assert round_trip.parsed("ping: socket: Operation not permitted") is None


def test_iperf3() -> None:
    assert iperf3.parsed(json.dumps(IPERF3)) == Measure(1.1e9, 2000 / 1e6, 40.0)
    refused = json.dumps({"start": {}, "error": "unable to connect to server"})
    assert iperf3.parsed(refused) == "iperf3: unable to connect to server"


def test_fio() -> None:
    told = storage.parsed("fio: a note before\n" + json.dumps(FIO))
    assert told == Reads(iops=5000.5, bytes_s=20482048.0, mean_ms=51.0, p99_ms=120.0)


def test_all_reduce_perf() -> None:
    assert all_reduce.parsed(NCCL) == {8388608: 130.25e9, 1073741824: 481.42e9}


PIECES = st.one_of(st.text(), st.sampled_from([PING, NCCL, json.dumps(IPERF3), json.dumps(FIO)]))
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["end", "start", "jobs", "read", "error", "sum_sent", "iops", "clat_ns"]), inner),
    max_leaves=8,
)  # fmt: skip


@given(PIECES | JSON.map(json.dumps), st.integers(0, 400))
def test_nothing_that_a_tool_prints_raises(text: str, cut: int) -> None:
    for part in (text, text[cut:], text[:cut]):
        told = round_trip.parsed(part)
        assert told is None or 0 <= told.loss <= 1
        assert isinstance(iperf3.parsed(part), Measure | str)
        assert isinstance(storage.parsed(part), Reads | None)
        assert isinstance(all_reduce.parsed(part), dict)
