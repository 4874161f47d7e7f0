"""Commands that open the screen: live, replay, demo."""

import sys
from argparse import Namespace

from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.errors import InputError

__all__ = ["live"]


def live(given: Namespace) -> int:
    """Watch a job in the screen."""
    job = job_of(given)
    nodes_of(job)
    if given.record and given.no_record:
        raise InputError("--record and --no-record are given; one of the two is wanted")
    _need_a_terminal("use `gpuwatch snapshot` for one look, or `gpuwatch record` without a screen")
    return 0


def _need_a_terminal(instead: str) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("the screen needs a terminal", instead)
