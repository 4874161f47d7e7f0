"""What went wrong with a login, in words: the step, the reason, the one thing to do."""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from gpuwatch.model.text import sanitize
from gpuwatch.transport.link import LinkError, Step
from gpuwatch.transport.settings import Settings

__all__ = ["Login", "explained"]

NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


@dataclass(frozen=True, slots=True)
class Login:
    """One login that failed.

    Attributes:
        settings: that it used.
        line: command line that does the same with ssh.
        connected: whether TCP had connected.
        offered: methods that the host offered and that would ask a person.
        keys: identities that were tried.
        locked: identities that could not be read: locked by a passphrase, or no private keys.
    """

    settings: Settings
    line: str
    connected: bool
    offered: tuple[str, ...]
    keys: Sequence[Path]
    locked: Sequence[Path]

    @property
    def place(self) -> str:
        """Address and port."""
        host = self.settings.host
        return f"[{host}]:{self.settings.port}" if ":" in host else f"{host}:{self.settings.port}"

    @property
    def step(self) -> Step:
        """The last step that is known to be reached."""
        return "connect" if self.connected else "resolve"


def explained(error: Exception, login: Login) -> LinkError:
    """Turn what asyncssh or the network raised into what a person is told."""
    if isinstance(error, asyncssh.PermissionDenied):
        return _denied(login)
    if isinstance(error, asyncssh.Error):
        return _ssh_error(error, login)
    if isinstance(error, socket.gaierror):
        return LinkError(
            f"{login.settings.host} does not resolve: {error.strerror}",
            "resolve",
            "check the node's name, or give it a host:",
            heals=error.errno == socket.EAI_AGAIN,
        )
    if isinstance(error, OSError):
        return _network_error(error, login)
    return LinkError(sanitize(str(error)), login.step, f"try: {login.line}")


def _denied(login: Login) -> LinkError:
    tried = [path.name for path in login.keys] or ["the keys of the ssh-agent"]
    also = (
        f"; {login.settings.host} also offers {' and '.join(login.offered)}"
        if login.offered
        else ""
    )
    hint = f"log in without a question with: {login.line}"
    if login.locked:
        hint = f"unlock the key with: ssh-add {login.locked[0]}"
    return LinkError(
        f"permission denied for {login.settings.user}: publickey refused"
        f" ({', '.join(tried)}){also}",
        "host key",
        hint,
    )


def _network_error(error: OSError, login: Login) -> LinkError:
    text = str(error)
    if isinstance(error, TimeoutError):
        said = "connected, but no SSH answer" if login.connected else "no answer"
        hint = "sshd may hang" if login.connected else "check that the node is up and not filtered"
        return LinkError(f"{said} from {login.place} in time", login.step, hint, heals=True)
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in text:
        return LinkError(
            f"connection refused by {login.place}",
            "resolve",
            "check that sshd runs there, and the port",
            heals=True,
        )
    if isinstance(error, ConnectionError):
        return _closed_early(login)
    if error.errno in NO_ROUTE:
        return LinkError(
            f"no route to {login.place}", "resolve", "check that the node is up", heals=True
        )
    said = sanitize(error.strerror or text)
    return LinkError(f"{login.place}: {said}", login.step, f"try: {login.line}", heals=True)


def _ssh_error(error: asyncssh.Error, login: Login) -> LinkError:
    said = sanitize(error.reason)
    if isinstance(error, asyncssh.ChannelOpenError):
        return LinkError(
            f"the bastion cannot reach {login.place}: {said}",
            "resolve",
            "check the node, and that the bastion allows forwarding",
            heals=True,
        )
    if isinstance(error, asyncssh.ConnectionLost):
        return _closed_early(login)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return LinkError(said, "connect", f"try: {login.line}")
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return LinkError(
            f"no way to agree on keys with {login.place}: {said}",
            "connect",
            f"if the kind of its host key has changed: ssh-keygen -R {login.settings.host}",
        )
    if "Too many authentication failures" in error.reason:
        return LinkError(
            f"permission denied for {login.settings.user}: too many keys were tried",
            "host key",
            "name the right one with ssh.identity",
        )
    return LinkError(f"{login.place}: {said}", login.step, f"try: {login.line}", heals=True)


def _closed_early(login: Login) -> LinkError:
    if login.settings.proxy_command:
        return LinkError(
            f"the ProxyCommand towards {login.place} ended before the login",
            login.step,
            f"try: {login.line}",
            heals=True,
        )
    return LinkError(
        f"{login.place} closed the connection before the login",
        login.step,
        "too many logins at once (MaxStartups), or a firewall",
        heals=True,
    )
