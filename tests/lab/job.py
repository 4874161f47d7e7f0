"""The lab's training job: its programs and data on the nodes, started and switched there."""

import functools
import json
import random
import shutil
import signal
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import control, launch
from lab.node import HOME, JOB_LOG, LOCAL, PASSWD, PYTHON, Node, Process
from nvml import sim

PROGRAMS = ("control.py", "launch.py", "loader.py", "ring.py", "trainer.py")
FILES = 256
FILE_BYTES = 1 << 16
"""Of a file of the data set, decoded; as it lies on a disk it is about half."""
JOB_FILE = """\
job: {name}
nodes:
{nodes}
ssh: {{user: {user}, identity: {folder}/identity, known_hosts: {folder}/known_hosts}}
match: lab.trainer
network: {{line_rate: {{eth0: 1Gbit}}}}
progress: {{node: {first}, log: {log}, step: 'step (\\d+)'}}
env: {{LD_LIBRARY_PATH: {home}/lib, GPUWATCH_SIM_STATE: {state}}}
"""


def make_data(folder: Path) -> None:
    """Write the data set: small files that want decoding."""
    folder.mkdir()
    chosen = random.Random(1)
    for number in range(FILES):
        raw = chosen.randbytes(FILE_BYTES // 2).hex().encode()
        (folder / f"{number:04}.z").write_bytes(zlib.compress(raw, 1))


def equip(nodes: Sequence[Node]) -> None:
    """Give nodes the GPU library, the trainer's programs and the data set, on their own disk."""
    made = Path(_made().name)
    here = Path(__file__).parent
    for node in nodes:
        shutil.copytree(made / "lib", node.home / "lib")
        shutil.copytree(made / "data", node.home / "data")
        for package, programs in (("lab", PROGRAMS), ("nvml", ("sim.py",))):
            (node.home / package).mkdir()
            for program in programs:
                shutil.copy(here.parent / package / program, node.home / package)
        place = f"cp -r {HOME}/data {LOCAL}/data && chmod 777 {LOCAL} && sync {LOCAL}"
        node.run(["sh", "-c", f"mkdir -m 777 {control.FOLDER} && {place}"])


@functools.cache
def _made() -> "tempfile.TemporaryDirectory[str]":
    """Make the GPU library and the data set, which are the same for all scenarios of a run."""
    folder = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gwlab-made-")
    library = Path(folder.name, "lib")
    library.mkdir()
    sim.build(library)
    make_data(Path(folder.name, "data"))
    return folder


def data_set() -> Path:
    """Return where the data set lies on this machine."""
    return Path(_made().name, "data")


def switch(node: Node, switches: dict[str, Any]) -> None:
    """Replace the control file of a node, at once and whole."""
    script = 'printf %s "$1" >"$0.part" && mv "$0.part" "$0"'
    node.run(["sh", "-c", script, str(control.FILE), json.dumps(switches)])


def train(
    nodes: Sequence[Node],
    ranks: int = 1,
    data: str = f"{LOCAL}/data",
    arguments: Sequence[str] = (),
    user: str = "root",
) -> list[Process]:
    """Start the job: a launcher on each node.

    Args:
        nodes: in the order of their ranks.
        ranks: on each node.
        data: where the data set lies, as the nodes see it.
        arguments: more of `lab.trainer`.
        user: whose job it is.
    """
    for number, node in enumerate(nodes):
        for rank in range(number * ranks, (number + 1) * ranks):
            truth = node.home / f"truth.{rank}.jsonl"
            truth.touch()
            truth.chmod(0o666)
    addresses = ",".join(node.address for node in nodes)
    ids = ["--reuid", user, "--regid", PASSWD.split(":")[3], "--clear-groups"]
    become = [] if user == "root" else ["setpriv", *ids]
    return [
        node.start(
            [*become, PYTHON, "-m", "lab.launch", "--ranks", str(ranks), "--node", str(number),
             "--addresses", addresses, "--home", HOME, "--scratch", LOCAL, "--data", data,
             "--files", str(FILES), *arguments],
            {"PYTHONPATH": HOME},
        )
        for number, node in enumerate(nodes)
    ]  # fmt: skip


def stop(launchers: Sequence[Process]) -> None:
    """End the job."""
    for launcher in launchers:
        if launcher.poll() is None:
            launcher.send_signal(signal.SIGKILL)


def steps(node: Node) -> list[float]:
    """Return how long each step took that the node's log tells of, in seconds."""
    try:
        lines = (node.home / JOB_LOG).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [float(line.split()[2]) for line in lines if line.startswith("step ")]


def await_steps(nodes: Sequence[Node], count: int, seconds: float = 90) -> None:
    """Wait until every node has told of some steps.

    Raises:
        RuntimeError: when they do not come; with the logs' ends.
    """
    deadline = time.monotonic() + seconds
    while not all(len(steps(node)) >= count for node in nodes):
        if time.monotonic() > deadline:
            logs = {n.name: (n.home / JOB_LOG).read_text(errors="replace")[-2000:] for n in nodes}
            raise RuntimeError(f"the job did not start: {logs}")
        time.sleep(0.2)


def job_file(nodes: Sequence[Node], folder: Path, name: str, user: str = "root") -> Path:
    """Write the job file that a viewer in the lab's namespace uses."""
    listing = "\n".join(f"  - {{name: {n.name}, host: {n.address}}}" for n in nodes)
    text = JOB_FILE.format(
        name=name,
        nodes=listing,
        folder=folder,
        home=HOME,
        state=launch.STATE,
        user=user,
        first=nodes[0].name,
        log=f"{HOME}/{JOB_LOG}",
    )
    path = folder / "job.yaml"
    path.write_text(text)
    return path
