"""A built simulated NVML, and simulated nodes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from debian import REASON
from nvml.loop import Loop
from nvml.sim import Sim, build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the simulated libnvidia-ml.so.1."""
    if shutil.which("cc") is None:
        pytest.skip(f"{REASON} gcc")
    return build(tmp_path_factory.mktemp("nvml")).parent


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    """One simulated GPU."""
    return Sim(tmp_path / "gpus")


@pytest.fixture
def sim_env(library: Path, sim: Sim) -> dict[str, str]:
    """Environment of a process that loads the simulation."""
    return {**os.environ, **sim.env, "LD_LIBRARY_PATH": str(library)}


@pytest.fixture
def loop(sim: Sim, sim_env: dict[str, str]) -> Iterator[Loop]:
    running = Loop(sim_env)
    yield running
    running.end()
