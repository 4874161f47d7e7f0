"""The system's own ssh, with the user's configuration: Kerberos, FIDO keys, ControlMaster."""

import re
import shlex

from gpuwatch.errors import InputError
from gpuwatch.model.text import sanitize
from gpuwatch.transport.bootstrap import last_line, start_command
from gpuwatch.transport.child import told
from gpuwatch.transport.link import LinkError, Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.words import GLIMPSE

__all__ = ["explained", "line", "login"]

OPTIONS = (
    "BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes",
    "PermitLocalCommand=no", "RemoteCommand=none", "ControlMaster=no", "LogLevel=INFO",
    "ConnectTimeout=15", "ServerAliveInterval=10", "ServerAliveCountMax=3",
)  # fmt: skip
"""Nothing is asked under the screen, nothing forwarded, a dead connection is noticed, what fails is
said. A master connection that is there is used, but we are none: others' sessions would end with us."""
FAILED = 255
"""Exit status of ssh itself; any other is the command's (ssh(1))."""
_LOGIN = re.compile(r"(?!-)[A-Za-z0-9_.@:%+\\-]+")
_JUMP = re.compile(r"(?!-)[A-Za-z0-9_.@:%+\[\]-]+(, ?(?!-)[A-Za-z0-9_.@:%+\[\]-]+)*")

FAILURES: tuple[tuple[str, Step, str, str, bool], ...] = (
    ("IDENTIFICATION HAS CHANGED", "connect", "the host key CHANGED",
     "if that is right: ssh-keygen -R {place}", False),
    ("Host key verification failed", "connect", "unknown host key",
     "log in once by hand, and look at the key: {login}", False),
    ("Too many authentication failures", "host key", "",
     "name the right key with ssh.identity", False),
    ("Permission denied", "host key", "",
     "it must work without a question: {login}; an open ControlMaster, ssh-add or kinit helps", False),
    (" terminating, ", "resolve", "ssh: {other}", "correct the ssh configuration", False),
    ("Temporary failure in name resolution", "resolve", "",
     "check how this machine resolves names", True),
    ("Could not resolve hostname", "resolve", "", "check the node's name, or give it a host:", False),
    ("Connection refused", "resolve", "", "check that sshd runs there, and the port", True),
    ("No route to host", "resolve", "", "check that the node is up", True),
    ("timed out", "resolve", "", "check that the node is up and not filtered", True),
    ("UNKNOWN port 65535", "connect", "the ProxyCommand ended before the login: {other}",
     "try: {login}", True),
    ("kex_exchange_identification", "connect", "the connection closed before the login",
     "too many logins at once (MaxStartups), or a firewall", True),
)  # fmt: skip
"""Words on stderr, the last step reached then, words for them (empty: ssh's own line; `{other}`: the
first other line), what to do, and whether it may heal by itself; the first that fits counts. ssh takes a
program in place of the network for port 65535 of UNKNOWN."""


def line(node: Node, marker: str) -> list[str]:
    """Return ssh's words (ssh_config(5)); what the job file does not say is left to ssh.

    Raises:
        InputError: as `start_command`; a user or bastion that a shell below ssh could run.
    """
    return [*_words(node, OPTIONS), "--", node.host, start_command(node, marker)]


def login(node: Node) -> str:
    """Return the command line with which a person tries the same."""
    return shlex.join([*_words(node, ()), node.host])


def explained(node: Node, status: int, errors: str) -> LinkError | None:
    """Say why ssh itself failed."""
    if status < 0:
        return told("ssh", status, errors)
    if status != FAILED:
        return None
    for words, step, said, hint, heals in FAILURES:
        if words in errors:
            what = said.replace("{other}", _other(errors)) or f"ssh: {_line_with(words, errors)}"
            do = hint.format(login=login(node), place=_place(node))
            return LinkError(what, step, do, heals=heals)
    said = last_line(errors) or "it gave no reason"
    return LinkError(f"ssh failed: {said}", "resolve", f"try: {login(node)}", heals=True)


def _line_with(words: str, errors: str) -> str:
    """Return the first line with these words, without ssh's own name before it."""
    line = next(text for text in errors.split("\n") if words in text)
    return sanitize(line.strip().removeprefix("ssh: "), 2 * GLIMPSE)


def _other(errors: str) -> str:
    """Return the first line that is none of those by which failures are known, if there is one."""
    known = [row[0] for row in FAILURES]
    lines = (text.strip() for text in errors.split("\n"))
    found = next((text for text in lines if text and not any(k in text for k in known)), "")
    return sanitize(found, 2 * GLIMPSE) or "it gave no reason"


def _place(node: Node) -> str:
    """Return the host as known_hosts has it."""
    return shlex.quote(f"[{node.host}]:{node.port}" if node.port not in {None, 22} else node.host)


def _words(node: Node, options: tuple[str, ...]) -> list[str]:
    ssh = node.ssh
    words = ["ssh", "-T"] if options else ["ssh"]
    if ssh.config:
        words += ["-F", str(ssh.config)]
    if ssh.host_keys:
        checking = "accept-new" if ssh.host_keys == "accept-new" else "yes"
        options = (*options, f"StrictHostKeyChecking={checking}")
    if ssh.known_hosts:
        options = (*options, f'UserKnownHostsFile="{ssh.known_hosts}"')
    for option in options:
        words += ["-o", option]
    if ssh.identity:
        words += ["-i", str(ssh.identity)]
    if ssh.jump:
        words += ["-J", _fitting(_JUMP, ssh.jump, "ssh.jump")]
    if node.port:
        words += ["-p", str(node.port)]
    if node.user:
        words += ["-l", _fitting(_LOGIN, node.user, "ssh.user")]
    return words


def _fitting(pattern: re.Pattern[str], text: str, key: str) -> str:
    """Return a word of which ssh may make part of a ProxyCommand: it must be none of a shell's."""
    if not pattern.fullmatch(text):
        raise InputError(f"{key}: {sanitize(text, GLIMPSE)!r} cannot be passed to ssh")
    return text
