"""The words and letters of the screen: one place, so that the same fact reads the same anywhere."""

from gpuwatch.model.verdict import LETTERS, STATES, Culprit, State, Verdict
from gpuwatch.tui.paint.spans import Line, safe

__all__ = [
    "GPU_LETTERS",
    "GPU_ROLES",
    "LEGEND",
    "WAITS",
    "computing",
    "culprits",
    "role_of",
    "role_of_words",
    "state_words",
]

GPU_LETTERS = {
    "C": "compute", "S": "spin", "X": "exchange", "_": "starved", "i": "idle", "H": "hot", "!": "fault",
    "?": "not told", "\N{MIDDLE DOT}": "no reading",
}  # fmt: skip
"""What one GPU does, in the GPU row only."""

GPU_ROLES = {
    "C": "compute", "S": "peer", "X": "network", "_": "warn", "i": "idle", "H": "gpu", "!": "bad",
    "?": "unknown", "\N{MIDDLE DOT}": "gap",
}  # fmt: skip
"""The role of each of these letters."""

WAITS = {
    "run": "running", "ready": "waits for CPU", "block-read": "disk read", "block-write": "disk write",
    "netfs": "network fs", "fuse": "FUSE", "memory": "reclaim", "socket": "socket", "poll": "poll",
    "futex": "futex", "pipe": "pipe", "sleep": "timer", "gpu": "GPU driver", "process": "child", "stopped": "stopped",
    "unknown": "unknown",
}  # fmt: skip
"""Short words for the families of gpuwatch.agent.waits."""

TOLD = 0.5
"""Above this share of unknown time, the rest says too little to be drawn."""

LEGEND: Line = tuple(
    span
    for state in STATES
    for span in ((f"{LETTERS[state]} ", state.lower()), (f"{state.lower()}  ", "dim"))
)


def role_of(state: State) -> str:
    """Return the role that a state is drawn in."""
    return state.lower()


def computing(verdict: Verdict | None) -> float | None:
    """Return the share of GPU time in compute; None while most of the time cannot be told."""
    if verdict is None or verdict.shares is None or verdict.shares.unknown > TOLD:
        return None
    return verdict.shares.compute


def role_of_words(words: str) -> str:
    """Return the role of what `state_words` returned."""
    return words.partition(" ")[0].lower()


def state_words(verdict: Verdict) -> str:
    """Return a verdict in a few words: STORAGE read, PEER gpu03."""
    if verdict.state == "PEER":
        return " ".join(("PEER", *culprits(verdict.culprits[:1])))
    return f"{verdict.state} {safe(verdict.cause)}" if verdict.cause else verdict.state


def culprits(blamed: tuple[Culprit, ...]) -> list[str]:
    """Return the names of who is to blame."""
    return [safe(c.id) for c in blamed if c.kind != "unknown"]
