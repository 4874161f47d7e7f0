"""Every number that the verdict compares with: named, typed, bounded, with its source.

A threshold is one field of `Thresholds`: its default and, in the annotation, its unit, bounds,
meaning and where the number comes from. The job file, the docs and the recording use this name.
A percentage is kept as a share (`retransmit` is 0.001), a time in seconds.
"""

import re
from typing import Annotated, NamedTuple, get_args, get_type_hints

import msgspec

__all__ = ["ROWS", "Row", "Threshold", "Thresholds", "parse", "shown", "table"]


class Threshold(NamedTuple):
    """What is known of a threshold besides its name and default.

    Attributes:
        unit: `%`, `s`, `MB/s`, or empty for a plain number.
        low: smallest value allowed, as kept (a share for `%`).
        high: largest value allowed, as kept.
        meaning: one sentence.
        source: where the number comes from.
    """

    unit: str
    low: float
    high: float
    meaning: str
    source: str


def _share(meaning: str, source: str) -> Threshold:
    return Threshold("%", 0.0, 1.0, meaning, source)


def _time(meaning: str, source: str, high: float = 3600.0) -> Threshold:
    return Threshold("s", 1.0, high, meaning, source)


def _count(meaning: str, source: str) -> Threshold:
    return Threshold("", 0.0, 1e9, meaning, source)


_OWN = "starting point; tried on a three-node job with real faults"
_MONITOR = "NVIDIA's data centre monitor (DCGM, hardware limits) warns from here on"
_HABIT = "rule of thumb of people who run training jobs"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All thresholds of one judge. What a field means is in `ROWS`."""

    gpu_busy: Annotated[
        float,
        _share("A GPU whose utilisation is below this is worth a look.", _HABIT),
    ] = 0.80
    gpu_idle: Annotated[
        float,
        _share("Below this utilisation a GPU does nothing.", _OWN),
    ] = 0.05
    compute_power: Annotated[
        float,
        _share(
            "Share of the power limit from which on a busy GPU surely computes, while its own "
            "level is not known.",
            "published readings of H100 while training: 71 to 99 %",
        ),
    ] = 0.55
    spin_power: Annotated[
        float,
        _share(
            "Share of the power limit up to which a busy GPU surely spins in a collective, while "
            "its own level is not known.",
            "published readings of waiting V100 and H100: 14 to 22 %",
        ),
    ] = 0.30
    memory_activity: Annotated[
        float,
        _share(
            "Device memory utilisation from which on a low power is work, not spinning.",
            "decoding and small kernels read memory; a spinning collective reads 0 to 5 %",
        ),
    ] = 0.30
    lost: Annotated[
        float,
        _share("GPU time, spun or starved, from which on a wait is looked for.", _OWN),
    ] = 0.30
    compute: Annotated[
        float,
        _share("GPU time in compute from which on nothing is waited for.", _OWN),
    ] = 0.70
    retransmit: Annotated[
        float,
        _share(
            "TCP segments sent again, loss probes left out, above which the network comes first; "
            "compared with the lower end of the 95 % interval (Wilson).",
            _HABIT,
        ),
    ] = 0.001
    retransmit_segments: Annotated[
        float,
        Threshold(
            "",
            100,
            1e9,
            "Segments below which no retransmit rate is told.",
            "ratios need volume: 3 of 900 segments are 0.33 % and mean nothing",
        ),
    ] = 10_000.0
    out_of_order: Annotated[
        float,
        _share(
            "Received TCP segments that came out of order, above which a node is the far end of a "
            "path that loses.",
            "three nodes in a ring: none when healthy, 5 to 14 % behind 9 % of loss",
        ),
    ] = 0.001
    rdma_retransmit: Annotated[
        float,
        _share(
            "RDMA packets sent again above which the network comes first.",
            "starting point; go-back-N makes 0.1 % ruinous, healthy fabrics lose none",
        ),
    ] = 0.000001
    round_trip: Annotated[
        float,
        Threshold(
            "s",
            1e-6,
            10,
            "Round trip to another rank above which, if it is a multiple of what it was in good "
            "minutes, the path is slow.",
            "within a site 0.05 to 0.5 ms; a step's own exchange fills queues of some ms",
        ),
    ] = 0.005
    bandwidth_deficit: Annotated[
        float,
        _share(
            "A link this much below its nominal or its peers' speed is at fault; a port within "
            "this much of its line rate is full.",
            _HABIT,
        ),
    ] = 0.15
    packet_errors: Annotated[
        float,
        _share("Bad packets of all packets of a port above which the link is at fault.", _OWN),
    ] = 0.0001
    storage_wait: Annotated[
        float,
        _share(
            "Thread samples of loaders or main thread in storage from which on storage is waited "
            "for.",
            _OWN,
        ),
    ] = 0.30
    write_rate: Annotated[
        float,
        Threshold(
            "MB/s",
            0,
            1e6,
            "Bytes that a rank makes the storage write from which on it writes a checkpoint.",
            "starting point; logs write kilobytes, checkpoints gigabytes",
        ),
    ] = 10.0
    loader_busy: Annotated[
        float,
        _share(
            "CPU use of each loader from which on data preparation is the limit.",
            "rule of thumb, as a share of what the loaders could use",
        ),
    ] = 0.70
    own_cores: Annotated[
        float,
        Threshold(
            "",
            0.5,
            1024,
            "CPUs that a rank's own threads beside its main thread use from which on they work in the "
            "GPU's stead.",
            "starting point; one launches backward passes, one or two poll a network; an optimizer on "
            "the CPU uses all it gets",
        ),
    ] = 4.0
    main_busy: Annotated[
        float,
        _share(
            "Share of the time in which a GPU starves that its main thread runs, from which on that "
            "thread is the limit.",
            _OWN,
        ),
    ] = 0.90
    run_delay: Annotated[
        float,
        _share(
            "Time that a thread could run and waited for a CPU from which on CPUs are short.",
            "clean runs 0 to 10 %, with CPU competition or a quota 20 to 80 %",
        ),
    ] = 0.20
    quota_periods: Annotated[
        float,
        _share(
            "Periods of a CPU quota in which it stopped the job from which on it is the cause.",
            "a quota that is not reached stops nothing; at 20 % of a CPU 42 of 48 periods were stopped",
        ),
    ] = 0.10
    host_busy: Annotated[
        float,
        _share("CPU use of a node from which on its CPUs are all taken.", _OWN),
    ] = 0.85
    steal: Annotated[
        float,
        _share("CPU time taken by the hypervisor from which on it is the cause.", _OWN),
    ] = 0.05
    throttled: Annotated[
        float,
        _share(
            "Time slowed by heat or power brake from which on a GPU is throttled; the power cap "
            "does not count.",
            _OWN,
        ),
    ] = 0.10
    clock_deficit: Annotated[
        float,
        _share("SM clock this much below its maximum is low.", _OWN),
    ] = 0.15
    power_deficit: Annotated[
        float,
        _share(
            "A power limit this far below the usual one of its model is too low.",
            "starting point; never tried on a GPU with a lower limit",
        ),
    ] = 0.15
    pcie_replays: Annotated[
        float,
        _count("Packets sent again a minute from which on a PCIe link is bad.", _MONITOR),
    ] = 8.0
    nvlink_errors: Annotated[
        float,
        _count("Broken units and replays a second from which on NVLinks are bad.", _MONITOR),
    ] = 100.0
    wait_spread: Annotated[
        float,
        _share(
            "Difference of waiting between nodes from which on the one that waits least is "
            "suspected.",
            _OWN,
        ),
    ] = 0.20
    culprit_share: Annotated[
        float,
        _share("Largest share of a job's nodes that can be the exception.", _OWN),
    ] = 0.25
    margin: Annotated[
        float,
        _share("Lead in score below which two candidates are shown.", _OWN),
    ] = 0.15
    score: Annotated[
        float,
        _share("Score below which a cause is not told: the verdict is UNKNOWN.", _OWN),
    ] = 0.30
    fast_window: Annotated[
        float, _time("Stretch that scores are taken from.", "NVML averages over up to 1 s", 30)
    ] = 5.0
    slow_window: Annotated[
        float, _time("Stretch that levels and rare events are taken from.", _OWN, 30)
    ] = 30.0
    suspect_after: Annotated[
        float,
        _time(
            "A wait that leads by the least score that counts is suspected after this long; one that "
            "leads by more, sooner.",
            "Page's cumulative sum test; " + _OWN,
        ),
    ] = 4.0
    confirm_after: Annotated[float, _time("A wait this long is confirmed.", _OWN)] = 30.0
    exit_after: Annotated[
        float, _time("A verdict ends when its score was low for this long.", _OWN)
    ] = 10.0
    dwell: Annotated[float, _time("A verdict stays at least this long.", _OWN)] = 10.0
    exit_score: Annotated[float, _share("A score is low below this share of `score`.", _OWN)] = 0.70
    recurring_count: Annotated[
        float,
        Threshold("", 2, 20, "Episodes of one kind that make it recurring.", _OWN),
    ] = 3.0
    recurring_within: Annotated[
        float, _time("Stretch in which episodes are counted.", _OWN, 86_400)
    ] = 900.0
    hung_after: Annotated[
        float,
        _time(
            "Stretch in which nothing at all must have moved on any node before a job hangs.",
            "steps take seconds; checkpoints, evaluation and collections move something",
            30,
        ),
    ] = 30.0
    learn_after: Annotated[
        float,
        _time("Seconds of full work from which a GPU's own compute level is taken.", _OWN),
    ] = 10.0
    slowdown: Annotated[
        float,
        _share(
            "Change of speed below which there is no slowdown.",
            "Greyhound (ATC'25): less is jitter",
        ),
    ] = 0.10

    def as_dict(self) -> dict[str, float]:
        """Return every threshold by name, as kept: shares, seconds, plain numbers."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Row(msgspec.Struct, frozen=True):
    """One row of the documentation: a threshold in words."""

    name: str
    default: str
    allowed: str
    meaning: str
    source: str


ROWS: dict[str, Threshold] = {
    name: get_args(hint)[1]
    for name, hint in get_type_hints(Thresholds, include_extras=True).items()
}
"""Unit, bounds, meaning and source of every threshold, by name."""

_NUMBER = re.compile(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*([A-Za-z%/]*)\s*", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"kB/s": 0.001, "MB/s": 1.0, "GB/s": 1000.0}


def parse(name: str, text: str) -> float:
    """Return the value of a threshold as a person wrote it (`0.1%`, `30s`, `4.5`).

    A bare number is in the row's unit: `80` for `gpu_busy` is 80 %.

    Raises:
        ValueError: no such threshold, or not a value of it; says what is allowed.
    """
    row = ROWS.get(name)
    if row is None:
        raise ValueError(f"no threshold {name!r}; there are {', '.join(ROWS)}")
    allowed = f"{name} takes {_range(row)}"
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{allowed}, not {text[:40]!r}")
    factor = _factors(row.unit).get(match[2] or row.unit)
    if factor is None:
        raise ValueError(f"{allowed}, not {text[:40]!r}")
    value = float(match[1]) * factor
    if not row.low <= value <= row.high:
        raise ValueError(f"{allowed}, not {text[:40]!r}")
    return value


def table() -> tuple[Row, ...]:
    """Return all thresholds in words, in order, for the documentation."""
    defaults = Thresholds().as_dict()
    return tuple(
        Row(name, shown(name, defaults[name]), _range(row), row.meaning, row.source)
        for name, row in ROWS.items()
    )


def _factors(unit: str) -> dict[str, float]:
    match unit:
        case "%":
            return {"%": 0.01}
        case "s":
            return _SECONDS
        case "MB/s":
            return _BYTES
    return {"": 1.0}


def shown(name: str, kept: float) -> str:
    """Return a threshold's value in its unit, as a person would write it."""
    unit = ROWS[name].unit
    return f"{kept * 100 if unit == '%' else kept:.6g} {unit}".rstrip()


def _range(row: Threshold) -> str:
    low, high = (f"{v * 100 if row.unit == '%' else v:,.6g}" for v in (row.low, row.high))
    return f"{low} to {high} {row.unit}".rstrip()
