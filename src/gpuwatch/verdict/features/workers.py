"""What a rank's own other threads do: all of its main process but the main thread."""

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import Window

__all__ = ["Workers", "workers"]

_ENOUGH = 10.0
"""Looks at a main thread below which its time is too short to compare."""
_RUNS = ("run", "ready")


class Workers(msgspec.Struct, frozen=True, gc=False):
    """How many were met running for each look at the main thread, by what the GPU did meanwhile.

    `idle` and `busy` say what that was; None of too few looks. `cores` is what those of all ranks of
    the group use.
    """

    idle: float | None
    busy: float | None
    cores: float


def workers(window: Window) -> dict[tuple[str, str], Workers]:
    """Return it by group and rank."""
    looks: dict[tuple[Labels, str], float] = {}
    runs: dict[tuple[Labels, str], float] = {}
    for (*rank, role, wait, state), count in window.growths("thread_wait", "wait_samples"):
        key = (tuple(rank), str(state))
        if role == "main":
            looks[key] = looks.get(key, 0.0) + count
        elif role == "worker" and wait in _RUNS:
            runs[key] = runs.get(key, 0.0) + count
    cores: dict[str, float] = {}
    ranks = []
    for labels, run_ns in window.growths("thread_group", "run_ns"):
        if labels[2] == "worker" and window.seconds:
            ranks.append(labels[:2])
            group = str(labels[0])
            cores[group] = cores.get(group, 0.0) + run_ns / 1e9 / window.seconds

    def met(rank: Labels, state: str) -> float | None:
        seen = looks.get((rank, state), 0.0)
        return runs.get((rank, state), 0.0) / seen if seen >= _ENOUGH else None

    return {
        (str(rank[0]), str(rank[1])): Workers(
            met(rank, "idle"), met(rank, "busy"), cores[str(rank[0])]
        )
        for rank in ranks
    }
