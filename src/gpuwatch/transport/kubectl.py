"""A container of the node's pod, through the cluster's own API server."""

from gpuwatch.transport.bootstrap import last_line, start_command
from gpuwatch.transport.child import told
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Node

__all__ = ["explained", "line"]

ENDED = "command terminated with exit code "
"""How kubectl tells that the program ended, with the status that it passes on."""
FINAL = {
    "(Forbidden)": "ask for the right to create pods/exec in this namespace",
    "Unauthorized": "renew the login that kubectl uses",
    "must be logged in": "renew the login that kubectl uses",
    "current-context": "name a cluster: kubectl config use-context",
}
"""What does not heal, and what to do about it."""


def line(node: Node, marker: str) -> list[str]:
    """Return kubectl's words; the namespace is the current one unless the pod names another.

    Raises:
        InputError: as `start_command`.
    """
    namespace, _, pod = (node.pod or node.host).rpartition("/")
    return [
        "kubectl", "exec", "--stdin",
        *([f"--namespace={namespace}"] if namespace else []),
        *([f"--container={node.container}"] if node.container else []),
        pod, "--", "/bin/sh", "-c", start_command(node, marker),
    ]  # fmt: skip


def explained(status: int, errors: str) -> LinkError | None:
    """Say what kubectl complained of."""
    if ENDED in errors:
        return None
    for words, hint in FINAL.items():
        if words in errors:
            return LinkError(f"kubectl: {last_line(errors)}", "resolve", hint)
    return told("kubectl", status, errors)
