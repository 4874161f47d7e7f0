"""Alerts: a real program, told once of what is confirmed and once when it is over."""

import io
import time
from pathlib import Path

import pytest

from gpuwatch.cli import alerts
from gpuwatch.cli.alerts import AGAIN_US, Alerts
from gpuwatch.job.types import Alerts as Wanted
from gpuwatch.job.types import Job
from gpuwatch.model.event import Tick
from gpuwatch.model.verdict import Culprit, JobVerdict, State, Verdict

SECOND = 1_000_000
SCRIPT = """#!/bin/sh
env | grep ^GPUWATCH_ | sort > "$0.$(ls "$0".* 2>/dev/null | wc -l)"
"""


def program(place: Path, text: str = SCRIPT) -> Path:
    place.write_text(text)
    place.chmod(0o700)
    return place


class Told:
    """An alerter, fed a second at a time."""

    def __init__(self, wanted: Wanted, recording: Path | None = None) -> None:
        self.words: list[str] = []
        job = Job(name="llama\x1b[2J", nodes=(), alerts=wanted)
        self.alerts = Alerts(job, recording, self.words.append)
        self.second = 0

    def is_so(self, state: State, seconds: int = 1, *, confirmed: bool = True) -> None:
        for _ in range(seconds):
            self.second += 1
            us = self.second * SECOND
            job = Verdict(
                scope="job", state=state, cause="read" if state == "STORAGE" else None,
                culprits=(Culprit("node", "gpu\x1b003", ("gpu003",)),), confidence=0.87,
                confirmed_us=1 if confirmed else None, text="gpu003 waits",
            )  # fmt: skip
            tick = Tick(event_no=self.second, arrived_us=us, wall_us=us)
            self.alerts.judged(tick, None, JobVerdict(job=job))  # type: ignore[arg-type]

    def ended(self) -> None:
        """Wait until the program has."""
        while self.alerts._running is not None:
            self.alerts._reap()
            time.sleep(0.01)


def runs(script: Path) -> list[dict[str, str]]:
    files = sorted(script.parent.glob(script.name + ".*"))
    return [dict(line.split("=", 1) for line in f.read_text().splitlines()) for f in files]


def test_it_is_told_once_and_again_when_it_is_over(tmp_path: Path) -> None:
    script = program(tmp_path / "page me")
    told = Told(Wanted(exec=script), tmp_path / "rec")
    told.is_so("STORAGE", 5, confirmed=False)
    assert runs(script) == []
    told.is_so("STORAGE", 10)
    told.ended()
    told.is_so("UNKNOWN", 3)
    told.is_so("STORAGE", 3)
    told.is_so("COMPUTE", 5)
    told.ended()
    first, second = runs(script)
    assert first == {
        "GPUWATCH_EVENT": "confirmed", "GPUWATCH_JOB": "llama␛[2J", "GPUWATCH_STATE": "STORAGE",
        "GPUWATCH_CAUSE": "read", "GPUWATCH_CULPRITS": "gpu␛003", "GPUWATCH_CONFIDENCE": "0.87",
        "GPUWATCH_TEXT": "gpu003 waits", "GPUWATCH_TIME": "1970-01-01T00:00:06Z",
        "GPUWATCH_RECORDING": str(tmp_path / "rec"),
    }  # fmt: skip
    assert (second["GPUWATCH_EVENT"], second["GPUWATCH_STATE"]) == ("over", "COMPUTE")
    assert told.words == []


def test_what_comes_and_goes_is_told_once_in_a_while(tmp_path: Path) -> None:
    script = program(tmp_path / "x")
    told = Told(Wanted(exec=script))
    for _ in range(4):
        told.is_so("STORAGE", 2)
        told.ended()
        told.is_so("UNKNOWN")
        told.is_so("NETWORK", 2)
        told.ended()
    assert [run["GPUWATCH_STATE"] for run in runs(script)] == ["STORAGE", "NETWORK"]
    told.is_so("STORAGE", AGAIN_US // SECOND)
    told.is_so("NETWORK")
    told.ended()
    assert len(runs(script)) == 3


def test_what_goes_wrong_with_the_program_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Told(Wanted(exec=tmp_path / "none"))
    absent.is_so("STORAGE")
    assert absent.words == [f"alerts.exec: {tmp_path}/none: No such file or directory"]
    fails = Told(Wanted(exec=program(tmp_path / "fails", "#!/bin/sh\nexit 3\n")))
    fails.is_so("STORAGE")
    fails.ended()
    assert fails.words == ["alerts.exec: ended with status 3"]
    monkeypatch.setattr(alerts, "PATIENCE_S", 0.2)
    hangs = Told(Wanted(exec=program(tmp_path / "hangs", "#!/bin/sh\nsleep 60\n")))
    hangs.is_so("STORAGE")
    running = hangs.alerts._running
    assert running is not None
    hangs.is_so("NETWORK")
    assert hangs.words == [f"alerts.exec: {tmp_path}/hangs still runs: not started again"]
    hangs.ended()
    assert hangs.words[-1] == "alerts.exec: killed after 0 s"
    assert not Path(f"/proc/{running.pid}").exists()


@pytest.mark.parametrize(("terminal", "rung"), [(True, "\a\a"), (False, "")])
def test_the_bell_rings_where_there_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, rung: str
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", screen)
    told = Told(Wanted(bell=True))
    told.is_so("STORAGE", 3)
    told.is_so("COMPUTE", 3)
    assert screen.getvalue() == rung
