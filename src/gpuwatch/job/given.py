"""A Job from what stands on the command line: a file, a node set, a Slurm job, or nothing."""

import os
import socket
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.errors import InputError
from gpuwatch.job import nodeset, slurm
from gpuwatch.job.document import Item
from gpuwatch.job.file import ParseThreshold, named, read
from gpuwatch.job.types import Job, JobNode, Ssh

__all__ = ["exists", "from_argument", "from_slurm", "named_nodes", "names_a_file", "this_machine"]


def from_argument(text: str, parse_threshold: ParseThreshold) -> Job:
    """Return the job of a file, or of a node set where it cannot be a file's name.

    Raises:
        InputError: what is wrong with it.
    """
    if names_a_file(text):
        return read(Path(text), parse_threshold)
    try:
        return _of_nodes(text, nodeset.expand(text))
    except InputError as error:
        raise InputError(f"{text}: no such file, and as a node set: {error}") from None


def names_a_file(text: str) -> bool:
    """Tell whether what is given for a job is a file, and not a node set."""
    if text.endswith((".yaml", ".yml")) or os.sep in text:
        return True
    return exists(text)


def exists(text: str) -> bool:
    """Tell whether what a person gave is the name of something that is there."""
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or of what no name has
        return False


def from_slurm(job_id: str) -> Job:
    """Return the job that runs under a Slurm job id.

    Raises:
        InputError: Slurm does not tell its nodes.
    """
    return replace(_of_nodes(f"slurm-{job_id}", slurm.nodes(job_id)), slurm_id=job_id)


def this_machine() -> Job:
    """Return the job of this machine alone, watched without SSH."""
    name = socket.gethostname() or "localhost"
    node = JobNode(name=name, host=name)
    return Job(name=name, nodes=(node,), ssh=Ssh(transport="local"))


def named_nodes(addresses: tuple[nodeset.Address, ...]) -> tuple[JobNode, ...]:
    """Return the nodes at these addresses, under names that are unique.

    Raises:
        InputError: two are the same.
    """
    place = Item(Path("command line"), 1, "", None)
    drafts = [(place, {"host": a.host, "port": a.port, "user": a.user}) for a in addresses]
    return named(drafts)


def _of_nodes(name: str, addresses: tuple[nodeset.Address, ...]) -> Job:
    return Job(name=name, nodes=named_nodes(addresses))
