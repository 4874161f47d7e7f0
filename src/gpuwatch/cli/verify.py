"""`gpuwatch verify`: whether a recording is whole, as text or JSON."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

import gpuwatch.recording
from gpuwatch.model.text import sanitize
from gpuwatch.recording.manifest import Gap
from gpuwatch.recording.verify import Verified
from gpuwatch.recording.verify import verify as verified
from gpuwatch.report.words import duration

__all__ = ["verify"]

ROWS = 50
"""Stretches and files that are told; JSON has them all."""
DAMAGED = 1


def verify(given: Namespace) -> int:
    """Read a whole recording; exit 1 where some of it cannot be read."""
    found = verified(gpuwatch.recording.open(given.recording))
    if given.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        sys.stdout.writelines(sanitize(line) + "\n" for line in _lines(found))
    return DAMAGED if found.damaged else 0


def _lines(found: Verified) -> Iterator[str]:
    what = f"{found.events:,} events, {found.samples:,} of them samples of {found.nodes} nodes"
    if found.span is not None:
        what += f", {_at(found.span[0])}, {duration((found.span[1] - found.span[0]) / 1e6)}"
    yield f"{found.recording}: {'damaged' if found.damaged else 'whole'}: {what}"
    yield from _some("cannot be read", found.damaged)
    yield from _some("let go of", found.deleted)
    for name in found.left_over[:ROWS]:
        yield f"  does not count: {name}"
    if found.damaged:
        yield "all else plays; replay and report mark what is missing"


def _some(what: str, gaps: tuple[Gap, ...]) -> Iterator[str]:
    for gap in gaps[:ROWS]:
        begin, end = (_at(us) if us is not None else "?" for us in (gap.from_us, gap.to_us))
        yield f"  {what}: {begin} to {end}: {gap.reason}"
    if len(gaps) > ROWS:
        yield f"  and {len(gaps) - ROWS} more"


def _at(wall_us: int) -> str:
    return f"{datetime.fromtimestamp(wall_us / 1e6, UTC).astimezone():%Y-%m-%d %H:%M:%S %Z}"
