"""Which transport a node is reached by; each is imported when it is first needed."""

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuwatch.transport.link import Pipe, Step
from gpuwatch.transport.local import open_local
from gpuwatch.transport.node import Node

if TYPE_CHECKING:
    from gpuwatch.transport.ssh import Dialer

__all__ = ["Transports"]


class Transports:
    """Opens pipes to nodes, and holds what links share."""

    def __init__(self) -> None:
        self._dialer: Dialer | None = None

    async def open(self, node: Node, marker: str, reached: Callable[[Step], None]) -> Pipe:
        """Start the start command on a node.

        Args:
            node: to reach.
            marker: that the interpreter answers with.
            reached: told each step as it is reached, `shell` last.

        Raises:
            LinkError: with the last step reached.
            InputError: the node's interpreter or environment cannot be passed on.
        """
        if node.transport == "local":
            pipe = await open_local(node, marker)
            reached("shell")
            return pipe
        ssh = await asyncio.to_thread(importlib.import_module, "gpuwatch.transport.ssh")
        if self._dialer is None:
            self._dialer = ssh.Dialer()
        return await self._dialer.open(node, marker, reached)

    async def close(self) -> None:
        """Close what links share; pipes are closed by those who opened them."""
        if self._dialer:
            await self._dialer.close()
