"""Who else uses a GPU: other ranks that the driver lists there, and processes of nobody that is known."""

import msgspec

from gpuwatch.agent.metric import Label, Labels
from gpuwatch.model.view import Window
from gpuwatch.verdict.features.rates import scaled

__all__ = ["Guest", "Sharing", "sharing"]


class Guest(msgspec.Struct, frozen=True, gc=False):
    """A rank that has a context on a GPU: `busy` is the part of a CPU that its main thread uses."""

    group: str
    rank: str
    busy: float | None


class Sharing(msgspec.Struct, frozen=True, gc=False):
    """One GPU's ranks, and what processes hold of its memory that are no rank's main process.

    `others_bytes` is None where the driver lists none of the ranks: its process numbers are then not
    those of this node.
    """

    ranks: tuple[Guest, ...]
    others: int
    others_bytes: float | None
    split: bool


def sharing(window: Window) -> dict[Label, Sharing]:
    """Return, by GPU that has more than one process, who uses it."""
    listed: dict[Label, list[Labels]] = {}
    for labels in window.entities("gpu_process"):
        listed.setdefault(labels[0], []).append(labels)
    shared = {gpu: every for gpu, every in listed.items() if len(every) > 1}
    if not shared:
        return {}
    mains = {each[3]: each for each in window.entities("thread_group") if each[2] == "main"}
    cards = {labels[0]: labels for labels in window.entities("gpu")}
    found = {}
    for gpu, every in shared.items():
        processes = {
            labels[1]: window.latest("gpu_process", labels, "gpu_memory_bytes") or 0.0
            for labels in every
        }
        ranks = [_guest(window, mains[pid]) for pid in processes if pid in mains]
        rest = [held for pid, held in processes.items() if pid not in mains]
        card = cards.get(gpu)
        found[gpu] = Sharing(
            tuple(ranks),
            len(rest),
            sum(rest) if ranks else None,
            card is not None and window.latest("gpu", card, "mig_mode") == 1,
        )
    return found


def _guest(window: Window, labels: Labels) -> Guest:
    run = window.rate("thread_group", labels, "run_ns")
    return Guest(str(labels[0]), str(labels[1]), scaled(run, 1e-9))
