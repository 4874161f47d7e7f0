"""What is judged on a node: each rank with its GPU; GPUs alone where no rank is seen."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec

from gpuwatch.agent.metric import Labels
from gpuwatch.model.view import NodeView, Window
from gpuwatch.verdict import features, gpu, rank
from gpuwatch.verdict.evidence import Context
from gpuwatch.verdict.levels import Learned, learn
from gpuwatch.verdict.peers import Survey, held_gpus
from gpuwatch.verdict.rank import Opinion
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["Look", "opinions"]

_ENOUGH = 0.9
"""Share of the learning time that a slow window must be long."""


class Look(msgspec.Struct, frozen=True, gc=False):
    """One node at one tick, and what it is judged with."""

    now_us: int
    node: NodeView
    fast: Window
    slow: Window
    latest: Window
    survey: Survey
    thresholds: Thresholds
    baseline: Mapping[str, float] = {}


class _Unit(msgspec.Struct, frozen=True, gc=False):
    """A rank, or a GPU without: `name` is empty where there is neither to speak of."""

    name: str
    rank: features.Threads | None
    gpu: Labels | None
    held: bool


def opinions(
    look: Look, learned: MutableMapping[str, Learned]
) -> tuple[tuple[Opinion, ...], str | None]:
    """Judge every rank of a node, and say which group the node's verdict is about.

    Args:
        look: the node.
        learned: levels of all GPUs, carried on here.
    """
    host = features.host(look.fast, look.slow, look.thresholds)
    absent = dict(look.node.absences())
    found = []
    units = _units(look)
    cores = _loader_cores(units)
    blamed = look.survey.peers.blamed
    known_of_node: dict[Any, Any] = {}
    for unit in units:
        group = unit.rank.group if unit.rank else None
        job = look.survey.job(look.node.name, group)
        ours = job == look.survey.main
        count = look.survey.peers.ranks.get(job, 1)
        context = Context(
            _gpu(look, unit, learned, absent, partner=count > 1),
            unit.rank,
            host,
            look.survey.peers,
            unit.held,
            count,
            absent,
            look.thresholds,
            look.fast,
            look.slow,
            unit.gpu,
            cores.get(group or ""),
            ours and bool(blamed) and look.node.name not in blamed,
            ours and look.node.name in blamed and look.survey.peers.blamed_for == "NETWORK",
            known_of_node,
        )
        index = unit.gpu[0] if unit.gpu else unit.rank.gpu if unit.rank else None
        found.append(
            rank.judge(
                look.node.name, unit.name, group, index if isinstance(index, int) else None, context
            )
        )
    return tuple(found), _group(look, found)


def _units(look: Look) -> list[_Unit]:
    gpus = {labels[0]: labels for labels in look.fast.entities("gpu")}
    ranks = features.threads(look.fast, look.slow)
    if ranks:
        return [_Unit(r.rank, r, gpus.get(r.gpu), held=True) for r in ranks]
    held = held_gpus(look.node) & gpus.keys()
    if held:
        return [_Unit(f"gpu:{i}", None, gpus[i], held=True) for i in sorted(held)]
    return [_Unit("", None, labels, held=False) for labels in gpus.values() or (None,)]


def _loader_cores(units: list[_Unit]) -> dict[str, float]:
    """Return, by group, what all loaders of its ranks use together."""
    cores: dict[str, float] = {}
    for unit in units:
        used = unit.rank.role("loader").cores if unit.rank else None
        if unit.rank and used is not None:
            cores[unit.rank.group] = cores.get(unit.rank.group, 0.0) + used
    return cores


def _group(look: Look, found: list[Opinion]) -> str | None:
    """Return the group of the job that is judged, else the node's largest."""
    counts: dict[str | None, int] = {}
    for opinion in found:
        counts[opinion.group] = counts.get(opinion.group, 0) + 1
    main = look.survey.main
    return max(
        counts, key=lambda g: (look.survey.job(look.node.name, g) == main, counts[g], g or "")
    )


def _gpu(
    look: Look,
    unit: _Unit,
    learned: MutableMapping[str, Learned],
    absent: dict[str, str],
    *,
    partner: bool,
) -> gpu.Gpu:
    index = unit.gpu[0] if unit.gpu else unit.rank.gpu if unit.rank else None
    lost = absent.get(f"nvml.gpu{index}")
    if unit.gpu is None or lost:
        return gpu.unread(lost or absent.get("nvml", "which GPU the rank uses could not be told"))
    key = f"{look.node.name} {unit.gpu[1]}"
    rests = _rests(look, unit.gpu)
    enough_s = _ENOUGH * look.thresholds.learn_after
    full_w = None
    if look.slow.seconds >= enough_s:
        full_w = gpu.full_power(look.slow, unit.gpu, look.thresholds, rests)
    process = unit.rank.pid if unit.rank else None
    now = gpu.seen(look.fast, unit.gpu, rests)
    known = learn(
        learned.get(key),
        process,
        look.now_us,
        round(enough_s * 1e6),
        None if now.smoothed else full_w,
        working=now.works(look.thresholds),
        fast_us=round(look.thresholds.fast_window * 1e6),
        fast_w=now.power_w,
        trip_ms=_trip_ms(unit),
    )
    learned[key] = known
    return gpu.read(
        now,
        look.slow,
        look.latest,
        unit.gpu,
        now_us=look.now_us,
        occupied=unit.held,
        partner=partner,
        learned=known,
        thresholds=look.thresholds,
        baseline_w=look.baseline.get(str(unit.gpu[2])),
        rests=rests,
    )


def _rests(look: Look, labels: Labels) -> float | None:
    """Return for how much of the last seconds a GPU of unknown utilisation was idle."""
    if look.fast.rate("gpu", labels, "util_pct") is not None:
        return None
    seconds = 2 * look.thresholds.fast_window
    return gpu.rested(look.node.readings("gpu", labels, "event_reasons", seconds))


def _trip_ms(unit: _Unit) -> float | None:
    """Return the longest mean round trip of a rank's main process; None where none is known."""
    connections = unit.rank.connections if unit.rank else ()
    trips = [c.trip_ms for c in connections if c.role == "main" and c.trip_ms is not None]
    return max(trips, default=None)
