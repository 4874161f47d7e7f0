"""From the words on the command line to a job, and from the job to the nodes that are reached."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.cli.thresholds import of_argument
from gpuwatch.errors import InputError
from gpuwatch.job import trust
from gpuwatch.job.given import from_argument, from_slurm, names_a_file, this_machine
from gpuwatch.job.types import Job, JobNode
from gpuwatch.model.expression import plain_text
from gpuwatch.recording.session import FILE
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.verdict.thresholds import parse

__all__ = ["described", "job_of", "nodes_of"]


def job_of(given: Namespace) -> Job:
    """Return the job that a command is about: a file, a node set, a Slurm job, this machine.

    A file that has this machine run something is asked about, once. Thresholds that are given stand
    above the file's.

    Raises:
        InputError: what is wrong with it, or that it is not trusted.
    """
    job = _named(given)
    others = getattr(given, "thresholds", None)
    if others is None:
        return job
    return msgspec.structs.replace(job, thresholds=job.thresholds | of_argument(others))


def _named(given: Namespace) -> Job:
    if given.job is not None and given.slurm is not None:
        raise InputError("a job and --slurm are given; one of the two is wanted")
    if given.slurm is not None:
        return from_slurm(given.slurm)
    if given.job is None:
        return this_machine()
    if names_a_file(given.job) and (Path(given.job) / FILE).is_file():
        raise InputError(f"{given.job}: is a recording", f"gpuwatch replay {given.job}")
    job = from_argument(given.job, parse)
    if names_a_file(given.job):
        trust.require(Path(given.job), job)
    return job


def nodes_of(job: Job) -> tuple[Node, ...]:
    """Return the job's nodes as the transport reaches them.

    Raises:
        InputError: steps of a Slurm job are wanted, and of which is not said.
    """
    ssh = job.ssh
    if ssh.transport == "srun" and not _slurm_id(job):
        raise InputError(
            "ssh.transport: srun needs a Slurm job", "give `slurm: ID` instead of nodes"
        )
    login = Ssh(
        identity=ssh.identity,
        jump=ssh.jump,
        known_hosts=ssh.known_hosts,
        config=ssh.config,
        host_keys=ssh.host_keys,
    )
    return tuple(_node(node, job, login) for node in job.nodes)


def _node(node: JobNode, job: Job, login: Ssh) -> Node:
    log, texts = _followed(node, job)
    return Node(
        name=node.name,
        host=node.host,
        port=node.port or job.ssh.port,
        user=node.user or job.ssh.user,
        python=node.python,
        env=job.env,
        ssh=login,
        match=job.match,
        interfaces=job.network.interfaces,
        line_rate_mbps={name: rate / 1e6 for name, rate in job.network.line_rate.items()},
        paths=job.storage.paths,
        log=log,
        log_texts=texts,
        transport=job.ssh.transport,
        slurm_id=_slurm_id(job),
        pod=node.pod,
        container=node.container,
        command=job.ssh.command,
    )


def _slurm_id(job: Job) -> str | None:
    """Return the Slurm job of the nodes: the one that was asked for, else the one we run in."""
    return job.slurm_id or os.environ.get("SLURM_JOB_ID")


def _followed(node: JobNode, job: Job) -> tuple[str | None, dict[str, str]]:
    """Return the log that is followed on a node, and the text that each expression needs."""
    told = job.progress
    if told is None or told.node != node.name:
        return None, {}
    wanted = {"step": told.step, "tokens": told.tokens}
    return told.log, {name: plain_text(text) for name, text in wanted.items() if text}


def described(job: Job) -> dict[str, Any]:
    """Return the job as a recording keeps it: no values that may be secrets, no paths of keys."""
    ssh = msgspec.structs.replace(job.ssh, identity=None, config=None, known_hosts=None, command=())
    kept = msgspec.structs.replace(job, env=dict.fromkeys(job.env, ""), ssh=ssh)
    plain: dict[str, Any] = msgspec.to_builtins(kept, enc_hook=str)
    return plain
