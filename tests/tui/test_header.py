"""The top line: what the job's own log says of its steps."""

import msgspec
import pytest

from gpuwatch.model.cluster import Cluster
from gpuwatch.model.event import Tick
from gpuwatch.model.progress import Progress
from gpuwatch.model.verdict import JobVerdict, Verdict
from gpuwatch.tui.paint.answer import header
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
