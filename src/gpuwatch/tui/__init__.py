"""The screen: the only room that knows Textual. `watch(Session(...))` shows a job, live or replayed."""

from gpuwatch.tui.app import Watch, watch
from gpuwatch.tui.session import Session
from gpuwatch.tui.transport import Transport

__all__ = ["Session", "Transport", "Watch", "watch"]
