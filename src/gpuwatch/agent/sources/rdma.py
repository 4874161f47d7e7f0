"""RDMA ports (InfiniBand, RoCE, EFA), from /sys/class/infiniband (sysfs-class-infiniband).

What a port counts is found by name in `counters`, `counters_ext` and `hw_counters` of the port; a
driver's own names stand in the locators. A reading may cost a firmware command: traffic, state and
what stops it are read at each tick, the rest in turns, port by port; in between it is missing, as a
counter's growth covers such gaps.
"""

import errno
import os
from fnmatch import fnmatchcase
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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
from gpuwatch.agent.pick import pick, told

ADAPTERS = "/sys/class/infiniband/"
FOLDERS = ("counters", "counters_ext", "hw_counters")
MAX_PORTS = 32
SEEK_EVERY = 10
"""Readings between two looks for ports that came or went."""
TURN = 3
"""Ticks between two readings of what is not read at each tick."""
RATE_EVERY = 10
"""Ticks between two readings of the rate, which also asks the firmware."""
RETRAINED = ("state", "link_downed", "link_error_recovery")
"""Files after whose change the rate may be another."""
WORDS = ("port_rcv_data", "port_xmit_data", "port_rcv_data_64", "port_xmit_data_64")
"""Counted in units of four octets (InfiniBand Architecture, PortCounters)."""
BITS = {
    "symbol_error": 16, "link_error_recovery": 8, "link_downed": 8, "port_rcv_errors": 16,
    "port_xmit_discards": 16, "local_link_integrity_errors": 4, "VL15_dropped": 16,
    "excessive_buffer_overrun_errors": 4, "port_xmit_wait": 32, "port_rcv_data": 32,
    "port_xmit_data": 32, "port_rcv_packets": 32, "port_xmit_packets": 32,
}  # fmt: skip
"""Width of counters that stay at their largest value instead of beginning anew."""
GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR)
FAST = frozenset(
    ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "xmit_wait_ticks", "packet_seq_err",
     "local_ack_timeout_err")
)  # fmt: skip
LINE = ("rate_mbps", 2 * 125000.0)
"""Bytes a second that no port carries: twice the link's, as some drivers bring their counters up to
date once a second by themselves."""

ROWS = (
    Metric("port", "rdma", LABEL, "str", "", "name", "Adapter and port: `mlx5_0/1`."),
    Metric("netdev", "rdma", LABEL, "str", "", "gid_attrs/ndevs/0", "Interface of a RoCE port; null for the others."),
    Metric("link_layer", "rdma", LABEL, "str", "", "link_layer", "`InfiniBand`, `Ethernet` or what the driver says."),
    Metric("rx_bytes", "rdma", COUNTER, "int", "B", "port_rcv_data_64 | port_rcv_data | rx_bytes | ip4InOctets + ip6InOctets", "Bytes received by RDMA.", ceiling=LINE),
    Metric("tx_bytes", "rdma", COUNTER, "int", "B", "port_xmit_data_64 | port_xmit_data | tx_bytes | ip4OutOctets + ip6OutOctets", "Bytes sent by RDMA.", ceiling=LINE),
    Metric("rx_packets", "rdma", COUNTER, "int", "1", "port_rcv_packets_64 | port_rcv_packets | rx_pkts | rx_pkt | rcvd_pkts | ip4InPkts + ip6InPkts", "Packets received by RDMA."),
    Metric("tx_packets", "rdma", COUNTER, "int", "1", "port_xmit_packets_64 | port_xmit_packets | tx_pkts | tx_pkt | sent_pkts | ip4OutPkts + ip6OutPkts", "Packets sent by RDMA."),
    Metric("xmit_wait_ticks", "rdma", COUNTER, "int", "1", "port_xmit_wait", "Ticks in which the port had data and could not send (no credits); a tick's length is the adapter's: compare with other ports."),
    Metric("symbol_errors", "rdma", COUNTER, "int", "1", "symbol_error", "Bad symbols on the link."),
    Metric("link_downed", "rdma", COUNTER, "int", "1", "link_downed", "Times that the link failed to recover and went down."),
    Metric("link_recoveries", "rdma", COUNTER, "int", "1", "link_error_recovery", "Times that the link recovered from an error."),
    Metric("local_link_integrity", "rdma", COUNTER, "int", "1", "local_link_integrity_errors", "Times that too many bad packets came at once."),
    Metric("buffer_overrun", "rdma", COUNTER, "int", "1", "excessive_buffer_overrun_errors", "Times that the receive buffers overran for long."),
    Metric("receive_errors", "rdma", COUNTER, "int", "1", "port_rcv_errors | rx_roce_errors | rx_roce_error_pkts", "Packets received with an error."),
    Metric("xmit_discards", "rdma", COUNTER, "int", "1", "port_xmit_discards | tx_roce_discards | tx_roce_discards_pkts | tx_drops", "Packets discarded before they went out: port down or congested."),
    Metric("vl15_dropped", "rdma", COUNTER, "int", "1", "VL15_dropped", "Management packets dropped for lack of buffers."),
    Metric("packet_seq_err", "rdma", COUNTER, "int", "1", "packet_seq_err | seq_err_naks_rcvd | rcvd_seq_err | requester_oos_nak | req_rx_pkt_seq_err", "The far end told of a gap in what this port sent: packets were lost."),
    Metric("local_ack_timeout_err", "rdma", COUNTER, "int", "1", "local_ack_timeout_err | to_retransmits | retrans_timeout_events | requester_timeout | tx_rdma_ack_timeout", "No acknowledgement in time: sent again after a pause."),
    Metric("out_of_sequence", "rdma", COUNTER, "int", "1", "out_of_sequence | out_of_seq_request | res_oos_drop_count | oos_drop_count | responder_oos | resp_rx_outouf_seq", "Packets received out of order: loss, or adaptive routing."),
    Metric("rnr_nak_retry_err", "rdma", COUNTER, "int", "1", "rnr_nak_retry_err | rnr_naks_rcvd | rcvd_rnr_err | requester_rnr_nak", "The far end was not ready to receive."),
    Metric("out_of_buffer", "rdma", COUNTER, "int", "1", "out_of_buffer | res_oob_drop_count", "Packets dropped as the program here had posted no buffer."),
    Metric("implied_nak_seq_err", "rdma", COUNTER, "int", "1", "implied_nak_seq_err | requester_implicit_nak", "An acknowledgement skipped some that were due: a read's answer was lost."),
    Metric("duplicate_request", "rdma", COUNTER, "int", "1", "duplicate_request | dup_req | dup_reqs | responder_dup_request", "Requests received again."),
    Metric("rx_icrc_errors", "rdma", COUNTER, "int", "1", "rx_icrc_encapsulated", "RoCE packets received with a bad checksum."),
    Metric("cnp_sent", "rdma", COUNTER, "int", "1", "np_cnp_sent | cnpSent | tx_cnp_pkts | cnp_tx_pkts | tx_rdma_cnp_pkts", "Congestion notifications sent: this port is the receiver of a congested path."),
    Metric("cnp_handled", "rdma", COUNTER, "int", "1", "rp_cnp_handled | cnpHandled | rx_cnp_pkts | cnp_rx_pkts | rx_rdma_cnp_pkts", "Congestion notifications obeyed: this port was told to send slower."),
    Metric("ecn_marked", "rdma", COUNTER, "int", "1", "np_ecn_marked_roce_packets | RxECNMrkd | rx_ecn_marked_pkts | rx_rdma_ecn_pkts", "Packets received that a switch marked as congested."),
    Metric("adaptive_retrans", "rdma", COUNTER, "int", "1", "roce_adp_retrans", "Retransmissions by RoCE's adaptive timer."),
    Metric("slow_restarts", "rdma", COUNTER, "int", "1", "roce_slow_restart", "Times that RoCE began slowly again."),
    Metric("retrans_packets", "rdma", COUNTER, "int", "1", "retrans_pkts | tcpRetransSegs | RetransSegs | tx_rdma_retx_pkts", "Packets sent again, where the adapter counts them (EFA, irdma)."),
    Metric("rx_drops", "rdma", COUNTER, "int", "1", "rx_drops | rx_roce_discards | rx_roce_discard_pkts | ip4InDiscards + ip6InDiscards", "Packets received and dropped, where the adapter counts them."),
    Metric("rdma_read_bytes", "rdma", COUNTER, "int", "B", "rdma_read_bytes", "Bytes read from the far end's memory (EFA); part of rx_bytes."),
    Metric("state", "rdma", GAUGE, "int", "1", "state", "1 down, 2 initialising, 3 armed, 4 active, 5 active but failing.", high=5),
    Metric("rate_mbps", "rdma", GAUGE, "int", "Mb/s", "rate", "Rate of the link as negotiated: width times speed.", low=1, high=10000000),
    Metric("nccl", "rdma", GAUGE, "int", "1", "NCCL_IB_HCA", "1 where a rank names this port for NCCL, 0 where all name others; null where NCCL chooses, or no environment can be read.", high=1),
)  # fmt: skip


class Place(NamedTuple):
    """A port and what it is.

    Attributes:
        adapter: its name.
        number: of the port.
        netdev: interface of a RoCE port.
        link_layer: as the kernel names it.
        virtual: it is a virtual function.
    """

    adapter: str
    number: str
    netdev: Optional[str]
    link_layer: Optional[str]
    virtual: bool

    @property
    def name(self) -> str:
        """The port's label."""
        return self.adapter + "/" + self.number


class Reader(object):
    """Reads what the rows name, of each port."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "rdma")
        self._ports: Dict[Place, Port] = {}
        self._tick = 0
        self._capped = 0

    def read(self) -> Reading:
        """Read all ports once.

        Raises:
            Absent: when there is no RDMA port, or none that counts.
        """
        if self._tick % SEEK_EVERY == 0:
            self._seek()
        rows: List[Tuple[str, Labels, Values]] = []
        reasons: Dict[Tuple[str, str], List[str]] = {}
        for turn, (place, port) in enumerate(self._ports.items()):
            found = port.read(self._tick + turn)
            if found is None:
                continue
            found["NCCL_IB_HCA"] = port.nccl
            rows.append(
                ("rdma", (place.name, place.netdev, place.link_layer), fill(self._rows, found))
            )
            for name, reason in port.reasons.items():
                reasons.setdefault((name, reason), []).append(place.name)
        self._tick = self._tick + 1 if len(rows) == len(self._ports) else 0
        if not rows:
            self._tick = 0
            raise Absent(self._why_none())
        return Reading(rows, self._missing(reasons, len(rows)))

    def _seek(self) -> None:
        places = places_of(self._host, self._host.options.interfaces)
        self._capped = max(0, len(places) - MAX_PORTS)
        self._ports = {
            place: self._ports.get(place) or Port(self._host, place, self._rows)
            for place in places[:MAX_PORTS]
        }
        environs = self._host.board.nccl
        for place, port in self._ports.items():
            port.nccl = nccl.uses_adapter(environs, place.adapter, place.number)

    def _missing(self, reasons: Dict[Tuple[str, str], List[str]], total: int) -> Dict[str, str]:
        missing: Dict[str, str] = {}
        for (name, reason), ports in reasons.items():
            text = told(ports, total) + ": " + reason
            subject = "rdma." + name
            missing[subject] = missing[subject] + "; " + text if subject in missing else text
        if self._capped:
            missing["rdma.ports"] = "%d ports beyond %d are not read" % (self._capped, MAX_PORTS)
        return missing

    def _why_none(self) -> str:
        wanted = self._host.options.interfaces
        if wanted and places_of(self._host):
            return "no RDMA port matches " + ", ".join(wanted)
        return "no RDMA port"


class Counter(object):
    """One row's files in one port.

    Args:
        row: that is read.
        paths: of the files that make it up.
    """

    def __init__(self, row: Metric, paths: Sequence[str]) -> None:
        self.row = row
        self.parts: List[Tuple[str, int, int]] = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            bits = BITS.get(name, 0) if folder.endswith("/counters") else 0
            self.parts.append((path, 4 if name in WORDS else 1, (1 << bits) - 1 if bits else -1))

    def value(self, texts: Sequence[bytes]) -> int:
        """Add up what the files say.

        Raises:
            Unread: when one of them says nothing.
        """
        total = 0
        for text, (_, factor, full) in zip(texts, self.parts):
            number = whole_number(text)
            if number is None:
                raise Unread("not a number")
            if number == full:
                raise Unread("full at %d until it is reset" % number)
            total += number * factor
        return total


class Unread(Exception):
    """A counter tells nothing now, and why."""


class Port(object):
    """The files of one port.

    Attributes:
        nccl: whether the job's ranks name it.
        reasons: row to the reason why it could not be read.
    """

    def __init__(self, host: Host, place: Place, rows: Sequence[Metric]) -> None:
        self.nccl: Optional[int] = None
        self.reasons: Dict[str, str] = {}
        self._host = host
        self._base = "%s%s/ports/%s/" % (ADAPTERS, place.adapter, place.number)
        self._place = place
        self._fast: List[Tuple[Counter, List[Any]]] = []
        self._slow: List[Counter] = []
        self._link: Dict[str, Any] = {}
        self._rate: Optional[int] = None
        self._fresh = True
        self._hold(Counter(_row("state"), [self._base + "state"]))
        self._find(rows)

    def _hold(self, counter: Counter) -> None:
        kept = [self._host.keep(path, 64) for path, _, _ in counter.parts]
        self._fast.append((counter, kept))

    def _find(self, rows: Sequence[Metric]) -> None:
        """Find the files of each counter, and say why there are none."""
        paths: Dict[str, str] = {}
        for folder in FOLDERS:
            for name in _listed(self._host, self._base + folder):
                paths.setdefault(name, self._base + folder + "/" + name)
        if any("/hw_counters/" in path for path in paths.values()):
            why = "its driver does not count it"
        else:
            why = "no hw_counters" + (": a virtual function" if self._place.virtual else "")
        for row in rows:
            if row.kind != COUNTER:
                continue
            counter = Counter(row, [paths[name] for name in pick(row.locator, paths)])
            if not counter.parts:
                self.reasons[row.name] = why
            elif row.name in FAST:
                self._hold(counter)
            else:
                self._slow.append(counter)

    def read(self, turn: int) -> Optional[Dict[str, Any]]:
        """Return the raw reading of each locator; None when the port is gone.

        Args:
            turn: number of the tick, another for each port: so their turns fall on different ticks.
        """
        found: Dict[str, Any] = {}
        for counter, kept in self._fast:
            try:
                found[counter.row.locator] = self._value(counter, [file.read() for file in kept])
            except OSError as error:
                if counter.row.name == "state" and error.errno in GONE:
                    return None
                self._fail(counter.row, os.strerror(error.errno or 0))
        if self._fresh or turn % TURN == 0:
            self._read_slow(found)
        link = dict(self._link, **{name: found[name] for name in RETRAINED if name in found})
        if self._fresh or turn % RATE_EVERY == 0 or link != self._link:
            self._read_rate()
        self._link = link
        self._fresh = False
        found["rate"] = self._rate
        return found

    def _read_slow(self, found: Dict[str, Any]) -> None:
        for counter in self._slow:
            try:
                texts = [self._host.read(path, 64) for path, _, _ in counter.parts]
                found[counter.row.locator] = self._value(counter, texts)
            except OSError as error:
                self._fail(counter.row, os.strerror(error.errno or 0))

    def _read_rate(self) -> None:
        row = _row("rate_mbps")
        self._rate = None
        try:
            self._rate = rate_mbps(self._host.read(self._base + "rate", 256))
            self.reasons.pop(row.name, None)
        except OSError as error:
            self._fail(row, os.strerror(error.errno or 0))

    def _value(self, counter: Counter, texts: Sequence[bytes]) -> Optional[int]:
        try:
            value = counter.value(texts)
        except Unread as why:
            self._fail(counter.row, str(why))
            return None
        self.reasons.pop(counter.row.name, None)
        return value

    def _fail(self, row: Metric, reason: str) -> None:
        self.reasons[row.name] = reason


def places_of(host: Host, wanted: Sequence[str] = ()) -> List[Place]:
    """Return the RDMA ports, physical ones first, else in the order of their names.

    Args:
        host: whose.
        wanted: names and globs of adapters, ports or interfaces to which they are restricted.
    """
    found: List[Place] = []
    for adapter in sorted(_listed(host, ADAPTERS)):
        virtual = host.exists(ADAPTERS + adapter + "/device/physfn")
        for number in sorted(_listed(host, ADAPTERS + adapter + "/ports")):
            base = "%s%s/ports/%s/" % (ADAPTERS, adapter, number)
            layer = _word(host, base + "link_layer")
            netdev = _netdev(host, adapter, number) if layer == "Ethernet" else None
            found.append(Place(adapter, number, netdev, layer, virtual))
    if wanted:
        found = [place for place in found if _wanted(place, wanted)]
    return sorted(found, key=lambda place: place.virtual)


def whole_number(text: bytes) -> Optional[int]:
    """Return the number that a line begins with: `4: ACTIVE` is 4; None where there is none."""
    word = text.partition(b":")[0].strip()
    return int(word) if word.isdigit() and len(word) <= 20 else None


def rate_mbps(text: bytes) -> Optional[int]:
    """Return Mb/s of `400 Gb/sec (4X NDR)`; None where it says something else."""
    number, _, rest = text.strip().partition(b" ")
    if not rest.startswith(b"Gb/sec") or len(number) > 12:
        return None
    try:
        return int(float(number) * 1000)
    except (ValueError, OverflowError):
        return None


def _row(name: str) -> Metric:
    return next(row for row in ROWS if row.name == name)


def _wanted(place: Place, globs: Sequence[str]) -> bool:
    names = (place.adapter, place.name, place.netdev or "")
    return any(fnmatchcase(name, glob) for name in names if name for glob in globs)


def _netdev(host: Host, adapter: str, number: str) -> Optional[str]:
    """Return a RoCE port's interface: of its first address, else the only one of the device."""
    base = "%s%s/" % (ADAPTERS, adapter)
    name = _word(host, "%sports/%s/gid_attrs/ndevs/0" % (base, number))
    if name is None:
        names = _listed(host, base + "device/net")
        name = names[0] if len(names) == 1 else None
    return name


def _word(host: Host, path: str) -> Optional[str]:
    try:
        return host.read(path, 256).strip().decode("utf-8", "replace") or None
    except OSError:
        return None


def _listed(host: Host, path: str) -> List[str]:
    try:
        return host.listdir(path)
    except OSError:
        return []
