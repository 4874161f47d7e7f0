"""The kernel driver's own list of GPUs: where each sits, by PCI address and UUID."""

import re
from typing import Dict

from gpuwatch.agent.host import Host

LIST = "/proc/driver/nvidia/gpus"
UUID = re.compile(rb"^GPU UUID:\s+(GPU-[0-9a-fA-F-]{36})\s*$", re.MULTILINE)


def uuids(host: Host) -> Dict[str, str]:
    """Return PCI address (0000:3b:00.0) to UUID; empty where the driver does not tell."""
    found: Dict[str, str] = {}
    try:
        for address in host.listdir(LIST):
            told = UUID.search(host.read("%s/%s/information" % (LIST, address), 4096))
            if told:
                found[address.lower()] = told.group(1).decode()
    except OSError:
        pass
    return found


def known(host: Host) -> int:
    """Return how many GPUs the kernel driver has, 0 where it does not tell."""
    try:
        return len(host.listdir(LIST))
    except OSError:
        return 0
