"""What a recording lets go of to stay within its limits: readings first, verdicts and events last.

The oldest goes first. Readings of a time in which a wait or a fault was confirmed are kept for as
long as others can go in their place: they are what is looked for afterwards.
"""

from collections.abc import Mapping

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.recording.limits import Limits
from gpuwatch.recording.manifest import Entry, Gap

__all__ = ["trimmed"]

READINGS = frozenset(catalogue.SCOPES)
PLAYED = READINGS | {"shown", "judge_state"}
"""What only a replay needs; verdicts as they changed, events, links and ticks tell the story on."""


def trimmed(entries: list[Entry], limits: Limits) -> list[Entry]:
    """Return the entries that are to stand for some that go, wholly or in part; none when all fit.

    Args:
        entries: in order.
        limits: how much is kept.
    """
    now = {entry.segment: entry for entry in entries}
    for entry in entries:
        if _is_old(entry, entries, limits) and not entry.confirmed:
            now[entry.segment] = _without(entry, READINGS, "older than is kept")
    if limits.max_bytes is not None:
        for calm, tables in ((True, READINGS), (False, READINGS), (False, PLAYED), (False, None)):
            for number, entry in now.items():
                if sum(e.bytes for e in now.values()) <= limits.max_bytes:
                    break
                if not (calm and entry.confirmed):
                    now[number] = _without(entry, tables, "more than is kept")
    return [now[entry.segment] for entry in entries if now[entry.segment] != entry]


def _is_old(entry: Entry, entries: list[Entry], limits: Limits) -> bool:
    newest = entries[-1].extent
    if limits.keep_us is None or entry.extent is None or newest is None:
        return False
    return entry.extent.to_us < newest.to_us - limits.keep_us


def _without(entry: Entry, tables: frozenset[str] | None, why: str) -> Entry:
    """Return an entry without some of its tables, None: all; it says what is gone."""
    left = {} if tables is None else {n: t for n, t in entry.tables.items() if n not in tables}
    if len(left) == len(entry.tables):
        return entry
    what = "all" if tables is None else "readings"
    gap = msgspec.structs.replace(Gap.over(entry.extent, f"{what} deleted: {why}"), deleted=True)
    gaps = (*(g for g in entry.gaps if not g.deleted), gap)
    return msgspec.structs.replace(entry, tables=left, gaps=gaps, judge_states=_states(entry, left))


def _states(entry: Entry, left: Mapping[str, object]) -> tuple[int, ...]:
    return entry.judge_states if "judge_state" in left else ()
