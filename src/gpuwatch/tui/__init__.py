"""The screen: the only room that knows Textual. `Watch(Session(...)).run()` shows a job, live or replayed."""

from gpuwatch.tui.app import Watch
from gpuwatch.tui.session import Session
from gpuwatch.tui.transport import Transport

__all__ = ["Session", "Transport", "Watch"]
