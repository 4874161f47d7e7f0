"""Counts, in the run's last line, the tests that were skipped for want of a Debian package."""

import re
from collections import Counter

import hypothesis
import pytest

from debian import REASON

hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("shared machine")

_PACKAGE = re.compile(re.escape(REASON) + r" (\S+)")
_skipped: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        found = _PACKAGE.search(report.longrepr[2])
        if found:
            _skipped[found[1]] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print it after pytest's own summary, once: workers of xdist have no terminal."""
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    names = ", ".join(f"{name} ({count})" for name, count in sorted(_skipped.items()))
    print(f"{_skipped.total()} tests skipped for want of a Debian package{names and f': {names}'}")
