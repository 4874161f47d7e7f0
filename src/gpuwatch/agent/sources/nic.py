"""Network ports, each physical port once, from /sys/class/net (sysfs-class-net)."""

import os
from fnmatch import fnmatchcase
from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent import nccl
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import (
    COUNTER,
    GAUGE,
    LABEL,
    Absent,
    Labels,
    Metric,
    Reading,
    Values,
    declared,
    fill,
)
from gpuwatch.agent.ports import NET, Port, ports

SEEK_EVERY = 10
"""Readings between two looks for ports that came or went."""
SLOW = ("speed", "mtu")
"""Asked seldom: speed takes the kernel's network lock and may ask the card's firmware."""
SLOW_EVERY = 30
UNKNOWN_SPEED = (b"-1", b"0", b"65535", b"4294967295")
"""SPEED_UNKNOWN as drivers of several widths write it (linux/ethtool.h)."""
NO_SPEED = "the kernel does not know it"
NO_DEVICE = "no device behind it, so its speed is made up"
LINE = ("speed_mbps", 8 * 125000.0)
"""Bytes a second that no port carries: a virtual machine's card may do several times what it claims,
and some drivers bring their counters up to date once in a while."""

ROWS = (
    Metric("nic", "nic", LABEL, "str", "", "name", "Interface."),
    Metric("rx_bytes", "nic", COUNTER, "int", "B", "statistics/rx_bytes", "Bytes received.", ceiling=LINE),
    Metric("tx_bytes", "nic", COUNTER, "int", "B", "statistics/tx_bytes", "Bytes sent.", ceiling=LINE),
    Metric("rx_packets", "nic", COUNTER, "int", "1", "statistics/rx_packets", "Packets received."),
    Metric("tx_packets", "nic", COUNTER, "int", "1", "statistics/tx_packets", "Packets sent."),
    Metric("rx_errors", "nic", COUNTER, "int", "1", "statistics/rx_errors", "Bad packets received."),
    Metric("tx_errors", "nic", COUNTER, "int", "1", "statistics/tx_errors", "Packets that failed to go out."),
    Metric("rx_dropped", "nic", COUNTER, "int", "1", "statistics/rx_dropped", "Packets received and dropped by this host."),
    Metric("tx_dropped", "nic", COUNTER, "int", "1", "statistics/tx_dropped", "Packets dropped before they went out."),
    Metric("carrier_changes", "nic", COUNTER, "int", "1", "carrier_changes", "Times that the link went up or down."),
    Metric("carrier", "nic", GAUGE, "int", "1", "carrier", "1 while the link is up.", high=1),
    Metric("speed_mbps", "nic", GAUGE, "int", "Mb/s", "speed", "Negotiated speed; missing where unknown.", low=1, high=10000000),
    Metric("mtu_bytes", "nic", GAUGE, "int", "B", "mtu", "Largest packet.", high=10000000),
    Metric("nccl", "nic", GAUGE, "int", "1", "NCCL_SOCKET_IFNAME", "1 where a rank names this port for NCCL's sockets, 0 where all name others; null where NCCL chooses, or no environment can be read.", high=1),
)  # fmt: skip


class Reader(object):
    """Reads the files of /sys/class/net/PORT that the rows name."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "nic")
        self._files: Dict[str, Files] = {}
        self._count = 0

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when no port counts.
        """
        if self._count % SEEK_EVERY == 0:
            self._seek()
        self._count += 1
        rows: List[Tuple[str, Labels, Values]] = []
        reasons: Dict[str, Dict[str, List[str]]] = {}
        for name, files in self._files.items():
            found = files.read()
            found["NCCL_SOCKET_IFNAME"] = files.nccl
            rows.append(("nic", (name,), fill(self._rows, found)))
            for row in self._rows:
                if row.locator in files.reasons:
                    by_reason = reasons.setdefault("nic." + row.name, {})
                    by_reason.setdefault(files.reasons[row.locator], []).append(name)
        if not rows:
            self._count = 0
            raise Absent(self._why_none())
        return Reading(rows, {subject: _told(why) for subject, why in reasons.items()})

    def _seek(self) -> None:
        found = {port.name: port for port in ports(self._host, self._host.options.interfaces)}
        kept = {n: f for n, f in self._files.items() if n in found and f.port == found[n]}
        self._host.board.ports = tuple(found)
        locators = [row.locator for row in self._rows if row.name != "nccl"]
        self._files = {
            name: kept.get(name) or Files(self._host, port, locators)
            for name, port in found.items()
        }
        for name, files in self._files.items():
            files.nccl = nccl.uses_interface(self._host.board.nccl, name)

    def _why_none(self) -> str:
        wanted = self._host.options.interfaces
        return "no interface matches " + ", ".join(wanted) if wanted else "no network port"


class Files(object):
    """The files of one port, each read on its own: one that fails takes no other along.

    Attributes:
        port: whose they are.
        nccl: whether the job's ranks name it.
        reasons: locator to the reason why it could not be read.
    """

    def __init__(self, host: Host, port: Port, locators: List[str]) -> None:
        self.port = port
        self.nccl: Optional[int] = None
        self.reasons: Dict[str, str] = {}
        base = NET + port.name + "/"
        self._fast = {key: host.keep(base + key, 4096) for key in locators if key not in SLOW}
        self._slow = {key: base + key for key in locators if key in SLOW}
        self._host = host
        self._rate = _line_rate(host, port.name)
        self._seldom: Dict[str, Any] = {}
        self._changes: Optional[bytes] = None
        self._count = 0

    def read(self) -> Dict[str, Any]:
        """Return the raw reading of each locator, None where there is none."""
        found: Dict[str, Any] = {}
        for key, kept in self._fast.items():
            try:
                found[key] = kept.read().strip()
                self.reasons.pop(key, None)
            except OSError as error:
                self._fail(found, key, error)
        changes = found.get("carrier_changes")
        if self._count % SLOW_EVERY == 0 or changes != self._changes:
            self._read_slow()
        self._changes = changes
        self._count += 1
        found.update(self._seldom)
        return found

    def _read_slow(self) -> None:
        for key, path in self._slow.items():
            try:
                self._seldom[key] = self._host.read(path, 4096).strip()
                self.reasons.pop(key, None)
            except OSError as error:
                self._fail(self._seldom, key, error)
        if "speed" in self._slow:
            self._judge_speed()

    def _judge_speed(self) -> None:
        if self._rate is not None:
            self._seldom["speed"] = self._rate
            self.reasons.pop("speed", None)
        elif not self.port.device or self._seldom["speed"] in UNKNOWN_SPEED + (None,):
            self._seldom["speed"] = None
            self.reasons["speed"] = NO_SPEED if self.port.device else NO_DEVICE

    def _fail(self, found: Dict[str, Any], key: str, error: OSError) -> None:
        found[key] = None
        self.reasons[key] = os.strerror(error.errno or 0)


def _line_rate(host: Host, name: str) -> Optional[float]:
    for glob, mbps in host.options.line_rate:
        if name == glob or fnmatchcase(name, glob):
            return mbps
    return None


def _told(why: Dict[str, List[str]]) -> str:
    return "; ".join("%s: %s" % (", ".join(names), reason) for reason, names in why.items())
