"""A comparison for a person: the answer first, then what changed for certain, then the rest."""

from collections.abc import Iterator
from datetime import tzinfo

from gpuwatch.model.text import sanitize
from gpuwatch.report.compare import Compared, Comparison, Recorded
from gpuwatch.report.words import duration, shares

__all__ = ["text"]

SMALL = 1.0
"""Per cent of GPU time below which a share is not worth a line."""
NAMES = {
    "share": "GPU time:", "step": "time of a step", "slowdown": "slower than its best", "computing": "computing,",
    "network": "network, busiest port of each node, sum", "retransmits": "TCP segments sent again",
    "peer_rtt": "round trip to peers", "storage_latency": "storage latency on",
    "storage_bytes": "storage read and written,",
}  # fmt: skip


def text(found: Comparison, zone: tzinfo | None = None) -> str:
    """Return the comparison as plain text.

    Args:
        found: to tell.
        zone: of the times; None: this machine's.
    """
    return "\n".join(sanitize(line, 400) for line in _lines(found, zone)) + "\n"


def _lines(found: Comparison, zone: tzinfo | None) -> Iterator[str]:
    yield found.answer
    yield ""
    yield from (
        _recorded(name, side, zone) for name, side in (("A", found.before), ("B", found.after))
    )
    yield from (f"note: {note}" for note in found.notes)
    for pair in found.renamed:
        yield f"  {pair.before} before, {pair.after} after"
    told = [row for row in found.rows if _worth(row)]
    for title, rows in (
        ("Changed", [row for row in told if row.significant]),
        ("As alike as each is to itself", [row for row in told if row.significant is False]),
        ("Cannot be told: too little was seen",
         [row for row in told if row.significant is None]),
    ):  # fmt: skip
        if rows:
            yield ""
            yield f"{title:42} {'A':>12} {'B':>12}   {'B less A, 99 % sure' if rows[0].low is not None else ''}".rstrip()
            yield from map(_row, rows)


def _recorded(name: str, side: Recorded, zone: tzinfo | None) -> str:
    seconds = duration((side.end - side.begin).total_seconds())
    at = f"{side.begin.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
    return f"{name}  {side.job}, {at}, {seconds}, {len(side.nodes)} nodes: {shares(side.verdicts)}"


def _worth(row: Compared) -> bool:
    if row.before is None and row.after is None:
        return False
    return row.what != "share" or max(row.before or 0.0, row.after or 0.0) >= SMALL


def _row(row: Compared) -> str:
    name = " ".join(filter(None, (NAMES.get(row.what, row.what), row.of)))
    change = ""
    if row.low is not None and row.high is not None:
        change = f"   {row.low:+.3g} to {row.high:+.3g} {row.unit}"
    return f"  {name:40} {_number(row.before, row.unit):>12} {_number(row.after, row.unit):>12}{change}"


def _number(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.3g} {unit}"
