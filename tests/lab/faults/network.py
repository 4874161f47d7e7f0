"""Faults of the network: netem and token buckets in the kernels of nodes, or on the bridge.

netem needs guests (sch_netem is rarely built into small kernels of hosts); the rest runs on both.
Bite checks read the kernel's counters while the job's own traffic flows: start the job first.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.faults.look import LOOK_S, ToothlessError, named
from lab.node import INTERFACE, Node, Process, run

PRIO = f"""
set -e
tc qdisc replace dev {INTERFACE} root handle 1: prio bands 4
tc qdisc add dev {INTERFACE} parent 1:4 handle 40: netem $2
tc filter add dev {INTERFACE} parent 1: protocol ip u32 match ip dst $1/32 flowid 1:4
"""
"""The default map of prio sends nothing to the fourth band; the filter sends one address there."""


def _disturb(source: Node, spec: Sequence[str], target: Node | None) -> None:
    """Have netem on what a node sends, to one other node or to all."""
    if target is None:
        source.run(["tc", "qdisc", "replace", "dev", INTERFACE, "root", "netem", *spec])
    else:
        source.run(["sh", "-c", PRIO, "sh", target.address, " ".join(spec)])


def _calm(source: Node) -> None:
    source.run(["tc", "qdisc", "delete", "dev", INTERFACE, "root"])


def _segments(node: Node) -> tuple[int, int]:
    """Return TCP segments sent, and sent again, since boot."""
    names, values = [
        line.split()
        for line in node.run(["cat", "/proc/net/snmp"]).splitlines()
        if line.startswith("Tcp:")
    ]
    tcp = dict(zip(names, values, strict=True))
    return int(tcp["OutSegs"]), int(tcp["RetransSegs"])


def _held_back(said: str) -> tuple[int, int]:
    """Return bytes sent and times that packets had to wait or were dropped (tc -s -j qdisc)."""
    buckets = [qdisc for qdisc in json.loads(said) if qdisc["kind"] == "tbf"]
    if not buckets:
        raise ToothlessError("no token bucket there")
    return buckets[0]["bytes"], buckets[0]["overlimits"] + buckets[0]["drops"]


@dataclass(frozen=True)
class Loss:
    """Packets are lost on the way: from a node, to it, or between it and one other.

    Attributes:
        on: name of the node.
        percent: of the packets.
        way: `egress`, `ingress` (the others' packets to it), or the name of the other node.
    """

    on: str
    percent: float
    way: str = "egress"

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.percent:g} % of packets lost, {self.on} {self.way}"

    def _ways(self, nodes: Sequence[Node]) -> list[tuple[Node, Node | None]]:
        node = named(nodes, self.on)
        if self.way == "egress":
            return [(node, None)]
        if self.way == "ingress":
            return [(other, node) for other in nodes if other is not node]
        return [(node, named(nodes, self.way)), (named(nodes, self.way), node)]

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        for source, target in self._ways(nodes):
            _disturb(source, ("loss", f"{self.percent}%"), target)

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        for source, _ in self._ways(nodes):
            _calm(source)

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how many segments the senders had to send again.

        A busy network has a few of them anyway: one sender's share must come near the loss.
        """
        sources = [source for source, _ in self._ways(nodes)]
        before = [_segments(node) for node in sources]
        time.sleep(LOOK_S)
        parts, share = [], 0.0
        for node, (sent0, again0) in zip(sources, before, strict=True):
            sent1, again1 = _segments(node)
            share = max(share, (again1 - again0) / max(sent1 - sent0, 1))
            parts.append(f"{node.name} {again1 - again0} of {sent1 - sent0}")
        told = f"segments sent again in {LOOK_S:.0f} s: {', '.join(parts)}"
        if share < self.percent / 1000:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class Delay:
    """What a node sends comes later, evenly or not."""

    on: str
    ms: float
    jitter_ms: float = 0.0

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.ms:g} ms of delay, jitter {self.jitter_ms:g} ms, from {self.on}"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        spec = ("delay", f"{self.ms}ms", f"{self.jitter_ms}ms", "limit", "20000")
        _disturb(named(nodes, self.on), spec, None)

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        _calm(named(nodes, self.on))

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return round trips as ping measures them."""
        node = named(nodes, self.on)
        other = next(other for other in nodes if other is not node)
        said = node.run(["ping", "-q", "-c", "10", "-i", "0.2", other.address]).splitlines()[-1]
        average_ms = float(said.split("=")[1].split("/")[1])
        if average_ms < self.ms / 2:
            raise ToothlessError(said)
        return said


@dataclass(frozen=True)
class Rate:
    """A link is slow: what a node sends (`egress`), what is sent to it (`ingress`), or all links.

    Attributes:
        on: name of the node; "" is every node of the bridge, each way into a node slow.
        mbit: per second.
        way: ignored for every node.
    """

    on: str
    mbit: float
    way: str = "egress"

    @property
    def name(self) -> str:
        """What it is called."""
        return (
            f"{self.mbit:g} Mbit/s, {self.on or 'all links'} {self.way if self.on else ''}".strip()
        )

    def _chosen(self, nodes: Sequence[Node]) -> list[Node]:
        return [node for node in nodes if self.on in ("", node.name)]

    def _tc(self, node: Node, words: Sequence[str], *options: str) -> str:
        """Run tc on the node's interface, or on its port, where what is sent to it passes."""
        if self.on and self.way == "egress":
            return node.run(["tc", *options, "qdisc", *words[:1], "dev", INTERFACE, *words[1:]])
        place = ("dev", node.port)
        return run("tc", "-n", node.lab, *options, "qdisc", *words[:1], *place, *words[1:])

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        bucket = ("burst", "32kb", "limit", "200kb")
        for node in self._chosen(nodes):
            self._tc(node, ["replace", "root", "tbf", "rate", f"{self.mbit}mbit", *bucket])

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        for node in self._chosen(nodes):
            self._tc(node, ["delete", "root"])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return what went through and how often packets were held back."""
        chosen = self._chosen(nodes)
        before = [_held_back(self._tc(node, ["show"], "-s", "-j")) for node in chosen]
        time.sleep(LOOK_S)
        parts, held = [], 0
        for node, (sent0, held0) in zip(chosen, before, strict=True):
            sent1, held1 = _held_back(self._tc(node, ["show"], "-s", "-j"))
            held += held1 - held0
            mbit = (sent1 - sent0) * 8e-6 / LOOK_S
            parts.append(f"{node.name} {mbit:.1f} Mbit/s, held back {held1 - held0} times")
        told = "; ".join(parts)
        if not held:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class Flap:
    """A node's link goes down and comes back, again and again."""

    on: str
    down_s: float = 2.0
    up_s: float = 5.0
    _loops: list[Process] = field(default_factory=list, compare=False, repr=False)

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the link of {self.on} goes down for {self.down_s:g} s after each {self.up_s:g} s"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        down, up = (f"ip link set {INTERFACE} {state}" for state in ("down", "up"))
        loop = f"while :; do {down}; sleep {self.down_s}; {up}; sleep {self.up_s}; done"
        self._loops.append(named(nodes, self.on).start(["sh", "-c", loop], {}, "flap.log"))

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        for loop in self._loops:
            loop.kill()
        self._loops.clear()
        named(nodes, self.on).run(["ip", "link", "set", INTERFACE, "up"])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how often the link was seen down."""
        looks = int((self.down_s + self.up_s) / 0.25) + 1
        seen = 0
        for _ in range(looks):
            flags = named(nodes, self.on).run(["cat", f"/sys/class/net/{INTERFACE}/flags"])
            seen += not int(flags, 16) & 1
            time.sleep(0.25)
        told = f"down at {seen} of {looks} looks"
        if not 0 < seen < looks:
            raise ToothlessError(told)
        return told
