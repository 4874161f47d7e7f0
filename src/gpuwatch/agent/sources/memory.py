"""Memory, its write-back and its reclaim, from /proc/meminfo and /proc/vmstat (proc(5))."""

import re
from typing import Any, Dict, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after, field
from gpuwatch.agent.metric import COUNTER, GAUGE, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("memory_total_bytes", "node", GAUGE, "int", "B", "meminfo MemTotal", "Memory of the node.", scale=1024),
    Metric("memory_available_bytes", "node", GAUGE, "int", "B", "meminfo MemAvailable", "Memory that could be had without swapping.", scale=1024),
    Metric("memory_dirty_bytes", "node", GAUGE, "int", "B", "meminfo Dirty", "Page cache that waits to be written.", scale=1024),
    Metric("memory_writeback_bytes", "node", GAUGE, "int", "B", "meminfo Writeback", "Page cache that is being written.", scale=1024),
    Metric("memory_cached_bytes", "node", GAUGE, "int", "B", "meminfo Cached", "Page cache, shared memory in it.", scale=1024),
    Metric("memory_shared_bytes", "node", GAUGE, "int", "B", "meminfo Shmem", "Shared memory and tmpfs, /dev/shm of all containers in it.", scale=1024),
    Metric("swap_total_bytes", "node", GAUGE, "int", "B", "meminfo SwapTotal", "Swap space.", scale=1024),
    Metric("swap_free_bytes", "node", GAUGE, "int", "B", "meminfo SwapFree", "Swap space that is not used.", scale=1024),
    Metric("reclaim_scan_pages", "node", COUNTER, "int", "1", "vmstat pgscan_kswapd", "Pages that kswapd looked at to free memory."),
    Metric("reclaim_steal_pages", "node", COUNTER, "int", "1", "vmstat pgsteal_kswapd", "Pages that kswapd freed."),
    Metric("direct_reclaim_scan_pages", "node", COUNTER, "int", "1", "vmstat pgscan_direct", "Pages that tasks had to look at themselves before they got memory."),
    Metric("direct_reclaim_steal_pages", "node", COUNTER, "int", "1", "vmstat pgsteal_direct", "Pages that they freed so."),
    Metric("direct_reclaims", "node", COUNTER, "int", "1", "vmstat allocstall", "Times that a task had to free memory before it got some."),
    Metric("refault_file_pages", "node", COUNTER, "int", "1", "vmstat workingset_refault_file", "Pages of files that were read again soon after they were dropped: the page cache is too small; before Linux 5.9 all pages."),
    Metric("swap_in_pages", "node", COUNTER, "int", "1", "vmstat pswpin", "Pages read from swap."),
    Metric("swap_out_pages", "node", COUNTER, "int", "1", "vmstat pswpout", "Pages written to swap."),
    Metric("node_major_faults", "node", COUNTER, "int", "1", "vmstat pgmajfault", "Page faults that had to read from storage."),
    Metric("oom_kills", "node", COUNTER, "int", "1", "vmstat oom_kill", "Processes killed for want of memory."),
)  # fmt: skip
VMSTAT = re.compile(
    rb"^(pgscan_kswapd|pgsteal_kswapd|pgscan_direct|pgsteal_direct|allocstall"
    rb"|workingset_refault_file|workingset_refault|pswpin|pswpout|pgmajfault|oom_kill)"
    rb"(_(?:dma|dma32|normal|high|movable|device))? (\d{1,19})$",
    re.MULTILINE,
)
"""Some were counted by zone in some kernels, and are summed (pgscan, pgsteal before 4.8, allocstall
since)."""
BEFORE_5_9 = "workingset_refault"


class Reader(object):
    """Reads what the rows name: `FILE NAME`."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        self._meminfo = host.keep("/proc/meminfo")
        self._vmstat = host.keep("/proc/vmstat")

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when there is no /proc/meminfo.
        """
        try:
            text = self._meminfo.read()
        except FileNotFoundError:
            raise Absent("no /proc/meminfo")
        found: Dict[str, Any] = {}
        for row in self._rows:
            file, name = row.locator.split()
            rest = after(text, name.encode("ascii") + b":") if file == "meminfo" else None
            if rest:
                found[row.locator] = field(rest.split(None, 1), 0)
        events, missing = self._events()
        found.update(events)
        for row in self._rows:
            if found.get(row.locator) is None and (events or row.locator.startswith("meminfo")):
                missing["memory." + row.name] = "this kernel does not tell it"
        return Reading([("node", (), fill(self._rows, found))], missing)

    def _events(self) -> Tuple[Dict[str, int], Dict[str, str]]:
        try:
            text = self._vmstat.read()
        except OSError as error:
            return {}, {"memory.vmstat": "/proc/vmstat: %s" % error.strerror}
        sums: Dict[str, int] = {}
        for name, _, number in VMSTAT.findall(text):
            key = name.decode("ascii")
            sums[key] = sums.get(key, 0) + int(number)
        if BEFORE_5_9 in sums:
            sums.setdefault("workingset_refault_file", sums.pop(BEFORE_5_9))
        return {"vmstat " + key: value for key, value in sums.items()}, {}
