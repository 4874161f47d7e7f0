"""gpuwatch: what a distributed training job is waiting on, and who is to blame."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwatch.recording.tables import Tables

__all__ = ["__version__", "open"]

__version__ = "0.1.0"
# The agent may come by here as well, under Python 3.6: annotations are left as texts.


def open(place: "str | Path") -> "Tables":  # noqa: A001 - a name of the public interface, called as gpuwatch.open
    """Open a recording for questions: its tables as polars LazyFrames.

    Args:
        place: a folder, or a packed recording (.gwz).

    Raises:
        RecordingError: it is no recording, or of a newer format.
    """
    from gpuwatch.recording.tables import Tables

    return Tables(place)
