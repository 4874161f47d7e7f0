"""What one process's control groups allow and count, under the locators of sources/cgroup.py.

v1 has a hierarchy for each controller, v2 one for all; on hybrid hosts v2 stands beside v1 without
controllers, and tells pressure alone. A group is limited by those above it too. A controller that
is not used leaves all processes in the hierarchy's root, whose counts are the whole machine's: they
are not the group's, and are not told for it.
"""

from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent import cgroups
from gpuwatch.agent.cgroups import UNIFIED
from gpuwatch.agent.host import Host, Kept
from gpuwatch.agent.lines import after, cpus, stalled

HIDDEN = "its cgroups are not visible here"
NO_USAGE = "no cgroup of its own counts CPU time"
NO_MEMORY = "no cgroup of its own counts memory"
NO_CPUS = "neither its cpuset nor its status can be read"
NO_PRESSURE = "no cgroup v2 of its own tells it (not mounted, or the kernel needs psi=1)"
PRESSURES = ("cpu", "io", "memory")
TOTALS = tuple("%s %s" % (name, line) for name in PRESSURES for line in ("some", "full"))
SELDOM = ("refaults", "oom_kill") + TOTALS
"""Counters that are not read each time."""
CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
"""The second is v1's; the third, what was asked for, stands in on kernels before 3.17."""
SMALL = 4096
LARGE = 1 << 16
STATS_V1 = {
    "file": ("total_cache",),
    "anon": ("total_rss",),
    "refaults": ("total_workingset_refault_file", "total_workingset_refault"),
}
STATS_V2 = {
    "file": ("file",),
    "anon": ("anon",),
    "refaults": ("workingset_refault_file", "workingset_refault"),
}
"""Words of memory.stat; refaults of files are counted apart since Linux 5.9."""


class Limits(object):
    """Reads them again and again.

    Args:
        host: whose files.
        process: its folder in /proc.
        paths: its group for each controller, from cgroups.paths.
        mounts: of the hierarchies, from cgroups.mounts.

    Attributes:
        key: two with the same key read the same.
        missing: subject to reason.
    """

    def __init__(
        self, host: Host, process: str, paths: Dict[str, str], mounts: List[cgroups.Mount]
    ) -> None:
        self.key = (process, tuple(sorted(paths.items())), tuple(mounts))
        self.missing: Dict[str, str] = {}
        self._found: Dict[str, Any] = {}
        self._host = host
        self._process = process
        self._cpu = Place("cpu", paths, mounts)
        self._memory = Place("memory", paths, mounts)
        self._cpuset = Place("cpuset", paths, mounts)
        self._pressure = Place(UNIFIED, paths, mounts)
        usage = Place("cpuacct", paths, mounts)
        self._usage: Optional[Kept] = None
        if usage.is_own:
            name = "/cpu.stat" if usage.is_v2 else "/cpuacct.usage"
            self._usage = host.keep(usage.folders[0] + name, SMALL)
        self._stats: Dict[str, Kept] = {}

    def read(self, *, everything: bool) -> Dict[str, Any]:
        """Return what is found by locator.

        Args:
            everything: whether to read more than CPU time used and throttled, a file or two. Else
                limits and memory are as they were read last, and their counters are missing.
        """
        is_first = not self._found
        self._found.update(dict.fromkeys(SELDOM))
        if everything or is_first:
            self._read_slow()
        self._read_fast()
        return self._found

    def _read_fast(self) -> None:
        text = self._usage and _kept(self._usage)
        if self._usage is None or self._usage.path.endswith("cpu.stat"):
            self._found["usage_usec"] = cgroups.keyed(text or b"").get("usage_usec")
        else:
            self._found["usage_usec"] = cgroups.microseconds(text)
        stats = [cgroups.throttling(_kept(kept) or b"") for kept in self._stats.values()]
        # Of several quotas any may be the one that stops it; each counts periods of its own.
        self._found["nr_periods"] = stats[0][0] if stats else None
        self._found["nr_throttled"] = _sum([throttled for _, throttled, _ in stats])
        self._found["throttled_usec"] = _sum([stopped for _, _, stopped in stats])

    def _read_slow(self) -> None:
        self.missing = {}
        self._read_quotas()
        self._found["cpus"] = self._cpus()
        if self._memory.is_v2:
            self._read_memory_v2()
        else:
            self._read_memory_v1()
        self._read_pressure()
        for subject, locator, reason in (
            ("cpu_usage_us", self._usage, NO_USAGE),
            ("quota_cpus", self._cpu.folders or None, HIDDEN),
            ("cpus_allowed", self._found["cpus"], NO_CPUS),
            ("memory_bytes", self._found["memory"], NO_MEMORY),
        ):
            if locator is None:
                self.missing["cgroup." + subject] = reason

    def _read_quotas(self) -> None:
        """Find the quotas that bind it, the tightest first, and where their effect is counted."""
        found = []
        for folder in self._cpu.folders:
            if self._cpu.is_v2:
                quota = cgroups.quota(self._text(folder + "/cpu.max"))
            else:
                words = [self._text(folder + "/cpu.cfs_%s_us" % w) for w in ("quota", "period")]
                quota = cgroups.quota(b" ".join(words))
            if quota is not None:
                found.append((quota, folder))
        found.sort(key=lambda pair: pair[0])
        self._found["quota"] = found[0][0] if found else None
        counted = [folder for _, folder in found] or self._cpu.folders[:1]
        stats = self._stats
        self._stats = {
            folder: stats.get(folder) or self._host.keep(folder + "/cpu.stat", SMALL)
            for folder in counted
        }

    def _cpus(self) -> Optional[int]:
        folders = self._cpuset.folders
        for folder in folders if self._cpuset.is_v2 else folders[:1]:
            for name in CPUSETS:
                count = cpus(self._text(folder + "/" + name))
                if count is not None:
                    return count
        return cpus(after(self._text(self._process + "/status"), b"Cpus_allowed_list:") or b"")

    def _read_memory_v2(self) -> None:
        """Read the nearest group that counts memory, and the limits of all."""
        folders = self._memory.folders
        for folder in folders:
            used = self._text(folder + "/memory.current").strip()
            if used:
                break
        else:
            used, folder = b"", ""
        limits = [
            cgroups.limit(self._text(above + name))
            for above in folders
            for name in ("/memory.max", "/memory.high")
        ]
        self._found["limit"] = min((x for x in limits if x is not None), default=None)
        self._found["memory"] = used or None
        self._read_stat(self._text(folder + "/memory.stat") if used else b"", STATS_V2)
        events = self._text(folder + "/memory.events") if used else b""
        self._found["oom_kill"] = cgroups.keyed(events).get("oom_kill")

    def _read_memory_v1(self) -> None:
        """Read its own group; memory.stat tells the tightest limit of all above, visible or not."""
        folder = self._memory.folders[0] if self._memory.is_own else ""
        used = self._text(folder + "/memory.usage_in_bytes").strip() if folder else b""
        text = self._text(folder + "/memory.stat") if used else b""
        self._found["memory"] = used or None
        self._found["limit"] = cgroups.limit(
            cgroups.keyed(text).get("hierarchical_memory_limit", b"")
        )
        self._read_stat(text, STATS_V1)
        kills = self._text(folder + "/memory.oom_control") if used else b""
        self._found["oom_kill"] = cgroups.keyed(kills).get("oom_kill")

    def _read_stat(self, text: bytes, words: Dict[str, Tuple[str, ...]]) -> None:
        stat = cgroups.keyed(text)
        for locator, names in words.items():
            self._found[locator] = next((stat[name] for name in names if name in stat), None)

    def _read_pressure(self) -> None:
        for name in PRESSURES if self._pressure.is_own else ():
            text = self._text("%s/%s.pressure" % (self._pressure.folders[0], name))
            for line in ("some", "full"):
                self._found["%s %s" % (name, line)] = stalled(text, line)
        if not any(self._found[total] for total in TOTALS):
            self.missing["cgroup.pressure"] = NO_PRESSURE

    def _text(self, path: str) -> bytes:
        """Return a file, nothing where there is none or the kernel does not tell it."""
        try:
            return self._host.read(path, LARGE)
        except OSError:
            return b""


class Place(object):
    """Where a controller has a process.

    Attributes:
        is_v2: it is in the v2 hierarchy, as v1 does not have this controller.
        folders: of its group, then of those above; none where they are not visible.
        is_own: what the group counts is not the whole machine's.
    """

    def __init__(self, controller: str, paths: Dict[str, str], mounts: List[cgroups.Mount]) -> None:
        self.is_v2 = controller not in paths or controller == UNIFIED
        hierarchy = UNIFIED if self.is_v2 else controller
        self.folders = cgroups.folders(hierarchy, paths, mounts)
        unused = paths.get(hierarchy, "/") == "/" != cgroups.name(paths)
        self.is_own = bool(self.folders) and not unused


def _kept(kept: Kept) -> Optional[bytes]:
    try:
        return kept.read()
    except OSError:
        return None


def _sum(values: List[Optional[int]]) -> Optional[int]:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
