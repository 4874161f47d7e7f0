"""CPU time of the whole node, from /proc/stat (proc(5)). Ticks are USER_HZ, 100 a second."""

from typing import Any, Dict

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after, cpus, field
from gpuwatch.agent.metric import COUNTER, GAUGE, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("cpu_user_ms", "node", COUNTER, "int", "ms", "cpu 0", "CPU time in user code.", scale=10),
    Metric("cpu_nice_ms", "node", COUNTER, "int", "ms", "cpu 1", "CPU time in user code of positive nice.", scale=10),
    Metric("cpu_system_ms", "node", COUNTER, "int", "ms", "cpu 2", "CPU time in the kernel.", scale=10),
    Metric("cpu_idle_ms", "node", COUNTER, "int", "ms", "cpu 3", "CPU time idle.", scale=10),
    Metric("cpu_iowait_ms", "node", COUNTER, "int", "ms", "cpu 4", "CPU time idle while a task waited for a block device: a lower bound of I/O wait, never an upper one.", scale=10),
    Metric("cpu_irq_ms", "node", COUNTER, "int", "ms", "cpu 5", "CPU time in hard interrupts.", scale=10),
    Metric("cpu_softirq_ms", "node", COUNTER, "int", "ms", "cpu 6", "CPU time in soft interrupts.", scale=10),
    Metric("cpu_steal_ms", "node", COUNTER, "int", "ms", "cpu 7", "CPU time that the hypervisor gave to others.", scale=10),
    Metric("context_switches", "node", COUNTER, "int", "1", "ctxt 0", "Context switches."),
    Metric("forks", "node", COUNTER, "int", "1", "processes 0", "Processes and threads started."),
    Metric("procs_running", "node", GAUGE, "int", "1", "procs_running 0", "Tasks that run or could run now."),
    Metric("procs_blocked", "node", GAUGE, "int", "1", "procs_blocked 0", "Tasks in io_schedule() now; excludes NFS, FUSE and btrfs waits."),
    Metric("cpus", "node", GAUGE, "int", "1", "online", "CPUs of the node that are online."),
    Metric("cpus_allowed", "node", GAUGE, "int", "1", "allowed", "CPUs that the agent, and so likely the job, may run on."),
)  # fmt: skip


class Reader(object):
    """Reads what the rows name: `KEY INDEX` of a line of /proc/stat, or a count of CPUs."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        self._stat = host.keep("/proc/stat")
        self._status = host.keep("/proc/self/status")
        pairs = [row.locator.split() for row in self._rows if " " in row.locator]
        self._wanted = [(key, int(index), "%s %s" % (key, index)) for key, index in pairs]
        self._keys = sorted({key for key, _, _ in self._wanted})

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
        # Lines are `cpu` for all and `cpuN` for each that is online: proc_stat(5).
        found["online"] = text.count(b"\ncpu") or None
        found["allowed"] = self._allowed()
        missing = {} if found["allowed"] else {"cpu.cpus_allowed": "not in /proc/self/status"}
        return Reading([("node", (), fill(self._rows, found))], missing)

    def _allowed(self) -> Any:
        try:
            return cpus(after(self._status.read(), b"Cpus_allowed_list:") or b"")
        except OSError:
            return None
