"""What the lab's faults share: how they find a node, how they look, what they say when not there."""

from collections.abc import Sequence

from lab.node import Node

LOOK_S = 5.0
"""Over which counters are compared: several steps of the job."""


class ToothlessError(RuntimeError):
    """Plain tools do not see the fault."""

    def __init__(self, seen: str) -> None:
        super().__init__(f"it does not bite: {seen}")


def named(nodes: Sequence[Node], name: str) -> Node:
    """Return the node of that name."""
    return next(node for node in nodes if node.name == name)
