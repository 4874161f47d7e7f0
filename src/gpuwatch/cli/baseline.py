"""What GPUs drew in a good run: the levels that a job file's `baseline` gives the judge to begin with."""

from collections.abc import Iterator
from pathlib import Path

import gpuwatch.recording
from gpuwatch.errors import InputError
from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Tick
from gpuwatch.model.view import NodeView
from gpuwatch.verdict.gpu import full_power
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["levels_of"]

_LOOKED_AT_US = 600_000_000
"""So much of a longer recording is read, around its middle: a job starts and ends with other work."""
_EVERY = 5
"""Ticks between two looks: windows overlap."""


def levels_of(path: Path) -> dict[str, float]:
    """Return what full work drew in a good run, in watts, by GPU model.

    Of one GPU the most over a slow window counts, as for what the judge itself learns; of all GPUs
    of a model the least: stages of a pipeline differ, and what is wanted is a level below which no
    GPU of the good run stayed.

    Args:
        path: of the recording.

    Raises:
        InputError: no GPU of it was seen at full work.
        RecordingError: it is no recording.
    """
    best: dict[tuple[str, str, str], float] = {}
    for node in _looks(path):
        for found, watts in _at_full_work(node).items():
            best[found] = max(watts, best.get(found, 0.0))
    least: dict[str, float] = {}
    for (_, _, model), watts in best.items():
        least[model] = min(watts, least.get(model, watts))
    if not least:
        raise InputError(
            f"baseline: {path}: none of its GPUs was seen at full work",
            "give a recording of a good run that was watched for some minutes",
        )
    return least


def _looks(path: Path) -> Iterator[NodeView]:
    """Yield the nodes of a recording as they were at ticks around its middle."""
    recording = gpuwatch.recording.open(path)
    facts = recording.session
    cluster = Cluster(facts.nodes, facts.interval_s)
    first_us, last_us = recording.span()
    begin_us = max(first_us, (first_us + last_us - _LOOKED_AT_US) // 2)
    ticks = 0
    for event in recording.events(recording.event_no_at(begin_us)):
        if event.wall_us > begin_us + _LOOKED_AT_US:
            break
        cluster.apply(event)
        if isinstance(event, Tick):
            ticks += 1
            if ticks % _EVERY == 0:
                yield from cluster.view(event).nodes


def _at_full_work(node: NodeView) -> dict[tuple[str, str, str], float]:
    """Return the mean power of GPUs that worked for all of a slow window, by node, UUID and model."""
    thresholds = Thresholds()
    window = node.window(thresholds.slow_window)
    if window is None or window.seconds < thresholds.learn_after:
        return {}
    found = {}
    for labels in window.entities("gpu"):
        watts = full_power(window, labels, thresholds)
        if watts:
            found[node.name, str(labels[1]), str(labels[2])] = watts
    return found
