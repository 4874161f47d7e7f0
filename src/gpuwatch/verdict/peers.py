"""What the judgement of one node takes from all the others: ranks, groups, usual links.

A group that a whole job shares (Slurm job, rendezvous) has one name on all nodes; a session has
its own on each node, and is taken for the same job: the largest one, where a node has several.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Values
from gpuwatch.model.verdict import State
from gpuwatch.model.view import NodeView, View
from gpuwatch.verdict.evidence import Peers
from gpuwatch.verdict.still import log_stands, stands
from gpuwatch.verdict.thresholds import Thresholds

__all__ = ["SESSION", "UNSEEN", "Survey", "held_gpus"]

SESSION = "session"
"""The job of all that is known by session only."""
UNSEEN = ""
"""The job of GPUs that are held on nodes where no rank is seen."""
_WORLD = catalogue.INDEX["thread_group"]["world_size"]
_UTIL = catalogue.INDEX["gpu"]["util_pct"]
_LIMIT = catalogue.INDEX["gpu"]["power_limit_w"]
_SPEED = catalogue.INDEX["nic"]["speed_mbps"]
_TRIP = catalogue.INDEX["connection"]["rtt_us"]
_RECENT_S = 5.0
_CARRIER = catalogue.INDEX["nic"]["carrier"]


class Survey:
    """All nodes of one view, looked at once.

    Attributes:
        main: the job that is judged: the one with most ranks; UNSEEN where no rank is seen.
        seen: ranks seen, by job.
        peers: what causes compare with.
    """

    def __init__(
        self,
        view: View,
        thresholds: Thresholds,
        lost: float = 0.0,
        blamed: frozenset[str] = frozenset(),
        blamed_for: State = "UNKNOWN",
    ) -> None:
        self._jobs: dict[tuple[str, str], str] = {}
        self._groups: dict[str, dict[str, dict[str, int]]] = {}
        seen: Counter[str] = Counter()
        world: dict[str, int] = {}
        speeds: dict[str, list[float]] = {}
        up: Counter[str] = Counter()
        limits: dict[str, list[float]] = {}
        fresh = [node for node in view.nodes if not node.stale and node.points]
        for node in fresh:
            self._ranks(node, seen, world)
            _ports(node, speeds, up)
            _limits(node, limits)
        self.seen = dict(seen)
        ranked = {job: max(count, world.get(job, 0)) for job, count in seen.items()}
        jobs = [job for job in ranked if job != UNSEEN] or [UNSEEN]
        self.main = max(jobs, key=lambda job: (seen[job], ranked.get(job, 0), job))
        part = [node for node in fresh if self._belongs(node)]
        homes = _homes(view)
        log = log_stands(view.progress, thresholds)
        standing = bool(part) and log is not False and all(stands(n, thresholds) for n in part)
        self.peers = Peers(
            len(fresh),
            ranked,
            {name: tuple(sorted(s)) for name, s in speeds.items()},
            up,
            standing,
            standing and any(_busy(node, thresholds) for node in part),
            homes,
            _fastest_ms(part, homes),
            lost,
            view.progress.still_s if view.progress and log is not None else None,
            blamed,
            blamed_for,
            {model: tuple(sorted(watts)) for model, watts in limits.items()},
        )

    def job(self, node: str, group: str | None) -> str:
        """Return which job a group on a node belongs to."""
        return UNSEEN if group is None else self._jobs.get((node, group), group)

    def _belongs(self, node: NodeView) -> bool:
        return any(self._jobs[node.name, group] == self.main for group in self._groups[node.name])

    def _ranks(self, node: NodeView, seen: Counter[str], world: dict[str, int]) -> None:
        groups = self._groups[node.name] = _groups(node)
        sessions = [group for group in groups if group.startswith("session:")]
        largest = max(sessions, key=lambda g: (len(groups[g]), g), default=None)
        for group, ranks in groups.items():
            job = self._jobs[node.name, group] = SESSION if group == largest else group
            seen[job] += len(ranks)
            world[job] = max(world.get(job, 0), *ranks.values())
        if not groups:
            seen[UNSEEN] += len(held_gpus(node))


def held_gpus(node: NodeView) -> set[int]:
    """Return the indices of the GPUs that some process has a context on."""
    sample = node.sample
    if sample is None:
        return set()
    return {index for row in sample.rows("gpu_process") if isinstance(index := row.labels[0], int)}


def _homes(view: View) -> dict[str, str]:
    """Return whose each address is; of one that several nodes have, as of a bridge of containers, nobody's."""
    owners: dict[str, list[str]] = {}
    for node in view.nodes:
        told = node.hello.facts.get("addresses") if node.hello else None
        for address in set(str(told or "").split()):
            owners.setdefault(address, []).append(node.name)
    return {address: names[0] for address, names in owners.items() if len(names) == 1}


def _fastest_ms(nodes: Sequence[NodeView], homes: Mapping[str, str]) -> float | None:
    """Return the shortest round trip between two nodes: of what sends, as only that is measured."""
    fastest = inf
    for node in nodes:
        window = node.window(_RECENT_S)
        for row in window.sample.rows("connection") if window else ():
            trip = row.values[_TRIP]
            if not trip or trip >= fastest or row.labels[2] != "main":
                continue
            leads = homes.get(str(row.labels[3]), node.name) != node.name
            if leads and window and window.growth("connection", row.labels, "acked_bytes"):
                fastest = trip
    return fastest / 1e3 if fastest < inf else None


def _busy(node: NodeView, thresholds: Thresholds) -> bool:
    """Tell whether a GPU is busy now."""
    limit = thresholds.gpu_idle * 100
    rows = node.sample.rows("gpu") if node.sample else ()
    return any((row.values[_UTIL] or 0) >= limit for row in rows)


def _groups(node: NodeView) -> dict[str, dict[str, int]]:
    """Return, by group and rank, of how many ranks each says that it is one; 0 is unknown."""
    groups: dict[str, dict[str, int]] = {}
    if node.sample is not None:
        for row in node.sample.rows("thread_group"):
            ranks = groups.setdefault(str(row.labels[0]), {})
            rank = str(row.labels[1])
            ranks[rank] = max(ranks.get(rank, 0), _int(row.values, _WORLD))
    return groups


def _ports(node: NodeView, speeds: dict[str, list[float]], up: Counter[str]) -> None:
    if node.sample is None:
        return
    for row in node.sample.rows("nic"):
        name, speed = str(row.labels[0]), row.values[_SPEED]
        if speed is not None:
            speeds.setdefault(name, []).append(speed)
        up[name] += row.values[_CARRIER] == 1


def _limits(node: NodeView, limits: dict[str, list[float]]) -> None:
    for row in node.sample.rows("gpu") if node.sample else ():
        watts = row.values[_LIMIT]
        if watts is not None:
            limits.setdefault(str(row.labels[2]), []).append(watts)


def _int(values: Values, place: int) -> int:
    value = values[place]
    return 0 if value is None else int(value)
