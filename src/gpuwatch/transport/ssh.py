"""SSH by asyncssh: one connection and one channel a node, bastions shared, logins bounded."""

import asyncio
import contextlib
import shlex
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

import asyncssh

from gpuwatch.transport.bootstrap import start_command
from gpuwatch.transport.host_keys import KnownHosts, Refusal
from gpuwatch.transport.link import LinkError, Pipe, Step
from gpuwatch.transport.node import Node, Ssh
from gpuwatch.transport.proxy import Proxy
from gpuwatch.transport.settings import DEFAULT_PORT, Settings, Target, resolve
from gpuwatch.transport.ssh_errors import Login, explained

__all__ = ["Dialer"]

CIPHERS = (
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
    "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""AES-GCM first: with AES in hardware it costs a quarter of what ChaCha20 does."""
CONNECT_S = 15.0
KEEPALIVE_S = 10.0
KEEPALIVES = 3
LOGINS_A_HOST = 8
"""At once: sshd's MaxStartups begins to refuse at 10."""
LOGINS = 32
RESOLVING = 8
MAX_JUMPS = 8
CLOSE_S = 2.0
LAST_WORDS_S = 2.0
"""How long output may still come after the exit status: sshd may send the status first."""

_Key = asyncssh.SSHKey | tuple[asyncssh.SSHKey, str]


class Dialer:
    """Opens pipes to nodes; keeps what they share: bastions, keys, known hosts, limits."""

    def __init__(self) -> None:
        self._resolving = asyncio.Semaphore(RESOLVING)
        self._logins = asyncio.Semaphore(LOGINS)
        self._gates: defaultdict[tuple[str, int], asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(LOGINS_A_HOST)
        )
        self._tunnels: dict[
            tuple[tuple[str, ...], Ssh], asyncio.Task[asyncssh.SSHClientConnection]
        ] = {}
        self._proxies: set[asyncio.Task[None]] = set()
        self._keys: dict[Path, _Key | None] = {}
        self._known: dict[tuple[Path, ...], tuple[tuple[int, ...], KnownHosts]] = {}

    async def open(self, node: Node, marker: str, reached: Callable[[Step], None]) -> Pipe:
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
        target = Target(node.host, node.port, node.user)
        connection = await self._login(target, node.ssh, reached)
        try:
            pipe = SshPipe(connection)
            await connection.create_session(lambda: pipe, command, encoding=None, request_pty=False)
        except (OSError, asyncssh.Error) as error:
            connection.abort()
            raise LinkError(f"no session: {error}", "login", heals=True) from None
        except asyncio.CancelledError:
            connection.abort()
            raise
        reached("shell")
        return pipe

    async def close(self) -> None:
        """Close the bastions; pipes have been closed by those who opened them."""
        tunnels, self._tunnels = list(self._tunnels.values()), {}
        for task in tunnels:
            task.cancel()
        for outcome in await asyncio.gather(*tunnels, return_exceptions=True):
            if isinstance(outcome, asyncssh.SSHClientConnection):
                await _closed(outcome)
        await asyncio.gather(*self._proxies, return_exceptions=True)

    async def _login(
        self,
        target: Target,
        ssh: Ssh,
        reached: Callable[[Step], None],
        via: tuple[str, ...] = (),
        depth: int = 0,
    ) -> asyncssh.SSHClientConnection:
        async with self._resolving:
            settings = await resolve(target, ssh)
        tunnel = await self._tunnel(via or settings.jumps, ssh, depth)
        known = self._known_hosts(settings.known_hosts)
        client = _Client(known, settings, reached, accept_new=ssh.host_keys == "accept-new")
        keys = self._client_keys(settings, ssh)
        proxy = None
        async with self._gates[settings.host, settings.port], self._logins:
            try:
                if settings.proxy_command and not tunnel:
                    proxy = await Proxy.start(settings.proxy_command)
                connection = await asyncssh.connect(
                    tunnel=tunnel or (),
                    sock=proxy.socket if proxy else None,
                    client_factory=lambda: client,
                    known_hosts=known.keys,
                    client_keys=keys,
                    **_options(settings),
                )
            except (OSError, ValueError, asyncssh.Error) as error:
                self._end_with(None, proxy)
                raise self._explained(error, client, target, ssh) from None
            except asyncio.CancelledError:
                self._end_with(None, proxy)
                raise
        self._end_with(connection, proxy)
        return connection

    def _end_with(
        self, connection: asyncssh.SSHClientConnection | None, proxy: Proxy | None
    ) -> None:
        """Let a ProxyCommand end with its connection."""
        if proxy is None:
            return
        task = asyncio.create_task(_ended(connection, proxy))
        self._proxies.add(task)
        task.add_done_callback(self._proxies.discard)

    def _explained(
        self, error: Exception, client: "_Client", target: Target, ssh: Ssh
    ) -> LinkError:
        line = _login_line(target, ssh)
        settings = client.settings
        if client.refusal:
            host = settings.key_alias or settings.host
            return client.known.error(client.refusal, host, settings.port, line)
        keys = [path for path in settings.identities if self._keys.get(path)]
        locked = [path for path in settings.identities if self._keys.get(path, path) is None]
        login = Login(settings, line, client.connected, tuple(client.offered), keys, locked)
        return explained(error, login)

    async def _tunnel(
        self, jumps: tuple[str, ...], ssh: Ssh, depth: int
    ) -> asyncssh.SSHClientConnection | None:
        """Return the connection to the last of these bastions, one for all who go through it."""
        if not jumps:
            return None
        if depth >= MAX_JUMPS:
            raise LinkError("the bastions go through each other", "resolve", "correct ProxyJump")
        task = self._tunnels.get((jumps, ssh))
        if task is None or _is_over(task):
            hop, plain = Target.parse(jumps[-1]), replace(ssh, jump=None)
            task = asyncio.create_task(
                self._login(hop, plain, _not_told, via=jumps[:-1], depth=depth + 1)
            )
            self._tunnels[jumps, ssh] = task
        try:
            return await asyncio.shield(task)
        except LinkError as error:
            raise LinkError(
                f"bastion {jumps[-1]}: {error.what}", "resolve", error.hint, heals=error.heals
            ) from None

    def _known_hosts(self, files: tuple[Path, ...]) -> KnownHosts:
        """Return what these files hold now, read again only when one has changed."""
        state = tuple(_changed_ns(file) for file in files)
        found = self._known.get(files)
        if found is None or found[0] != state:
            found = self._known[files] = state, KnownHosts(files)
        return found[1]

    def _client_keys(self, settings: Settings, ssh: Ssh) -> list[Any]:
        """Load the identities, each once; locked and foreign ones are left to the ssh-agent.

        Raises:
            LinkError: the identity that the job file names cannot be read.
        """
        for path in settings.identities:
            if path in self._keys:
                continue
            try:
                self._keys[path] = _private_key(path)
            except OSError as error:
                if ssh.identity:
                    raise LinkError(
                        f"identity {path}: {error.strerror}", "resolve", "correct ssh.identity"
                    ) from None
            except ValueError:
                self._keys[path] = None
        certificates = [str(path) for path in settings.certificates]
        keys = [key for path in settings.identities if (key := self._keys.get(path))]
        return [(k, c) for k in keys for c in certificates if not isinstance(k, tuple)] + keys


class _Client(asyncssh.SSHClient):
    """Hears of the steps of one login, and refuses whatever would ask a person."""

    def __init__(
        self,
        known: KnownHosts,
        settings: Settings,
        reached: Callable[[Step], None],
        *,
        accept_new: bool,
    ) -> None:
        self.known = known
        self.settings = settings
        self.connected = False
        self.refusal: Refusal | None = None
        self.offered: list[str] = []
        self._reached = reached
        self._accept_new = accept_new

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:  # noqa: ARG002 - asyncssh names it
        self.connected = True
        self._reached("connect")

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.refusal = self.known.judge(host, addr, port, key, accept_new=self._accept_new)
        return self.refusal is None

    def password_auth_requested(self) -> None:
        self.offered.append("password")

    def kbdint_auth_requested(self) -> None:
        self.offered.append("keyboard-interactive")

    def auth_completed(self) -> None:
        self._reached("login")


class SshPipe(Pipe, asyncssh.SSHClientSession[bytes]):
    """A pipe to the one program of one connection."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._channel: asyncssh.SSHClientChannel[bytes]

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the channel."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Take what the program wrote."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.take_errors(data)
        else:
            self.take(data)

    def exit_status_received(self, status: int) -> None:
        """Take the exit status; a background job of the shell may hold the channel open."""
        self.status = status
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self.end)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: ARG002, FBT001 - asyncssh names them
        """Take the signal that ended the program."""
        number = Signals.__members__.get(f"SIG{signal}", 1)
        self.exit_status_received(-number)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh names it
        """Take note of the end."""
        self.end()

    def write(self, data: bytes) -> None:
        """Send bytes to the program's stdin."""
        self._channel.write(data)

    async def close(self) -> None:
        """Close the channel and its connection; sshd then closes the program's pipes."""
        await _closed(self._connection)

    def _flow(self, *, on: bool) -> None:
        if on:
            self._channel.resume_reading()
        else:
            self._channel.pause_reading()


def _options(settings: Settings) -> dict[str, Any]:
    """Return what asyncssh is told beside keys and known hosts: all explicit, no file read."""
    return {
        "config": None,
        "host": settings.host,
        "port": settings.port,
        "username": settings.user,
        "host_key_alias": settings.key_alias,
        "agent_path": settings.agent,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "x509_trusted_certs": None,
        "gss_kex": False,
        "encryption_algs": CIPHERS,
        "compression_algs": None,
        "connect_timeout": CONNECT_S,
        "login_timeout": CONNECT_S,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVES,
        "utf8_decode_errors": "replace",
    }


def _private_key(path: Path) -> _Key:
    """Read a private key, with the certificate beside it where there is one."""
    key = asyncssh.read_private_key(str(path))
    certificate = Path(f"{path}-cert.pub")
    return (key, str(certificate)) if certificate.is_file() else key


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


def _is_over(task: "asyncio.Task[asyncssh.SSHClientConnection]") -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()


def _not_told(step: Step) -> None:
    """Steps of a bastion are not the node's."""


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return -1


async def _closed(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection, whether or not the other side answers."""
    connection.close()
    with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
        await asyncio.wait_for(connection.wait_closed(), CLOSE_S)
    connection.abort()


async def _ended(connection: asyncssh.SSHClientConnection | None, proxy: Proxy) -> None:
    if connection:
        await connection.wait_closed()
    await proxy.end()
