"""Plain words about a node, told once in the greeting."""

import os
import sys
from typing import Any, Dict, Optional

from gpuwatch.agent import catalogue, mountinfo
from gpuwatch.agent.addresses import addresses
from gpuwatch.agent.frame import clean
from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after, cpus
from gpuwatch.agent.process import user_name


def facts(host: Host, version: Optional[str]) -> Dict[str, Any]:
    """Return what the greeting tells; None where it could not be read.

    Args:
        host: whose.
        version: of the viewer that sent this agent.
    """
    memory = after(_text(host, "/proc/meminfo"), b"MemTotal:")
    total = (memory or b"").split()[:1]
    uid = os.getuid()
    return {
        "hostname": _word(host, "/proc/sys/kernel/hostname"),
        "kernel": _word(host, "/proc/sys/kernel/osrelease"),
        "machine": os.uname().machine,
        "python": clean("%d.%d.%d %s" % (sys.version_info[:3] + (sys.executable,))),
        "python_mount": _python_mount(host),
        "user": user_name(host, uid),
        "uid": uid,
        "cpus": cpus(after(_text(host, "/proc/self/status"), b"Cpus_allowed_list:") or b""),
        "memory_bytes": int(total[0]) * 1024 if total and total[0].isdigit() else None,
        "addresses": " ".join(addresses(host)),
        "schema": catalogue.SCHEMA,
        "interval_s": host.options.interval_s,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "version": version,
    }


def boot_id(host: Host) -> str:
    """Return the id of this boot, "" where the kernel does not tell it."""
    return _word(host, "/proc/sys/kernel/random/boot_id") or ""


def _python_mount(host: Host) -> Optional[str]:
    """Return type and place of the network file system that the interpreter runs from, None if from none."""
    try:
        mounts = mountinfo.parse(host.read_to_end("/proc/self/mountinfo"))
        program = host.readlink("/proc/self/exe")
    except OSError:
        return None
    for path in (program, os.__file__):
        mount = mountinfo.holding(path, mounts)
        if mount is not None and mount.is_remote:
            where: str = clean("%s %s" % (mount.type, mount.path))
            return where
    return None


def _text(host: Host, path: str) -> bytes:
    try:
        return host.read(path)
    except OSError:
        return b""


def _word(host: Host, path: str) -> Optional[str]:
    return _text(host, path).strip()[:64].decode("utf-8", "replace") or None
