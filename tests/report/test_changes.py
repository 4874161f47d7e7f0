"""What other thresholds change: judged anew, compared tick by tick, told as text and JSON."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import msgspec
import pytest

from gpuwatch.cli.report import report
from gpuwatch.cli.thresholds import of_argument
from gpuwatch.errors import InputError
from gpuwatch.job.types import Cost
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import Culprit, JobVerdict, State, Verdict
from gpuwatch.report.build import Subject
from gpuwatch.report.changes import changed
from gpuwatch.report.text import text
from gpuwatch.report.timeline import Clock, said_of
from gpuwatch.report.types import Report, schema
from gpuwatch.verdict.thresholds import Thresholds

RECORDING = Path(__file__).parents[2] / "recordings" / "net-loss"
OWN = Thresholds().as_dict()
OTHER = {**OWN, "retransmit": 0.05}
SECOND = 1_000_000


def told(capsys: pytest.CaptureFixture[str], **given: object) -> str:
    """Return what `gpuwatch report` prints."""
    asked = {"recording": str(RECORDING), "json": False, "rejudge": False, "thresholds": None}
    asked |= {"begin": None, "end": None, "html": None, "fail_on": None}
    assert report(Namespace(**{**asked, **given})) == 0
    return capsys.readouterr().out


def test_a_recording_keeps_its_thresholds_and_tells_what_others_would_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = msgspec.json.decode(told(capsys, json=True), type=Report)
    assert shown.thresholds["retransmit"] == 0.001
    assert shown.changes is None
    given = {"rejudge": True, "thresholds": "retransmit=60%", "begin": "+20s", "end": "-30s"}
    document = told(capsys, json=True, **given)
    jsonschema.Draft202012Validator(schema()).validate(msgspec.json.decode(document))
    anew = msgspec.json.decode(document, type=Report)
    assert anew.thresholds["retransmit"] == 0.6
    assert anew.changes is not None
    assert [(m.name, m.before, m.after) for m in anew.changes.thresholds] == [
        ("retransmit", 0.001, 0.6)
    ]
    of_job = [c for c in anew.changes.verdicts if c.scope == "job"]
    assert {(c.before.state, c.before.cause) for c in of_job} >= {("NETWORK", "loss")}
    assert all((c.after.state, c.after.cause) != ("NETWORK", "loss") for c in of_job)
    assert anew.changes.ledger["NETWORK/loss"] < 0
    assert sum(anew.changes.ledger.values()) == pytest.approx(0)
    words = text(anew, UTC)
    assert "judged with retransmit 60 %" in words
    assert "What changes by retransmit 60 %, not 0.1 %" in words
    assert "NETWORK/loss (gpu02 -> gpu03) -> " in words


def judged(*states: State) -> list[tuple[Tick, JobVerdict]]:
    """Return ticks of a node of one rank that is in these states, a second each."""
    found = []
    for second, state in enumerate(states):
        node = Verdict(scope="node", node="n1", state=state, culprits=(Culprit("node", "n1"),))
        rank = msgspec.structs.replace(node, scope="rank", rank="0")
        us = second * SECOND
        verdict = JobVerdict(job=Verdict(scope="job"), nodes=(node,), ranks=(rank,))
        found.append((Tick(event_no=second, arrived_us=us, wall_us=us), verdict))
    return found


SUBJECT = Subject(job="j", interval_s=1.0, clock=Clock(0, 0), thresholds=OTHER,
                  cost=Cost(gpu_hour=3600.0))  # fmt: skip


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_a_difference_is_told_as_long_as_it_lasts() -> None:
    before = judged("COMPUTE", "STORAGE", "STORAGE", "STORAGE", "CPU", "CPU")
    after = judged("COMPUTE", "COMPUTE", "COMPUTE", "STORAGE", "CPU", "COMPUTE")
    found = changed(SUBJECT, said_of(before), said_of(after), OWN)
    rows = [(c.scope, c.begin, c.end, c.before.state, c.after.state) for c in found.verdicts]
    assert rows == [
        (scope, at(begin), at(end), old, "COMPUTE")
        for scope in ("node", "rank")
        for begin, end, old in ((1, 3, "STORAGE"), (5, 6, "CPU"))
    ]
    hours = {"COMPUTE": 3 / 3600, "CPU": -1 / 3600, "STORAGE": -2 / 3600}
    assert found.ledger == pytest.approx(hours)
    assert found.amount == {"CPU": -1.0, "STORAGE": -2.0}


def test_what_is_judged_alike_has_no_difference() -> None:
    same = judged("COMPUTE", "STORAGE")
    found = changed(SUBJECT, said_of(same), said_of(same), OWN)
    assert (found.verdicts, found.ledger, found.amount) == ((), {}, {})


def test_thresholds_are_pairs_or_a_file_or_those_of_a_job_file(tmp_path: Path) -> None:
    wanted = {"retransmit": 0.005, "confirm_after": 60.0}
    assert of_argument("retransmit=0.5%, confirm_after=1m") == wanted
    assert of_argument(f"retransmit=0.5%,{' ' * 300}confirm_after=1m") == wanted
    plain, job = tmp_path / "t.yaml", tmp_path / "job.yaml"
    plain.write_text("retransmit: 0.5%\nconfirm_after: 1m\n")
    job.write_text("nodes: n1\nthresholds: {retransmit: 0.5%, confirm_after: 1m}\n")
    assert of_argument(str(plain)) == of_argument(str(job)) == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("retransmit=x", "retransmit takes 0 to 100 %, not 'x'"),
        ("retransmit=1%,retransmit=2%", "retransmit is given twice"),
        ("color=1", "no threshold 'color'; there are gpu_busy"),
        ("absent.yaml", "absent.yaml: no such file"),
    ],
)
def test_what_is_no_threshold_is_told(given: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        of_argument(given)


def test_a_file_names_the_line_of_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("lost: 20%\nretransmit: 400%\n")
    with pytest.raises(InputError, match=r"t.yaml:2: retransmit: retransmit takes 0 to 100 %"):
        of_argument(str(file))


def test_thresholds_alone_change_nothing_that_was_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(InputError, match="--thresholds judges a recording anew"):
        told(capsys, thresholds="lost=20%")
