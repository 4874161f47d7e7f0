"""A node as the viewer reaches it: address, login, interpreter, and what its agent is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["AGENT_WORD", "NODE_WORD", "Node", "Ssh", "Transport"]

Transport = Literal["asyncssh", "openssh", "srun", "kubectl", "command", "local"]
"""Ways to a node: an SSH client of our own, the system's, a step of its Slurm job, its pod, any
program, or none because it is this machine."""

NODE_WORD = "{node}"
"""Stands for the node's host in a command, also inside a word."""
AGENT_WORD = "{agent}"
"""Stands for the start command: one word, to be read by a shell of the node."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """How to log in; what is None is left to the user's own ssh configuration.

    Attributes:
        identity: private key file.
        jump: bastions to go through, as ssh's ProxyJump has it: `[user@]host[:port]`, several
            parted by commas.
        known_hosts: file of trusted host keys; None: the user's and the system's.
        config: ssh configuration file to resolve names with; None: the user's and the system's.
        host_keys: `strict` refuses a key that was never seen; `accept-new` trusts it on first
            use and writes it to gpuwatch's own file; both stand above the user's own
            StrictHostKeyChecking. A changed key is always refused. With `openssh` ssh itself checks.
    """

    identity: Path | None = None
    jump: str | None = None
    known_hosts: Path | None = None
    config: Path | None = None
    host_keys: Literal["strict", "accept-new"] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the job.

    Attributes:
        name: as in the job file and on screens; unique in the job.
        host: what is resolved and connected to; an IPv6 literal without brackets.
        port: None: as the ssh configuration says, else 22.
        user: None: as the ssh configuration says, else the local user.
        python: the one interpreter to try; None: the usual places, then PATH.
        env: environment of the agent, beside what its login shell gives.
        ssh: how to log in, for the transports that do.
        match: part of the command line of the job's processes; None: they are found without.
        interfaces: network interfaces to count, with wildcards; empty: the physical ones.
        line_rate_mbps: of interfaces, by name or wildcard, in Mb/s, where the kernel does
            not know it.
        paths: folders that the job reads and writes; their mounts are watched in any case.
        log: path of a log that the job writes on this node; None: there is none.
        log_texts: name to text that a line of it must hold to be sent.
        silence_s: the agent ends itself after so many seconds without a word from the viewer.
        transport: the way to it.
        slurm_id: Slurm job in which `srun` starts a step.
        pod: that `kubectl` goes to, `[namespace/]name`; None: the host's name.
        container: of the pod; None: as the pod itself says.
        command: what the `command` transport runs, with `{node}` and `{agent}` in it.
    """

    name: str
    host: str
    port: int | None = None
    user: str | None = None
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    ssh: Ssh = Ssh()
    match: str | None = None
    interfaces: tuple[str, ...] = ()
    line_rate_mbps: Mapping[str, float] = field(default_factory=dict, hash=False)
    paths: tuple[str, ...] = ()
    log: str | None = None
    log_texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    silence_s: float = 30.0
    transport: Transport = "asyncssh"
    slurm_id: str | None = None
    pod: str | None = None
    container: str | None = None
    command: tuple[str, ...] = ()
