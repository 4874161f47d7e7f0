"""This machine itself: the interpreter is a child of the viewer, no shell in between."""

import sys

from gpuwatch.transport.bootstrap import FLAGS, PROGRAM
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node

__all__ = ["explained", "line"]


def line(node: Node, marker: str) -> list[str]:
    """Return the words that start the agent here."""
    return [node.python or sys.executable, *FLAGS, "-c", PROGRAM, marker]


def explained(status: int, errors: str) -> LinkError | None:  # noqa: ARG001 - as the other ways'
    """Leave every end to the agent: there is nothing in between that could fail."""
    return None
