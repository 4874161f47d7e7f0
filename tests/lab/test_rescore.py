"""Recordings are judged anew with the truth that was stored beside them."""

import shutil
from pathlib import Path

import msgspec
import pytest

from lab import rescore, table
from lab.scenarios import SCENARIOS
from lab.score import Truth, score
from lab.watch import Result, Way, seen

DEMO = Path(__file__).parents[2] / "recordings" / "net-loss"
HEALTHY_S = 30.0
SCENARIO = "net-loss"


def stored(directory: Path, later_s: float = 0.0) -> Result:
    """Keep a result beside the demo's recording, of a run that was `later_s` after it."""
    shutil.copytree(DEMO, directory / SCENARIO)
    shown = seen(DEMO)
    begin_s, end_s = shown[0].at_s + later_s, shown[-1].at_s + later_s
    truth = Truth(begin_s, begin_s + HEALTHY_S, end_s, end_s)
    result = Result(
        SCENARIO, score(SCENARIOS[SCENARIO], truth, ()), truth, {}, False, None, None, 0, 0, Way()
    )
    (directory / f"{SCENARIO}.json").write_bytes(msgspec.json.encode(result))
    return result


def test_a_recording_is_judged_for_as_long_as_it_was(tmp_path: Path) -> None:
    before = stored(tmp_path)
    kept, now = rescore.rescored(tmp_path / f"{SCENARIO}.json")
    assert kept == before
    assert now.truth == before.truth
    assert sum(now.score.job.words.values()) == pytest.approx(now.score.job.fault_s, abs=3)


def test_what_changed_is_told_beside_the_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = stored(tmp_path)
    assert rescore.main(["--dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    kept, now = rescore.rescored(tmp_path / f"{SCENARIO}.json")
    assert table.scores([now]) in told
    assert table.changes([(before, now)]) in told
    assert f"{SCENARIO} " in table.changes([(before, now)])
    assert table.changes([(kept, kept)]).split() == ["-"]


def test_a_recording_of_another_run_is_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, later_s=1000.0)
    assert rescore.main(["--dir", str(tmp_path)]) == 1
    assert "another run" in capsys.readouterr().err
