"""Recordings to read and to break."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuwatch.recording import session
from recording.kit import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Begin recordings that are put together by hand."""
    made: list[Bench] = []

    def make(name: str = "rec", given: session.Session | None = None) -> Bench:
        made.append(Bench(tmp_path / name, given))
        return made[-1]

    yield make
    for each in made:
        each.manifest.close()
