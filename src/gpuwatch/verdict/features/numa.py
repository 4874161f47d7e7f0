"""Which ranks of a node may run only on CPUs far from their GPU, and how busy their GPUs are."""

import msgspec

from gpuwatch.model.view import Window

__all__ = ["Placed", "placed"]


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Where a rank's main process may run; `util` is its GPU's utilisation, None where not known."""

    far: bool
    cpus: float | None
    util: float | None


def placed(window: Window) -> dict[tuple[str, str], Placed]:
    """Return it by group and rank; of those only whose GPU's NUMA node is known."""
    utils = {labels[0]: window.rate("gpu", labels, "util_pct") for labels in window.entities("gpu")}
    gpus = {
        each[:2]: utils.get(each[4])
        for each in window.entities("thread_group")
        if each[2] == "main"
    }
    found = {}
    for labels in window.entities("placement"):
        far = window.latest("placement", labels, "numa_far")
        if labels[2] != "main" or far is None:
            continue
        util = gpus.get(labels[:2])
        found[str(labels[0]), str(labels[1])] = Placed(
            far == 1,
            window.latest("placement", labels, "cpus_allowed"),
            None if util is None else util / 100,
        )
    return found
