"""Any program that runs a command on a node and carries its stdin and stdout."""

from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.node import Node

__all__ = ["AGENT", "NODE", "line"]

NODE = "{node}"
"""Stands for the node's host, also inside a word."""
AGENT = "{agent}"
"""Stands for the start command: one word, to be read by a shell of the node."""


def line(node: Node, marker: str) -> list[str]:
    """Return the job file's words with the node and the start command in them.

    Raises:
        InputError: as `start_command`.
    """
    start = start_command(node, marker)
    return [start if word == AGENT else word.replace(NODE, node.host) for word in node.command]
