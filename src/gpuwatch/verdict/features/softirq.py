"""How a node's CPUs take packets in: which CPU has most soft interrupts, and what fell by the way."""

import msgspec

from gpuwatch.model.view import Window

__all__ = ["Softirq", "softirq"]


class Softirq(msgspec.Struct, frozen=True, gc=False):
    """`core` is the CPU with most soft interrupts; `dropped` a share of all packets that came.

    `squeezed` is how often a second a CPU had to stop with packets left.
    """

    core: int | None
    dropped: float | None
    squeezed: float | None


def softirq(fast: Window, slow: Window) -> Softirq:
    """Return it; what is rare of the longer window."""
    packets = slow.growth("node", (), "softnet_packets")
    dropped = slow.growth("node", (), "softnet_dropped")
    cores = dict(fast.growths("cpu_core", "softirq_ms"))
    core = max(cores, key=lambda labels: (cores[labels], str(labels)))[0] if cores else None
    return Softirq(
        core=core if isinstance(core, int) else None,
        dropped=dropped / packets if packets and dropped is not None else None,
        squeezed=slow.rate("node", (), "softnet_time_squeezed"),
    )
