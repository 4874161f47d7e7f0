"""What people ask a recording: rates, verdicts with their lengths, events; and the same as files."""

import csv
import stat
from pathlib import Path

import duckdb
import msgspec
import polars as pl
import pytest

import gpuwatch
from gpuwatch.agent import catalogue
from gpuwatch.cli.commands import parse
from gpuwatch.errors import InputError, RecordingError
from gpuwatch.model.event import Marker, Sample
from gpuwatch.recording import create
from recording.kit import facts, sample, tick, verdict, wall

ROOT = Path(__file__).parents[2]
LOSS = ROOT / "recordings/net-loss"


def recorded(place: Path, samples: list[Sample], *notes: str) -> Path:
    recorder = create(place, facts())
    for one in samples:
        recorder.event(one)
    last = samples[-1].event_no + 1
    for number, note in enumerate(notes):
        recorder.event(Marker(event_no=last + number, arrived_us=0, wall_us=wall(last), text=note))
    end = tick(last + len(notes))
    recorder.event(end)
    recorder.judged(end, None, verdict())  # type: ignore[arg-type]
    recorder.close()
    return place


def test_rates_are_growth_over_the_nodes_own_time(tmp_path: Path) -> None:
    """`sample` lets each counter grow by 1,000 a number, of which there are two a second."""
    place = recorded(tmp_path / "rec", [sample(no) for no in (0, 1, 2, 4)])
    rates = gpuwatch.open(place).rates("nic").collect()
    assert rates["rx_bytes_s"].to_list() == [None, 2000.0, 2000.0, 2000.0]
    assert rates["speed_mbps"].to_list() == gpuwatch.open(place).table("nic").collect()["speed_mbps"].to_list()  # fmt: skip
    counters = {row.name for row in catalogue.VALUES["nic"] if row.kind == "counter"}
    assert {f"{name}_s" for name in counters} <= set(rates.columns)
    assert not counters & set(rates.columns)


def test_a_counter_that_began_anew_has_no_rate(tmp_path: Path) -> None:
    again = msgspec.structs.replace(sample(3), agent_id="another")
    fell = msgspec.structs.replace(sample(5, sequence=5), node_mono_us=0, tables=sample(1).tables)
    rates = gpuwatch.open(recorded(tmp_path / "rec", [sample(2), again, fell, sample(6)]))
    told = rates.rates("nic").sort("event_no").select("event_no", "rx_bytes_s").collect().rows()
    assert told[:3] == [(2, None), (3, None), (5, None)]


def test_they_are_what_the_judge_saw() -> None:
    sent = gpuwatch.open(LOSS).rates("node").filter(pl.col("tcp_retrans_segs_s") > 0).collect()
    assert set(sent["node"]) >= {"gpu02"}
    for scope in catalogue.SCOPES:
        frame = gpuwatch.open(LOSS).rates(scope).collect()
        for row in catalogue.VALUES[scope]:
            if row.kind == "counter":
                low = frame[f"{row.name}_s"].min()
                assert low is None or low >= 0, row.name  # type: ignore[operator]


def test_verdicts_with_how_long_each_was_shown() -> None:
    recording = gpuwatch.open(LOSS)
    told = recording.verdicts().collect()
    job = told.filter(pl.col("scope") == "job")
    ticks = recording.table("tick").collect()["t"]
    assert job["t"].is_sorted()
    assert job["lasted"].sum() == ticks.max() - job["t"].min()  # type: ignore[operator]
    lost = job.filter((pl.col("cause") == "loss") & pl.col("confirmed"))["lasted"].sum()
    assert lost.total_seconds() > 20  # type: ignore[union-attr]


def test_events_links_and_notes(tmp_path: Path) -> None:
    kinds = gpuwatch.open(LOSS).events().collect()
    assert set(kinds["kind"]) == {"hello", "link"}
    assert kinds.filter(pl.col("what") == "streaming").height == 3
    noted = gpuwatch.open(recorded(tmp_path / "rec", [sample(0)], "look here")).events().collect()
    assert noted.select("kind", "text").rows() == [("marker", "look here")]


def test_what_is_no_table_is_said() -> None:
    with pytest.raises(RecordingError, match="no readings in a table 'verdict'"):
        gpuwatch.open(LOSS).rates("verdict")
    with pytest.raises(RecordingError, match="no table 'nics'"):
        gpuwatch.open(LOSS).table("nics")


def exported(place: Path, out: Path, *words: str) -> int:
    body, asked = parse(["export", str(place), "--out", str(out), *words])
    return body(asked)


def test_csv_opens_anywhere_and_no_text_is_a_formula(tmp_path: Path) -> None:
    place = recorded(
        tmp_path / "rec", [sample(0), sample(1)], "=1+1", '@x, "y"\nz', "-plain", "a=b"
    )
    assert exported(place, tmp_path / "out", "--format", "csv") == 0
    with (tmp_path / "out/event.csv").open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == [
            "'=1+1", "'@x, \"y\"\nz", "'-plain", "a=b"
        ]  # fmt: skip
    assert not (tmp_path / "out/shown.csv").exists()
    assert {stat.S_IMODE(f.stat().st_mode) for f in (tmp_path / "out").iterdir()} == {0o600}
    power = duckdb.sql(f"select max(power_limit_w) from '{tmp_path}/out/gpu.csv'").fetchone()
    assert power == (1 / 7,)


def test_parquet_with_rates_is_what_rates_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert exported(LOSS, out, "--format", "parquet", "--rates") == 0
    for name in ("nic", "node", "gpu"):
        told = gpuwatch.open(LOSS).rates(name).collect()
        assert pl.read_parquet(out / f"{name}.parquet").equals(told)
    with pytest.raises(InputError, match="is not empty"):
        exported(LOSS, out, "--format", "csv")
