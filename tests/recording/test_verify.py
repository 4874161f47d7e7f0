"""Every kind of damage is named, and the rest plays."""

import json
import os
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.cli.verify import verify as command
from gpuwatch.errors import RecordingError
from gpuwatch.recording import manifest, reader
from gpuwatch.recording.limits import Limits
from gpuwatch.recording.retention import trimmed
from gpuwatch.recording.verify import verify
from recording.kit import Bench, three_parts

Maker = Callable[..., Bench]
Break = Callable[[Path], object]
TABLE = "seg/00000001/nic.parquet"
NODE = "seg/00000002/node.parquet"
LOG = "wal/00000003.wal"


def flip(name: str) -> Break:
    def broken(place: Path) -> None:
        content = bytearray((place / name).read_bytes())
        content[len(content) // 2] ^= 8
        (place / name).write_bytes(content)

    return broken


def cut(name: str, by: int) -> Break:
    return lambda place: os.truncate(place / name, (place / name).stat().st_size - by)


def instead(name: str, make: Callable[[Path], object]) -> Break:
    def broken(place: Path) -> None:
        (place / name).unlink()
        make(place / name)

    return broken


def foreign(file: Path) -> None:
    pl.DataFrame({"t": [1], "someone": ["else"]}).write_parquet(file)


def later(place: Path) -> None:
    line, *rest = (place / manifest.FILE).read_text("ascii").splitlines(keepends=True)
    entry = json.loads(line)
    entry["tables"]["optics"] = entry["tables"]["nic"]
    (place / manifest.FILE).write_text(json.dumps(entry) + "\n" + "".join(rest))


BROKEN: dict[str, tuple[Break, str]] = {
    "truncated": (cut(TABLE, 30), "segment 1, table nic: its checksum differs"),
    "bit flipped": (flip(NODE), "segment 2, table node: its checksum differs"),
    "of a later version": (later, "segment 1, table optics: of a later gpuwatch"),
    "zero length": (lambda p: os.truncate(p / TABLE, 0), "segment 1, table nic: its checksum"),
    "missing table": (lambda p: (p / TABLE).unlink(), "segment 1, table nic: No such file"),
    "missing segment": (lambda p: (p / "seg/00000001").rename(p / "elsewhere"), "segment 1, table"),
    "foreign table": (instead(TABLE, foreign), "segment 1, table nic: its checksum differs"),
    "a pipe": (instead(TABLE, os.mkfifo), "segment 1, table nic: no plain file"),
    "a link": (instead(TABLE, lambda f: f.symlink_to("/etc/passwd")), "segment 1, table nic: Too"),
    "a folder": (instead(TABLE, Path.mkdir), "segment 1, table nic: no plain file"),
    "torn log": (cut(LOG, 3), "log 3: the last .* bytes are a record cut short"),
    "damaged log": (flip(LOG), "log 3: .* bytes at .* are damaged"),
    "a log that is a pipe": (instead(LOG, os.mkfifo), "log 3: no plain file"),
    "garbage in the manifest": (
        lambda p: (p / manifest.FILE).write_bytes(b"{}\n" + (p / manifest.FILE).read_bytes()),
        "1 lines of the manifest are damaged",
    ),
    "torn manifest": (cut(manifest.FILE, 20), "log 2: missing|segment 2: missing"),
    "a line of the manifest without end": (
        lambda p: (p / manifest.FILE).write_bytes(b"[" * (2 << 20) + b"\n"),
        "1 lines of the manifest are damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_damage_is_named_and_the_rest_plays(bench: Maker, kind: str) -> None:
    rec = bench()
    three_parts(rec)
    whole = {event.event_no for event in reader.open_recording(rec.directory).events()}
    damage, reason = BROKEN[kind]
    damage(rec.directory)
    found = verify(reader.open_recording(rec.directory))
    assert found.damaged
    assert any(re.match(reason, gap.reason) for gap in found.damaged)
    rest = {event.event_no for event in reader.open_recording(rec.directory).events()}
    assert len(rest) == found.events
    assert rest <= whole
    assert len(rest) >= 10


def test_what_is_whole_is_said_so(bench: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    rec = bench()
    three_parts(rec)
    (rec.directory / "notes.txt").write_text("mine")
    (rec.directory / "seg/.00000009.tmp").mkdir()
    assert command(Namespace(recording=str(rec.directory), json=False)) == 0
    told = capsys.readouterr().out
    assert ": whole: 30 events, 15 of them samples of 2 nodes, 2026-" in told
    assert "does not count: notes.txt\n" in told
    assert "does not count: seg/.00000009.tmp\n" in told


def test_damage_is_an_exit_code_and_a_document(
    bench: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    rec = bench()
    three_parts(rec)
    flip(TABLE)(rec.directory)
    assert command(Namespace(recording=str(rec.directory), json=True)) == 1
    told = json.loads(capsys.readouterr().out)
    assert [gap["reason"] for gap in told["damaged"]] == [
        "segment 1, table nic: its checksum differs"
    ]
    assert (told["events"], told["deleted"], told["left_over"]) == (30, [], [])


def test_what_was_let_go_of_is_no_damage(bench: Maker) -> None:
    rec = bench()
    three_parts(rec)
    for entry in trimmed(list(rec.manifest.entries.values()), Limits(max_bytes=1)):
        rec.manifest.commit(entry)
    found = verify(reader.open_recording(rec.directory))
    assert not found.damaged
    assert [gap.reason for gap in found.deleted] == ["all deleted: more than is kept"] * 2


@given(st.dictionaries(st.sampled_from([TABLE, LOG, manifest.FILE, "session.json"]), st.binary(max_size=300), min_size=1))  # fmt: skip
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_content_of_any_file_gets_past_words(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    place = tmp_path_factory.mktemp("any") / "rec"
    made = Bench(place)
    three_parts(made)
    made.manifest.close()
    for name, content in contents.items():
        (place / name).write_bytes(content)
    before = sorted(place.rglob("*"))
    words = told(place)
    assert "\n" not in words
    assert words or contents == {LOG: b""}  # a log may just have begun
    assert sorted(place.rglob("*")) == before


def told(place: Path) -> str:
    """Return what is wrong with a recording, in words."""
    try:
        return "; ".join(gap.reason for gap in verify(reader.open_recording(place)).damaged)
    except RecordingError as error:
        return str(error)
