"""Events: what happened, newest first."""

from gpuwatch.tui.paint.numbers import clock
from gpuwatch.tui.paint.spans import Line, Span, fit, safe
from gpuwatch.tui.scene import Incident, Scene

__all__ = ["entry", "log", "sign"]

ROLES = {"fault": "bad", "alert": "bad", "verdict": "strong", "marker": "key"}
SIGNS = {"fault": "!", "marker": "m", "alert": "a", "link": "l", "agent": "+"}
BROKEN = ("lost", "refused")
"""States of a link that a person should see."""


def log(scene: Scene) -> list[Line]:
    """Return a line an incident."""
    if not scene.incidents:
        return [((" nothing happened yet", "dim"),)]
    return [entry(incident) for incident in scene.incidents]


def entry(incident: Incident) -> Line:
    """Return one incident's line."""
    return (
        (f" {clock(incident.wall_us)}  ", "dim"),
        (fit(safe(incident.node or "job"), 14) + "  ", "strong"),
        (fit(incident.kind, 9), _role(incident)),
        (safe(incident.text), "text"),
    )


def sign(incident: Incident) -> Span:
    """Return one cell that stands for an incident in a lane."""
    return SIGNS.get(incident.kind, "\N{BULLET}"), _role(incident)


def _role(incident: Incident) -> str:
    if incident.kind == "link" and incident.text.startswith(BROKEN):
        return "warn"
    return ROLES.get(incident.kind, "text")
