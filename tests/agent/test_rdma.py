"""RDMA ports: real texts, every driver's names, hostile bytes, and counters that move."""

import errno
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import SHARED, FaultyHost, named, read, reader, unpack_ttar
from agent.moving import (
    FULL,
    ROCE,
    WIRE,
    Card,
    MovingHost,
    Node,
    Rail,
    Watched,
)
from gpuwatch.agent import nccl, pick
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.metric import Absent, Reading
from gpuwatch.agent.ranks import Census
from gpuwatch.agent.sources import rdma

SHARED_ABSENT = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the public conformance texts are not at {SHARED}"
)


def moved(root: Path, *rails: Rail, options: Options | None = None) -> MovingHost:
    host = MovingHost(root, options)
    host.move(Node(rails))
    return host


def hardware(root: Path, adapter: str, **counters: int) -> Host:
    """Lay out a port with these hw_counters alone."""
    host = moved(root, Rail(adapter, hardware=False, layer="Unspecified"))
    base = f"sys/class/infiniband/{adapter}/ports/1/"
    for file in (root / base / "counters").iterdir():
        file.unlink()
    for name, value in counters.items():
        host.write(f"{base}hw_counters/{name}", str(value))
    return host


def port(reading: Reading, name: str) -> dict[str, float | None]:
    rows = named("rdma", reading)
    return next(values for label, values in rows.items() if label.split()[1] == name)


# --- what a port says


@SHARED_ABSENT
def test_a_real_h100_node(tmp_path: Path) -> None:
    adapters = tmp_path / "sys/class"
    adapters.mkdir(parents=True)
    (adapters / "infiniband").symlink_to(SHARED / "gpud-sys-class-infiniband-h100")
    reading = read("rdma", Host(str(tmp_path)))
    assert len(reading.rows) == 9
    first = port(reading, "mlx5_0/1")
    assert (first["tx_bytes"], first["xmit_wait_ticks"]) == (230442669431839 * 4, 2489603687)
    assert (first["state"], first["rate_mbps"], first["packet_seq_err"]) == (4, 400000, 0)
    assert [labels[2] for _, labels, _ in reading.rows] == ["InfiniBand"] * 8 + ["Ethernet"]
    assert port(reading, "mlx5_bond_0/1")["rate_mbps"] == 200000
    assert reading.missing["rdma.cnp_sent"] == "all: its driver does not count it"


@SHARED_ABSENT
def test_public_texts_of_older_adapters(tmp_path: Path) -> None:
    unpack_ttar(SHARED / "node_exporter/sys.ttar", tmp_path)
    reading = read("rdma", Host(str(tmp_path)))
    assert port(reading, "i40iw0/1")["state"] == 4
    wide = port(reading, "mlx4_0/1")
    assert (wide["rate_mbps"], wide["rx_packets"]) == (40000, 0)
    assert (
        "N/A (no PMA)"
        in (
            tmp_path / rdma.ADAPTERS.lstrip("/") / "i40iw0/ports/1/counters/port_rcv_data"
        ).read_text()
    )
    assert port(reading, "i40iw0/1")["rx_bytes"] is None
    assert reading.missing["rdma.rx_bytes"] == "i40iw0/1: not a number"


def test_bytes_are_counted_in_units_of_four(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail(rx_mb=0, tx_mb=0))
    host.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "25")
    assert port(read("rdma", host), "mlx5_0/1")["rx_bytes"] == 100


def test_a_roce_port_names_its_interface(tmp_path: Path) -> None:
    host = moved(tmp_path, ROCE, Rail("mlx5_1"), Rail("mlx5_2", layer="Ethernet"))
    (tmp_path / "sys/class/infiniband/mlx5_2/device/net/eth2").mkdir(parents=True)
    labels = [labels for _, labels, _ in read("rdma", host).rows]
    assert labels == [
        ("mlx5_0/1", "eth1", "Ethernet"),
        ("mlx5_1/1", None, "InfiniBand"),
        ("mlx5_2/1", "eth2", "Ethernet"),
    ]


def test_a_virtual_function_without_hw_counters_says_so(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail("mlx5_1"), Rail("mlx5_0", hardware=False, virtual=True))
    reading = read("rdma", host)
    assert [labels[0] for _, labels, _ in reading.rows] == ["mlx5_1/1", "mlx5_0/1"]
    assert port(reading, "mlx5_0/1")["packet_seq_err"] is None
    assert port(reading, "mlx5_0/1")["rx_bytes"] is not None
    assert reading.missing["rdma.packet_seq_err"] == "mlx5_0/1: no hw_counters: a virtual function"


@pytest.mark.parametrize(
    ("name", "row", "full"),
    [("link_downed", "link_downed", 255), ("symbol_error", "symbol_errors", 65535),
     ("port_xmit_wait", "xmit_wait_ticks", 2**32 - 1)],
)  # fmt: skip
def test_a_counter_that_is_full_tells_nothing(
    name: str, row: str, full: int, tmp_path: Path
) -> None:
    """Counters of the InfiniBand port stay at their largest value until someone resets them."""
    host = moved(tmp_path, Rail())
    host.write(f"sys/class/infiniband/mlx5_0/ports/1/counters/{name}", str(full))
    reading = read("rdma", host)
    assert port(reading, "mlx5_0/1")[row] is None
    assert reading.missing[f"rdma.{row}"] == f"mlx5_0/1: full at {full} until it is reset"


@pytest.mark.parametrize(
    ("adapter", "counters", "expected"),
    [
        (
            "rdmap16s27",  # EFA
            {"rx_bytes": 700, "tx_bytes": 600, "rx_pkts": 7, "tx_pkts": 6, "rx_drops": 1,
             "rdma_read_bytes": 50, "retrans_pkts": 3, "retrans_timeout_events": 2},
            {"rx_bytes": 700, "tx_bytes": 600, "rx_packets": 7, "tx_packets": 6, "rx_drops": 1,
             "rdma_read_bytes": 50, "retrans_packets": 3, "local_ack_timeout_err": 2},
        ),
        (
            "irdma0",
            {"ip4InOctets": 10, "ip6InOctets": 5, "ip4OutOctets": 4, "ip6OutOctets": 0,
             "cnpSent": 3, "cnpHandled": 2, "RxECNMrkd": 9, "ip4InDiscards": 1},
            {"rx_bytes": 15, "tx_bytes": 4, "cnp_sent": 3, "cnp_handled": 2, "ecn_marked": 9,
             "rx_drops": 1},
        ),
        (
            "bnxt_re0",
            {"rx_bytes": 8, "tx_pkts": 2, "seq_err_naks_rcvd": 4, "to_retransmits": 5,
             "rnr_naks_rcvd": 6, "dup_req": 7, "rx_roce_discards": 1},
            {"rx_bytes": 8, "tx_packets": 2, "packet_seq_err": 4, "local_ack_timeout_err": 5,
             "rnr_nak_retry_err": 6, "duplicate_request": 7, "rx_drops": 1},
        ),
    ],
)  # fmt: skip
def test_each_driver_s_names(
    adapter: str, counters: dict[str, int], expected: dict[str, int], tmp_path: Path
) -> None:
    found = port(read("rdma", hardware(tmp_path, adapter, **counters)), f"{adapter}/1")
    assert {name: found[name] for name in expected} == expected


def test_an_error_of_one_file_takes_no_other_along(tmp_path: Path) -> None:
    moved(tmp_path, Rail())
    path = "/sys/class/infiniband/mlx5_0/ports/1/"
    faults = {path + "counters/port_rcv_data": errno.EINVAL, path + "rate": errno.EIO}
    reading = read("rdma", FaultyHost(str(tmp_path), faults))
    found = port(reading, "mlx5_0/1")
    assert (found["rx_bytes"], found["rate_mbps"], found["tx_bytes"]) == (
        None,
        None,
        found["tx_bytes"],
    )
    assert found["tx_bytes"] is not None
    assert reading.missing["rdma.rx_bytes"] == "mlx5_0/1: Invalid argument"
    assert reading.missing["rdma.rate_mbps"] == "mlx5_0/1: Input/output error"


def test_a_node_without_adapters_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="no RDMA port"):
        read("rdma", Host(str(tmp_path)))


@pytest.mark.parametrize(
    ("wanted", "ports"),
    [(("mlx5_1",), ["mlx5_1/1"]), (("mlx5_*",), ["mlx5_0/1", "mlx5_1/1"]), (("eth1",), ["mlx5_0/1"])],
)  # fmt: skip
def test_interfaces_of_the_job_file_restrict(
    wanted: tuple[str, ...], ports: list[str], tmp_path: Path
) -> None:
    host = moved(tmp_path, ROCE, Rail("mlx5_1"), options=Options(interfaces=wanted))
    assert [labels[0] for _, labels, _ in read("rdma", host).rows] == ports


def test_interfaces_that_match_no_adapter_are_said(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail(), options=Options(interfaces=("eth9",)))
    with pytest.raises(Absent, match="no RDMA port matches eth9"):
        read("rdma", host)


def test_many_ports_are_capped_and_physical_ones_come_first(tmp_path: Path) -> None:
    virtual = tuple(Rail(f"mlx5_{i:03}", virtual=True) for i in range(36))
    reading = read("rdma", moved(tmp_path, *virtual, Rail("mlx5_999")))
    assert len(reading.rows) == rdma.MAX_PORTS
    assert reading.rows[0][1][0] == "mlx5_999/1"
    assert reading.missing["rdma.ports"] == "5 ports beyond 32 are not read"


def test_a_port_that_is_pulled_out_leaves_the_others(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail("mlx5_0"), Rail("mlx5_1"))
    source = reader("rdma", host)
    assert len(source.read().rows) == 2
    (tmp_path / "sys/class/infiniband/mlx5_1").rename(tmp_path / "gone")
    (tmp_path / "gone/ports/1/state").unlink()
    host.kept_limit = 0
    for _, kept in source._ports[next(p for p in source._ports if p.adapter == "mlx5_1")]._fast:
        for file in kept:
            file.close()
    assert [labels[0] for _, labels, _ in source.read().rows] == ["mlx5_0/1"]
    assert [labels[0] for _, labels, _ in source.read().rows] == ["mlx5_0/1"]


# --- cost


def test_what_is_dear_is_read_in_turns_and_missing_in_between(tmp_path: Path) -> None:
    source = reader("rdma", moved(tmp_path, Rail("mlx5_0")))
    told = [port(source.read(), "mlx5_0/1") for _ in range(7)]
    assert [values["symbol_errors"] is not None for values in told] == [True, False, False] * 2 + [
        True
    ]
    assert all(values["rx_bytes"] is not None and values["rate_mbps"] == 400000 for values in told)


def test_the_rate_is_read_anew_when_the_link_was_trained_anew(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail("mlx5_0"))
    source = reader("rdma", host)
    base = "sys/class/infiniband/mlx5_0/ports/1/"
    host.write(base + "rate", "100 Gb/sec (4X EDR)")
    source.read()
    host.write(base + "rate", "200 Gb/sec (4X HDR)")
    assert port(source.read(), "mlx5_0/1")["rate_mbps"] == 100000
    host.write(base + "counters/link_error_recovery", "7")
    told = [port(source.read(), "mlx5_0/1")["rate_mbps"] for _ in range(2)]
    assert told == [100000, 200000], "as soon as that counter has its turn"


def test_eight_rails_take_few_descriptors_and_a_small_frame(tmp_path: Path) -> None:
    node = Watched(MovingHost(tmp_path))
    rails = [Rail(f"mlx5_{i}", rx_mb=FULL - 731.7 * i, tx_mb=FULL - 313.1 * i) for i in range(8)]
    ways = [replace(rail, more={"port_xmit_wait": 1e6 + 77 * i}) for i, rail in enumerate(rails)]
    for second in (1_000, 1_001):
        node.host.move(Node(tuple(ways), (WIRE, Card())), second)
        node.frame(second * 1_000_000)
    assert node.host.kept <= 8 * 8 + 2 * 12
    assert node.bytes < 700


# --- hostile bytes


@given(st.binary(max_size=60))
def test_any_text_is_a_number_or_nothing(text: bytes) -> None:
    number, speed = rdma.whole_number(text), rdma.rate_mbps(text)
    assert number is None or 0 <= number < 10**20
    assert speed is None or isinstance(speed, int)


@pytest.mark.parametrize(
    ("text", "mbps"),
    [(b"400 Gb/sec (4X NDR)\n", 400000), (b"2.5 Gb/sec (1X SDR)", 2500), (b"nan Gb/sec", None),
     (b"1e999 Gb/sec", None), (b"", None), (b"fast", None)],
)  # fmt: skip
def test_rates(text: bytes, mbps: int | None) -> None:
    assert rdma.rate_mbps(text) == mbps


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.getbasetemp() / "hostile"
    host = moved(root, ROCE)
    base = "sys/class/infiniband/mlx5_0/ports/1/"
    path = base + data.draw(
        st.sampled_from(["state", "rate", "link_layer", "gid_attrs/ndevs/0", "counters/link_downed",
                         "counters/port_rcv_data", "hw_counters/packet_seq_err"])
    )  # fmt: skip
    (root / path).write_bytes(data.draw(st.binary(max_size=80)))
    row = read("rdma", host).rows[0]
    metrics = [r for r in rdma.ROWS if r.kind != "label"]
    assert all(m.sane(v) for m, v in zip(metrics, row[2], strict=True))


# --- names


@pytest.mark.parametrize(
    ("locator", "names", "found"),
    [
        ("a | b", ["b"], ["b"]),
        ("a | b", ["a", "b"], ["a"]),
        ("a + b | c", ["b", "c"], ["b"]),
        ("rx_prio#_pause", ["rx_prio0_pause", "rx_prio10_pause", "rx_prio_pause", "rx_prio0_pause_x"],
         ["rx_prio0_pause", "rx_prio10_pause"]),
        ("a.b#", ["axb1", "a.b1"], ["a.b1"]),
        ("a", [], []),
    ],
)  # fmt: skip
def test_the_first_alternative_that_is_there(
    locator: str, names: list[str], found: list[str]
) -> None:
    assert pick.pick(locator, names) == found


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ("mlx5_0,mlx5_3", {"mlx5_0": 1, "mlx5_3": 1, "mlx5_1": 0}),
        ("mlx5", {"mlx5_0": 1, "bnxt_re0": 0}),
        ("=mlx5_1", {"mlx5_1": 1, "mlx5_10": 0}),
        ("mlx5_1", {"mlx5_10": 1}),
        ("^mlx5_1", {"mlx5_1": 0, "mlx5_0": 1}),
        ("^=mlx5_1", {"mlx5_1": 0, "mlx5_10": 1}),
        ("mlx5_0:1", {"mlx5_0": 1}),
        ("mlx5_0:2", {"mlx5_0": 0}),
        ("", {"mlx5_0": None}),
        ("m" * 256, {"mlx5_0": None}),
    ],
)
def test_the_adapters_that_nccl_was_told(value: str, answers: dict[str, int | None]) -> None:
    environ = [{"NCCL_IB_HCA": value}]
    assert {name: nccl.uses_adapter(environ, name, "1") for name in answers} == answers


def test_ranks_that_name_different_ports_and_ranks_that_name_none() -> None:
    own = [{"NCCL_IB_HCA": "=mlx5_0"}, {"NCCL_IB_HCA": "=mlx5_1"}]
    assert [nccl.uses_adapter(own, f"mlx5_{i}", "1") for i in range(3)] == [1, 1, 0]
    assert nccl.uses_adapter([*own, {"RANK": "3"}], "mlx5_2", "1") is None
    assert nccl.uses_adapter([], "mlx5_0", "1") is None
    assert nccl.uses_adapter([{"NCCL_IB_DISABLE": "1"}], "mlx5_0", "1") == 0
    assert nccl.uses_interface([{"NCCL_SOCKET_IFNAME": "=eth0"}], "eth0") == 1


@given(st.text(max_size=300), st.text(max_size=20))
def test_any_list_is_answered(value: str, name: str) -> None:
    assert nccl.uses_adapter([{"NCCL_IB_HCA": value}], name, "1") in (0, 1, None)


def test_what_real_ranks_were_told_is_known_to_the_ports(tmp_path: Path) -> None:
    word = f"rank-of-{tmp_path.name}"
    environ = {"RANK": "0", "NCCL_IB_HCA": "=mlx5_1", "SECRET": "hunter2"}
    command = [sys.executable, "-S", "-c", "input()", word]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE) as process:
        host = Host(options=Options(match=word))
        census = Census(host)  # each scan looks at some of very many processes, the next at others
        until = time.monotonic() + 10
        while not host.board.nccl and time.monotonic() < until:
            census.ranks()
        process.kill()
    assert host.board.nccl == ({"RANK": "0", "NCCL_IB_HCA": "=mlx5_1"},)


def test_the_ranks_choice_is_on_the_ports(tmp_path: Path) -> None:
    host = moved(tmp_path, Rail("mlx5_0"), Rail("mlx5_1"))
    host.board.nccl = ({"NCCL_IB_HCA": "mlx5_1", "NCCL_SOCKET_IFNAME": "eth"},)
    reading = read("rdma", host)
    assert [port(reading, f"mlx5_{i}/1")["nccl"] for i in range(2)] == [0, 1]
    assert named("nic", read("nic", host))["nic eth0"]["nccl"] == 1
