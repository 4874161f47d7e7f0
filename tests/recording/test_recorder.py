"""The recorder against kills, full disks, second writers, and what it may not do to the engine."""

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import gpuwatch.recording
from gpuwatch.agent import catalogue
from gpuwatch.errors import RecordingError
from gpuwatch.model.event import AnyEvent, Fault, Hello, Link, Sample, Tick
from gpuwatch.model.view import View
from gpuwatch.recording import Limits, Recorder, create, segment
from gpuwatch.recording.record import Layout
from recording.killed import killed
from recording.kit import Bench, facts, sample, stream, tick, verdict

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
SHORT = Limits(seal_us=3_000_000)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync often, so that tests wait less."""
    monkeypatch.setattr("gpuwatch.recording.writer.SYNC_S", 0.05)


def feed(recorder: Recorder, events: list[AnyEvent]) -> None:
    for event in events:
        recorder.event(event)
        if isinstance(event, Tick):
            view = View(event.event_no, event.arrived_us, event.wall_us, 1_000_000, ())
            recorder.judged(event, view, verdict(event.event_no / 1000))


def wait_for(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def test_what_was_recorded_is_read(tmp_path: Path) -> None:
    recorder = create(tmp_path / "deep" / "rec", facts(), lambda: b"state", SHORT)
    feed(recorder, stream(0, 40))
    wait_for(lambda: recorder.status.acknowledged_event_no == 39)
    recorder.close()
    recorder.close()
    recording = gpuwatch.recording.open(recorder.directory)
    assert list(recording.events()) == stream(0, 40)
    assert list(recording.shown()) == [(no, verdict(no / 1000)) for no in range(0, 40, 2)]
    assert [s.event_no for s in recording.judge_states()] == [6, 14, 22, 30, 38]
    assert {s.state for s in recording.judge_states()} == {b"state"}
    assert list((recorder.directory / "wal").iterdir()) == []
    assert not recording.live
    status = recorder.status
    assert (status.segments, status.paused_reason, status.lost_events) == (6, None, 0)
    assert status.bytes == sum(p.stat().st_size for p in (recorder.directory / "seg").glob("*/*"))


def test_all_is_private(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts(), None, SHORT)
    feed(recorder, stream(0, 40))
    wait_for(lambda: recorder.status.segments == 5)
    wrong = [p for p in (tmp_path / "rec").rglob("*") if stat.S_IMODE(p.stat().st_mode) != mode(p)]
    recorder.close()
    assert wrong == []
    assert stat.S_IMODE((tmp_path / "rec").stat().st_mode) == 0o700


def mode(path: Path) -> int:
    return 0o700 if path.is_dir() else 0o600


def test_the_name_of_each_log_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power a log is found only if its directory was synced since it came."""
    synced: list[int] = []
    through = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        through(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    recorder = create(tmp_path / "rec", facts(), None, SHORT)
    assert tmp_path.stat().st_ino in synced
    feed(recorder, stream(0, 40))
    recorder.close()
    logs = recorder.status.segments
    assert logs > 3
    assert synced.count((recorder.directory / "wal").stat().st_ino) >= logs


def test_links_and_hellos_stand_in_the_judge_state(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts(), None, SHORT)
    lost = Link(event_no=0, arrived_us=0, wall_us=0, node="gpu001", state="lost", step="login")
    live = msgspec.structs.replace(lost, event_no=1, state="streaming", step="streaming")
    hello = Hello(
        event_no=2, arrived_us=0, wall_us=0, node="gpu001", boot_id="b", agent_id="a", facts={}
    )
    feed(recorder, [lost, live, hello, *stream(3, 20)])
    recorder.close()
    states = list(gpuwatch.recording.open(recorder.directory).judge_states())
    assert [s.standing for s in states] == [(live, hello)] * len(states)
    assert len(states) == 3


def test_a_growing_recording_reads_while_it_grows(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts(), None, SHORT)
    feed(recorder, stream(0, 5))
    wait_for(lambda: recorder.status.acknowledged_event_no == 4)
    recording = gpuwatch.recording.open(recorder.directory)
    assert recording.live
    assert list(recording.events()) == stream(0, 5)
    feed(recorder, stream(5, 1))
    wait_for(lambda: recorder.status.acknowledged_event_no == 5)
    assert list(recording.events()) == stream(0, 6)
    recorder.close()
    assert list(recording.events()) == stream(0, 6)
    assert recording.gaps == ()


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RecordingError, match="is not empty"):
        create(tmp_path, facts())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty", facts()).close()


def test_a_second_writer_is_refused_in_words(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts())
    with pytest.raises(RecordingError, match="another gpuwatch records here"):
        create(tmp_path / "rec", facts())
    feed(recorder, stream(0, 2))
    recorder.close()
    with pytest.raises(RecordingError, match="holds a recording already"):
        create(tmp_path / "rec", facts())
    assert list(gpuwatch.recording.open(tmp_path / "rec").events()) == stream(0, 2)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecordingError, match=r"cannot record here: (Not a dir|File ex)") as caught:
        create(tmp_path / "file", facts())
    assert "\n" not in str(caught.value)


def test_an_event_that_cannot_be_encoded_leaves_a_fault_in_its_place(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts())
    bad = msgspec.structs.replace(sample(1), node="\ud800")
    huge = Hello(
        event_no=2, arrived_us=0, wall_us=0, node="n", boot_id="", agent_id="", facts={"x": 2**70}
    )
    feed(recorder, [tick(0), bad, huge, tick(3)])
    recorder.close()
    events = list(gpuwatch.recording.open(recorder.directory).events())
    assert [type(e) for e in events] == [Tick, Fault, Fault, Tick]
    assert [e.node for e in events[1:3] if isinstance(e, Fault)] == ["?", "n"]


def test_starting_to_record_loads_no_polars() -> None:
    code = (
        "import sys, gpuwatch.recording; from gpuwatch.recording import create;"
        "print(sorted({'polars', 'asyncssh', 'textual', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_recorder_loses_nothing_that_it_acknowledged(tmp_path: Path, seed: int) -> None:
    """`make kill-check` does so fifty times."""
    left = killed(tmp_path / "rec", seed)
    assert left.events > left.acknowledged >= 0
    assert left.merging == (seed % 3 > 0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "gpuwatch-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a small disk here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def reason(recorder: Recorder) -> str | None:
    return recorder.status.paused_reason


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as open_file, contextlib.suppress(OSError):
        while open_file.write(bytes(4096)):
            pass


def test_a_full_disk_pauses_resumes_and_marks_the_gap(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.recording.writer.RETRY_S", 0.02)
    recorder = create(small_disk / "rec", facts(), lambda: b"", Limits(queue=100))
    ballast = small_disk / "ballast"
    feed(recorder, stream(0, 10))
    wait_for(lambda: recorder.status.acknowledged_event_no == 9)
    fill(ballast)
    no = 10
    while recorder.status.lost_events < 50:
        feed(recorder, stream(no, 10))
        no += 10
        time.sleep(0.001)
    assert reason(recorder) == "No space left on device"
    durable = recorder.status.acknowledged_event_no
    ballast.unlink()
    wait_for(lambda: recorder.status.acknowledged_event_no > durable)
    assert reason(recorder) is None
    feed(recorder, stream(no, 10))
    wait_for(lambda: recorder.status.acknowledged_event_no == no + 9)
    recorder.close()
    recording = gpuwatch.recording.open(small_disk / "rec")
    events = list(recording.events())
    faults = [e for e in events if isinstance(e, Fault)]
    assert [f.source for f in faults] == ["recording"]
    lost = recorder.status.lost_events
    assert faults[0].text.startswith(f"{lost} events in ")
    assert faults[0].text.endswith("No space left on device")
    first = faults[0].event_no
    kept = [*stream(0, first), *stream(first + lost, no + 10 - first - lost)]
    assert [e for e in events if e is not faults[0]] == kept
    assert events.index(faults[0]) == first
    assert recording.gaps == ()


def test_a_disk_that_stays_full_ends_without_a_word_to_the_engine(small_disk: Path) -> None:
    recorder = create(small_disk / "rec", facts(), None, Limits(queue=100))
    feed(recorder, stream(0, 10))
    wait_for(lambda: recorder.status.acknowledged_event_no == 9)
    fill(small_disk / "ballast")
    feed(recorder, stream(10, 2000))
    recorder.close()
    events = list(gpuwatch.recording.open(small_disk / "rec").events())
    assert events[:10] == stream(0, 10)


def test_a_seal_that_the_disk_refuses_can_be_tried_again(small_disk: Path) -> None:
    bench = Bench(small_disk / "rec")
    bench.log(stream(0, 50))
    fill(small_disk / "ballast")
    layout = Layout(catalogue.ROWS)
    with pytest.raises(OSError, match="No space left"):
        segment.seal(bench.directory, 1, layout, bench.manifest)
    assert list(gpuwatch.recording.open(bench.directory).events()) == stream(0, 50)
    (small_disk / "ballast").unlink()
    segment.seal(bench.directory, 1, layout, bench.manifest)
    bench.manifest.close()
    recording = gpuwatch.recording.open(bench.directory)
    assert list(recording.events()) == stream(0, 50)
    assert sorted(p.name for p in (bench.directory / "seg").iterdir()) == ["00000001"]


def test_a_read_only_mount_reads(small_disk: Path) -> None:
    recorder = create(small_disk / "rec", facts(), None, SHORT)
    feed(recorder, stream(0, 12))
    recorder.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    recording = gpuwatch.recording.open(small_disk / "rec")
    assert list(recording.events()) == stream(0, 12)
    assert not recording.live
    with pytest.raises(RecordingError, match="cannot record here: Read-only file system"):
        create(small_disk / "other", facts())


def test_a_failed_sync_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.recording.writer.RETRY_S", 0.02)
    failing = [True, True]
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        if failing:
            failing.pop()
            os.ftruncate(descriptor, 0)  # as a disk that drops what it could not keep
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr("gpuwatch.recording.wal._datasync", fdatasync)
    recorder = create(tmp_path / "rec", facts())
    feed(recorder, stream(0, 10))
    reasons = set()

    def settled() -> bool:
        reasons.add(recorder.status.paused_reason)
        return recorder.status.acknowledged_event_no == 9

    wait_for(settled)
    assert reasons >= {"Input/output error"}
    recorder.close()
    assert list(gpuwatch.recording.open(recorder.directory).events()) == stream(0, 10)


def test_a_disk_that_does_not_answer_never_holds_up_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr("gpuwatch.recording.writer.SLOW_S", 0.05)
    frozen = threading.Event()
    real = os.fdatasync
    monkeypatch.setattr(
        "gpuwatch.recording.wal._datasync", lambda fd: (frozen.wait(30), real(fd))[1]
    )
    recorder = create(tmp_path / "rec", facts(), None, Limits(queue=100))
    feed(recorder, stream(0, 10))
    wait_for(lambda: recorder.status.paused_reason == "the disk does not answer")
    began = time.monotonic()
    feed(recorder, stream(10, 300))
    assert time.monotonic() - began < 2
    assert recorder.status.lost_events > 200
    frozen.set()
    wait_for(lambda: recorder.status.acknowledged_event_no >= 9)
    recorder.close()
    events = list(gpuwatch.recording.open(recorder.directory).events())
    lost = recorder.status.lost_events
    assert isinstance(events[-1], Fault)
    assert len(events) + lost == 311
    assert events[-1].text.startswith(f"{lost} events in ")


def test_samples_of_all_nodes_come_back(tmp_path: Path) -> None:
    recorder = create(tmp_path / "rec", facts())
    some = [sample(no, node=f"gpu{no % 7:03d}") for no in range(50)]
    feed(recorder, list(some))
    recorder.close()
    read = list(gpuwatch.recording.open(recorder.directory).events())
    assert read == some
    assert all(isinstance(event, Sample) for event in read)
