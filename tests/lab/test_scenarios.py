"""The lab's scenarios are consistent, and cover what verdicts can say."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.model.verdict import CAUSES, STATES
from lab import control
from lab.scenario import Scenario
from lab.scenarios import FAULTS, HEALTHY, SCENARIOS, SHORT
from lab.switches import Switch

ALL = (*FAULTS, *HEALTHY)
WORDS = {*STATES, *(f"{s}/{c}" for s in STATES for c in CAUSES[s]), *(f"{s}/*" for s in STATES)}


def name(scenario: Scenario) -> str:
    return scenario.name


@pytest.mark.parametrize("scenario", ALL, ids=name)
def test_a_scenario_speaks_of_what_there_is(scenario: Scenario) -> None:
    accepts = [scenario.accepts(subject) for subject in ("job", *scenario.names)]
    assert {word for accept in accepts for word in accept.words} <= WORDS
    assert scenario.on.keys() <= set(scenario.names)
    for fault in scenario.faults:
        assert getattr(fault, "on", "") in ("", "store", *scenario.names)
        assert fault.name
    assert scenario.fault_s == 0 or scenario.faults or scenario.from_start


@pytest.mark.parametrize("scenario", ALL, ids=name)
def test_its_switches_are_known_to_the_trainer(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "control.json"
    monkeypatch.setattr(control, "FILE", file)
    told = [scenario.options, *(f.switches for f in scenario.faults if isinstance(f, Switch))]
    for switches in told:
        file.write_text(json.dumps(switches))
        ranks = range(scenario.ranks)
        changed = any(control.read(rank) != control.Control() for rank in ranks)
        assert changed == bool(switches)


def test_each_kind_of_waiting_is_broken_for() -> None:
    states = Counter(
        s.accepts(n).words[0].partition("/")[0] for s in ALL for n in ("job", *s.names)
    )
    assert {"NETWORK", "STORAGE", "CPU", "PEER", "GPU", "HUNG", "COMPUTE", "IDLE"} <= states.keys()
    assert {s.data for s in FAULTS} == {"disk", "nfs", "fuse", "object"}
    assert len(SCENARIOS) == len(ALL)
    assert len(FAULTS) >= 20
    several = [s for s in FAULTS if s.ranks > 1]
    assert len(several) >= 5
    assert any(s.nodes == 1 for s in several)
    assert set(SHORT) <= SCENARIOS.keys()


@pytest.mark.parametrize("told", [{"nonsense": 1}, {"ranks": {"0": {"nonsense": 1}}}])
def test_an_unknown_switch_is_refused(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "control.json"
    monkeypatch.setattr(control, "FILE", file)
    file.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="nonsense"):
        control.read(0)
