"""A feed that plays a recording, as far as the screen steers it; a live feed has nothing of it."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from gpuwatch.model.event import AnyEvent

__all__ = ["Transport"]


@runtime_checkable
class Transport(Protocol):
    """Plays in passes, each from where it was last sent; times are the recording's wall clock.

    Attributes:
        speed: as a multiple of real time; None: as fast as it goes.
        paused: whether it stands still.
    """

    speed: float | None
    paused: bool

    @property
    def span(self) -> tuple[int, int]:
        """First and last moment, in microseconds."""

    @property
    def running_up(self) -> bool:
        """Whether what comes now only leads up to the moment that was sought."""

    @property
    def closed(self) -> bool:
        """Whether no further pass is to come."""

    def play(self) -> AsyncIterator[AnyEvent]:
        """Yield the events of one pass; it ends when a moment is sought."""

    def seek(self, wall_us: int) -> None:
        """Begin a new pass at a moment."""

    def step(self) -> None:
        """Pause, and go on to the next tick."""

    def close(self) -> None:
        """End this pass, and all."""
