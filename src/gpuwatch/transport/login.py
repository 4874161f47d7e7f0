"""One login by asyncssh: its keys, the host's key, what the host asks, and what went wrong."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import asyncssh

from gpuwatch.transport.host_keys import HostKey, Trust
from gpuwatch.transport.keys import KeyFiles, Offer
from gpuwatch.transport.link import LinkError, Step
from gpuwatch.transport.login_limits import Denials
from gpuwatch.transport.proxy import Proxy
from gpuwatch.transport.questions import Questions
from gpuwatch.transport.settings import Settings
from gpuwatch.transport.ssh_client import Client
from gpuwatch.transport.ssh_errors import Login, explained

__all__ = ["Logins"]

CIPHERS = (
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
    "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""AES-GCM first: with AES in hardware it costs a quarter of what ChaCha20 does."""
CONNECT_S = 15.0
"""For a host to answer, then for it to let in."""
KNOCK_S = 1.5
MEETING_S = 4.0
"""The same while a screen waits to start, beside what a person takes to answer."""
KEEPALIVE_S = 10.0
KEEPALIVES = 3

Connection = asyncssh.SSHClientConnection


class Logins:
    """Logs in; keeps key files, known hosts, passwords and what was denied.

    Args:
        questions: answers what hosts ask.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._trust = Trust()
        self._keys = KeyFiles()
        self._denials = Denials()
        self._proxies: set[asyncio.Task[None]] = set()

    def forgive(self) -> None:
        """Forget what was denied."""
        self._denials.forget()

    async def login(
        self,
        settings: Settings,
        *,
        account: str,
        line: str,
        tunnel: Connection | None,
        reached: Callable[[Step], None],
    ) -> Connection:
        """Log in to a host.

        Args:
            settings: of the login.
            account: that a password is kept by.
            line: command line that does the same with ssh.
            tunnel: connection to the bastion before it, if any.
            reached: told each step.

        Raises:
            LinkError: why not.
            ChannelOpenError: the bastion opened no channel.
        """
        questions = self._questions
        loop = asyncio.get_running_loop()
        knock_s, patience_s = (CONNECT_S,) * 2 if questions.ask is None else (KNOCK_S, MEETING_S)

        def extend() -> None:
            with contextlib.suppress(RuntimeError):  # the login is over
                limit.reschedule(loop.time() + patience_s)

        host_key = HostKey(self._trust.known(settings), settings)
        client = Client(settings, account, host_key, questions, reached=reached, went_on=extend)
        async with self._keys.offer(
            settings, client.passphrase if questions.ask else None
        ) as offer:
            if questions.ask is None:
                self._denials.check(settings, offer.state)
            try:
                async with asyncio.timeout(knock_s) as limit:
                    connection = await self._connected(client, offer, tunnel)
            except asyncssh.ChannelOpenError:
                raise
            except (OSError, ValueError, asyncssh.Error) as error:
                raise self._failure(error, Login(settings, line, client, offer)) from None
        self._denials.welcome(settings)
        return connection

    def _failure(self, error: Exception, login: Login) -> LinkError:
        """Put in words why a login failed; one that was denied is not tried again at once."""
        host_key = login.heard.host_key
        if host_key.refusal or "key is revoked" in str(error):
            return host_key.error(login.line)
        failure = explained(error, login)
        if isinstance(error, asyncssh.DisconnectError) and failure.step == "host key":
            self._denials.deny(login.settings, login.offer.state, failure)
        return failure

    @property
    def strange(self) -> list[str]:
        """Places of lines of known hosts that are not understood."""
        return self._trust.strange

    async def close(self) -> None:
        """Wait until the ProxyCommands have ended; their connections are closed by their owners."""
        await asyncio.gather(*self._proxies, return_exceptions=True)

    async def _connected(
        self, client: Client, offer: Offer, tunnel: Connection | None
    ) -> Connection:
        settings = client.settings
        proxy = await Proxy.start(settings.proxy_command) if settings.proxy_command else None
        try:
            connection = await asyncssh.connect(
                tunnel=tunnel or (),
                sock=proxy.socket if proxy else None,
                local_addr=(settings.bind, 0) if settings.bind and not (tunnel or proxy) else (),
                client_factory=lambda: client,
                client_keys=offer.pairs or None,
                known_hosts=lambda *_: client.host_key.trusted(),
                server_host_key_algs=client.host_key.kinds(),
                **_options(settings),
            )
        except BaseException:
            if proxy:
                await proxy.end()
                client.complaint = proxy.complaint
            raise
        if proxy:
            self._end_with(connection, proxy)
        return connection

    def _end_with(self, connection: Connection, proxy: Proxy) -> None:
        """Let a ProxyCommand end with its connection."""

        async def ended() -> None:
            await connection.wait_closed()
            await proxy.end()

        task = asyncio.create_task(ended())
        self._proxies.add(task)
        task.add_done_callback(self._proxies.discard)


def _options(settings: Settings) -> dict[str, Any]:
    """Return what asyncssh is told beside keys and known hosts: all explicit, no file read."""
    return {
        "config": None,
        "host": settings.host,
        "port": settings.port,
        "family": settings.family,
        "username": settings.user,
        "host_key_alias": settings.key_alias,
        "agent_path": None,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "x509_trusted_certs": None,
        "gss_kex": False,
        "encryption_algs": CIPHERS,
        "compression_algs": None,
        "login_timeout": 0,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVES,
        "utf8_decode_errors": "replace",
    }
