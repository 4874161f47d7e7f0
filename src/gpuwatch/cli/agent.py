"""`gpuwatch agent --print`: all that is sent to a node, for whoever has to allow it."""

import hashlib
import json
import shlex
import sys
from argparse import Namespace

from gpuwatch.cli.jobs import job_of, nodes_of
from gpuwatch.transport import local
from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.payload import agent_config, payload

__all__ = ["agent"]

MARKER = "0" * 32
"""Stands for one that is new each time."""


def agent(given: Namespace) -> int:
    """Print the command line, what the agent is told, and every source that it is sent."""
    job = job_of(given)
    node = nodes_of(job)[0]
    sent = payload()
    config = json.dumps(agent_config(node, job.interval_s), indent=1)
    size = len(sent.message(agent_config(node, job.interval_s)))
    here = node.transport == "local"
    line = shlex.join(local.line(node, MARKER)) if here else start_command(node, MARKER)
    _part(f"the command line on {node.name}, with a new marker each time", line)
    _part("what the agent there is told", config)
    for name, source in sent.sources():
        _part(f"{name}, sha256 {hashlib.sha256(source).hexdigest()}", source.decode())
    _part(f"that is all: {size} bytes in one message, then a line `beat N FRAME` each interval", "")
    return 0


def _part(title: str, text: str) -> None:
    sys.stdout.write(f"##### {title}\n{text}\n")
