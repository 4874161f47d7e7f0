"""On which CPUs the job's processes may run, and whether those are far from the rank's GPU.

An affinity is set once, as a rule: so few processes are looked at in each reading, and after all of
them none for a while. /proc/PID/status tells the affinity of a process's main thread.
"""

import re
from typing import Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.lines import after
from gpuwatch.agent.metric import GAUGE, LABEL, Labels, Metric, Reading, Values, declared, fill

ROWS = (
    Metric("group", "placement", LABEL, "str", "", "group", "As in thread_group."),
    Metric("rank", "placement", LABEL, "str", "", "rank", "As in thread_group."),
    Metric("role", "placement", LABEL, "str", "", "role", "`main`, `loader` or `checkpoint`."),
    Metric("processes", "placement", GAUGE, "int", "1", "processes", "Processes of this role that were looked at."),
    Metric("cpus_allowed", "placement", GAUGE, "int", "1", "all", "CPUs that they may run on, all together: 1 where all share one."),
    Metric("fewest_cpus", "placement", GAUGE, "int", "1", "fewest", "CPUs of the one that may run on fewest."),
    Metric("numa_far", "placement", GAUGE, "int", "1", "far", "1 where none of their CPUs is on the NUMA node of the rank's GPU, 0 where one is; null where that is not known."),
)  # fmt: skip

LOOKS = 8
"""Processes looked at in each reading: a look costs 20 us."""
REST = 30
"""Readings between two rounds through all processes, when the job stays the same."""
MAX_ROWS = 32
MAX_PROCESSES = 1024
MAX_STATUS = 8192
NODES = "/sys/devices/system/node"
HEX = re.compile(rb"[0-9a-fA-F]+\Z")
"""No sign, no prefix, no underscore: int() takes them all."""
ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\Z")
"""PCI address: NVML spells the domain with eight digits, sysfs with four."""


class Reader(object):
    """Reads them.

    Args:
        host: its board tells the job's processes and the GPUs' PCI addresses.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "placement")
        self._job: Tuple[Member, ...] = ()
        self._waiting: List[int] = []
        self._masks: Dict[int, int] = {}
        self._told: List[Tuple[str, Labels, Values]] = []
        self._left_out = 0
        self._rest = 0
        self._node_masks = self._read_nodes()
        self._gpu_nodes: Dict[str, Optional[int]] = {}

    def read(self) -> Reading:
        """Look at the processes whose turn it is, and return all rows."""
        job = self._host.board.job
        self._rest -= 1
        if job is not self._job or (not self._waiting and self._rest <= 0):
            self._job = job
            self._waiting = [member.pid for member in job[:MAX_PROCESSES]]
            self._masks = {pid: self._masks[pid] for pid in self._waiting if pid in self._masks}
            self._rest = REST
            self._tell()
        turn, self._waiting = self._waiting[:LOOKS], self._waiting[LOOKS:]
        before = dict(self._masks)
        for pid in turn:
            self._look(pid)
        if self._masks != before:
            self._tell()
        missing: Dict[str, str] = {}
        if self._left_out:
            missing["placement.rank"] = "%d more roles of ranks" % self._left_out
        if self._told and all(values[-1] is None for _, _, values in self._told):
            missing["placement.numa_far"] = "which NUMA node the GPUs are on is not known"
        return Reading(self._told, missing)

    def _look(self, pid: int) -> None:
        self._masks.pop(pid, None)
        try:
            status = self._host.read("/proc/%d/status" % pid, MAX_STATUS)
        except OSError:
            return  # it ended: the next look at the job leaves it out
        allowed = mask(after(status, b"Cpus_allowed:") or b"")
        if allowed:
            self._masks[pid] = allowed

    def _tell(self) -> None:
        """Make the rows from what is known of the processes."""
        roles: Dict[Labels, List[int]] = {}
        gpus: Dict[Labels, Optional[int]] = {}
        for member in self._job:
            if member.pid in self._masks:
                labels: Labels = (member.group, member.rank, member.role)
                roles.setdefault(labels, []).append(self._masks[member.pid])
                gpus[labels] = member.gpu
        self._told = []
        for labels, masks in list(roles.items())[:MAX_ROWS]:
            union = 0
            for each in masks:
                union |= each
            found = {
                "processes": len(masks),
                "all": _count(union),
                "fewest": min(map(_count, masks)),
                "far": self._is_far(union, gpus[labels]),
            }
            self._told.append(("placement", labels, fill(self._rows, found)))
        self._left_out = len(roles) - len(self._told)

    def _is_far(self, allowed: int, gpu: Optional[int]) -> Optional[int]:
        """Return 1 where none of these CPUs is on the GPU's node; None where that is not known."""
        address = None if gpu is None else self._host.board.gpu_address.get(gpu)
        if address is None:
            return None
        if address not in self._gpu_nodes:
            self._gpu_nodes[address] = self._node_of(address)
        node = self._gpu_nodes[address]
        near = 0 if node is None else self._node_masks.get(node, 0)
        return int(not near & allowed) if near else None

    def _node_of(self, address: str) -> Optional[int]:
        """Return a PCI device's NUMA node; None where the firmware does not tell (-1)."""
        match = ADDRESS.match(address.lower())
        if not match:
            return None
        device = "%04x:%s" % (int(match.group(1), 16), match.group(2))
        try:
            node = int(self._host.read("/sys/bus/pci/devices/%s/numa_node" % device, 64))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _read_nodes(self) -> Dict[int, int]:
        """Return the CPUs of each NUMA node."""
        found = {}
        try:
            for name in self._host.listdir(NODES):
                if re.match(r"node\d{1,4}\Z", name):
                    path = "%s/%s/cpumap" % (NODES, name)
                    found[int(name[len("node") :])] = mask(self._host.read(path, MAX_STATUS))
        except OSError:
            return {}
        return found


def _count(mask: int) -> int:
    return bin(mask).count("1")


def mask(text: bytes) -> int:
    """Return the bits of a CPU mask such as `ff,ffffffff`, 0 where it is none."""
    digits = text.strip().replace(b",", b"")
    return int(digits, 16) if HEX.match(digits) else 0
