"""Events: what happened, newest first."""

from gpuwatch.tui.paint.numbers import clock
from gpuwatch.tui.paint.spans import Line, fit, safe
from gpuwatch.tui.scene import Scene

__all__ = ["log"]

ROLES = {"fault": "bad", "link": "warn", "verdict": "strong", "marker": "key"}


def log(scene: Scene) -> list[Line]:
    """Return a line an incident."""
    if not scene.incidents:
        return [((" nothing happened yet", "dim"),)]
    return [
        (
            (f" {clock(i.wall_us)}  ", "dim"),
            (fit(safe(i.node or "job"), 14) + "  ", "strong"),
            (fit(i.kind, 9), ROLES.get(i.kind, "text")),
            (safe(i.text), "text"),
        )
        for i in scene.incidents
    ]
