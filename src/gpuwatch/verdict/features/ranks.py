"""What ranks do on a node: their threads, where these wait, and what they may use."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gpuwatch.agent.metric import Label, Labels
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.features.connections import Connection, connections
from gpuwatch.verdict.features.rates import PAGE_MB, scaled

__all__ = ["NO_ROLE", "Allowance", "Role", "Threads", "Waits", "threads"]

ENOUGH_SAMPLES = 10
"""Thread samples below which no share is told: two seconds at 5 Hz."""
_WANTED = 0.02
"""Share of a CPU that threads must have wanted before it is told which part of it they got."""
_HIDDEN_QUOTAS = {"cgroup.above", "cgroup.quota_cpus"}
"""Where these are absent there may be a quota that is not seen."""
_RATES = Columns(
    "thread_group", "threads", "sampled_threads", "run_ns", "delay_ns", "storage_read_bytes",
    "storage_write_bytes",
)  # fmt: skip
_FACTS = Columns("thread_group", "world_size", "age_s")
_MEMORY = Columns("cgroup", "memory_bytes", "memory_limit_bytes", "cpus_allowed")
_PERIODS = Columns("cgroup", "throttled_periods", "periods")


class Waits(msgspec.Struct, frozen=True, gc=False):
    """Where a role's threads were found, as shares of their samples.

    `starved` tells whether only samples count in which the rank's GPU was idle: with a full
    prefetch queue, loaders that read while the GPU works are no wait.
    """

    shares: dict[str, float]
    samples: float
    starved: bool

    def share(self, *families: str) -> float:
        """Return the share of samples in these families."""
        shares, total = self.shares, 0.0
        for family in families:
            total += shares.get(family, 0.0)
        return total

    def longest(self, *families: str) -> str:
        """Return which of these families was met most."""
        return max(families, key=lambda family: (self.shares.get(family, 0.0), family))


class Role(msgspec.Struct, frozen=True, gc=False):
    """The threads of one role: `run` and `delay` are shares of one CPU, a thread that uses any.

    `cores` is what all of them used together, `allowed` on how many CPUs any of them may run.
    """

    threads: float | None = None
    run: float | None = None
    delay: float | None = None
    cores: float | None = None
    allowed: float | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    waits: Waits | None = None

    @property
    def late(self) -> float | None:
        """Return the part of the time that its threads wanted to run in which they did not."""
        if self.run is None or self.delay is None or self.run + self.delay < _WANTED:
            return None
        return self.delay / (self.run + self.delay)


NO_ROLE = Role()
"""Of which nothing is known."""


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """What a rank's control group lets it use.

    `throttled` is the share of periods in which a quota stopped it: 0 without a quota. `cpus` is
    on how many CPUs it may run. `memory` is how full its memory limit is, None without one;
    `refault_mb_s` what of files was read again soon after it had to give way.
    """

    throttled: float | None = None
    cpus: float | None = None
    memory: float | None = None
    refault_mb_s: float | None = None


class Threads(msgspec.Struct, frozen=True, gc=False):
    """A rank: one process tree."""

    group: str
    rank: str
    pid: int | None
    gpu: int | None
    world: int | None
    roles: dict[str, Role]
    allowance: Allowance = Allowance()
    age_s: float | None = None
    connections: tuple[Connection, ...] = ()

    def role(self, name: str) -> Role:
        """Return a role; one of which nothing is known when the rank has none."""
        return self.roles.get(name, NO_ROLE)


def threads(window: Window, slow: Window) -> tuple[Threads, ...]:
    """Return the ranks of a node's last sample.

    Args:
        window: what is told as a mean.
        slow: where a thread was looked at too seldom in the other, as on a busy node.
    """
    roles, waits = window.entities("thread_group"), _waits(window)
    if any(labels[:3] not in waits for labels in roles):
        waits = _waits(slow) | waits
    sockets, cgroups = connections(window, slow), _cgroups(window)
    found: dict[Labels, Threads] = {}
    for labels in roles:
        known = found.get(labels[:2])
        if known is None:
            group, rank = str(labels[0]), str(labels[1])
            world, age_s = window.latest_of(labels, _FACTS)
            known = found[labels[:2]] = Threads(
                group,
                rank,
                _number(labels[3]),
                _number(labels[4]),
                None if world is None else int(world),
                {},
                _allowed(cgroups, group, rank),
                age_s,
                sockets.get(labels[:2], ()),
            )
        known.roles[str(labels[2])] = _role(window, labels, waits.get(labels[:3]))
    return tuple(found.values())


def _waits(window: Window) -> dict[Labels, Waits]:
    """Return by group, rank and role where threads were found."""
    counts: dict[Labels, tuple[dict[str, float], dict[str, float]]] = {}
    for labels, count in window.growths("thread_wait", "wait_samples"):
        if count == 0:
            continue
        every, starved = counts.setdefault(labels[:3], ({}, {}))
        family = str(labels[3])
        every[family] = every.get(family, 0.0) + count
        if labels[4] == "idle":
            starved[family] = starved.get(family, 0.0) + count
    found = {}
    for key, (every, starved) in counts.items():
        known = _shares(starved, starved=True) or _shares(every, starved=False)
        if known:
            found[key] = known
    return found


def _shares(counts: dict[str, float], *, starved: bool) -> Waits | None:
    total = sum(counts.values())
    if total < ENOUGH_SAMPLES:
        return None
    return Waits({family: n / total for family, n in counts.items()}, total, starved)


def _role(window: Window, labels: Labels, waits: Waits | None) -> Role:
    threads, sampled, run, delay, read, written = window.rates_of(labels, _RATES)
    return Role(
        threads,
        run / 1e9 / sampled if run is not None and sampled else None,
        delay / 1e9 / sampled if delay is not None and sampled else None,
        scaled(run, 1e-9),
        window.latest("placement", labels[:3], "cpus_allowed"),
        scaled(read, 1e-6),
        scaled(written, 1e-6),
        waits,
    )


class _Cgroup(NamedTuple):
    """Whom a control group serves, all where that is None, and what it allows."""

    group: Label
    rank: Label
    allowance: Allowance


_NO_CGROUP = _Cgroup(None, None, Allowance())


def _cgroups(window: Window) -> list[_Cgroup]:
    """Return those that have ranks."""
    return [
        _Cgroup(labels[1], labels[2], _allowance(window, labels))
        for labels in window.entities("cgroup")
        if window.latest("cgroup", labels, "ranks")
    ]


def _allowed(cgroups: Sequence[_Cgroup], group: str, rank: str) -> Allowance:
    """Return what the cgroup of a rank allows, or the one that it shares with others."""
    fitting = [c for c in cgroups if c.group in (None, group) and c.rank in (None, rank)]
    own = [c for c in fitting if c.rank is not None]
    return (own[-1:] or fitting[:1] or [_NO_CGROUP])[0].allowance


def _allowance(window: Window, labels: Labels) -> Allowance:
    used, limit, cpus = window.latest_of(labels, _MEMORY)
    return Allowance(
        _stopped(window, labels),
        cpus,
        used / limit if used is not None and limit else None,
        scaled(window.rate("cgroup", labels, "refaults"), PAGE_MB),
    )


def _stopped(window: Window, labels: Labels) -> float | None:
    """Return the share of periods in which a quota stopped a cgroup; 0 where it has none."""
    stopped, periods = window.growths_of(labels, _PERIODS)
    if window.latest("cgroup", labels, "quota_cpus") is None:
        hidden = {labels[0] for labels in window.entities("absence")} & _HIDDEN_QUOTAS
        return None if hidden else 0.0
    if stopped is None or periods is None:
        return None
    return min(1.0, stopped / periods) if periods else 0.0


def _number(label: object) -> int | None:
    return label if isinstance(label, int) else None
