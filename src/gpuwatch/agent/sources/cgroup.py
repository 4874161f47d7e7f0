"""What the job may use: quota, throttling, CPUs and memory of its ranks' control groups.

Which groups those are is looked up when the job's processes change, and now and then; only main
threads' are: what a rank starts stays in its group. CPU counters are read in each reading, what
else a group tells every few, each group in another one: memory.stat makes the kernel add up the
counts of all CPUs. In between limits and memory are as they were, and counters missing.
"""

from typing import Dict, List, Optional, Tuple

from gpuwatch.agent import cgroups
from gpuwatch.agent.host import Host, Member
from gpuwatch.agent.limits import Limits
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
    Metric("cgroup", "cgroup", LABEL, "str", "", "cgroup", "Path as the node's agent sees it."),
    Metric("group", "cgroup", LABEL, "str", "", "group", "As in thread_group, if it serves one group alone."),
    Metric("rank", "cgroup", LABEL, "str", "", "rank", "As in thread_group, if it serves one rank alone."),
    Metric("ranks", "cgroup", GAUGE, "int", "1", "ranks", "Ranks of the job in it; 0 for a cgroup that is the agent's alone."),
    Metric("quota_cpus", "cgroup", GAUGE, "float", "1", "quota", "CPU time a second that it may use: the tightest quota of it and all above; null without a quota."),
    Metric("periods", "cgroup", COUNTER, "int", "1", "nr_periods", "Periods in which it ran under its tightest quota."),
    Metric("throttled_periods", "cgroup", COUNTER, "int", "1", "nr_throttled", "Of those, periods in which it had used its quota up and was stopped, with those of all quotas above."),
    Metric("throttled_us", "cgroup", COUNTER, "int", "us", "throttled_usec", "Time in which it was stopped so, summed over CPUs and over all quotas above."),
    Metric("cpu_usage_us", "cgroup", COUNTER, "int", "us", "usage_usec", "CPU time used."),
    Metric("cpus_allowed", "cgroup", GAUGE, "int", "1", "cpus", "CPUs that it may run on, by its cpuset, else by its processes."),
    Metric("memory_bytes", "cgroup", GAUGE, "int", "B", "memory", "Memory charged to it, page cache among it; read every 5 ticks, as all that follows."),
    Metric("memory_limit_bytes", "cgroup", GAUGE, "int", "B", "limit", "The tightest limit (memory.max, memory.high) of it and all above; null without one."),
    Metric("memory_file_bytes", "cgroup", GAUGE, "int", "B", "file", "Of its memory, page cache and shared memory."),
    Metric("memory_anon_bytes", "cgroup", GAUGE, "int", "B", "anon", "Of its memory, what programs allocated."),
    Metric("refaults", "cgroup", COUNTER, "int", "1", "refaults", "Pages of files that were read again soon after they had to give way."),
    Metric("oom_kills", "cgroup", COUNTER, "int", "1", "oom_kill", "Processes killed for want of memory."),
    Metric("pressure_cpu_some_us", "cgroup", COUNTER, "int", "us", "cpu some", "Time in which some of its tasks waited for a CPU, or for the next period of its quota."),
    Metric("pressure_cpu_full_us", "cgroup", COUNTER, "int", "us", "cpu full", "Time in which all of its tasks did."),
    Metric("pressure_io_some_us", "cgroup", COUNTER, "int", "us", "io some", "Time in which some of its tasks waited for I/O."),
    Metric("pressure_io_full_us", "cgroup", COUNTER, "int", "us", "io full", "Time in which all of its tasks that could run waited for I/O."),
    Metric("pressure_memory_some_us", "cgroup", COUNTER, "int", "us", "memory some", "Time in which some of its tasks waited for memory."),
    Metric("pressure_memory_full_us", "cgroup", COUNTER, "int", "us", "memory full", "Time in which all of its tasks that could run waited for memory."),
)  # fmt: skip

MAX_CGROUPS = 8
"""Of the job; the agent's own comes beside them."""
FIND_EVERY = 60
"""Readings between two looks at all cgroups, when the job stays the same; in between one process is
asked in each reading whether it was moved to another."""
SLOW_EVERY = 5
MAX_MAINS = 64
INITIAL_NAMESPACE = "cgroup:[4026531835]"
"""The number is part of the kernel's interface: CGROUP_NS_INIT_INO of linux/nsfs.h."""
ABOVE = "this is a container: limits of cgroups above its own are not visible"


class Reader(object):
    """Reads them.

    Args:
        host: its board tells the job's processes.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._rows = declared(ROWS, "cgroup")
        self._job: Optional[Tuple[Member, ...]] = None
        self._found: List[Tuple[Labels, int, Limits]] = []
        self._told: List[Tuple[str, bytes]] = []
        self._left_out = 0
        self._is_contained = False
        self._turn = 0

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when the kernel has no cgroups, or none that limit anything is mounted.
        """
        job = self._host.board.job
        if job is not self._job or self._turn % FIND_EVERY == 0 or self._is_moved():
            self._find(job)
        rows: List[Tuple[str, Labels, Values]] = []
        for place, (labels, ranks, limits) in enumerate(self._found):
            is_turn = (self._turn + place) % SLOW_EVERY == 0
            found = dict(limits.read(everything=is_turn), ranks=ranks)
            rows.append(("cgroup", labels, fill(self._rows, found)))
        self._turn += 1
        return Reading(rows, self._missing())

    def _find(self, job: Tuple[Member, ...]) -> None:
        """Look up the cgroups of the job's main threads and of the agent."""
        mounts = cgroups.mounts(self._text("/proc/self/mountinfo"))
        own = cgroups.paths(self._text("/proc/self/cgroup"))
        if not mounts or not own:
            raise Absent("no cgroups: none is mounted here, or /proc/self/cgroup cannot be read")
        members: Dict[str, List[Member]] = {}
        groups: Dict[str, Tuple[str, Dict[str, str]]] = {}
        self._told = []
        for member in [m for m in job if m.role == "main"][:MAX_MAINS]:
            process = "/proc/%d" % member.pid
            text = self._text(process + "/cgroup")
            self._told.append((process, text))
            found = cgroups.paths(text)
            if found:
                path = cgroups.name(found)
                members.setdefault(path, []).append(member)
                groups.setdefault(path, (process, found))
        shown = list(members)[:MAX_CGROUPS]
        self._left_out = len(members) - len(shown)
        agents = cgroups.name(own)
        groups.setdefault(agents, ("/proc/self", own))
        known = {limits.key: limits for _, _, limits in self._found}
        self._found = []
        for path in shown + [agents] * (agents not in shown):
            process, paths = groups[path]
            limits = Limits(self._host, process, paths, mounts)
            served = members.get(path, [])
            self._found.append((_labels(path, served), len(served), known.get(limits.key, limits)))
        self._is_contained = self._namespace() not in ("", INITIAL_NAMESPACE)
        self._job = job

    def _is_moved(self) -> bool:
        """Tell whether the process whose turn it is, is in other cgroups than before."""
        if not self._told:
            return False
        process, told = self._told[self._turn % len(self._told)]
        return self._text(process + "/cgroup") not in (told, b"")

    def _missing(self) -> Dict[str, str]:
        missing: Dict[str, str] = {}
        for _, _, limits in self._found:
            missing.update(limits.missing)
        if self._left_out:
            missing["cgroup.cgroup"] = "%d more cgroups of the job" % self._left_out
        if self._is_contained:
            missing["cgroup.above"] = ABOVE
        return missing

    def _text(self, path: str) -> bytes:
        try:
            return self._host.read(path)
        except OSError:
            return b""

    def _namespace(self) -> str:
        try:
            return self._host.readlink("/proc/self/ns/cgroup")
        except OSError:
            return ""


def _labels(path: str, served: List[Member]) -> Labels:
    """Return the labels of a cgroup that these ranks are in."""
    groups = {member.group for member in served}
    ranks = {(member.group, member.rank) for member in served}
    group = groups.pop() if len(groups) == 1 else None
    return path, group, ranks.pop()[1] if len(ranks) == 1 else None
