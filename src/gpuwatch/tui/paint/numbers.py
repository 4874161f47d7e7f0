"""Numbers as people read them: two or three significant digits, the unit always there."""

from datetime import UTC, datetime, tzinfo

from gpuwatch.agent.metric import COUNTER, Metric

__all__ = [
    "MISSING", "clock", "duration", "flow", "gib", "milliseconds", "number", "percent", "quantity", "scaled",
]  # fmt: skip

MISSING = "n/a"

_PREFIXES = ("", "k", "M", "G", "T", "P")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def number(value: float | None) -> str:
    """Return a plain number: 0.31, 8.4, 84, 1312."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 9.95 or size == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 0.995 else f"{value:.2f}"


def scaled(value: float | None, unit: str) -> str:
    """Return a quantity with an SI prefix: 31 MB/s, 0.31 Gb/s, 840 kB/s."""
    if value is None:
        return MISSING
    place = 0
    while abs(value) >= 999.5 and place < len(_PREFIXES) - 1:
        value /= 1000
        place += 1
    return f"{number(value)} {_PREFIXES[place]}{unit}"


def flow(down: float, up: float, line_bps: float | None) -> str:
    """Return bytes a second both ways: in Gb/s beside a known line rate, else in one SI unit."""
    if line_bps is not None:
        return f"↓ {down * 8e-9:.2f} ↑ {up * 8e-9:.2f} Gb/s"
    place = 0
    while max(down, up) >= 999.5 * 1000**place and place < len(_PREFIXES) - 1:
        place += 1
    low, high = (number(value / 1000**place) for value in (down, up))
    return f"↓ {low} ↑ {high} {_PREFIXES[place]}B/s"


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share, 0 to 1, as 6 %; small ones get a digit: 0.4 %."""
    if share is None:
        return MISSING
    value = share * 100
    if digits == 0 and 0.05 <= value < 0.95:
        digits = 1
    return f"{value:.{digits}f} %"


def milliseconds(value: float | None) -> str:
    """Return a time that was measured in milliseconds."""
    if value is None:
        return MISSING
    return f"{number(value / 1000)} s" if value >= 1000 else f"{number(value)} ms"


def gib(value: float | None) -> str:
    """Return an amount of memory."""
    if value is None:
        return MISSING
    return f"{number(value / 2**30)} GiB" if value >= 2**30 else f"{number(value / 2**20)} MiB"


def duration(us: float) -> str:
    """Return a length of time: 12 s, 3 m 12 s, 2 h 14 m, 3 d 4 h."""
    seconds = max(0, round(us / 1e6))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02d} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} m"
    return f"{seconds // 86400} d {seconds % 86400 // 3600:02d} h"


def clock(wall_us: int, zone: tzinfo | None = None, pattern: str = "%H:%M:%S") -> str:
    """Return a wall time in a zone; None is the viewer's own."""
    return datetime.fromtimestamp(wall_us / 1e6, UTC).astimezone(zone).strftime(pattern)


def quantity(row: Metric, value: float | None) -> str:
    """Return any value of the catalogue with its unit; of a counter, its growth a second."""
    if value is None:
        return MISSING
    if row.kind == COUNTER:
        if row.unit in _SECONDS:
            return percent(value * _SECONDS[row.unit])
        if row.unit == "mJ":
            return scaled(value / 1000, "W")
        return scaled(value, "/s" if row.unit == "1" else f"{row.unit}/s")
    if row.unit == "B":
        return gib(value) if value >= 2**20 else scaled(value, "B")
    if row.unit == "bits":
        return f"0x{round(value):x}"
    if row.unit == "degC":
        return f"{value:.0f} °C"
    text = f"{value:.0f}" if row.type == "int" else number(value)
    return text if row.unit == "1" else f"{text} {row.unit}"
