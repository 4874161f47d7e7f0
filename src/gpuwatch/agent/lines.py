"""Finding things in the texts of /proc without splitting what is not needed."""

from typing import List, Optional


def after(text: bytes, key: bytes) -> Optional[bytes]:
    """Return the rest of the first line that begins with this key, None where there is none."""
    if text.startswith(key):
        start = len(key)
    else:
        start = text.find(b"\n" + key) + 1 + len(key)
        if start == len(key):
            return None
    end = text.find(b"\n", start)
    return text[start:] if end < 0 else text[start:end]


def field(parts: List[bytes], place: int) -> Optional[bytes]:
    """Return one field of a split line, None where the line is too short."""
    return parts[place] if 0 <= place < len(parts) else None


def stalled(pressure: bytes, line: str) -> Optional[bytes]:
    """Return the total of a line, `some` or `full`, of a pressure file; None without it."""
    _, equals, total = (after(pressure, line.encode("ascii") + b" ") or b"").partition(b"total=")
    return total.strip() if equals else None


def cpus(text: bytes) -> Optional[int]:
    """Count the CPUs of a list such as `0-3,8`; None where it is no such list."""
    count = 0
    for part in text.strip().split(b","):
        low, dash, high = part.partition(b"-")
        if not low.isdigit() or (dash and not high.isdigit()) or len(part) > 20:
            return None
        count += int(high or low) - int(low) + 1
    return count if count > 0 else None
