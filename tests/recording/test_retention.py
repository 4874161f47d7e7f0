"""What goes first where a recording may only be so large or so old, and what stays to the last."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent import catalogue
from gpuwatch.recording import Limits, create, manifest, reader
from gpuwatch.recording.retention import trimmed
from recording.kit import facts, stream, verdict

TABLES = {"node": 400, "gpu": 400, "shown": 100, "judge_state": 10, "verdict": 20, "tick": 20}
MINUTE_US = 60_000_000


def entry(number: int, *, confirmed: bool = False) -> manifest.Entry:
    tables = {name: manifest.Table(1, size, "0" * 64) for name, size in TABLES.items()}
    reach = manifest.Extent(number, number, number * MINUTE_US, (number + 1) * MINUTE_US)
    return manifest.Entry(number, reach, (number,), tables, confirmed=confirmed)


def names(entries: list[manifest.Entry]) -> dict[int, set[str]]:
    return {e.segment: set(e.tables) for e in entries}


def test_nothing_goes_while_all_fits() -> None:
    entries = [entry(n) for n in range(1, 5)]
    assert not trimmed(entries, Limits())
    assert not trimmed(entries, Limits(max_bytes=4 * sum(TABLES.values()), keep_us=1e9))


def test_the_oldest_readings_go_first_and_those_of_incidents_later() -> None:
    entries = [entry(n, confirmed=n == 1) for n in range(1, 5)]
    gone = trimmed(entries, Limits(max_bytes=2300))
    assert names(gone) == {n: {"shown", "judge_state", "verdict", "tick"} for n in (2, 3)}
    assert [g.reason for g in gone[0].gaps] == ["readings deleted: more than is kept"]
    assert gone[0].gaps[0].from_us == 2 * MINUTE_US


def test_verdicts_and_events_go_last() -> None:
    entries = [entry(n, confirmed=n == 2) for n in range(1, 4)]
    left = trimmed(entries, Limits(max_bytes=125))
    assert names(left) == {n: {"verdict", "tick"} for n in (1, 2, 3)}
    assert all(not e.judge_states for e in left)
    assert names(trimmed(entries, Limits(max_bytes=90)))[1] == set()


def test_old_readings_go_but_those_of_incidents() -> None:
    entries = [entry(n, confirmed=n == 2) for n in range(1, 9)]
    gone = trimmed(entries, Limits(keep_us=3.5 * MINUTE_US))
    assert set(names(gone)) == {1, 3, 4}
    assert not trimmed([*gone, *entries[4:]], Limits(keep_us=3.5 * MINUTE_US))


@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.none() | st.floats(1, 20000),
    st.none() | st.floats(1, 1e9),
)
def test_limits_hold_and_nothing_comes_back(
    confirmed: list[bool], max_bytes: float | None, keep_us: float | None
) -> None:
    entries = [entry(n, confirmed=yes) for n, yes in enumerate(confirmed, 1)]
    limits = Limits(max_bytes=max_bytes, keep_us=keep_us)
    changed = {e.segment: e for e in trimmed(entries, limits)}
    left = [changed.get(e.segment, e) for e in entries]
    assert max_bytes is None or sum(e.bytes for e in left) <= max_bytes
    for before, after in zip(entries, left, strict=True):
        assert after.tables.items() <= before.tables.items()
        assert (after == before) == (after.tables == before.tables)
        assert bool(after.gaps) == (after != before)
    assert not trimmed(left, limits)


@pytest.fixture
def small(tmp_path: Path) -> Callable[[Limits], Path]:
    """Record forty seconds of a node under limits, a segment each five."""

    def record(limits: Limits) -> Path:
        place = tmp_path / f"at most {limits.max_bytes}"
        recorder = create(place, facts(), limits=limits)
        for event in stream(0, 80):
            recorder.event(event)
            if event.event_no % 2 == 0:
                recorder.judged(event, None, verdict())  # type: ignore[arg-type]
        recorder.close()
        files = (place / "seg").rglob("*.parquet")
        held = sum(file.stat().st_size for file in files)
        assert recorder.status.bytes == held
        return place

    return record


def test_a_recording_stays_within_its_size_and_plays(small: Callable[[Limits], Path]) -> None:
    whole = Limits(seal_us=5_000_000)
    size = sum(file.stat().st_size for file in (small(whole) / "seg").rglob("*.parquet"))
    place = small(msgspec.structs.replace(whole, max_bytes=size * 0.7))
    found = reader.open_recording(place)
    events = list(found.events())
    kinds = {type(event).__name__ for event in events}
    assert kinds == {"Sample", "Tick"}
    assert sum(type(e).__name__ == "Tick" for e in events) == 40
    assert 0 < sum(type(e).__name__ == "Sample" for e in events) < 40
    assert {gap.reason for gap in found.gaps} == {"readings deleted: more than is kept"}
    held = {file.stem for file in (place / "seg/00000001").iterdir()}
    assert not held & set(catalogue.SCOPES)
