"""When a job began to feel a fault, by its own truth log: a queue of loaded batches hides one for a while.

A truth log has a line for each phase of each step (`trainer.py`), with the clock that all nodes share.
"""

import statistics
from collections.abc import Iterable
from itertools import pairwise

import msgspec

__all__ = ["Phase", "felt"]

_SLOWER = 1.5
"""How many times as long as the healthy ones' median a step is that is slow."""


class Phase(msgspec.Struct):
    """One line of a truth log, as far as it matters here: `wall` in seconds."""

    step: int
    wall: float


def felt(phases: Iterable[Phase], onset: float, lift: float) -> float | None:
    """Return after how many seconds from onset the first slow step began; None where none was slow.

    A step that was on its way at onset counts from there; the one that was never ended is slow.

    Args:
        phases: of one rank, in order.
        onset: wall clock, in seconds.
        lift: the same, of the end.
    """
    begins = list({p.step: p.wall for p in reversed(list(phases)) if p.wall < lift}.values())[::-1]
    steps = list(pairwise([*begins, lift]))
    healthy = [end - begin for begin, end in steps if end < onset]
    if not healthy:
        return None
    limit = _SLOWER * statistics.median(healthy)
    slow = (begin for begin, end in steps if end > onset and end - begin > limit)
    begin = next(slow, None)
    return None if begin is None else max(0.0, begin - onset)
