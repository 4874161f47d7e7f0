"""Where a GPU's own words are doubtful, and what the node says instead."""

from typing import Any, Dict, List, Optional, Tuple

from gpuwatch.agent.host import Host

LOUD = 0.5
"""Share of its power limit that no idle GPU draws."""
LOUD_FOR = 10
"""Polls in a row: utilisation may be of a shorter past than power."""
UNIFIED = "unified with the host's memory: from /proc/meminfo"
DEVFREQ = "/sys/class/devfreq"
PER_MILLE = 10.0


class Loud(object):
    """Knows GPUs that say 0 % while they draw the power of work: some drivers always say so (WSL)."""

    def __init__(self) -> None:
        self._polls: Dict[int, int] = {}

    def doubt(
        self, gpu: int, util: Optional[float], power_w: Optional[float], limit_w: Optional[float]
    ) -> str:
        """Return why a poll's utilisation cannot be believed, "" where it can."""
        loud = util == 0 and power_w is not None and limit_w and power_w > LOUD * limit_w
        polls = self._polls[gpu] = self._polls.get(gpu, 0) + 1 if loud else 0
        return "0 % at high power: not to be believed" if polls >= LOUD_FOR else ""


def unified_memory(host: Host) -> Tuple[Optional[int], Optional[int]]:
    """Return used and total bytes of the host's memory, which the GPU of such a chip shares."""
    try:
        lines = host.read("/proc/meminfo", 4096).split(b"\n")
        found = {line.split(b":")[0]: int(line.split()[1]) * 1024 for line in lines[:8] if line}
        return found[b"MemTotal"] - found[b"MemAvailable"], found[b"MemTotal"]
    except (OSError, ValueError, LookupError):
        return None, None


def load_file(host: Host) -> Optional[Any]:
    """Return the file where a Jetson tells its GPU's load, None on all else."""
    try:
        names: List[str] = host.listdir(DEVFREQ)
    except OSError:
        return None
    for name in names:
        path = "%s/%s/device/load" % (DEVFREQ, name)
        if name.endswith((".gpu", ".ga10b", ".gv11b", ".gp10b")) and host.exists(path):
            return host.keep(path, 64)
    return None


def load_pct(file: Any) -> Optional[float]:
    """Return a Jetson's load, which the kernel tells per mille."""
    try:
        return int(file.read()) / PER_MILLE
    except (OSError, ValueError):
        return None
