"""How far a node's wall clock is from the viewer's, from heartbeats and four timestamps.

The viewer notes when it sent heartbeat N, the agent when it heard it; a frame that cites N says
when it was taken, and the viewer notes when it came. As NTP does (RFC 5905, section 10), the
exchange with the shortest round trip of the last few is trusted: queues only ever add delay.
"""

from collections import deque

from gpuwatch.agent.metric import INT64_MAX

__all__ = ["Offset"]

KEPT_BEATS = 64
KEPT_EXCHANGES = 16


class Offset:
    """The offset of one link; a new link starts anew. All times are in microseconds."""

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}
        self._exchanges: deque[tuple[int, int]] = deque(maxlen=KEPT_EXCHANGES)

    def sent(self, beat: int, mono_us: int) -> None:
        """Note when a heartbeat was sent, on the viewer's monotonic clock."""
        self._sent[beat] = mono_us
        if len(self._sent) > KEPT_BEATS:
            del self._sent[next(iter(self._sent))]

    def trip_us(self, beat: int, node: tuple[int, int], came_us: int) -> int | None:
        """Return how long a frame and the beat that it cites were under way, taken together.

        The frame is at most so old when it comes, whatever the two clocks say.

        Args:
            beat: that the frame cites.
            node: when the beat was heard and when the frame was taken, on the node's clock.
            came_us: when the frame came, on the viewer's clock.

        Returns:
            None where the beat is not known any more, or the stamps cannot be right.
        """
        heard_us, taken_us = node
        sent_us = self._sent.get(beat)
        if sent_us is None or taken_us < heard_us:
            return None
        trip_us = (came_us - sent_us) - (taken_us - heard_us)
        return trip_us if trip_us >= 0 else None

    def heard(
        self,
        beat: int,
        node: tuple[int, int, int],
        viewer: tuple[int, int],
    ) -> tuple[int, int] | None:
        """Take a frame's stamps and return the offset and half of the round trip.

        Args:
            beat: that the frame cites.
            node: when the beat was heard and when the frame was taken, both on the node's
                monotonic clock, and the latter on its wall clock.
            viewer: when the frame came, on the viewer's monotonic and wall clocks.

        Returns:
            The node's wall clock less the viewer's, and the most by which that may be wrong;
            None before the first heartbeat was answered, and where the clocks cannot be right.
        """
        heard_us, taken_us, node_wall_us = node
        came_us, viewer_wall_us = viewer
        trip_us = self.trip_us(beat, (heard_us, taken_us), came_us)
        if trip_us is not None:
            between_us = (heard_us - self._sent[beat] + taken_us - came_us) // 2
            self._exchanges.append((trip_us, between_us))
        if not self._exchanges:
            return None
        trip_us, between_us = min(self._exchanges)
        offset_us = between_us + (node_wall_us - taken_us) - (viewer_wall_us - came_us)
        return (offset_us, trip_us // 2) if abs(offset_us) <= INT64_MAX else None
