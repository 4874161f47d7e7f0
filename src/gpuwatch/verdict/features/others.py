"""CPUs that a node's ranks do not use themselves: those of their compilers, and of anybody else."""

import msgspec

from gpuwatch.model.view import Window

__all__ = ["Others", "others"]


class Others(msgspec.Struct, frozen=True, gc=False):
    """`cores` is None where it is not known: in a container the node's CPU time is everybody's.

    `forks_s` is how many processes are started a second.
    """

    cores: float | None
    forks_s: float | None


def others(window: Window, busy: float | None, cpus: float | None) -> Others:
    """Return what others than the ranks' own threads, loaders and helpers use.

    Args:
        window: of the node.
        busy: share of all its CPUs that is in use.
        cpus: how many it has.
    """
    forks = window.rate("node", (), "forks")
    foreign = window.latest("node", (), "container") == 1
    if busy is None or cpus is None or (foreign and window.latest("node", (), "lxcfs") != 1):
        return Others(None, forks)
    own = sum(ns for _, ns in window.growths("thread_group", "run_ns")) / 1e9 / window.seconds
    return Others(max(0.0, busy * cpus - own), forks)
