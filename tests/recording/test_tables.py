"""What other programs, and people, find in a recording's tables."""

from collections.abc import Callable

import duckdb
import msgspec
import polars as pl
import pytest

import gpuwatch.recording
from gpuwatch.agent import catalogue
from gpuwatch.errors import RecordingError
from gpuwatch.model.event import Sample
from gpuwatch.recording.record import JudgeState, Shown
from recording.kit import Bench, stream, three_parts, tick, verdict, wall

Maker = Callable[..., Bench]


def test_duckdb_and_polars_read_the_files_alone(bench: Maker) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    rec.seal(stream(10, 10))
    files = f"{rec.directory}/seg/*/nic.parquet"
    place = catalogue.INDEX["nic"]["rx_bytes"]
    wanted = [e.rows("nic")[0].values[place] for e in stream(0, 20) if isinstance(e, Sample)]
    with duckdb.connect() as db:
        rows = db.execute(
            "select rx_bytes, node, typeof(t) from read_parquet(?, union_by_name=true) order by t",
            [files],
        ).fetchall()
    assert rows == [(value, "gpu001", "TIMESTAMP WITH TIME ZONE") for value in wanted]
    assert pl.read_parquet(files)["rx_bytes"].to_list() == wanted


def test_the_table_has_sealed_and_open_parts_and_every_column(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    recording = gpuwatch.recording.open(rec.directory)
    nic = recording.table("nic").collect()
    assert nic["event_no"].to_list() == list(range(1, 30, 2))
    assert {r.name for r in catalogue.VALUES["nic"]} <= set(nic.columns)
    assert nic["t"].dtype == pl.Datetime("us", "UTC")
    assert nic["t"].cast(pl.Int64)[0] == wall(1)
    assert recording.table("disk").collect().height == 0
    with pytest.raises(RecordingError, match="no table 'nics'"):
        recording.table("nics")


def test_verdicts_for_people_are_rows_on_change(bench: Maker) -> None:
    rec = bench()
    same, other = verdict(0.5), verdict(0.9)
    moved = msgspec.structs.replace(
        other, job=msgspec.structs.replace(other.job, state="STORAGE", cause="read")
    )
    ticks = [same, same, other, moved, moved]
    records = [tick(no) for no in range(5)]
    shown = [Shown(event_no=no, wall_us=wall(no), verdict=v) for no, v in enumerate(ticks)]
    rec.seal([*records, *shown])
    recording = gpuwatch.recording.open(rec.directory)
    assert list(recording.shown()) == list(enumerate(ticks))
    table = recording.table("verdict").collect()
    rows = table.select("event_no", "scope", "node", "state", "cause").rows()
    assert rows == [
        (0, "job", None, "NETWORK", "loss"),
        (0, "node", "gpu001", "UNKNOWN", None),
        (3, "job", None, "STORAGE", "read"),
    ]
    assert table["culprits"].to_list()[0] == ["gpu001"]
    assert recording.table("shown").collect()["verdict"].null_count() == 2


def test_the_last_judge_state_before_an_event_is_found(bench: Maker) -> None:
    rec = bench()
    states = [
        JudgeState(event_no=no, arrived_us=no, wall_us=no, state=b"s%d" % no) for no in (8, 18, 28)
    ]
    rec.seal([*stream(0, 10), states[0]])
    rec.seal([*stream(10, 10), states[1]])
    rec.log([*stream(20, 10), states[2]])
    recording = gpuwatch.recording.open(rec.directory)
    assert list(recording.judge_states()) == states
    found = [recording.judge_state_before(no) for no in (7, 8, 17, 18, 99)]
    assert found == [None, states[0], states[0], states[1], states[2]]
