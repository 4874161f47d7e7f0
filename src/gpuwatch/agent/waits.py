"""Families of waits: what a thread is blocked on, from stack, wchan or state.

Symbols are matched by family over kernels 4.18 to 6.18 and later; an unknown symbol is
`unknown`, never "not storage". Poll and epoll are undetermined until sockets say more.
"""

FAMILIES = {
    "run": "on a CPU",
    "ready": "could run, waits for a CPU",
    "block-read": "reads from a block device or the page cache",
    "block-write": "writes, syncs or waits for the journal",
    "netfs": "in a network file system (NFS, Lustre, Ceph, GPFS)",
    "fuse": "in a FUSE file system",
    "memory": "in reclaim, compaction or swap",
    "socket": "in a socket call",
    "poll": "in poll, select or epoll: undetermined",
    "futex": "on a futex (queue, lock, condition)",
    "pipe": "on a pipe",
    "sleep": "in a timer",
    "gpu": "in the GPU driver",
    "process": "waits for a child, or is stopped",
    "unknown": "blocked on what has no known name",
}
STORAGE = ("block-read", "block-write", "netfs", "fuse")
