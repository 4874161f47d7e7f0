"""From a job file to the nodes that are reached and to what a recording keeps of the job."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.host import options_of
from gpuwatch.cli.jobs import described, job_of, nodes_of
from gpuwatch.cli.watch import folder_of
from gpuwatch.errors import InputError
from gpuwatch.job.types import Job
from gpuwatch.transport.node import Ssh
from gpuwatch.transport.payload import agent_config

TEXT = """
job: ../../etc/My Job
nodes:
- gpu1
- {host: gpu2, port: 2222, user: bob, python: /opt/python3}
ssh: {user: ann, port: 22, jump: bastion, identity: id, known_hosts: /k, host_keys: accept-new}
match: torchrun
env: {TOKEN: planted-secret}
network: {interfaces: eth*}
record: {dir: out}
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "job.yaml").write_text(TEXT)
    return job_of(Namespace(job=str(tmp_path / "job.yaml"), slurm=None))


def test_what_a_node_says_stands_above_what_the_job_says(job: Job, tmp_path: Path) -> None:
    one, two = nodes_of(job)
    assert (one.name, one.host, one.port, one.user, one.python) == ("gpu1", "gpu1", 22, "ann", None)
    assert (two.port, two.user, two.python) == (2222, "bob", "/opt/python3")
    assert one.ssh == two.ssh == Ssh(tmp_path / "id", "bastion", Path("/k"), None, "accept-new")
    assert (one.match, dict(one.env), one.interfaces) == (
        "torchrun",
        {"TOKEN": "planted-secret"},
        ("eth*",),
    )
    assert one.transport == "asyncssh"


def test_a_long_list_of_nodes_is_no_name_of_a_file() -> None:
    names = [f"gpu{number:03}" for number in range(100)]
    job = job_of(Namespace(job=",".join(names), slurm=None))
    assert [node.name for node in job.nodes] == names


def test_only_the_named_node_is_told_of_the_log_and_no_expression(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "nodes: gpu[1-2]\n"
        r"progress: {node: gpu2, log: /runs/x.log, step: 'step[ =](\d+)', tokens: 'tok/s (\d+)'}"
    )
    one, two = nodes_of(job_of(Namespace(job=str(tmp_path / "job.yaml"), slurm=None)))
    assert (one.log, one.log_texts) == (None, {})
    config = agent_config(two, 1.0)
    assert (config["log"], config["log_texts"]) == (
        "/runs/x.log",
        [("step", "step"), ("tokens", "tok/s ")],
    )


def test_each_node_is_told_of_the_jobs_folders(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nodes: gpu[1-2]\nstorage: {paths: [/data, /ckpt]}\n")
    job = job_of(Namespace(job=str(tmp_path / "job.yaml"), slurm=None))
    told = [options_of(agent_config(node, 1.0)).paths for node in nodes_of(job)]
    assert told == [("/data", "/ckpt")] * 2


def test_without_arguments_it_is_this_machine_without_ssh() -> None:
    job = job_of(Namespace(job=None, slurm=None))
    assert [node.transport for node in nodes_of(job)] == ["local"]


@pytest.mark.parametrize("own", [None, "77"])
def test_srun_needs_a_slurm_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    """The one that the viewer itself runs in will do."""
    (tmp_path / "job.yaml").write_text("nodes: a\nssh: {transport: srun}\n")
    job = job_of(Namespace(job=str(tmp_path / "job.yaml"), slurm=None))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if own:
        monkeypatch.setenv("SLURM_JOB_ID", own)
        assert [(node.transport, node.slurm_id) for node in nodes_of(job)] == [("srun", "77")]
    else:
        with pytest.raises(InputError, match="srun needs a Slurm job; give `slurm: ID`"):
            nodes_of(job)


def test_thresholds_that_are_given_stand_above_the_files(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("nodes: n1\nthresholds: {retransmit: 0.2%, lost: 40%}\n")
    asked = Namespace(job=str(file), slurm=None, thresholds="retransmit=0.5%,confirm_after=1m")
    assert job_of(asked).thresholds == {"retransmit": 0.005, "lost": 0.4, "confirm_after": 60.0}


def test_a_recording_keeps_the_job_but_no_values_of_its_environment(job: Job) -> None:
    kept = msgspec.json.encode(described(job)).decode()
    assert '"TOKEN":""' in kept
    assert "planted-secret" not in kept


def test_a_recording_lies_inside_its_folder_whatever_the_job_is_called(
    job: Job, tmp_path: Path
) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert folder_of(job, now) == tmp_path / "out" / "etc-My-Job" / "20260102T030405Z"
