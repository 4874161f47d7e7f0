"""What the strips and lanes show: one activity and one letter a node each 5 seconds, bounded.

Buckets are cut on the viewer's monotonic clock, so a seek lands where the same moment was drawn
before; what was never seen stays a gap.
"""

from collections import deque

from gpuwatch.model.verdict import LETTERS, JobVerdict, Verdict
from gpuwatch.tui.paint.words import computing

__all__ = ["BUCKET_S", "JOB", "STRIP_BUCKETS", "History"]

BUCKET_S = 5
STRIP_BUCKETS = 60
"""Buckets of an activity strip: 5 minutes."""
KEPT = 720
"""Buckets that are kept: an hour."""
JOB = ""
"""Name of the job's own lane."""


class _Bucket:
    """Five seconds of one lane."""

    __slots__ = ("letter", "no", "seen", "total")

    def __init__(self, no: int, letter: str) -> None:
        self.no = no
        self.letter = letter
        self.total = 0.0
        self.seen = 0


class History:
    """Lanes by node name, and the job's own."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[_Bucket]] = {}

    def add(self, now_us: int, verdict: JobVerdict) -> None:
        """Take the verdicts of one tick; going back in time forgets what came after."""
        no = bucket_of(now_us)
        self._put(JOB, no, verdict.job)
        for node in verdict.nodes:
            self._put(node.node or "?", no, node)

    def _put(self, name: str, no: int, verdict: Verdict) -> None:
        lane = self._lanes.setdefault(name, deque(maxlen=KEPT))
        while lane and lane[-1].no > no:
            lane.pop()
        letter = LETTERS[verdict.state]
        if not lane or lane[-1].no < no:
            lane.append(_Bucket(no, letter))
        bucket = lane[-1]
        bucket.letter = letter
        share = computing(verdict)
        if share is not None:
            bucket.total += share
            bucket.seen += 1

    def letters(self, name: str, now_us: int, buckets: int) -> list[str | None]:
        """Return the last letters of a lane, oldest first; None where nothing was seen."""
        end = bucket_of(now_us)
        row: list[str | None] = [None] * buckets
        for bucket in self._lanes.get(name, ()):
            place = bucket.no - end + buckets - 1
            if 0 <= place < buckets:
                row[place] = bucket.letter
        return row

    def activity(self, name: str, now_us: int, cells: int) -> list[float | None]:
        """Return the compute share over 5 minutes, oldest first; None where nothing was seen.

        Args:
            name: of the node.
            now_us: where the strip ends.
            cells: of the strip; a divisor of STRIP_BUCKETS.
        """
        end = bucket_of(now_us)
        each = STRIP_BUCKETS // cells
        totals, seen = [0.0] * cells, [0] * cells
        for bucket in self._lanes.get(name, ()):
            place = (bucket.no - end + STRIP_BUCKETS - 1) // each
            if 0 <= place < cells:
                totals[place] += bucket.total
                seen[place] += bucket.seen
        return [t / n if n else None for t, n in zip(totals, seen, strict=True)]


def bucket_of(now_us: int) -> int:
    """Return the number of the bucket that a moment is in."""
    return now_us // (BUCKET_S * 1_000_000)
