"""What went wrong with a login, in words: the step, the reason, the one thing to do."""

import errno
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh

from gpuwatch.model.text import sanitize
from gpuwatch.transport.keys import Offer
from gpuwatch.transport.link import LinkError, Step
from gpuwatch.transport.settings import Settings
from gpuwatch.transport.ssh_client import Client

__all__ = ["Login", "explained", "no_channel", "no_session"]

NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
NO_AGREEMENT = ("No matching", "Unable to find")
"""How asyncssh says that both sides know no algorithm in common; all else is damage."""
UNREADABLE = "Unable to decode"
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Login:
    """One login that failed.

    Attributes:
        settings: that it used.
        line: command line that does the same with ssh.
        heard: how far it came.
        offer: keys that were offered, and what was wrong with others.
    """

    settings: Settings
    line: str
    heard: Client
    offer: Offer

    @property
    def place(self) -> str:
        """Address and port."""
        return self.settings.place

    @property
    def step(self) -> Step:
        """The last step that is known to be reached."""
        return "connect" if self.heard.connected else "resolve"


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
    if login.heard.connected:
        return _unsound(str(error), login)
    return LinkError(f"{sanitize(login.settings.host)!r} is no host name", "resolve", "correct it")


def no_channel(
    error: asyncssh.ChannelOpenError, settings: Settings, way: Sequence[Settings]
) -> LinkError:
    """Say why a bastion did not lead to a host."""
    said = sanitize(error.reason)
    bastion = way[-1].name if way else "the bastion"
    if error.code == asyncssh.OPEN_RESOURCE_SHORTAGE:
        return LinkError(
            f"the bastion {bastion} opens no more channels: {said}",
            "resolve",
            f"raise MaxSessions on {bastion}, or watch fewer nodes through it",
            heals=True,
        )
    hint = "check that the node is up, as the bastion sees it"
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        hint = f"{bastion} must allow it: AllowTcpForwarding and PermitOpen in its sshd_config"
    return LinkError(
        f"the bastion cannot reach {settings.place}: {said}", "resolve", hint, heals=True
    )


def no_session(error: Exception, host: str, *, is_gone: bool) -> LinkError:
    """Say why a host that let us in did not open a session.

    Args:
        error: that ended it.
        host: that it was wanted on.
        is_gone: whether the connection is.
    """
    if isinstance(error, asyncssh.ChannelOpenError) and not is_gone:
        said = f"{host} opens no session: {sanitize(error.reason)}"
        hint = "its sshd_config must allow one session for this user: MaxSessions"
    elif isinstance(error, TimeoutError):
        said = f"{host} opens no session: no answer in time"
        hint = "its sshd may hang: log in by hand, and see"
    else:
        said = f"{host} closed the connection before it opened a session"
        hint = "its sshd's log says why"
    return LinkError(said, "login", hint, heals=True)


def _denied(login: Login) -> LinkError:
    offer = login.offer
    names = offer.names[:MOST_NAMED] + (["..."] if len(offer.names) > MOST_NAMED else [])
    tried = f"publickey refused ({', '.join(names)})" if names else "there was no key to offer"
    unanswered = " and ".join(login.heard.unanswered)
    also = f"; the host also asks for {unanswered}" if unanswered else ""
    also += "; what was answered was refused" if login.heard.answered else ""
    problems = [f"the ssh-agent at {offer.agent_gone} is gone"] if offer.agent_gone else []
    problems += [f"the certificate {path} is over or not yet valid" for path in offer.expired]
    why = "".join(f"; {problem}" for problem in problems)
    what = f"permission denied for {login.settings.user}: {tried}{also}{why}"
    return LinkError(what, "host key", _way_in(login))


def _way_in(login: Login) -> str:
    """Return the one thing to do where no key was good enough."""
    offer = login.offer
    if offer.agent_gone:
        return "start gpuwatch again from a shell where `ssh-add -l` lists your keys"
    if offer.expired:
        return f"get a new certificate in place of {offer.expired[0]}"
    if offer.locked:
        return f"unlock the key with: {shlex.join(['ssh-add', str(offer.locked[0])])}"
    if login.heard.unanswered:
        return (
            "start gpuwatch again in a terminal: it asks before the screen starts;"
            " or set ssh.transport: openssh"
        )
    return f"try: {login.line}; if that lets you in, so does ssh.transport: openssh"


def _network_error(error: OSError, login: Login) -> LinkError:
    text = str(error)
    if isinstance(error, TimeoutError) and login.settings.proxy_command:
        return _proxy_failed("gave no SSH answer in time", login)
    if isinstance(error, TimeoutError):
        said = "connected, but no SSH answer" if login.heard.connected else "no answer"
        hint = (
            "sshd may hang"
            if login.heard.connected
            else "check that the node is up and not filtered"
        )
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
    if isinstance(error, asyncssh.ConnectionLost):
        return _closed_early(login)
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and said.startswith(UNREADABLE):
        return _unsound(said, login)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return LinkError(f"{login.place}: {said}", "connect", f"try: {login.line}")
    if isinstance(error, asyncssh.KeyExchangeFailed) and not said.startswith(NO_AGREEMENT):
        return _unsound(said, login)
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return LinkError(
            f"no way to agree on keys and ciphers with {login.place}: {said}",
            "connect",
            "set ssh.transport: openssh, which may know older ones",
        )
    if "Too many authentication failures" in error.reason:
        names = ", ".join(login.offer.names[:MOST_NAMED])
        return LinkError(
            f"permission denied for {login.settings.user}: too many keys were tried ({names})",
            "host key",
            "name the right one with ssh.identity, and say IdentitiesOnly yes in ~/.ssh/config",
        )
    return LinkError(f"{login.place}: {said}", login.step, f"try: {login.line}", heals=True)


def _unsound(said: str, login: Login) -> LinkError:
    return LinkError(
        f"what comes from {login.place} is no sound SSH: {sanitize(said)}",
        login.step,
        f"what lies between may damage it; try: {login.line}",
        heals=True,
    )


def _proxy_failed(how: str, login: Login) -> LinkError:
    said = f": {sanitize(login.heard.complaint)}" if login.heard.complaint else ""
    return LinkError(
        f"the ProxyCommand towards {login.place} {how}{said}",
        login.step,
        f"try: {login.line}",
        heals=True,
    )


def _closed_early(login: Login) -> LinkError:
    if login.settings.proxy_command:
        return _proxy_failed("ended before the login", login)
    if login.heard.greeted:
        return LinkError(
            f"{login.place} closed the connection during the login",
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
