"""Fake nodes with network ports whose counters move, and what a viewer makes of them.

A scenario says second by second what each node's ports do. The files below each node's root are
rewritten accordingly, real sources read them, real frames carry what they read, the real decoder
and the real cluster take it: no clock is waited for.
"""

import errno
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuwatch.agent import catalogue, frame
from gpuwatch.agent.guard import Guard
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.sources import ethtool
from gpuwatch.feed.decode import Decoder, Frame
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Row, Sample, Tick
from gpuwatch.model.view import View, Window

SECOND = 1_000_000
SOURCES = ("nic", "rdma", "ethtool")
NDR = 400
"""Gb/s of one rail."""
FULL = 45_000.0
"""MB/s that such a rail carries in a collective."""
ONSET = 5
"""Second of a scenario in which its fault begins."""
QUIET = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    "port_xmit_wait",
)  # fmt: skip
HARDWARE = (
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "out_of_buffer",
    "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "roce_adp_retrans",
    "roce_slow_restart", "rx_icrc_encapsulated", "np_cnp_sent", "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
)  # fmt: skip
STATISTICS = (
    "rx_packets", "rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_prio0_pause", "rx_prio3_pause",
    "tx_prio0_pause", "tx_prio3_pause", "rx_prio3_pause_duration", "tx_prio3_pause_duration",
    "tx_pause_storm_warning_events", "rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer",
    "rx_symbol_err_phy", "link_down_events_phy",
)  # fmt: skip


@dataclass(frozen=True)
class Rail:
    """An RDMA port: `more` are counters of hw_counters or counters, growth a second by name."""

    adapter: str = "mlx5_0"
    rx_mb: float = FULL
    tx_mb: float = FULL
    rate: str = "400 Gb/sec (4X NDR)"
    state: str = "4: ACTIVE"
    layer: str = "InfiniBand"
    netdev: str | None = None
    hardware: bool = True
    virtual: bool = False
    more: Mapping[str, float] = field(default_factory=dict)

    def growth(self) -> dict[str, float]:
        """Return what each file below the port gains a second."""
        names = {f"counters/{name}": 0.0 for name in QUIET}
        if self.hardware:
            names |= {f"hw_counters/{name}": 0.0 for name in HARDWARE}
        for way, mb in (("rcv", self.rx_mb), ("xmit", self.tx_mb)):
            names[f"counters/port_{way}_data"] = mb * 1e6 / 4
            names[f"counters/port_{way}_packets"] = mb * 1e6 / 4096
        for name, gain in self.more.items():
            names[f"hw_counters/{name}" if name in HARDWARE else f"counters/{name}"] = gain
        return names


@dataclass(frozen=True)
class Card:
    """An Ethernet port: `more` are the driver's statistics, growth a second by name."""

    name: str = "eth0"
    rx_mb: float = 0.1
    tx_mb: float = 0.1
    speed: int = 10_000
    carrier: int = 1
    flaps: float = 0.0
    names: tuple[str, ...] = STATISTICS
    more: Mapping[str, float] = field(default_factory=dict)

    def growth(self) -> dict[str, float]:
        """Return what each file below the interface gains a second."""
        bytes_ = {"rx": self.rx_mb * 1e6, "tx": self.tx_mb * 1e6}
        found = {f"statistics/{way}_bytes": gain for way, gain in bytes_.items()}
        found |= {f"statistics/{way}_packets": gain / 1448 for way, gain in bytes_.items()}
        for name in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped"):
            found[f"statistics/{name}"] = 0.0
        return found | {"carrier_changes": self.flaps}


@dataclass(frozen=True)
class Node:
    """What a node's ports do now."""

    rails: tuple[Rail, ...] = ()
    cards: tuple[Card, ...] = (Card(),)


class MovingHost(Host):
    """A fake host whose files a scenario rewrites, with a driver's statistics beside them."""

    def __init__(self, root: Path, options: Options | None = None) -> None:
        super().__init__(str(root), options)
        self.path = root
        self.counters: dict[str, float] = {}
        self.statistics: dict[str, dict[str, int]] = {}
        self.asked: list[str] = []
        self._written: dict[str, str] = {}

    def move(self, node: Node, seconds: float = 1.0) -> None:
        """Let so much time pass for the node as it is now."""
        for card in node.cards:
            self._card(card, seconds)
        for rail in node.rails:
            self._rail(rail, seconds)

    def ethtool(self, interface: str, request: Any) -> None:
        """Answer as the kernel does (net/ethtool/ioctl.c)."""
        self.asked.append(interface)
        found = self.statistics.get(interface)
        if found is None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        (command,) = struct.unpack_from("=I", request, 0)
        if command == ethtool.GSSET_INFO:
            struct.pack_into("=QI", request, 8, 2, len(found))
        elif command == ethtool.GSTRINGS:
            text = b"".join(name.encode().ljust(ethtool.NAME, b"\0") for name in found)
            struct.pack_into(f"=I{len(text)}s", request, 8, len(found), text)
        else:
            struct.pack_into(f"=I{len(found)}Q", request, 4, len(found), *found.values())

    def write(self, path: str, text: str) -> None:
        """Write a file in place, if it is to say something new: who has it open sees that."""
        if self._written.get(path) == text:
            return
        if path not in self._written:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        self._written[path] = text
        (self.path / path).write_text(text + "\n")

    def _grow(self, path: str, gain: float) -> None:
        self.counters[path] = self.counters.get(path, 1000.0) + gain
        self.write(path, str(round(self.counters[path])))

    def _card(self, card: Card, seconds: float) -> None:
        base = f"sys/class/net/{card.name}/"
        if not (self.path / base).exists():
            (self.path / base / "device").mkdir(parents=True)
            self.write(base + "ifindex", "2")
            self.write(base + "mtu", "9000")
        self.write(base + "speed", str(card.speed))
        self.write(base + "carrier", str(card.carrier))
        for file, gain in card.growth().items():
            self._grow(base + file, gain * seconds)
        if card.names:
            found = self.statistics.setdefault(card.name, dict.fromkeys(card.names, 500))
            for name, gain in card.more.items():
                found[name] += round(gain * seconds)

    def _rail(self, rail: Rail, seconds: float) -> None:
        base = f"sys/class/infiniband/{rail.adapter}/ports/1/"
        for file, text in (("state", rail.state), ("rate", rail.rate), ("link_layer", rail.layer)):
            self.write(base + file, text)
        if rail.netdev:
            self.write(base + "gid_attrs/ndevs/0", rail.netdev)
        if rail.virtual:
            (self.path / f"sys/class/infiniband/{rail.adapter}/device/physfn").mkdir(
                parents=True, exist_ok=True
            )
        for file, gain in rail.growth().items():
            self._grow(base + file, gain * seconds)


class Watched:
    """One node: its host, its sources under their guards, its wire, and its decoder."""

    def __init__(self, host: MovingHost, sources: tuple[str, ...] = SOURCES) -> None:
        self.host = host
        self.bytes = 0
        self._guards = [Guard(name, host) for name in sources]
        all_rows = {name: Guard(name, host).rows for name in catalogue.SOURCES}
        self._offsets = frame.offsets_of(all_rows)
        self._widths = {scope: len(catalogue.VALUES[scope]) for scope in catalogue.SCOPES}
        self._names = frame.Names(catalogue.SCOPES)
        self._decoder = Decoder()
        self._sequence = 0
        self._decoder.feed(frame.pack(["hello", catalogue.SCHEMA, "a", "b", {}]))

    def frame(self, now_us: int) -> Frame:
        """Read, send and decode one frame."""
        readings = {guard.name: guard.read() for guard in self._guards}
        rows = frame.merge(readings, self._offsets, self._widths)
        missing = {k: v for guard in self._guards for k, v in guard.missing.items()}
        rows["absence"] = {subject: [] for subject in missing.items()}
        decoded = []
        if self._names.settle(rows):
            decoded += self._decoder.feed(frame.pack(self._names.message(catalogue.SCHEMA)))
        stamps = (now_us, now_us, 0, 0)
        message = frame.data(
            catalogue.SCHEMA, self._sequence, stamps, self._names, catalogue.SCOPES, rows
        )
        self._sequence += 1
        wire = frame.pack(message)
        self.bytes = len(wire)
        (sent,) = [*decoded, *self._decoder.feed(wire)]
        assert isinstance(sent, Frame)
        return sent


@dataclass(frozen=True)
class Scenario:
    """What happens to the nodes' ports.

    Attributes:
        nodes: what each node is in a second.
        fault: what it is, in the words of the verdict; None where there is none.
        culprit: node, and port or path; None where there is none.
    """

    nodes: Callable[[int], Mapping[str, Node]]
    fault: str | None = None
    culprit: tuple[str, str] | None = None


class Play:
    """Nodes of a scenario, a second at a time, in a cluster.

    Args:
        scenario: that is played.
        root: folder for the nodes' files.
    """

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario = scenario
        self.second = 0
        names = list(scenario.nodes(0))
        self.watched = {name: Watched(MovingHost(root / name)) for name in names}
        self.cluster = Cluster(names, 1.0)

    def tables(self) -> dict[str, tuple[tuple[Row, ...], ...]]:
        """Let a second pass; return what was decoded of each node, by scope in their order."""
        self.second += 1
        found = {}
        for name, node in self.scenario.nodes(self.second).items():
            self.watched[name].host.move(node)
            found[name] = self.watched[name].frame(self.second * SECOND).tables
        return found

    def run(self, seconds: int) -> View:
        """Let seconds pass; return the job as the judge sees it then."""
        for _ in range(seconds):
            for name, tables in self.tables().items():
                self.cluster.apply(self._sample(name, tables))
        now_us = self.second * SECOND
        return self.cluster.view(Tick(event_no=self.second, arrived_us=now_us, wall_us=now_us))

    def _sample(self, name: str, tables: tuple[tuple[Row, ...], ...]) -> Sample:
        now_us = self.second * SECOND
        return Sample(
            event_no=self.second, arrived_us=now_us, wall_us=now_us, node=name, boot_id="b",
            agent_id="a", sequence=self.second, generation=1, node_mono_us=now_us,
            node_wall_us=now_us, offset_us=0, offset_error_us=0, tables=tables,
        )  # fmt: skip


def rate(window: Window, scope: str, port: str, metric: str) -> float | None:
    """Return a rate of the port of this name."""
    labels = next(labels for labels in window.entities(scope) if labels[0] == port)
    return window.rate(scope, labels, metric)


# --- scenarios

RAILS = tuple(Rail(f"mlx5_{i}") for i in range(8))
ROCE = Rail("mlx5_0", layer="Ethernet", netdev="eth1", rx_mb=20_000, tx_mb=20_000)
WIRE = Card("eth1", speed=NDR * 1000)
NAMES = ("n1", "n2", "n3", "n4")


def _with(rail: Rail, **more: float) -> Rail:
    return replace(rail, more=more)


def _faulty(good: Node, bad: Mapping[str, Node]) -> Callable[[int], Mapping[str, Node]]:
    """Let all nodes be good, and from the onset on some as they are given."""

    def nodes(second: int) -> Mapping[str, Node]:
        return {n: bad.get(n, good) if second >= ONSET else good for n in NAMES}

    return nodes


def _flap(second: int) -> Mapping[str, Node]:
    good = Node(RAILS)
    down = replace(RAILS[5], state="1: DOWN", rx_mb=0, tx_mb=0)
    falls = replace(down, more={"link_downed": 1.0})
    rail = {ONSET: falls, ONSET + 1: down, ONSET + 2: down}.get(second, RAILS[5])
    return {n: Node((*RAILS[:5], rail, *RAILS[6:])) if n == "n2" else good for n in NAMES}


def _fallback(_: int) -> Mapping[str, Node]:
    silent = tuple(replace(rail, rx_mb=0.001, tx_mb=0.001) for rail in RAILS)
    return {n: Node(silent, (Card(rx_mb=1100, tx_mb=1100),)) for n in NAMES}


def _rail_of_n2(rail: Rail) -> Callable[[int], Mapping[str, Node]]:
    return _faulty(Node(RAILS), {"n2": Node((*RAILS[:3], rail, *RAILS[4:]))})


_SENDS_TO_N3 = Node(
    (replace(ROCE, rx_mb=6000, tx_mb=6000),),
    (replace(WIRE, more={"rx_prio3_pause": 7000, "rx_prio3_pause_duration": 300_000}),),
)
_CANNOT_ABSORB = Node(
    (replace(ROCE, rx_mb=6000, tx_mb=6000),),
    (
        replace(
            WIRE,
            more={
                "tx_prio3_pause": 21_000,
                "tx_prio3_pause_duration": 800_000,
                "rx_discards_phy": 50,
            },
        ),
    ),
)
_SLOWED = {"rp_cnp_handled": 500.0}
_MARKED = {"np_ecn_marked_roce_packets": 900.0, "np_cnp_sent": 500.0}

SCENARIOS: Mapping[str, Scenario] = {
    "receiver-cannot-absorb": Scenario(
        _faulty(
            Node((ROCE,), (WIRE,)),
            {"n1": _SENDS_TO_N3, "n2": _SENDS_TO_N3, "n3": _CANNOT_ABSORB, "n4": _SENDS_TO_N3},
        ),
        "congestion",
        ("n3", "mlx5_0/1"),
    ),
    "loss": Scenario(
        _rail_of_n2(
            replace(
                _with(RAILS[3], packet_seq_err=40, local_ack_timeout_err=0.5),
                rx_mb=9000,
                tx_mb=9000,
            )
        ),
        "loss",
        ("n2", "mlx5_3/1"),
    ),
    "neighbour-congests": Scenario(
        _faulty(
            Node((ROCE,), (WIRE,)),
            {n: Node((_with(ROCE, **_SLOWED, **_MARKED),), (WIRE,)) for n in NAMES},
        )
    ),
    "adaptive-routing": Scenario(
        _faulty(
            Node(RAILS),
            {n: Node(tuple(_with(r, out_of_sequence=2000) for r in RAILS)) for n in NAMES},
        )
    ),
    "slow-rail": Scenario(
        _rail_of_n2(replace(RAILS[3], rate="100 Gb/sec (1X NDR)", rx_mb=11_500, tx_mb=11_500)),
        "link",
        ("n2", "mlx5_3/1"),
    ),
    "symbol-errors": Scenario(
        _rail_of_n2(replace(_with(RAILS[3], symbol_error=300), rx_mb=30_000, tx_mb=30_000)),
        "link",
        ("n2", "mlx5_3/1"),
    ),
    "link-flap": Scenario(_flap, "link", ("n2", "mlx5_5/1")),
    "fallback": Scenario(_fallback, "fallback"),
    "virtual-function": Scenario(
        lambda _: {
            n: Node((Rail("mlx5_2", hardware=False, virtual=True, rx_mb=500, tx_mb=500),))
            for n in NAMES
        }
    ),
}
"""By name. A verdict on the virtual functions must say that it does not know."""
