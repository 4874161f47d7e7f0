"""Any program that runs a command on a node and carries its stdin and stdout."""

from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.node import AGENT_WORD, NODE_WORD, Node

__all__ = ["line"]


def line(node: Node, marker: str) -> list[str]:
    """Return the job file's words with the node and the start command in them.

    Raises:
        InputError: as `start_command`.
    """
    start = start_command(node, marker)
    return [
        start if word == AGENT_WORD else word.replace(NODE_WORD, node.host) for word in node.command
    ]
