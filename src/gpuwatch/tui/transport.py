"""What a replay lets the screen steer; a live feed has nothing of it."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Transport"]


class Transport(Protocol):
    """Steers a feed that plays a recording; times are microseconds as `Event.arrived_us`."""

    speed: float
    paused: bool

    @property
    def span(self) -> tuple[int, int]:
        """The first and last moment that can be gone to."""

    @property
    def changes(self) -> Sequence[int]:
        """Moments at which the job's verdict changed, in order."""

    def seek(self, now_us: int) -> None:
        """Go to a moment."""

    def step(self) -> None:
        """Go one tick on, and stop there."""
