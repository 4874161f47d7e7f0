"""What to do: commands that are filled in from the verdict and from its node."""

from dataclasses import replace

import msgspec
import pytest

from gpuwatch.model.verdict import Culprit, State, Verdict
from gpuwatch.tui.paint.spans import Line, plain, width
from gpuwatch.tui.paint.steps import first, steps
from gpuwatch.tui.scene import Scene
from tui import scenarios
from tui.test_paint import scene_of

GPU03 = (Culprit("node", "gpu03", ("gpu03",)),)
RANK5 = (Culprit("rank", "rank 5 of gpu03", ("gpu03",)),)


def said(state: State, cause: str | None, culprits: tuple[Culprit, ...] = GPU03) -> Verdict:
    return Verdict(scope="job", state=state, cause=cause, culprits=culprits)


def text(lines: list[Line]) -> str:
    return "\n".join(plain(line).rstrip() for line in lines)


@pytest.fixture
async def scene() -> Scene:
    return await scene_of(scenarios.storage())


async def test_the_process_of_the_blamed_rank_is_filled_in(scene: Scene) -> None:
    told = text(steps(scene, said("CPU", "main-thread", RANK5), 106))
    assert "py-spy dump --nonblocking --pid 4005  on gpu03" in told
    whole = text(steps(scene, said("CPU", "main-thread"), 106))
    assert "--pid 4000  on gpu03" in whole
    other = (Culprit("rank", "local 5 of gpu03", ("gpu03",)),)
    assert "--pid PID" in text(steps(scene, said("CPU", "main-thread", other), 106))


async def test_a_gpu_is_filled_in_with_that_of_its_rank(scene: Scene) -> None:
    assert "nvidia-smi -i 5 -q" in text(steps(scene, said("GPU", "throttled", RANK5), 106))
    assert "nvidia-smi -i GPU -q" in text(steps(scene, said("GPU", "throttled"), 106))
    hot = (Culprit("gpu", "GPU 3 of gpu03", ("gpu03",)),)
    assert "nvidia-smi -i 3 -q" in text(steps(scene, said("GPU", "throttled", hot), 106))
    assert "--pid 4003" in text(steps(scene, said("CPU", "main-thread", hot), 106))


@pytest.mark.parametrize(
    ("mounts", "culprits", "shown"),
    [
        ([("/data", "nfs4", "nas1:/data")], GPU03, "nfsiostat 1 5 --dir /data"),
        ([("/my data", "nfs4", "nas1:/data")], GPU03, "nfsiostat 1 5 --dir '/my data'"),
        ([("/a", "nfs4", "nas1:/a"), ("/b", "nfs4", "nas1:/b")], GPU03, "nfsiostat 1 5 --dir MOUNT"),
        (
            [("/a", "nfs4", "nas1:/a"), ("/b", "nfs4", "nas1:/b")],
            (Culprit("mount", "nas1:/b", ("gpu03",)),),
            "nfsiostat 1 5 --dir /b",
        ),
        ([("/x\x1b[2J", "nfs4", "nas1:/data")], GPU03, "nfsiostat 1 5 --dir MOUNT"),
    ],
)  # fmt: skip
async def test_a_server_is_filled_in_as_where_it_is_mounted(
    scene: Scene, mounts: list[tuple[str, str, str]], culprits: tuple[Culprit, ...], shown: str
) -> None:
    told = steps(mounted(scene, mounts), said("STORAGE", "metadata", culprits), 106)
    assert f"{shown}  on gpu03" in text(told)


def mounted(scene: Scene, mounts: list[tuple[str, str, str]]) -> Scene:
    """Return the scene with these mounts on all nodes."""
    nodes = []
    for node in scene.view.nodes:
        last = node.points[-1]
        standing = msgspec.structs.replace(last.totals["mount"], places=dict.fromkeys(mounts, 0))
        point = msgspec.structs.replace(last, totals={**last.totals, "mount": standing})
        nodes.append(msgspec.structs.replace(node, points=(*node.points[:-1], point)))
    return replace(scene, view=msgspec.structs.replace(scene.view, nodes=tuple(nodes)))


async def test_what_makes_load_is_marked_so_and_nothing_is_wider_than_the_page(
    scene: Scene,
) -> None:
    lines = steps(scene, said("NETWORK", "bandwidth"), 66)
    loads = [line for line in lines if line[0][0].startswith("makes load")]
    assert loads
    assert all(line[0][1] == "warn" and "iperf3" in plain(line) for line in loads[:1])
    assert all(width(line) <= 66 + len("  on gpu03") for line in lines)


async def test_the_next_command_stands_below_the_answer_where_there_is_room(scene: Scene) -> None:
    assert plain(first(scene)) == "next iostat -xmz 1 5  on gpu03 (reads)"
    for state in ("COMPUTE", "UNKNOWN"):
        verdict = msgspec.structs.replace(scene.verdict, job=Verdict(scope="job", state=state))
        assert first(replace(scene, verdict=verdict)) == ()
