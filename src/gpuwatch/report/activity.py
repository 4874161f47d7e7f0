"""How much of their time GPUs computed, node by node, in equal bins, as the verdicts tell it."""

from collections.abc import Iterable, Iterator

from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import JobVerdict
from gpuwatch.report.series import Bins, Series

__all__ = ["Activity"]

TOLD = 0.5
"""Share of the time that may be unknown where a share of computing is told."""


class Activity:
    """Adds up what ticks tell of computing.

    Args:
        bins: of wall-clock time.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._sums: dict[str, list[float]] = {}
        self._counts: dict[str, list[int]] = {}

    def watched(
        self, judged: Iterable[tuple[Tick, JobVerdict]]
    ) -> Iterator[tuple[Tick, JobVerdict]]:
        """Yield the ticks as they come, adding each up on the way."""
        for tick, verdict in judged:
            self._add(tick, verdict)
            yield tick, verdict

    def series(self) -> list[Series]:
        """Return the share of time in compute of each node, in per cent."""
        return [
            Series(
                node,
                None,
                tuple(
                    total / count * 100 if count else None
                    for total, count in zip(sums, self._counts[node], strict=True)
                ),
            )
            for node, sums in sorted(self._sums.items())
        ]

    def _add(self, tick: Tick, verdict: JobVerdict) -> None:
        place = (tick.wall_us - self._bins.begin_us) // self._bins.width_us
        if not 0 <= place < self._bins.number:
            return
        for node in verdict.nodes:
            if node.node is None or node.shares is None or node.shares.unknown > TOLD:
                continue
            sums = self._sums.setdefault(node.node, [0.0] * self._bins.number)
            counts = self._counts.setdefault(node.node, [0] * self._bins.number)
            sums[place] += node.shares.compute
            counts[place] += 1
