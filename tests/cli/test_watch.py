"""Who of a job's nodes was reached, and who is there now."""

import pytest

from gpuwatch.cli.watch import Attendance
from gpuwatch.errors import UnreachableError
from gpuwatch.model.event import Link, Sample


def link(node: str, state: str, reason: str | None = None) -> Link:
    return Link(event_no=0, arrived_us=0, wall_us=0, node=node, state=state, step="", reason=reason)


def sample(node: str) -> Sample:
    return Sample(
        event_no=0, arrived_us=0, wall_us=0, node=node, boot_id="", agent_id="", sequence=0,
        generation=0, node_mono_us=0, node_wall_us=0, offset_us=None, offset_error_us=None,
        tables=(),
    )  # fmt: skip


def test_a_node_that_is_lost_came_but_is_not_here() -> None:
    attendance = Attendance(("n1", "n2"))
    for event in (sample("n1"), sample("n2"), link("n2", "lost", "no word for 5 s")):
        attendance.event(event)
    assert (attendance.came, attendance.here) == (2, 1)
    assert attendance.exit_code() == 0
    attendance.event(sample("n2"))
    assert attendance.here == 2


def test_where_nobody_came_the_reasons_are_told() -> None:
    attendance = Attendance(("n1", "n2"))
    hopeless = []
    for event in (link("n1", "refused", "no python3"), link("n2", "refused", "login refused")):
        attendance.event(event)
        hopeless.append(attendance.hopeless)
    assert hopeless == [False, True]
    with pytest.raises(UnreachableError, match="n1: no python3; n2: login refused"):
        attendance.exit_code()


def test_a_node_that_joined_counts_and_one_that_left_does_not() -> None:
    attendance = Attendance(("n1", "n2"))
    for event in (sample("n1"), link("n3", "connecting"), link("n2", "lost", "no answer")):
        attendance.event(event)
    assert attendance.size == 3
    attendance.event(link("n2", "ended", "no node of the job any more"))
    attendance.event(sample("n3"))
    attendance.event(link("n3", "ended"))
    assert attendance.size == 2
    assert attendance.exit_code() == 0
