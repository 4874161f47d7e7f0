"""The job, typed: what the job file says, and nothing that it did not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, ValidationError, convert, field

from gpuwatch.transport.node import Transport

__all__ = [
    "Alerts", "Cost", "Job", "JobNode", "Network", "Preflight", "Progress", "Record", "Ssh",
    "Storage", "cost_of",
]  # fmt: skip


class JobNode(Struct, frozen=True, kw_only=True):
    """One node; what is None is left to `Ssh`, then to the ssh configuration.

    Attributes:
        name: on screens and in recordings; unique in the job.
        host: what is connected to, an IPv6 literal without brackets.
        port: TCP port.
        user: login name.
        python: the one interpreter to try.
        pod: Kubernetes pod, `[namespace/]name`, for kubectl; None: the host is its name.
        container: of the pod.
    """

    name: str
    host: str
    port: int | None = None
    user: str | None = None
    python: str | None = None
    pod: str | None = None
    container: str | None = None


class Ssh(Struct, frozen=True, kw_only=True):
    """How to reach every node; all optional, `~/.ssh/config` says most of it.

    Attributes:
        command: of the transport of that name: a program and its arguments, with `{agent}` as one
            of them and `{node}` in any.
    """

    user: str | None = None
    port: int | None = None
    jump: str | None = None
    identity: Path | None = None
    config: Path | None = None
    known_hosts: Path | None = None
    host_keys: Literal["strict", "accept-new"] | None = None
    transport: Transport = "asyncssh"
    command: tuple[str, ...] = ()


class Network(Struct, frozen=True, kw_only=True):
    """Which interfaces count (with wildcards), and line rates that the kernel does not know."""

    interfaces: tuple[str, ...] = ()
    line_rate: dict[str, float] = field(default_factory=dict)


class Storage(Struct, frozen=True, kw_only=True):
    """Directories on the nodes that the job reads and writes."""

    paths: tuple[str, ...] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """A log on a node that tells the job's true step time; patterns have one group."""

    node: str
    log: str
    step: str
    tokens: str | None = None


class Cost(Struct, frozen=True, kw_only=True):
    """What one GPU costs an hour, in a currency of three letters."""

    gpu_hour: float
    currency: str = "USD"


def cost_of(job_file: Mapping[str, object]) -> Cost | None:
    """Return the price that a recording's job file names; None where it names none."""
    try:
        return convert(job_file.get("cost"), Cost | None)
    except ValidationError:
        return None


class Preflight(Struct, frozen=True, kw_only=True):
    """What the checks before a job need on the nodes."""

    all_reduce: str | None = None
    modules: tuple[str, ...] = ()


class Record(Struct, frozen=True, kw_only=True):
    """Where recordings go and how much of them is kept; sizes in bytes, times in seconds."""

    dir: Path | None = None
    max_size: float | None = None
    keep: float | None = None


class Alerts(Struct, frozen=True, kw_only=True):
    """What a confirmed verdict sets off at the viewer."""

    bell: bool = False
    exec: Path | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A whole job.

    Attributes:
        name: of the job.
        nodes: in order; names are unique.
        slurm_id: Slurm job that the nodes were asked for; None: they were named.
        sha256: of the job file; None: there is none.
        interval_s: seconds between two frames of a node.
        match: regular expression of the processes that are the job; None: found by themselves.
        env: for the agent.
        group: regular expression whose first group says which group of the map a node is in.
        baseline: recording of a good run.
        thresholds: by name, as the judge keeps them.
    """

    name: str
    nodes: tuple[JobNode, ...]
    slurm_id: str | None = None
    sha256: str | None = None
    ssh: Ssh = Ssh()
    interval_s: float = 1.0
    match: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    network: Network = Network()
    storage: Storage = Storage()
    group: str | None = None
    progress: Progress | None = None
    baseline: Path | None = None
    cost: Cost | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    preflight: Preflight = Preflight()
    record: Record = Record()
    alerts: Alerts = Alerts()
