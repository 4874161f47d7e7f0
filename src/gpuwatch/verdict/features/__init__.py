"""What the causes look at: one rank's threads and one node's host, over one window.

Every value may be None: it could not be read, or there was too little to tell a rate from.
"""

from gpuwatch.verdict.features.node import Disk, Host, Nic, host
from gpuwatch.verdict.features.ranks import Allowance, Role, Threads, Waits, threads
from gpuwatch.verdict.features.tcp import Loss, loss, wilson

__all__ = [
    "Allowance", "Disk", "Host", "Loss", "Nic", "Role", "Threads", "Waits", "host", "loss",
    "threads", "wilson",
]  # fmt: skip
