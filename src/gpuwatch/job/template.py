"""A job file to begin with: what is needed stands there, what is optional is commented out."""

import json

from gpuwatch.job import nodeset

__all__ = ["template"]

_TEXT = r"""# What gpuwatch watches: gpuwatch {file}
# Only `nodes` is needed. A line without its # is in force.

job: {job}

# A node set, or a list of sets and mappings:
#   nodes:
#     - gpu[001-016]
#     - {{host: 10.0.0.7, name: gpu017, port: 2222, user: ann, python: /opt/python/bin/python3}}
# Or instead of it a file with one host a line (hostfile: hosts.txt), or a Slurm job (slurm: 123456).
nodes: {nodes}

# How to log in, where ~/.ssh/config does not say it already. Host keys are checked strictly.
#ssh: {{user: ann, port: 22, jump: bastion, identity: ~/.ssh/id_ed25519}}
#ssh: {{known_hosts: ~/.ssh/cluster_hosts, host_keys: strict}}
# Other ways in: the system's own ssh (Kerberos, FIDO, ControlMaster), a step of the Slurm job, a pod, any program.
#ssh: {{transport: openssh}}
#ssh: {{transport: srun}}
#ssh: {{transport: kubectl}}
#ssh: {{transport: command, command: [docker, exec, --interactive, "{{node}}", sh, -c, "{{agent}}"]}}

# Seconds between two readings of a node.
#interval: 1s

# Which processes are the job, where neither Slurm nor a GPU in use tells (a regular expression).
#match: torchrun

# For the agent on the nodes: where the GPU library lies, for one.
#env: {{LD_LIBRARY_PATH: /opt/nvidia/lib}}

# Interfaces that count, and line rates that the kernel does not know.
#network: {{interfaces: [eth0, "mlx5_*"], line_rate: {{eth0: 25Gbit}}}}

# Recording of a good run of this job on such GPUs: what full work draws is known from the first second.
#baseline: recordings/good

# When a wait or a fault is confirmed, and when it is over: a bell, a program with the facts in its environment (GPUWATCH_STATE, ..).
#alerts: {{bell: true, exec: ./page-me.sh}}

# What a GPU costs an hour: then the report tells what the waits cost.
#cost: {{gpu_hour: 2.10, currency: USD}}

# Where recordings go.
#record: {{dir: ~/gpuwatch, max_size: 5GB, keep: 7d}}
"""


def template(nodes: str, file: str = "job.yaml") -> str:
    """Return the text of a commented job file for a node set.

    Args:
        nodes: a node set, as on the command line.
        file: what the file will be called.

    Raises:
        InputError: it is no node set.
    """
    first = nodeset.expand(nodes)[0]
    job = "".join(c if c.isalnum() else "-" for c in first.host.rstrip("0123456789")).strip("-")
    # A JSON string is a YAML string, whatever backslash or colon a login name has.
    return _TEXT.format(file=file, job=json.dumps(job or "job"), nodes=json.dumps(nodes))
