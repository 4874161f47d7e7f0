"""A moment of a recording, as a person types it."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ["moment"]

_OFFSET = re.compile(r"([+-])(\d{1,6}(?:\.\d{1,3})?)(s|m|h)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def moment(
    text: str, start_wall_us: int, end_wall_us: int, zone: tzinfo | None = None
) -> int | None:
    """Return a wall time in microseconds; None when the text is no moment.

    Args:
        text: `+10m` after the start, `-30s` before the end, `18:03[:27]` in the zone (the first
            such time in the recording), or an ISO time with or without a zone.
        start_wall_us: of the recording.
        end_wall_us: of the recording.
        zone: of times without one; None: the viewer's own.
    """
    text = text.strip()
    offset = _OFFSET.fullmatch(text)
    if offset:
        us = float(offset[2]) * _SECONDS[offset[3] or "s"] * 1e6
        return round(start_wall_us + us if offset[1] == "+" else end_wall_us - us)
    start = datetime.fromtimestamp(start_wall_us / 1e6, UTC).astimezone(zone)
    clock = _CLOCK.fullmatch(text)
    try:
        if clock:
            hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
            then = start.replace(hour=hour, minute=minute, second=second, microsecond=0)
            if then < start.replace(microsecond=0):
                then += timedelta(days=1)
        else:
            then = datetime.fromisoformat(text)
            if then.tzinfo is None:
                then = then.replace(tzinfo=zone) if zone else then.astimezone()
    except (ValueError, OverflowError):
        return None
    return round(then.timestamp() * 1e6)
