"""CPU time of the whole node and of its hottest CPUs, from /proc/stat (proc_stat(5)).

Ticks are USER_HZ, 100 a second. In a container these are the whole host's, unless lxcfs stands in.
"""

from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent.cores import Cores, Use, use
from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after, cpus, field
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

ROWS = (
    Metric("cpu_user_ms", "node", COUNTER, "int", "ms", "cpu 0", "CPU time in user code.", scale=10),
    Metric("cpu_nice_ms", "node", COUNTER, "int", "ms", "cpu 1", "CPU time in user code of positive nice.", scale=10),
    Metric("cpu_system_ms", "node", COUNTER, "int", "ms", "cpu 2", "CPU time in the kernel.", scale=10),
    Metric("cpu_idle_ms", "node", COUNTER, "int", "ms", "cpu 3", "CPU time idle.", scale=10),
    Metric("cpu_iowait_ms", "node", COUNTER, "int", "ms", "cpu 4", "CPU time idle while a task waited for a block device: a lower bound of I/O wait, never an upper one.", scale=10),
    Metric("cpu_irq_ms", "node", COUNTER, "int", "ms", "cpu 5", "CPU time in hard interrupts.", scale=10),
    Metric("cpu_softirq_ms", "node", COUNTER, "int", "ms", "cpu 6", "CPU time in soft interrupts.", scale=10),
    Metric("cpu_steal_ms", "node", COUNTER, "int", "ms", "cpu 7", "CPU time that the hypervisor gave to others.", scale=10),
    Metric("cpu_hottest_softirq_ms", "node", COUNTER, "int", "ms", "hottest", "Time in soft interrupts of whichever CPU had most, summed over readings since the agent's start.", scale=10),
    Metric("cpu_busiest_ms", "node", COUNTER, "int", "ms", "busiest", "Time not idle of whichever CPU had most, summed over readings since the agent's start.", scale=10),
    Metric("softirqs_net_tx", "node", COUNTER, "int", "1", "softirq 3", "Soft interrupts for sending."),
    Metric("softirqs_net_rx", "node", COUNTER, "int", "1", "softirq 4", "Soft interrupts for receiving."),
    Metric("context_switches", "node", COUNTER, "int", "1", "ctxt 0", "Context switches."),
    Metric("forks", "node", COUNTER, "int", "1", "processes 0", "Processes and threads started."),
    Metric("procs_running", "node", GAUGE, "int", "1", "procs_running 0", "Tasks that run or could run now."),
    Metric("procs_blocked", "node", GAUGE, "int", "1", "procs_blocked 0", "Tasks in io_schedule() now; excludes NFS, FUSE and btrfs waits."),
    Metric("cpus", "node", GAUGE, "int", "1", "online", "CPUs of the node that are online."),
    Metric("cpus_allowed", "node", GAUGE, "int", "1", "allowed", "CPUs that the agent, and so likely the job, may run on."),
    Metric("container", "node", GAUGE, "int", "1", "container", "1 where the agent is in a container (a PID or cgroup namespace of its own): CPU, memory and pressure of the node are the whole host's, of which the job has a part."),
    Metric("lxcfs", "node", GAUGE, "int", "1", "lxcfs", "1 where lxcfs stands in for /proc/stat: its CPU times are the container's."),
    Metric("core", "cpu_core", LABEL, "int", "", "core", "CPU: the 3 with most soft interrupts, and the busiest other."),
    Metric("user_ms", "cpu_core", COUNTER, "int", "ms", "core 0", "Its time in user code.", scale=10),
    Metric("nice_ms", "cpu_core", COUNTER, "int", "ms", "core 1", "Its time in user code of positive nice.", scale=10),
    Metric("system_ms", "cpu_core", COUNTER, "int", "ms", "core 2", "Its time in the kernel.", scale=10),
    Metric("idle_ms", "cpu_core", COUNTER, "int", "ms", "core 3", "Its time idle.", scale=10),
    Metric("iowait_ms", "cpu_core", COUNTER, "int", "ms", "core 4", "Its time idle while a task waited for a block device.", scale=10),
    Metric("irq_ms", "cpu_core", COUNTER, "int", "ms", "core 5", "Its time in hard interrupts.", scale=10),
    Metric("softirq_ms", "cpu_core", COUNTER, "int", "ms", "core 6", "Its time in soft interrupts.", scale=10),
)  # fmt: skip


MAX_CORES = 4096
STATUS_EVERY = 5
"""Readings between two of /proc/self/status, for the CPUs that are allowed."""
NAMESPACES = {"pid": "pid:[4026531836]", "cgroup": "cgroup:[4026531835]"}
"""Those that a kernel starts with; their numbers are part of its interface (linux/nsfs.h)."""
LXCFS = b" /proc/stat "
"""In a line of mountinfo: nothing but lxcfs is mounted there."""


class Reader(object):
    """Reads what the rows name: `KEY INDEX` of a line of /proc/stat, or what is told beside it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "node")
        self._core_rows = declared(ROWS, "cpu_core")
        self._stat = host.keep("/proc/stat")
        self._status = host.keep("/proc/self/status")
        pairs = [row.locator.split() for row in self._rows if " " in row.locator]
        self._wanted = [(key, int(index), "%s %s" % (key, index)) for key, index in pairs]
        self._keys = sorted({key for key, _, _ in self._wanted})
        self._cores = Cores()
        self._allowed: Optional[int] = None
        self._count = 0
        self._view = {"container": self._in_container(), "lxcfs": self._has_lxcfs()}

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when there is no /proc/stat.
        """
        try:
            text = self._stat.read()
        except FileNotFoundError:
            raise Absent("no /proc/stat")
        lines = {
            key: (after(text, key.encode("ascii") + b" ") or b"").split() for key in self._keys
        }
        found: Dict[str, Any] = {
            locator: field(lines[key], index) for key, index, locator in self._wanted
        }
        cores, core_fields = _cores(text)
        # Lines are `cpu` for all and `cpuN` for each that is online: proc_stat(5).
        found["online"] = text.count(b"\ncpu") or None
        if self._count % STATUS_EVERY == 0:
            self._allowed = self._read_allowed()
        self._count += 1
        found["allowed"] = self._allowed
        if cores:
            self._cores.take(cores)
            found.update(hottest=self._cores.hottest, busiest=self._cores.busiest)
        found.update(self._view)
        missing = {} if found["allowed"] else {"cpu.cpus_allowed": "not in /proc/self/status"}
        rows: List[Tuple[str, Labels, Values]] = [("node", (), fill(self._rows, found))]
        for core in sorted(self._cores.shown & set(cores)):
            times = {"core %d" % i: text for i, text in enumerate(core_fields[core])}
            rows.append(("cpu_core", (core,), fill(self._core_rows, times)))
        return Reading(rows, missing)

    def _read_allowed(self) -> Optional[int]:
        try:
            return cpus(after(self._status.read(), b"Cpus_allowed_list:") or b"")
        except OSError:
            return None

    def _in_container(self) -> Optional[int]:
        """Return 1 in a container, 0 outside; None where that is not told."""
        told = []
        for name, initial in NAMESPACES.items():
            try:
                told.append(self._host.readlink("/proc/self/ns/" + name) != initial)
            except OSError:
                continue
        return int(any(told)) if told else None

    def _has_lxcfs(self) -> Optional[int]:
        try:
            return int(LXCFS in self._host.read("/proc/self/mountinfo"))
        except OSError:
            return None


def _cores(text: bytes) -> Tuple[Dict[int, Use], Dict[int, List[bytes]]]:
    """Return the use and the fields of each CPU's line; lines that are none are left out."""
    uses: Dict[int, Use] = {}
    fields: Dict[int, List[bytes]] = {}
    for line in text[: max(0, text.find(b"\nintr"))].split(b"\n")[1 : MAX_CORES + 1]:
        name, _, rest = line.partition(b" ")
        parts = rest.split()
        try:
            core = int(name[len(b"cpu") :])
            uses[core] = use(parts)
        except (ValueError, IndexError):
            continue
        fields[core] = parts
    return uses, fields
