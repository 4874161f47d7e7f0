"""Statistics of drivers: names by driver, cards that change or have very many, a real kernel."""

import errno
import os
import struct
import subprocess
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import agent_for_all, reader
from agent.moving import STATISTICS, Card, MovingHost, Node, Watched
from debian import needs
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.sources import ethtool

NAMES = [row.name for row in ethtool.ROWS]
PORT = "eth0"


def host_of(root: Path, statistics: dict[str, int], *others: str) -> MovingHost:
    host = MovingHost(root)
    host.statistics = {PORT: statistics}
    host.board.ports = (PORT, *others)
    return host


def values(host: Host) -> dict[str, float | None]:
    ((_, labels, found),) = reader("ethtool", host).read().rows
    assert labels == (PORT,)
    return dict(zip(NAMES, found, strict=True))


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        (
            {"rx_pause_ctrl_phy": 9, "tx_pause_ctrl_phy": 8, "rx_prio0_pause": 1,
             "rx_prio3_pause": 6, "rx_prio3_pause_duration": 70, "tx_prio3_pause": 5,
             "rx_prio3_pause_transition": 99, "rx_discards_phy": 4, "rx_out_of_buffer": 3,
             "tx_pause_storm_error_events": 2, "link_down_events_phy": 1},
            {"rx_pause_frames": 9, "tx_pause_frames": 8, "rx_pfc_frames": 7, "rx_pause_us": 70,
             "tx_pfc_frames": 5, "rx_discards": 4, "rx_out_of_buffer": 3, "pause_storms": 2,
             "link_downs": 1},
        ),
        (
            {"link_xon_rx.nic": 1, "link_xoff_rx.nic": 2, "tx_priority_3_xoff.nic": 5,
             "tx_priority_3_xon.nic": 6, "rx_dropped.nic": 7},
            {"rx_pause_frames": 3, "tx_pause_frames": None, "tx_pfc_frames": 11, "rx_discards": 7},
        ),
        (
            {"port.link_xoff_tx": 2, "port.link_xon_tx": 3, "port.rx_priority_0_xoff": 4,
             "port.rx_priority_0_xon_2_xoff": 50},
            {"tx_pause_frames": 5, "rx_pfc_frames": 4},
        ),
        (
            {"tx_flow_control_xoff": 1, "tx_flow_control_xon": 1, "rx_pb_3_pxoff": 4,
             "rx_missed_errors": 5, "rx_no_dma_resources": 6},
            {"tx_pause_frames": 2, "rx_pfc_frames": 4, "rx_discards": 5, "rx_out_of_buffer": 6},
        ),
        (
            {"rx_pause_frames": 1, "rx_pfc_frames": 2, "pfc_pri3_rx_duration_us": 3,
             "rx_stat_discard": 4},
            {"rx_pause_frames": 1, "rx_pfc_frames": 2, "rx_pause_us": 3, "rx_discards": 4},
        ),
        (
            {"bw_in_allowance_exceeded": 1, "bw_out_allowance_exceeded": 2,
             "pps_allowance_exceeded": 3, "conntrack_allowance_exceeded": 4},
            {"bw_in_exceeded": 1, "bw_out_exceeded": 2, "pps_exceeded": 3,
             "conntrack_exceeded": 4, "rx_pause_frames": None},
        ),
    ],
    ids=["mlx5", "ice", "i40e", "ixgbe", "bnxt", "ena"],
)  # fmt: skip
def test_each_driver_s_names(
    statistics: dict[str, int], expected: dict[str, int | None], tmp_path: Path
) -> None:
    found = values(host_of(tmp_path, statistics))
    assert {name: found[name] for name in expected} == expected


def test_what_a_driver_does_not_count_is_missing_with_the_reason(tmp_path: Path) -> None:
    host = host_of(tmp_path, {"rx_discards_phy": 0}, "veth1")
    reading = reader("ethtool", host).read()
    assert reading.missing["ethtool.tx_pause_frames"] == f"{PORT}: {ethtool.UNCOUNTED}"
    assert "ethtool.rx_discards" not in reading.missing
    assert reading.missing["ethtool.ports"] == "veth1: its driver has none"


@pytest.mark.parametrize(
    ("statistics", "reason"),
    [({"rx_queue_0_kicks": 1}, "counts none of these"), ({}, "has none"),
     ({f"s{i}": 0 for i in range(ethtool.MAX_STATISTICS + 1)}, "more than 16384")],
)  # fmt: skip
def test_a_card_that_counts_none_is_absent(
    statistics: dict[str, int], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Absent, match=reason):
        reader("ethtool", host_of(tmp_path, statistics)).read()


def test_no_port_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="no network port"):
        reader("ethtool", MovingHost(tmp_path)).read()


def test_a_card_with_very_many_is_read_in_each_fifth_tick(tmp_path: Path) -> None:
    many = {"rx_discards_phy": 7} | {f"ring{i}": 0 for i in range(1500)}
    host = host_of(tmp_path, many)
    source = reader("ethtool", host)
    source.read()
    host.asked.clear()
    rows = [source.read().rows for _ in range(20)]
    assert len(host.asked) == 4
    assert all(found[0][2][NAMES.index("rx_discards")] == 7 for found in rows)


def test_a_card_with_few_is_asked_once_a_tick(tmp_path: Path) -> None:
    host = host_of(tmp_path, dict.fromkeys(STATISTICS, 1))
    source = reader("ethtool", host)
    source.read()
    host.asked.clear()
    for _ in range(20):
        source.read()
    assert len(host.asked) == 20


def test_statistics_that_change_places_are_named_anew(tmp_path: Path) -> None:
    """Other numbers of queues move what stands behind them."""
    host = host_of(tmp_path, {"ring0": 1, "rx_discards_phy": 5})
    source = reader("ethtool", host)
    assert source.read().rows[0][2][NAMES.index("rx_discards")] == 5
    host.statistics[PORT] = {"ring0": 1, "ring1": 88, "rx_discards_phy": 6}
    assert source.read().rows[0][2][NAMES.index("rx_discards")] == 6


def test_a_value_that_no_counter_reaches_is_missing(tmp_path: Path) -> None:
    assert values(host_of(tmp_path, {"rx_discards_phy": 2**64 - 1}))["rx_discards"] is None


class Refusing(MovingHost):
    """Its kernel says no, for a while."""

    refuses = True

    def ethtool(self, interface: str, request: Any) -> None:
        if self.refuses:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        super().ethtool(interface, request)


def test_a_card_that_does_not_answer_is_asked_again_a_little_later(tmp_path: Path) -> None:
    host = Refusing(tmp_path)
    host.statistics = {PORT: {"rx_discards_phy": 7}}
    host.board.ports = (PORT,)
    source = reader("ethtool", host)
    with pytest.raises(Absent, match="eth0: Device or resource busy"):
        source.read()
    host.refuses = False
    for _ in range(ethtool.SELDOM):
        with pytest.raises(Absent):
            source.read()
    assert source.read().rows[0][2][NAMES.index("rx_discards")] == 7


class Hostile(MovingHost):
    """Its driver answers with any bytes."""

    answer = b""

    def ethtool(self, interface: str, request: Any) -> None:
        room = len(request) * request.itemsize
        struct.pack_into(f"={min(room, len(self.answer))}s", request, 0, self.answer[:room])


@given(
    answer=st.binary(max_size=4000)
    | st.builds(
        lambda count, rest: struct.pack("=IIQI", 0, count, 2, count) + rest,
        st.integers(0, 20000),
        st.binary(max_size=2000),
    )
)
@settings(max_examples=50, deadline=None)
def test_no_answer_raises_anything_but_absent(
    tmp_path_factory: pytest.TempPathFactory, answer: bytes
) -> None:
    host = Hostile(tmp_path_factory.getbasetemp())
    host.board.ports = (PORT,)
    host.answer = answer
    source = reader("ethtool", host)
    for _ in range(2):
        try:
            rows = source.read().rows
        except Absent:
            continue
        assert all(r.sane(v) for r, v in zip(ethtool.ROWS, rows[0][2], strict=True))


def test_statistics_stand_in_the_row_of_their_port(tmp_path: Path) -> None:
    node = Watched(MovingHost(tmp_path))
    card = Card(more={"rx_discards_phy": 3.0})
    found = []
    for second in (1, 2):
        node.host.move(Node(cards=(card,)))
        tables = node.frame(second * 1_000_000).tables
        found.append([row for table in tables for row in table if row.labels == ("eth0",)])
    assert [len(rows) for rows in found] == [1, 1]
    assert found[0][0].values != found[1][0].values


def test_below_a_root_of_its_own_no_kernel_is_asked(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not supported"):
        Host(str(tmp_path)).ethtool("lo", array("B", bytes(64)))


MAKE = """
set -e
mount -t sysfs sysfs /sys
ip link add one0 type veth peer name one1
ip link set one0 up
exec setpriv --reuid 65534 --clear-groups %s -c '
from gpuwatch.agent import host
from gpuwatch.agent.sources import ethtool
node = host.Host()
card = ethtool.Card(node, "one0", ethtool.array("Q", bytes(8 * (ethtool.ROOM + 1))))
print(card.read(0), card.reason, card._strings()[:1])
card.places = {"far end": [0]}
card._take()
print(card._held["far end"] == int(node.read("/sys/class/net/one0/iflink")))
print(ethtool.Card(node, "nobody0", card._values).read(0))
print(ethtool.Card(node, "n" * 20, card._values).read(0))
'
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a network namespace")
@needs("ip", "iproute2")
def test_a_real_kernel_answers_a_user_without_rights(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", MAKE % "/usr/bin/python3"],
        env={"PYTHONPATH": agent_for_all(), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "{} its driver counts none of these ['peer_ifindex']"
    assert done.stdout.splitlines()[1:] == ["True", "{}", "{}"]
