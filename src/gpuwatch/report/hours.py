"""Levels by hour of day: what gets slow each evening is told, what happened once is not.

Storage and networks are shared, and others' habits come back by the hour. A peak is named only
where it came back on several days, stands clear of the day's median and of a level that anybody
would mind, and takes a part of the day only.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

from gpuwatch.report.series import RETRANSMITS, RTT, STORAGE_LATENCY, Bins, Quantity, measured
from gpuwatch.report.types import Hourly, Peak

if TYPE_CHECKING:
    from gpuwatch.recording.reader import Recording

__all__ = ["by_hour", "peak"]

BIN_S = 600
"""An hour's level is the median of bins of so many seconds: a burst is no level."""
BINS = 3
"""Of six, that an hour must have to have a level."""
WORTH_HOURS = 6
"""A recording of less is not told by hour."""
LATEST_DAYS = 60
"""Of a longer recording only so many, the last ones, are told by hour."""
HOURS_OF_DAY = 12
"""Hours of the day that must be known before one of them is high."""
DAYS = 3
"""Days on which a peak must have been seen, and"""
MOST_DAYS = 0.8
"""the share of days that have these hours."""
RATIO = 2.0
"""Times the median from which on an hour is high."""
LONGEST_HOURS = 8
"""What is high for longer is how it is, not a peak."""


def by_hour(recording: "Recording", begin_us: int, end_us: int) -> tuple[Hourly, ...]:
    """Return levels by hour of day, of all nodes together; nothing of a short time.

    Args:
        recording: to read.
        begin_us: wall clock, microseconds.
        end_us: likewise.

    Raises:
        RecordingError: the recording cannot be read.
    """
    if end_us - begin_us < WORTH_HOURS * 3_600_000_000:
        return ()
    width_us = BIN_S * 1_000_000
    first = max(begin_us, end_us - LATEST_DAYS * 86_400_000_000) // width_us
    bins = Bins(first * width_us, width_us, -(-end_us // width_us) - first)
    return tuple(
        _hourly(quantity, series.entity, _levels(series.values, bins))
        for quantity in (RTT, RETRANSMITS, STORAGE_LATENCY)
        for series in measured(recording, quantity, bins, by_node=False)
    )


def peak(levels: Mapping[datetime, float], floor: float) -> Peak | None:
    """Return the hours of the day in which a level is high on nearly every day; None: there are none.

    Args:
        levels: by the beginning of each hour, UTC.
        floor: a level below which it is nobody's trouble.
    """
    days = _by_hour_of_day(levels)
    daily = {hour: median(values) for hour, values in days.items()}
    if len(daily) < HOURS_OF_DAY:
        return None
    usual = median(daily.values())
    limit = RATIO * max(usual, floor / RATIO)
    high = {hour for hour, values in days.items() if _comes_back(values, limit)}
    runs = [run for run in _runs(high) if len(run) <= LONGEST_HOURS]
    if not runs:
        return None
    run = max(runs, key=lambda hours: median(daily[hour] for hour in hours))
    level = median(daily[hour] for hour in run)
    return Peak(
        begin=run[0],
        end=(run[-1] + 1) % 24,
        level=level,
        ratio=level / usual if usual > 0 else None,
        days=min(sum(value >= limit for value in days[hour]) for hour in run),
    )


def _comes_back(values: list[float], limit: float) -> bool:
    high = sum(value >= limit for value in values)
    return high >= DAYS and high >= MOST_DAYS * len(values)


def _runs(hours: Iterable[int]) -> list[list[int]]:
    """Return the hours that follow each other, around midnight too."""
    left, runs = set(hours), []
    if len(left) == 24:
        return []
    for hour in sorted(left):
        if (hour - 1) % 24 not in left:
            run = [hour]
            while (run[-1] + 1) % 24 in left:
                run.append((run[-1] + 1) % 24)
            runs.append(run)
    return runs


def _by_hour_of_day(levels: Mapping[datetime, float]) -> dict[int, list[float]]:
    days: dict[int, list[float]] = {}
    for hour, level in levels.items():
        days.setdefault(hour.hour, []).append(level)
    return days


def _levels(values: tuple[float | None, ...], bins: Bins) -> dict[datetime, float]:
    """Return the level of each hour that was seen for long enough."""
    hours: dict[datetime, list[float]] = {}
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for number, value in enumerate(values):
        if value is not None:
            at = epoch + timedelta(microseconds=bins.begin_us + number * bins.width_us)
            hours.setdefault(at.replace(minute=0, second=0, microsecond=0), []).append(value)
    return {hour: median(found) for hour, found in hours.items() if len(found) >= BINS}


def _hourly(quantity: Quantity, entity: str | None, levels: Mapping[datetime, float]) -> Hourly:
    days = _by_hour_of_day(levels)
    daily = [median(days[hour]) if hour in days else None for hour in range(24)]
    known = [level for level in daily if level is not None]
    return Hourly(
        quantity=quantity.name,
        entity=entity,
        unit=quantity.unit,
        levels=tuple(daily),
        median=median(known) if known else None,
        days=max(map(len, days.values()), default=0),
        peak=peak(levels, quantity.floor),
    )
