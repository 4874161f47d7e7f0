"""Packed recordings: they play as the folder does, and none that is hostile gets past words."""

import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.cli.commands import parse
from gpuwatch.errors import InputError, RecordingError
from gpuwatch.model.event import AnyEvent
from gpuwatch.recording import manifest, reader
from gpuwatch.recording.pack import pack
from gpuwatch.recording.verify import verify
from recording.kit import Bench, three_parts

Maker = Callable[..., Bench]
GOLDEN = Path(__file__).parent / "golden/format-2"


def events(place: Path) -> list[AnyEvent]:
    return list(reader.open_recording(place).events())


def test_it_plays_as_the_folder_does(tmp_path: Path) -> None:
    """A merged segment, a sealed one, and a log."""
    file = tmp_path / "x.gwz"
    assert pack(reader.open_recording(GOLDEN), file) == file.stat().st_size
    packed, folder = reader.open_recording(file), reader.open_recording(GOLDEN)
    assert list(packed.events()) == list(folder.events())
    assert list(packed.shown(20)) == list(folder.shown(20))
    assert list(packed.judge_states()) == list(folder.judge_states())
    assert packed.span() == folder.span()
    assert packed.table("gpu").collect().equals(folder.table("gpu").collect())
    assert not verify(packed).damaged
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    again = tmp_path / "y.gwz"
    pack(packed, again)  # and may be packed again, to the same bytes
    assert again.read_bytes() == file.read_bytes()


def test_what_is_damaged_stays_a_gap(bench: Maker, tmp_path: Path) -> None:
    rec = bench()
    three_parts(rec)
    os.truncate(rec.directory / "seg/00000001/nic.parquet", 10)
    pack(reader.open_recording(rec.directory), tmp_path / "x.gwz")
    packed = reader.open_recording(tmp_path / "x.gwz")
    assert list(packed.events()) == events(rec.directory)
    assert [g.reason for g in packed.gaps] == ["segment 1, table nic: No such file or directory"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "x.gwz"
    file.write_text("mine")
    with pytest.raises(InputError, match="there is such a file"):
        pack(reader.open_recording(GOLDEN), file)
    with pytest.raises(RecordingError, match="cannot be written: No such file"):
        pack(reader.open_recording(GOLDEN), tmp_path / "none/x.gwz")
    body, asked = parse(["pack", str(GOLDEN), str(tmp_path / "x.zip")])
    with pytest.raises(InputError, match=r"is called \.gwz"):
        body(asked)
    assert [path.name for path in tmp_path.iterdir()] == ["x.gwz"]
    assert file.read_text() == "mine"


def hostile(kind: str, packed: zipfile.ZipFile) -> None:
    match kind:
        case "a way out":
            packed.writestr("../../escaped", b"x")
        case "a root":
            packed.writestr("/tmp/escaped", b"x")
        case "a way out inside":
            packed.writestr("seg/../../escaped.parquet", b"x")
        case "a foreign name":
            packed.writestr("seg/00000001/\x1b[2J.parquet", b"x")
        case "a link":
            link = zipfile.ZipInfo("seg/00000009/gpu.parquet")
            link.external_attr = 0o120777 << 16
            packed.writestr(link, b"/etc/passwd")
        case "a bomb":
            packed.writestr("wal/00000009.wal", bytes(50_000_000), zipfile.ZIP_DEFLATED)
        case "twice":
            with pytest.warns(UserWarning, match="Duplicate"):
                packed.writestr(manifest.FILE, b"{}\n")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("a way out", "'../../escaped' is no file"), ("a root", "'/tmp/escaped' is no file"),
     ("a way out inside", "is no file of a recording"), ("a foreign name", r"'seg/00000001/\\x1b"),
     ("a bomb", "is not stored as it is"), ("twice", "'manifest.jsonl' is there twice")],
)  # fmt: skip
def test_a_hostile_archive_is_an_error_in_words(tmp_path: Path, kind: str, words: str) -> None:
    file = tmp_path / "deep/down/x.gwz"
    file.parent.mkdir(parents=True)
    pack(reader.open_recording(GOLDEN), file)
    with zipfile.ZipFile(file, "a") as packed:
        hostile(kind, packed)
    with pytest.raises(RecordingError, match=words):
        reader.open_recording(file)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_link_in_an_archive_is_no_more_than_a_file_that_nobody_names(tmp_path: Path) -> None:
    file = tmp_path / "x.gwz"
    pack(reader.open_recording(GOLDEN), file)
    with zipfile.ZipFile(file, "a") as packed:
        hostile("a link", packed)
    assert events(file) == events(GOLDEN)


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_bytes_of_an_archive_get_past_words(tmp_path: Path, data: st.DataObject) -> None:
    file = tmp_path / "x.gwz"
    if not file.exists():
        pack(reader.open_recording(GOLDEN), file)
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    broken = tmp_path / "broken.gwz"
    broken.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        found = verify(reader.open_recording(broken))
    except RecordingError as error:
        told = str(error)
    else:
        told = "; ".join(gap.reason for gap in found.damaged)
    assert "\n" not in told
    assert {path.name for path in tmp_path.iterdir()} == {"x.gwz", "broken.gwz"}
