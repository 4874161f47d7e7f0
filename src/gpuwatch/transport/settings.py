"""How to reach a host over SSH, as the user's own ssh would: asked of `ssh -G` where it exists.

asyncssh reads configuration files itself, but refuses lines that OpenSSH accepts and knows
nothing of the system-wide file; `ssh -G` (ssh(1)) prints what OpenSSH makes of all of them.
"""

import asyncio
import getpass
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.model.text import sanitize
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Ssh

__all__ = ["Settings", "Target", "resolve"]

DEFAULT_PORT = 22
DEFAULT_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
SYSTEM_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"),)
ANSWER_S = 20.0
NONE = ("", "none")


@dataclass(frozen=True, slots=True)
class Target:
    """A host as a person names it."""

    host: str
    port: int | None = None
    user: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `[user@]host[:port]`; an IPv6 literal with a port is in brackets."""
        user, _, place = text.removeprefix("ssh://").rstrip("/").rpartition("@")
        host, port = place, ""
        if place.startswith("["):
            host, _, rest = place[1:].partition("]")
            port = rest.removeprefix(":")
        elif place.count(":") == 1:
            host, _, port = place.partition(":")
        return cls(host, int(port) if port.isdecimal() else None, user or None)


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a login needs.

    Attributes:
        jumps: bastions, in order.
        proxy_command: what connects instead of TCP, tokens expanded.
        identities: private key files that exist.
        agent: socket of the ssh-agent, None for none, () for the one in the environment.
        key_alias: name under which the host key is known.
    """

    host: str
    port: int
    user: str
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    identities: tuple[Path, ...] = ()
    certificates: tuple[Path, ...] = ()
    agent: str | tuple[()] | None = ()
    known_hosts: tuple[Path, ...] = ()
    key_alias: str | None = None


async def resolve(target: Target, ssh: Ssh) -> Settings:
    """Return how to reach a host: the job file's words first, then the ssh configuration.

    Raises:
        LinkError: ssh does not understand its configuration.
    """
    answer = await _ask_ssh(target, ssh)
    return _own(target, ssh) if answer is None else _settings(answer, target, ssh)


async def _ask_ssh(target: Target, ssh: Ssh) -> dict[str, list[str]] | None:
    """Return what `ssh -G` says, by lower-case keyword; None where there is no ssh."""
    words = ["ssh", "-G"]
    for flag, value in (("-F", ssh.config), ("-p", target.port), ("-l", target.user)):
        if value is not None:
            words += [flag, str(value)]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            "--",
            target.host,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        return None
    try:
        out, err = await asyncio.wait_for(process.communicate(), ANSWER_S)
    except TimeoutError:
        raise LinkError("`ssh -G` did not answer", "resolve", heals=True) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        said = sanitize(lines[0] if lines else f"status {process.returncode}")
        raise LinkError(f"ssh configuration: {said}", "resolve", "correct it, or set ssh.config")
    answer: dict[str, list[str]] = {}
    for line in out.decode("utf-8", "replace").splitlines():
        keyword, _, value = line.partition(" ")
        answer.setdefault(keyword.lower(), []).append(value)
    return answer


def _settings(answer: dict[str, list[str]], target: Target, ssh: Ssh) -> Settings:
    def first(keyword: str) -> str | None:
        value = answer.get(keyword, [""])[0]
        return None if value.lower() in NONE else value

    host = first("hostname") or target.host
    port = int(first("port") or DEFAULT_PORT)
    user = first("user") or target.user or getpass.getuser()
    proxy = first("proxycommand")
    jump = ssh.jump or first("proxyjump")
    agent: str | tuple[()] | None = ()
    if answer.get("identityagent"):
        socket = first("identityagent")
        agent = () if socket == "SSH_AUTH_SOCK" else socket
    known = (first("userknownhostsfile") or "", first("globalknownhostsfile") or "")
    return Settings(
        host=host,
        port=port,
        user=user,
        jumps=_jumps(jump),
        proxy_command=None
        if jump or not proxy
        else _expanded(proxy, target.host, host, port, user),
        identities=_identities(ssh, [Path(value) for value in answer.get("identityfile", [])]),
        certificates=_existing(Path(value) for value in answer.get("certificatefile", [])),
        agent=agent,
        known_hosts=_known_hosts(ssh, [Path(word) for text in known for word in shlex.split(text)]),
        key_alias=first("hostkeyalias"),
    )


def _own(target: Target, ssh: Ssh) -> Settings:
    """Return how to reach a host from the job file alone."""
    home = Path("~/.ssh")
    return Settings(
        host=target.host,
        port=target.port or DEFAULT_PORT,
        user=target.user or getpass.getuser(),
        jumps=_jumps(ssh.jump),
        identities=_identities(ssh, [home / name for name in DEFAULT_IDENTITIES]),
        known_hosts=_known_hosts(ssh, [home / "known_hosts", *SYSTEM_KNOWN_HOSTS]),
    )


def _jumps(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def _identities(ssh: Ssh, usual: list[Path]) -> tuple[Path, ...]:
    return (ssh.identity.expanduser(),) if ssh.identity else _existing(usual)


def _existing(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path for path in (p.expanduser() for p in paths) if path.is_file())


def _known_hosts(ssh: Ssh, usual: list[Path]) -> tuple[Path, ...]:
    chosen = [ssh.known_hosts] if ssh.known_hosts else usual
    return tuple(path.expanduser() for path in chosen)


def _expanded(command: str, name: str, host: str, port: int, user: str) -> str:
    """Expand the tokens that ProxyCommand takes (ssh_config(5), TOKENS)."""
    tokens = {"%%": "%", "%h": host, "%n": name, "%p": str(port), "%r": user}
    return re.sub("%.", lambda found: tokens.get(found.group(), found.group()), command)
