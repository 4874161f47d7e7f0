"""What the causes look at: one rank's threads and one node's host, over one window.

Every value may be None: it could not be read, or there was too little to tell a rate from.
"""

from gpuwatch.verdict.features.connections import Connection, connections
from gpuwatch.verdict.features.mounts import Mount, mounts
from gpuwatch.verdict.features.node import Disk, Host, Nic, host
from gpuwatch.verdict.features.ranks import NO_ROLE, Allowance, Role, Threads, Waits, threads
from gpuwatch.verdict.features.rdma import Rdma, rdma
from gpuwatch.verdict.features.tcp import Loss, loss, wilson

__all__ = [
    "NO_ROLE", "Allowance", "Connection", "Disk", "Host", "Loss", "Mount", "Nic", "Rdma", "Role", "Threads", "Waits",
    "connections", "host", "loss", "mounts", "rdma", "threads", "wilson",
]  # fmt: skip
