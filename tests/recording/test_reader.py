"""Damaged, foreign, old, new, growing and read-only recordings."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest

import gpuwatch.recording
from gpuwatch.agent import catalogue
from gpuwatch.errors import RecordingError
from gpuwatch.model.event import Sample
from gpuwatch.recording import manifest, segment, session, wal
from gpuwatch.recording.record import Layout, encode
from recording.kit import Bench, facts, sample, stream, three_parts, tick, wall

Maker = Callable[..., Bench]


def numbers(recording: object) -> list[int]:
    return [e.event_no for e in recording.events()]  # type: ignore[attr-defined]


def test_all_parts_play_in_order(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    recording = gpuwatch.recording.open(rec.directory)
    assert list(recording.events()) == stream(0, 30)
    assert recording.gaps == ()
    assert recording.span() == (wall(0), wall(29))
    assert numbers(recording)[-1] == 29
    assert [e.event_no for e in recording.events(after_event_no=14)] == list(range(15, 30))
    assert [recording.event_no_at(wall(n)) for n in (-5, 0, 9, 10, 25, 99)] == [0, 0, 9, 10, 25, 29]


def test_a_flipped_bit_in_a_table_is_a_gap_and_the_rest_plays(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    file = rec.directory / "seg/00000001/nic.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    recording = gpuwatch.recording.open(rec.directory)
    events = list(recording.events())
    assert [e.event_no for e in events] == list(range(30))
    nics = [len(e.rows("nic")) for e in events if isinstance(e, Sample)]
    assert nics == [0] * 5 + [1] * 10
    assert recording.gaps == (
        manifest.Gap(wall(0), wall(9), "segment 1, table nic: its checksum differs"),
    )
    assert recording.table("nic").collect().height == 10


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_table_cut_short_is_a_gap(bench: Maker, cut: int) -> None:
    rec = bench()
    three_parts(rec)
    file = rec.directory / "seg/00000002/node.parquet"
    os.truncate(file, cut)
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == [*range(10), *range(10, 20, 2), *range(20, 30)]
    assert [g.reason for g in recording.gaps] == ["segment 2, table node: its checksum differs"]


def test_a_missing_segment_is_a_gap_per_table(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    shutil.rmtree(rec.directory / "seg/00000002")
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == [*range(10), *range(20, 30)]
    assert {(g.from_us, g.to_us) for g in recording.gaps} == {(wall(10), wall(19))}
    assert "segment 2, table node: No such file or directory" in {g.reason for g in recording.gaps}


def test_a_line_of_the_manifest_that_is_gone_is_a_gap(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    rec.seal(stream(40, 10))
    lines = (rec.directory / manifest.FILE).read_bytes().splitlines(keepends=True)
    (rec.directory / manifest.FILE).write_bytes(lines[0] + b"\0" + lines[1][1:] + lines[2])
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == [*range(10), *range(20, 30), *range(40, 50)]
    assert [(g.from_us, g.reason) for g in recording.gaps] == [
        (None, "1 lines of the manifest are damaged"),
        (wall(9), "segment 2: missing"),
    ]


def test_a_torn_last_line_of_the_manifest_commits_nothing(bench: Maker) -> None:
    rec = bench()
    entry = rec.seal(stream(0, 10))
    log = wal.path(rec.directory, 1)
    log.write_bytes(b"".join(wal.frame(encode(e)) for e in stream(0, 10)))
    (rec.directory / manifest.FILE).write_bytes(msgspec.json.encode(entry)[:-9])
    shutil.rmtree(rec.directory / "seg/00000001")
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == list(range(10))
    assert recording.gaps == ()


def test_damage_in_a_log_is_a_gap_between_what_is_whole(bench: Maker) -> None:
    rec = bench()
    file = rec.log(stream(0, 10))
    content = bytearray(file.read_bytes())
    start = len(b"".join(wal.frame(encode(e)) for e in stream(0, 4)))
    content[start + 2] ^= 1  # in the magic of the fifth record
    content[start + 14] ^= 1
    file.write_bytes(content + wal.frame(encode(tick(10)))[:-1])
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    inside, tail = recording.gaps
    assert (inside.from_us, inside.to_us) == (wall(3), wall(5))
    assert "are damaged" in inside.reason
    assert (tail.from_us, tail.to_us) == (wall(9), None)
    assert "cut short" in tail.reason


def test_damage_that_was_sealed_stays_known(bench: Maker) -> None:
    rec = bench()
    file = rec.log(stream(0, 10))
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    entry = segment.seal(rec.directory, 1, Layout(catalogue.ROWS), rec.manifest)
    assert entry.extent == manifest.Extent(1, 9, wall(1), wall(9))
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == list(range(1, 10))
    assert recording.gaps[0].reason.startswith("log 1: ")


def test_a_log_sealed_while_it_is_being_read(bench: Maker) -> None:
    rec = bench()
    rec.log(stream(0, 10))
    rec.log(stream(10, 10))
    recording = gpuwatch.recording.open(rec.directory)
    layout = Layout(catalogue.ROWS)
    segment.seal(rec.directory, 1, layout, rec.manifest)
    events = recording.events()
    assert next(events) == tick(0)
    segment.seal(rec.directory, 2, layout, rec.manifest)
    assert [e.event_no for e in events] == list(range(1, 20))
    assert recording.span() == (wall(0), wall(19))
    assert recording.gaps == ()


def test_a_crash_between_rename_and_manifest_leaves_the_log_the_truth(bench: Maker) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    rec.log(stream(10, 10))
    shutil.copytree((rec.directory / "seg/00000001"), (rec.directory / "seg/00000002"))
    assert list(gpuwatch.recording.open(rec.directory).events()) == stream(0, 20)
    segment.seal(rec.directory, 2, Layout(catalogue.ROWS), rec.manifest)
    assert list(gpuwatch.recording.open(rec.directory).events()) == stream(0, 20)


def test_reconnect_in_the_same_boot_loses_no_frame(bench: Maker) -> None:
    rec = bench()
    first = [sample(no, sequence=no, agent_id="a1") for no in range(5)]
    second = [sample(no, sequence=no - 5, agent_id="a2") for no in range(5, 10)]
    rec.seal([*first, *second[:2]])
    rec.log(second[2:])
    assert list(gpuwatch.recording.open(rec.directory).events()) == [*first, *second]


def test_no_such_thing_a_file_a_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "dir").mkdir()
    for name, words in [
        ("none", "no such file"),
        ("file", "not a recording"),
        ("dir", "not a recording: it has no session.json"),
    ]:
        with pytest.raises(RecordingError, match=words) as caught:
            gpuwatch.recording.open(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"format": 1}', b"[" * 100_000, b"\xff"])
def test_a_damaged_session_is_one_line(bench: Maker, content: bytes) -> None:
    rec = bench()
    three_parts(rec)
    (rec.directory / session.FILE).write_bytes(content)
    with pytest.raises(RecordingError, match=r"session\.json: damaged") as caught:
        gpuwatch.recording.open(rec.directory)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"interval_s": 0.0}, {"interval_s": -1.0}, {"started_wall_us": 10**18}]
)
def test_a_session_of_no_time_is_damaged(bench: Maker, wrong: dict[str, float]) -> None:
    rec = bench(given=facts(**wrong))
    three_parts(rec)
    with pytest.raises(RecordingError, match=r"session\.json: damaged"):
        gpuwatch.recording.open(rec.directory)


def test_a_lost_manifest_is_damage_and_no_empty_recording(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    for log in (rec.directory / "wal").iterdir():
        log.unlink()
    (rec.directory / manifest.FILE).write_bytes(b"")
    with pytest.raises(RecordingError, match="names no segment"):
        gpuwatch.recording.open(rec.directory)


def test_a_newer_format_is_named_and_refused(bench: Maker) -> None:
    rec = bench(given=facts(format=session.FORMAT + 1, version="9.9"))
    three_parts(rec)
    with pytest.raises(
        RecordingError,
        match=rf"gpuwatch '9\.9' in format {session.FORMAT + 1}; .* up to {session.FORMAT}",
    ):
        gpuwatch.recording.open(rec.directory)


def test_an_empty_recording_says_so(bench: Maker) -> None:
    rec = bench()
    rec.log([])
    with pytest.raises(RecordingError, match="holds nothing"):
        gpuwatch.recording.open(rec.directory)


def test_foreign_files_beside_it_do_not_matter(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    (rec.directory / "wal" / "notes.txt").write_text("x")
    (rec.directory / "wal" / "٣٣٣٣٣٣٣٣.wal").write_text("x")
    (rec.directory / "seg" / ".00000009.tmp").mkdir()
    recording = gpuwatch.recording.open(rec.directory)
    assert list(recording.events()) == stream(0, 30)
    assert recording.gaps == ()


def test_an_older_catalogue_plays_with_none_for_what_it_lacked(bench: Maker) -> None:
    gone = {("nic", "rx_bytes"), ("gpu", "uuid")}
    old = tuple(r for r in catalogue.ROWS if (r.scope, r.name) not in gone and r.scope != "disk")
    columns = tuple(session.Column(r.name, r.scope, r.kind, r.type, r.unit) for r in old)
    rec = bench(given=facts(catalogue=columns))
    rec.log([_as(old, sample(no)) for no in range(3)])
    read = list(gpuwatch.recording.open(rec.directory).events())
    place = catalogue.INDEX["nic"]["rx_bytes"]
    for event, whole in zip(read, [sample(no) for no in range(3)], strict=True):
        assert isinstance(event, Sample)
        assert event.rows("nic")[0].values[place] is None
        assert event.rows("nic")[0].values[place + 1 :] == whole.rows("nic")[0].values[place + 1 :]
        assert event.rows("gpu")[0].labels == (0, None, "")
        assert event.rows("node") == whole.rows("node")
        assert event.rows("disk") == ()


def _as(rows: tuple[object, ...], whole: Sample) -> Sample:
    """Order a sample as a catalogue with fewer rows would have had it."""
    kept = {(r.scope, r.name) for r in rows}  # type: ignore[attr-defined]
    scopes = [s for s in catalogue.SCOPES if any(scope == s for scope, _ in kept)]

    def pick(cells: tuple[object, ...], declared: tuple[object, ...]) -> tuple[object, ...]:
        pairs = zip(cells, declared, strict=True)
        return tuple(c for c, r in pairs if (r.scope, r.name) in kept)  # type: ignore[attr-defined]

    tables = tuple(
        tuple(
            msgspec.structs.replace(
                row,
                labels=pick(row.labels, catalogue.LABELS[scope]),
                values=pick(row.values, catalogue.VALUES[scope]),
            )
            for row in whole.rows(scope)
        )
        for scope in scopes
    )
    return msgspec.structs.replace(whole, tables=tables)


def test_columns_of_a_later_catalogue_are_ignored(bench: Maker) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    file = rec.directory / "seg/00000001/nic.parquet"
    pl.read_parquet(file).with_columns(pl.lit(7).alias("rx_colours")).write_parquet(file)
    _recommit(rec, file)
    recording = gpuwatch.recording.open(rec.directory)
    assert list(recording.events()) == stream(0, 10)
    assert "rx_colours" not in recording.table("nic").collect().columns


@pytest.mark.parametrize(
    "column",
    [pl.lit(None, pl.Int64).alias("event_no"), pl.lit([1]).alias("rx_bytes")],
    ids=["nulls where none may be", "a list for a number"],
)
def test_a_hostile_table_with_a_right_checksum_is_a_gap(bench: Maker, column: pl.Expr) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    file = rec.directory / "seg/00000001/nic.parquet"
    pl.read_parquet(file).with_columns(column).write_parquet(file)
    _recommit(rec, file)
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == list(range(10))
    assert [g.reason.split(":")[0] for g in recording.gaps] == ["segment 1, table nic"]


@pytest.mark.parametrize(("rows", "text"), [(9_000_000, ""), (1100, "x" * (1 << 20))])
def test_a_few_bytes_that_stand_for_more_than_memory_holds_are_a_gap(
    bench: Maker, rows: int, text: str
) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    file = rec.directory / "seg/00000001/link.parquet"
    numbered = pl.DataFrame({"event_no": pl.repeat(1, rows, eager=True)})
    numbered.with_columns(pl.lit(text).alias("reason")).write_parquet(file)
    assert file.stat().st_size < 1 << 20
    _recommit(rec, file, rows=rows)
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == list(range(10))
    assert [g.reason for g in recording.gaps] == [
        "segment 1, table link: more at once than a recording's tables have"
    ]


def _recommit(rec: Bench, file: Path, **told: int) -> None:
    import hashlib

    content = file.read_bytes()
    line = json.loads((rec.directory / manifest.FILE).read_bytes())
    line["tables"].setdefault(file.stem, {"rows": 0}).update(told)
    line["tables"][file.stem]["bytes"] = len(content)
    line["tables"][file.stem]["sha256"] = hashlib.sha256(content).hexdigest()
    (rec.directory / manifest.FILE).write_text(json.dumps(line) + "\n")


def test_a_hostile_manifest_names_no_other_files(bench: Maker) -> None:
    rec = bench()
    rec.seal(stream(0, 10))
    line = json.loads((rec.directory / manifest.FILE).read_bytes())
    line["tables"]["../../../../etc/passwd"] = line["tables"]["nic"]
    line["tables"]["nic"] |= {"bytes": 2**50}
    (rec.directory / manifest.FILE).write_text(json.dumps(line) + "\n")
    recording = gpuwatch.recording.open(rec.directory)
    assert numbers(recording) == list(range(10))
    assert [g.reason for g in recording.gaps] == [
        "segment 1, table nic: larger than a recording's tables are"
    ]


def test_a_read_only_recording_is_not_written_to(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_mode) for p in rec.directory.rglob("*")}
    list(gpuwatch.recording.open(rec.directory).events())
    after = {p: (p.stat().st_mtime_ns, p.stat().st_mode) for p in rec.directory.rglob("*")}
    assert after == before


def test_files_are_private(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    for path in (rec.directory / "seg").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_an_hour_of_a_node_is_small(bench: Maker) -> None:
    rec = bench()
    minute = [sample(no) for no in range(60)]
    entry = rec.seal(minute)
    assert sum(t.bytes for t in entry.tables.values()) * 60 < 8 << 20
