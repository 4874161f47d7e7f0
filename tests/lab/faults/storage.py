"""Faults of what data come from and go to: a guest's disk, the store's disk, the object store."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from lab.faults.look import LOOK_S, ToothlessError, named
from lab.node import LOCAL, PYTHON, SHARED, Node
from lab.objects import LATENCY
from lab.store import PORT, STORE

TABLE = """
set -e
dmsetup suspend --noudevsync disk
dmsetup reload --noudevsync disk --table "0 $(cat /sys/block/ubda/size) $1"
dmsetup resume --noudevsync disk
"""
"""Gives the disk another mapping below its mounted file system; init.sh made the first."""
READS = 8
FILL = f"""
fallocate -l "$(df --output=avail -B1 {LOCAL} | tail -1)" {LOCAL}/full
cat /dev/zero >>{LOCAL}/full
true
"""
"""Reserves what it can at once, and writes the rest until nothing more fits."""
GET = """
import sys, time, urllib.request
began = time.monotonic()
for _ in range(3):
    urllib.request.urlopen(sys.argv[1]).read()
print((time.monotonic() - began) / 3)
"""


@dataclass(frozen=True)
class SlowDisk:
    """Every read and write of a guest's local disk takes longer (dm-delay)."""

    on: str
    ms: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the disk of {self.on} takes {self.ms} ms longer"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        node = named(nodes, self.on)
        node.run(["/run/modprobe", "dm-delay"])
        node.run(["sh", "-c", TABLE, "sh", f"delay /dev/ubda 0 {self.ms}"])

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        named(nodes, self.on).run(["sh", "-c", TABLE, "sh", "linear /dev/ubda 0"])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how long direct reads take."""
        read = f"dd if=/dev/mapper/disk of=/dev/null bs=4k count={READS} iflag=direct 2>&1"
        said = named(nodes, self.on).run(["sh", "-c", read]).splitlines()[-1]
        each_ms = float(said.split(",")[-2].split()[0]) * 1000 / READS
        told = f"a direct read takes {each_ms:.1f} ms"
        if each_ms < self.ms / 2:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class SlowNfs(SlowDisk):
    """The disk of the NFS server takes longer."""

    on: str = STORE
    ms: int = 40

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the disk of the NFS server takes {self.ms} ms longer"

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how long the clients' reads took."""
        clients = [node for node in nodes if node.name != self.on]
        before = [_nfs_reads(node) for node in clients]
        time.sleep(LOOK_S)
        parts, slow = [], False
        for node, (count0, ms0) in zip(clients, before, strict=True):
            count1, ms1 = _nfs_reads(node)
            each_ms = (ms1 - ms0) / max(count1 - count0, 1)
            slow = slow or each_ms >= self.ms / 2
            parts.append(f"{node.name} {count1 - count0} reads of {each_ms:.1f} ms")
        told = ", ".join(parts)
        if not slow:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class SlowObjects:
    """Each answer of the object store comes later."""

    ms: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the object store answers {self.ms} ms later"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        named(nodes, STORE).run(["sh", "-c", f"echo {self.ms / 1000} >{LATENCY}"])

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        named(nodes, STORE).run(["rm", "-f", str(LATENCY)])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return how long a node waits for an object."""
        client = next(node for node in nodes if node.name != STORE)
        where = f"http://{named(nodes, STORE).address}:{PORT}/data/0000.z"
        each_ms = float(client.run([PYTHON, "-c", GET, where])) * 1000
        told = f"a GET takes {each_ms:.0f} ms"
        if each_ms < self.ms:
            raise ToothlessError(told)
        return told


@dataclass(frozen=True)
class FullDisk:
    """Nothing more can be written to a guest's local disk."""

    on: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"the disk of {self.on} is full"

    def apply(self, nodes: Sequence[Node]) -> None:
        """Begin it."""
        named(nodes, self.on).run(["sh", "-c", FILL])

    def lift(self, nodes: Sequence[Node]) -> None:
        """End it."""
        named(nodes, self.on).run(["rm", "-f", f"{LOCAL}/full"])

    def bites(self, nodes: Sequence[Node]) -> str:
        """Return what a write says."""
        write = f"LC_ALL=C dd if=/dev/zero of={LOCAL}/probe bs=1M count=1 2>&1; rm -f {LOCAL}/probe"
        said = named(nodes, self.on).run(["sh", "-c", write])
        if "No space left" not in said:
            raise ToothlessError(said)
        return said.splitlines()[0]


def _nfs_reads(node: Node) -> tuple[int, float]:
    """Return reads over NFS and their summed time in ms (mountstats, RPC iostats version 1.1)."""
    mine = False
    for line in node.run(["cat", "/proc/self/mountstats"]).splitlines():
        if line.startswith("device "):
            mine = f" mounted on {SHARED} " in line
        words = line.split()
        if mine and words[:1] == ["READ:"]:
            return int(words[1]), float(words[8])
    raise RuntimeError(f"{node.name} has no NFS mount at {SHARED}")
