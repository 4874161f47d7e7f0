"""Segments that become one: nothing is lost, whatever stops it, and whoever reads meanwhile."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.model.event import AnyEvent, Hello
from gpuwatch.recording import Limits, create, manifest, merge, reader, segment
from gpuwatch.recording.record import JudgeState, Record, Shown
from gpuwatch.recording.store import Folder
from recording.kit import Bench, events, facts, stream, tick, verdict, wall

Maker = Callable[..., Bench]
PARTS = 6
LONG = 10
"""Events of a part."""


class Killed(BaseException):
    """Stands for a signal: nothing catches it."""


def part(number: int) -> list[Record]:
    """Samples and ticks by turns, each tick with its verdict, a judge state at the end."""
    found: list[Record] = []
    for event in stream(number * LONG, LONG):
        found.append(event)
        if event.event_no % 2 == 0:
            same = event.event_no % 4 == 0
            told = verdict(0.5 if same else event.event_no / 1000)
            found.append(Shown(event_no=event.event_no, wall_us=event.wall_us, verdict=told))
    last = tick(number * LONG + LONG - 2)
    standing = Hello(event_no=0, arrived_us=0, wall_us=wall(0), node="n", boot_id="b", agent_id="a",
                     facts={"number": number})  # fmt: skip
    found.append(
        JudgeState(event_no=last.event_no, arrived_us=last.arrived_us, wall_us=last.wall_us,
                   state=bytes([number]), standing=(standing,))
    )  # fmt: skip
    return found


def filled(bench: Maker, name: str = "rec") -> Bench:
    made = bench(name)
    for number in range(PARTS):
        made.seal(part(number))
    return made


def merged(made: Bench) -> manifest.Entry:
    entries = made.manifest.entries
    return merge.merge(made.directory, [entries[n] for n in sorted(entries)], made.manifest)


def told(place: Path, after: int = -1) -> tuple[list[AnyEvent], list[bytes], list[bytes]]:
    """Return all that a reader is told, and that nothing was missing."""
    found = reader.open_recording(place)
    got = (
        list(found.events(after)),
        [msgspec.msgpack.encode(shown) for shown in found.shown(after)],
        [msgspec.msgpack.encode(state) for state in found.judge_states()],
    )
    assert not found.gaps
    return got


def test_merged_they_tell_what_they_told(bench: Maker) -> None:
    made = filled(bench)
    before = {after: told(made.directory, after) for after in (-1, 7, 30)}
    names = ("node", "gpu", "tick", "shown", "verdict")
    tables = {n: reader.open_recording(made.directory).table(n).collect() for n in names}
    entry = merged(made)
    assert {after: told(made.directory, after) for after in before} == before
    assert [path.name for path in (made.directory / "seg").iterdir()] == [entry.name]
    assert list(manifest.read(Folder(made.directory))[0]) == [PARTS]
    found = reader.open_recording(made.directory)
    for name, table in tables.items():
        assert found.table(name).collect().sort("event_no", maintain_order=True).equals(table)
    for no in (0, 17, 18, 59):
        state = found.judge_state_before(no)
        assert (state.state if state else None) == (bytes([(no - 8) // 10]) if no >= 8 else None)
        assert found.event_no_at(wall(no)) == no


@pytest.mark.parametrize("is_merged", [False, True])
def test_from_any_event_on_it_tells_what_it_told(bench: Maker, is_merged: bool) -> None:
    made = filled(bench)
    found = reader.open_recording(made.directory)
    events, shown = list(found.events()), list(found.shown())
    if is_merged:
        merged(made)
    found = reader.open_recording(made.directory)
    for no in range(-1, PARTS * LONG, 7):
        chunks = list(found.chunks(no, no + 5))
        told = [(s.event_no, s.verdict) for chunk in chunks for s in chunk.shown]
        assert [e for chunk in chunks for e in chunk.events] == events[no + 1 :]
        assert told == [(n, verdict) for n, verdict in shown if n > no]
        ends = [chunk.events[-1].event_no for chunk in chunks if chunk.events]
        assert ends == sorted({*ends, min(no + 5, PARTS * LONG - 1)})


def test_it_is_smaller(bench: Maker) -> None:
    made = filled(bench)
    before = sum(entry.bytes for entry in made.manifest.entries.values())
    assert merged(made).bytes < before / 2


@given(st.lists(events(), min_size=2, max_size=4))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_events_come_back_in_their_order(tmp_path: Path, given: list[list[AnyEvent]]) -> None:
    shutil.rmtree(tmp_path / "rec", ignore_errors=True)
    made = Bench(tmp_path / "rec", facts())
    no, all_of_them = -1, []
    for some in given:
        moved = [msgspec.structs.replace(event, event_no=no + 1 + event.event_no) for event in some]
        no = moved[-1].event_no if moved else no
        all_of_them += moved
        made.seal(moved)
    merged(made)
    made.manifest.close()
    if all_of_them:
        found = list(reader.open_recording(made.directory).events())
        assert [msgspec.msgpack.encode(e) for e in found] == [
            msgspec.msgpack.encode(e) for e in all_of_them
        ]


@pytest.mark.parametrize(
    "step",
    ["segment.write_table", "segment.sync_directory", "manifest.Manifest.commit", "shutil.rmtree",
     "manifest.Manifest.condense", "manifest.sync_directory"],
)  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
def test_killed_at_any_step_it_loses_nothing(
    bench: Maker, monkeypatch: pytest.MonkeyPatch, step: str, before: bool
) -> None:
    made = filled(bench)
    whole = told(made.directory)
    target = f"gpuwatch.recording.{step}" if not step.startswith("shutil") else step
    room, name = target.rsplit(".", 1)
    owner = pytest.importorskip(room) if "Manifest" not in room else manifest.Manifest
    done = getattr(owner, name)

    def killed(*args: object, **named: object) -> None:
        if not before:
            done(*args, **named)
        raise Killed

    monkeypatch.setattr(owner, name, killed)
    with pytest.raises(Killed):
        merged(made)
    monkeypatch.undo()
    assert told(made.directory) == whole
    if len(made.manifest.entries) > 1:  # nothing is in the way of another attempt
        assert merged(made).begin == 1
        assert told(made.directory) == whole


def test_who_reads_while_they_are_merged_reads_on(bench: Maker) -> None:
    made = filled(bench)
    whole, _, _ = told(made.directory)
    for stop in (0, 1, 15, 42):
        other = filled(bench, f"rec{stop}")
        found = reader.open_recording(other.directory)
        read = found.events()
        got = [next(read) for _ in range(stop)]
        merged(other)
        assert got + list(read) == whole
        assert not found.gaps
        assert found.judge_state_before(25) is not None


def await_merged(place: Path, count: int) -> None:
    """Wait until so many segments were made of others; the test's own timeout is the deadline."""
    while sum(e.first is not None for e in manifest.read(Folder(place))[0].values()) < count:
        time.sleep(0.02)


def test_a_growing_recording_merges_by_itself(tmp_path: Path) -> None:
    """Of ten levels' worth of events: nothing is missing, and few folders are left."""
    limits = Limits(seal_us=5_000_000, merge_us=(20_000_000, 80_000_000))
    recorder = create(tmp_path / "rec", facts(), limits=limits)
    given = stream(0, 400)
    for event in given:
        recorder.event(event)
        if event.event_no % 2 == 0:
            recorder.judged(event, None, verdict())  # type: ignore[arg-type]
    await_merged(tmp_path / "rec", 2)
    recorder.close()
    found = reader.open_recording(tmp_path / "rec")
    assert list(found.events()) == given
    assert not found.gaps
    entries = manifest.read(Folder(tmp_path / "rec"))[0]
    assert sum(entry.first is not None for entry in entries.values()) >= 2
    assert {path.name for path in (tmp_path / "rec/seg").iterdir()} == {
        entry.name for entry in entries.values()
    }
    assert recorder.status.bytes == sum(entry.bytes for entry in entries.values())


def test_a_damaged_one_is_left_out_and_the_later_ones_are_merged(tmp_path: Path) -> None:
    limits = Limits(seal_us=5_000_000, merge_us=(20_000_000,))
    recorder = create(tmp_path / "rec", facts(), limits=limits)
    given = iter(stream(0, 400))

    def feed(count: int) -> None:
        for event in (e for _, e in zip(range(count), given, strict=False)):
            recorder.event(event)
            if event.event_no % 2 == 0:
                recorder.judged(event, None, verdict())  # type: ignore[arg-type]

    feed(12)
    first = tmp_path / "rec/seg/00000001/node.parquet"
    while not manifest.read(Folder(tmp_path / "rec"))[0]:
        time.sleep(0.01)
    content = first.read_bytes()
    first.write_bytes(content[:-20] + bytes(20))
    feed(388)
    await_merged(tmp_path / "rec", 1)
    recorder.close()
    found = reader.open_recording(tmp_path / "rec")
    assert list(found.events())[-1].event_no == 399
    assert [gap.reason for gap in found.gaps] == ["segment 1, table node: its checksum differs"]
    entries = manifest.read(Folder(tmp_path / "rec"))[0].values()
    assert any(entry.first is not None for entry in entries)


@pytest.mark.parametrize("holes", [0.0, 0.05])
def test_what_is_due_is_whole_levels_of_neighbours(holes: float) -> None:
    rng = random.Random(1)
    entries: list[manifest.Entry] = []
    number = at_us = 0
    for _ in range(300):
        number += 2 if rng.random() < holes else 1
        length_us = rng.choice([1, 30, 60]) * 1_000_000
        reach = manifest.Extent(number, number, at_us, at_us + length_us)
        at_us += length_us
        entries.append(manifest.Entry(number, reach, (), {}))
        run = merge.due(entries, (600_000_000, 3_600_000_000))
        if not run:
            continue
        numbers = [n for e in run for n in range(e.begin, e.segment + 1)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert run == tuple(entries[-len(run) :])
        whole = manifest.Extent(0, 0, run[0].extent.from_us, run[-1].extent.to_us)  # type: ignore[union-attr]
        assert whole.to_us - whole.from_us >= 600_000_000
        entries[-len(run) :] = [manifest.Entry(numbers[-1], whole, (), {}, first=numbers[0])]
    assert len(entries) < (25 if holes == 0 else 200)


@pytest.mark.parametrize(("rows", "size"), [(70_000_000, 1), (1, 600 << 20)])
def test_what_no_reader_would_take_is_not_made(rows: int, size: int) -> None:
    def entry(number: int, table: manifest.Table) -> manifest.Entry:
        reach = manifest.Extent(number, number, number * 10**9, (number + 1) * 10**9)
        return manifest.Entry(number, reach, (), {"thread_wait": table})

    large = [entry(number, manifest.Table(rows, size, "")) for number in (1, 2)]
    assert not merge.due(large, (600_000_000, 2_000_000_000))
    small = entry(2, manifest.Table(1, 1, ""))
    assert merge.due([large[0], small], (600_000_000, 2_000_000_000)) == (large[0], small)


def test_a_merged_file_opens_without_gpuwatch(bench: Maker) -> None:
    made = filled(bench)
    entry = merged(made)
    file = made.directory / segment.name(entry, "gpu")
    told = pl.scan_parquet(file).select(pl.len(), pl.col("t").max()).collect().row(0)
    assert told[0] == PARTS * LONG / 2
    assert oct(file.stat().st_mode)[-3:] == "600"
