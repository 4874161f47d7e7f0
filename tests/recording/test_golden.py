"""Recordings of every format that there ever was: each opens, and tells what it told."""

from pathlib import Path

import pytest

from gpuwatch.model.event import Sample, Tick
from gpuwatch.recording import reader, session

ROOT = Path(__file__).parents[2]
OF_FORMAT = {1: ROOT / "recordings/net-loss", 2: Path(__file__).parent / "golden/format-2"}


def test_each_format_has_one() -> None:
    assert set(OF_FORMAT) == set(range(1, session.FORMAT + 1))


@pytest.mark.parametrize("number", OF_FORMAT)
def test_it_opens_whole(number: int) -> None:
    found = reader.open_recording(OF_FORMAT[number])
    assert found.session.format == number
    numbers = [event.event_no for event in found.events()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 70
    assert list(found.shown())
    assert found.judge_state_before(numbers[-1]) is not None
    assert not found.gaps


def test_of_format_2_a_merged_segment_a_sealed_one_and_a_log() -> None:
    found = reader.open_recording(OF_FORMAT[2])
    events = list(found.events())
    assert [event.event_no for event in events] == list(range(80))
    assert [type(event) for event in events] == [Tick, Sample] * 40
    assert {path.name for path in (OF_FORMAT[2] / "seg").iterdir()} == {
        "00000001-00000006", "00000007"
    }  # fmt: skip
    limit_w = found.table("gpu").select("event_no", "power_limit_w").collect()
    assert dict(limit_w.rows())[21] == 21 / 7
    assert [shown.job.cause for _, shown in found.shown()] == ["loss"] * 40
    assert [state.state for state in found.judge_states()] == [bytes([n]) for n in range(8)]
