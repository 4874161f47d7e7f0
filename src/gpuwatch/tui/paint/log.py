"""Events: what happened, newest first."""

from gpuwatch.tui.paint.numbers import clock
from gpuwatch.tui.paint.spans import Line, fit, safe
from gpuwatch.tui.scene import Incident, Scene

__all__ = ["log"]

ROLES = {"fault": "bad", "verdict": "strong", "marker": "key"}
BROKEN = ("lost", "refused")
"""States of a link that a person should see."""


def log(scene: Scene) -> list[Line]:
    """Return a line an incident."""
    if not scene.incidents:
        return [((" nothing happened yet", "dim"),)]
    return [
        (
            (f" {clock(i.wall_us)}  ", "dim"),
            (fit(safe(i.node or "job"), 14) + "  ", "strong"),
            (fit(i.kind, 9), _role(i)),
            (safe(i.text), "text"),
        )
        for i in scene.incidents
    ]


def _role(incident: Incident) -> str:
    if incident.kind == "link" and incident.text.startswith(BROKEN):
        return "warn"
    return ROLES.get(incident.kind, "text")
