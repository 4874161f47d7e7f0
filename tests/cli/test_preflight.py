"""`gpuwatch preflight` as a person runs it: asks before load, tells, keeps, compares, exit codes."""

from pathlib import Path

import msgspec
import pytest

from cli.test_doctor import over_sshd
from gpuwatch.preflight.kept import changes, keep, latest
from gpuwatch.preflight.result import Finding, Outcome, Result
from gpuwatch_process import job_file, run_gpuwatch
from sshd import Sshd


@over_sshd
def test_two_nodes_over_ssh_are_checked_after_a_question_and_the_result_is_kept(
    tmp_path: Path,
) -> None:
    with Sshd(tmp_path / "sshd") as server:
        file = job_file(
            tmp_path,
            [server, server],
            f"storage: {{paths: [/dev/shm]}}\nrecord: {{dir: {tmp_path / 'out'}}}",
        )
        asked = run_gpuwatch("preflight", file, "--only", "checkpoint")
        assert asked.returncode == 2
        assert "checkpoint: writes 8 GB" in asked.stderr
        assert asked.stderr.endswith(
            "nobody is there to be asked; --yes goes on; --only links,host,round-trip makes no load\n"
        )
        words = (
            "--only",
            "links,host,round-trip,checkpoint",
            "--quick",
            "--yes",
            "--checkpoint-size",
            "10MB",
            "--json",
        )
        done = run_gpuwatch("preflight", file, *words)
    assert done.returncode in {0, 1}, done.stderr
    result = msgspec.json.decode(done.stdout, type=Result)
    assert result.nodes == ("n1", "n2")
    assert [outcome.check for outcome in result.outcomes] == [
        "links",
        "host",
        "round-trip",
        "checkpoint",
    ]
    written = [f for f in result.outcomes[-1].findings if f.judgement == "fine"]
    assert {f.subject for f in written} == {"n1:/dev/shm", "n2:/dev/shm"}
    (kept,) = (tmp_path / "out").rglob("preflight/*.json")
    assert msgspec.json.decode(kept.read_bytes(), type=Result) == result


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--only", "links,nothing"), 2, "no check 'nothing'; one of: links, roce"),
        (("--params", "many"), 2, "'many' is not a number"),
        (("--checkpoint-size", "140"), 2, "has no unit of"),
        (("--only", "fit", "--params", "7B"), 0, ""),
    ],
)
def test_what_is_asked_for_is_understood_or_told(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    done = run_gpuwatch("preflight", *words, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def result(at: str, **faults: tuple[str, ...]) -> Result:
    outcomes = tuple(
        Outcome(check=check, seconds=1.0, findings=tuple(Finding(subject=s, judgement="fault", text="") for s in subjects))
        for check, subjects in faults.items()
    )  # fmt: skip
    return Result(job="j", at=at, nodes=("a",), unreached={}, outcomes=outcomes)


def test_results_are_kept_and_compared_by_what_both_looked_for(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    before = result("2026-11-01T10:00:00+00:00", links=("a", "b"), host=("c",))
    keep(before, tmp_path)
    (tmp_path / "20990101T000000Z.json").write_text("{torn")
    assert latest(tmp_path) == before
    now = result("2026-11-02T10:00:00+00:00", links=("b", "d"), bandwidth=("e",))
    assert list(changes(before, now)) == [
        "new since 2026-11-01T10:00:00+00:00: links d",
        "gone since 2026-11-01T10:00:00+00:00: links a",
    ]
