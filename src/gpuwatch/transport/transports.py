"""Which transport a node is reached by; what is heavy is imported when it is first needed."""

import asyncio
import functools
import importlib
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpuwatch.transport import child, command, kubectl, local, openssh, srun
from gpuwatch.transport.link import Pipe, Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.questions import Ask

if TYPE_CHECKING:
    from gpuwatch.transport.ssh import Dialer

__all__ = ["Transports", "address"]

STARTS = 8
"""Programs that log in at once: sshd's MaxStartups begins to refuse at 10."""
SETTLED_S = 3.0
"""A program that says nothing for so long no longer holds up the next."""


class Transports:
    """Opens pipes to nodes, and holds what links share."""

    def __init__(self) -> None:
        self._dialer: Dialer | None = None
        self._starts = asyncio.Semaphore(STARTS)

    async def prepare(self, nodes: Iterable[Node], ask: Ask) -> list[str]:
        """Log in where hosts may ask a person something, while the terminal is still theirs.

        Args:
            nodes: that will be opened.
            ask: puts a question to the person.

        Returns:
            What the person should know besides, a line each.
        """
        over_ssh = [node for node in nodes if node.transport == "asyncssh"]
        return await (await self._ssh()).prepare(over_ssh, ask) if over_ssh else []

    async def open(self, node: Node, marker: str, reached: Callable[[Step], None]) -> Pipe:
        """Start the start command on a node.

        Args:
            node: to reach.
            marker: that the interpreter answers with.
            reached: told each step as it is reached, as far as the transport knows them.

        Raises:
            LinkError: with the last step reached.
            InputError: the node's interpreter, environment or login cannot be passed on.
        """
        if node.transport == "local":
            pipe = await child.start(local.line(node, marker), _here(node), local.explained)
            reached("shell")
            return pipe
        if node.transport != "asyncssh":
            return await self._through(*_program(node, marker))
        return await (await self._ssh()).open(node, marker, reached)

    def forgive(self) -> None:
        """Forget which logins were denied: they are tried again when a node is opened."""
        if self._dialer:
            self._dialer.forgive()

    async def close(self) -> None:
        """Close what links share; pipes are closed by those who opened them."""
        if self._dialer:
            await self._dialer.close()

    async def _ssh(self) -> "Dialer":
        ssh = await asyncio.to_thread(importlib.import_module, "gpuwatch.transport.ssh")
        if self._dialer is None:
            self._dialer = ssh.Dialer()
        return self._dialer

    async def _through(self, words: list[str], explain: child.Explain) -> Pipe:
        """Start a program that leads to a node, few at once."""
        async with self._starts:
            pipe = await child.start(words, _without_locale(), explain)
            try:
                await pipe.heard(SETTLED_S)
            except BaseException:
                await pipe.close()
                raise
        return pipe


def address(node: Node) -> str:
    """Return where a node is looked for, as the job says it."""
    if node.transport == "local":
        return "this machine"
    if node.transport == "srun":
        return f"step of Slurm job {node.slurm_id} on {node.host}"
    if node.transport == "kubectl":
        return f"pod {node.pod or node.host}"
    if node.transport == "command":
        return f"{node.host} by {node.command[0]}"
    user = f"{node.user}@" if node.user else ""
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{user}{host}:{node.port}" if node.port else f"{user}{host}"


def _program(node: Node, marker: str) -> tuple[list[str], child.Explain]:
    """Return the words of the program that leads to a node, and who explains its failures."""
    if node.transport == "openssh":
        return openssh.line(node, marker), functools.partial(openssh.explained, node)
    if node.transport == "srun":
        return srun.line(node, marker), srun.explained
    if node.transport == "kubectl":
        return kubectl.line(node, marker), kubectl.explained
    return command.line(node, marker), functools.partial(child.told, node.command[0])


def _here(node: Node) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", **node.env}


def _without_locale() -> dict[str, str]:
    """Return our environment; a locale would be sent to the node, and change a program's words."""
    kept = {n: v for n, v in os.environ.items() if n != "LANG" and not n.startswith("LC_")}
    return {**kept, "LC_ALL": "C"}
