"""SSH by asyncssh: one connection and one channel a node, bastions shared, logins bounded."""

import asyncio
import shlex
from collections.abc import Callable, Iterable

import asyncssh

from gpuwatch.transport.bastions import Bastions
from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.link import LinkError, Pipe, Step
from gpuwatch.transport.login import Logins
from gpuwatch.transport.login_limits import Gates
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.questions import Ask, Questions
from gpuwatch.transport.resolution import Resolver, Route
from gpuwatch.transport.settings import DEFAULT_PORT, Target
from gpuwatch.transport.ssh_errors import no_channel, no_session
from gpuwatch.transport.ssh_pipe import SshPipe, closed

__all__ = ["Dialer"]

SESSION_S = 15.0
"""For a host that has let us in to open a session."""
MOST_MISSED = 2
"""Nodes of one kind that are tried before a screen starts, where those before them are down."""

Connection = asyncssh.SSHClientConnection
Reached = Callable[[Step], None]


class Dialer:
    """Opens pipes to nodes; keeps what they share: bastions, logins, limits."""

    def __init__(self) -> None:
        self._questions = Questions()
        self._resolver = Resolver()
        self._gates = Gates()
        self._logins = Logins(self._questions)
        self._bastions = Bastions(self._login_to_bastion)
        self._ready: dict[Node, Connection] = {}

    def forgive(self) -> None:
        """Forget which logins were denied."""
        self._logins.forgive()

    async def prepare(self, nodes: Iterable[Node], ask: Ask) -> list[str]:
        """Log in where a person may be asked, while the terminal is still theirs.

        One node of each kind (same user, same way to log in) is met; where a host asked for what
        serves once only, so is each other node of that kind. `open` then uses these connections.

        Args:
            nodes: that will be opened.
            ask: puts a question to the person.

        Returns:
            What the person should know besides, a line each.
        """
        kinds: dict[tuple[str | None, Ssh], list[Node]] = {}
        for node in nodes:
            kinds.setdefault((node.user, node.ssh), []).append(node)
        self._questions.ask = ask
        try:
            for alike in kinds.values():
                await self._meet(alike)
        finally:
            self._questions.ask = None
        return [f"{place}: not understood, passed over" for place in self._logins.strange]

    async def open(self, node: Node, marker: str, reached: Reached) -> Pipe:
        """Log in to a node and run the start command there.

        Args:
            node: to reach.
            marker: as for `start_command`.
            reached: told each step as it is reached, `shell` last.

        Raises:
            LinkError: with the last step reached.
            InputError: as `start_command`.
        """
        command = start_command(node, marker)
        connection = self._ready.pop(node, None)
        if connection is None or connection.is_closed():
            connection = await self._login(node, reached)
        try:
            pipe = SshPipe(connection)
            async with asyncio.timeout(SESSION_S):
                await connection.create_session(
                    lambda: pipe, command, encoding=None, request_pty=False
                )
        except (OSError, asyncssh.Error) as error:
            is_gone = connection.is_closed()
            connection.abort()
            raise no_session(error, node.host, is_gone=is_gone) from None
        except asyncio.CancelledError:
            connection.abort()
            raise
        reached("shell")
        return pipe

    async def close(self) -> None:
        """Close the bastions; pipes have been closed by those who opened them."""
        ready, self._ready = list(self._ready.values()), {}
        for connection in [*ready, *await self._bastions.close()]:
            await closed(connection)
        await self._logins.close()

    async def _meet(self, alike: Iterable[Node]) -> None:
        missed, each = 0, False
        for node in alike:
            codes = self._questions.codes
            try:
                self._ready[node] = await self._login(node, _not_told)
            except LinkError as error:
                missed += 1
                if not each and (missed == MOST_MISSED or not error.heals):
                    return
            else:
                each = codes < self._questions.codes
                if not each:
                    return

    async def _login(self, node: Node, reached: Reached) -> Connection:
        target = Target(node.host, node.port, node.user)
        route = await self._resolver.route(target, node.ssh)
        # The nodes of a job share their accounts, a bastion may have its own.
        account = f"{route[-1].user}@"
        return await self._connected(route, account, _login_line(target, node.ssh), reached)

    async def _login_to_bastion(self, route: Route) -> Connection:
        bastion = route[-1]
        line = shlex.join(["ssh", bastion.name])
        try:
            return await self._connected(route, f"{bastion.user}@{bastion.host}", line, _not_told)
        except LinkError as error:
            # Where its own bastion failed, that one is named already.
            named = "" if error.what.startswith("bastion ") else f"bastion {bastion.name}: "
            raise LinkError(
                f"{named}{error.what}", "resolve", error.hint, heals=error.heals
            ) from None

    async def _connected(
        self, route: Route, account: str, line: str, reached: Reached
    ) -> Connection:
        way, settings = route[:-1], route[-1]
        while True:
            tunnel = await self._bastions.connection(way) if way else None
            places = [hop.place for hop in reversed(route[-2:])]
            try:
                async with self._gates.through(*places):
                    return await self._logins.login(
                        settings, account=account, line=line, tunnel=tunnel, reached=reached
                    )
            except asyncssh.ChannelOpenError as error:
                is_full = error.code == asyncssh.OPEN_RESOURCE_SHORTAGE
                if not (tunnel and is_full and self._bastions.is_full(way, tunnel)):
                    raise no_channel(error, settings, way) from None


def _login_line(target: Target, ssh: Ssh) -> str:
    """Return the command line that logs in to the same host with ssh."""
    words = ["ssh"]
    for flag, value in (("-F", ssh.config), ("-i", ssh.identity), ("-J", ssh.jump)):
        words += [flag, str(value)] if value else []
    if ssh.known_hosts:
        words += ["-o", f"UserKnownHostsFile={ssh.known_hosts}"]
    if target.port not in (None, DEFAULT_PORT):
        words += ["-p", str(target.port)]
    words.append(f"{target.user}@{target.host}" if target.user else target.host)
    return shlex.join(words)


def _not_told(step: Step) -> None:
    """Steps of a bastion are not the node's."""
