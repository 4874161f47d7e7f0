"""The top line: what the job's own log says of its steps."""

import msgspec
import pytest

from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Link, Tick
from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.tui.paint.answer import answer, header
from gpuwatch.tui.paint.spans import plain
from gpuwatch.tui.past import Past
from gpuwatch.tui.scene import Scene

RUNS = Progress(step=1234, still_s=0.4, period_s=0.52, span_s=30, tokens_s=12_300)


def line(progress: Progress | None, cells: int = 120) -> str:
    view = Cluster(["a"], 1.0).view(Tick(event_no=0, arrived_us=0, wall_us=0))
    view = msgspec.structs.replace(view, progress=progress)
    scene = Scene("job", view, JobVerdict(job=Verdict(scope="job")), Past(1.0, None), 0)
    return plain(header(scene, "job", (), cells))


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (RUNS, " · step 1234, 0.52 s · 12 ktok/s  "),
        (Progress(step=7, still_s=0.0), " · step 7  "),
        (msgspec.structs.replace(RUNS, still_s=192.0), " · step 1234, none for 3 m 12 s  "),
        (Progress(reason="/l: Permission denied"), " · step n/a /l: Permission denied  "),
        (Progress(step=9, reason="[/b]\x1b gone"), " · step 9 [/b]␛ gone  "),
    ],
)
def test_steps_are_told_as_far_as_they_are_known(progress: Progress, said: str) -> None:
    assert said in line(progress)


def test_a_job_without_a_log_says_nothing_of_steps() -> None:
    assert "step" not in line(None)


def test_what_has_no_room_is_left_out_whole() -> None:
    narrow = line(RUNS, 60)
    assert len(narrow) == 60
    assert "step" not in narrow or "0.52 s" in narrow


def shown(*whys: str | None) -> str:
    """Return the answer where nodes are lost for these reasons; None: a node that never spoke."""
    names = [f"n{number}" for number in range(len(whys))]
    cluster = Cluster(names, 1.0)
    for number, why in enumerate(whys):
        if why is not None:
            cluster.apply(
                Link(event_no=number, arrived_us=0, wall_us=0, node=names[number], state="lost",
                     step="login", reason=why, hint=f"ssh-add, for n{number}")
            )  # fmt: skip
    view = cluster.view(Tick(event_no=9, arrived_us=60_000_000, wall_us=0))
    scene = Scene("job", view, JobVerdict(job=Verdict(scope="job")), Past(1.0, None), 0)
    return "\n".join(plain(row) for row in answer(scene, 140, 6))


def test_what_many_nodes_are_lost_for_is_said_once_with_what_to_do() -> None:
    """A key agent that is gone is one thing to do, not one a node."""
    gone = "permission denied: the agent is gone"
    same = shown(gone, gone, gone)
    assert f"no data from n0 n1 n2: {gone} → ssh-add, for n0" in same
    assert same.count(gone) == 1
    assert f"no data from n0 n1 n2 n3: 2 of them, {gone} → ssh-add" in shown(gone, "x", gone, None)
    for apart in (shown(gone), shown(gone, "no python3"), shown(None, None)):
        assert "no data from n0" in apart
        assert gone not in apart
