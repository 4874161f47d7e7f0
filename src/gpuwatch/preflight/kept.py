"""Results that are kept, and what became of an earlier one's faults."""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from gpuwatch.preflight.result import Result

__all__ = ["changes", "keep", "latest"]

MAX_BYTES = 16 << 20


def keep(result: Result, folder: Path) -> Path:
    """Write a result into a folder, under its time; return the file.

    Raises:
        OSError: as the system says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.fromisoformat(result.at):%Y%m%dT%H%M%SZ}.json"
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(result))
    new.replace(file)
    return file


def latest(folder: Path) -> Result | None:
    """Return the newest result that was kept and can be read."""
    for file in sorted(folder.glob("*.json"), reverse=True):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            if file.stat().st_size <= MAX_BYTES:
                return msgspec.json.decode(file.read_bytes(), type=Result)
    return None


def changes(before: Result, now: Result) -> Iterator[str]:
    """Tell which faults are new and which are gone, of what both looked for."""
    both = {o.check for o in now.outcomes} & {o.check for o in before.outcomes}
    old, new = (
        {(check, finding.subject) for check, finding in result.faults() if check in both}
        for result in (before, now)
    )
    for check, subject in sorted(new - old):
        yield f"new since {before.at}: {check} {subject}"
    for check, subject in sorted(old - new):
        yield f"gone since {before.at}: {check} {subject}"
