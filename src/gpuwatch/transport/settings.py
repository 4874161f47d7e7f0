"""What a login needs, as the user's own ssh would have it: from ssh's words, and the job file's."""

import getpass
import hashlib
import os
import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Ssh

__all__ = ["Settings", "Target", "home", "settings_of"]

DEFAULT_PORT = 22
NONE = ("", "none")
YES = ("yes", "true")
ON_FIRST_USE = ("accept-new", "no", "off", "false")
"""What StrictHostKeyChecking may say for hosts that were never seen to be trusted at once."""

NOT_FOLLOWED = ("RevokedHostKeys", "KnownHostsCommand", "ProxyUseFdpass", "BindInterface")
"""Options that ssh alone follows, and without which a host is not reached, or must not be."""

_UNSAFE_HOST = re.compile(r"^-|[\s\x00-\x1f\x7f'\"`$\\;&<>|(){}]")
_UNSAFE_USER = re.compile(r"^-|[\x00-\x1f\x7f'\"`;&<>|(){}$]|\s-|\\$")
"""What ssh itself takes in no name, since names are put into commands (ssh.c, 9.6)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A host as a person names it."""

    host: str
    port: int | None = None
    user: str | None = None

    def __str__(self) -> str:
        """Return it as ssh would take it for a bastion."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"{user}{host}" if self.port is None else f"{user}{host}:{self.port}"

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

    def check(self) -> None:
        """Refuse what must not come into a command: ssh configurations put names into some.

        Raises:
            LinkError: no host or user is called so.
        """
        for what, name, unsafe in (
            ("host name", self.host, _UNSAFE_HOST),
            ("user name", self.user or "", _UNSAFE_USER),
        ):
            if unsafe.search(name):
                raise LinkError(f"{name!r} is no {what}", "resolve", "correct it")


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a login needs.

    Attributes:
        name: the host as a person names it.
        jumps: bastions, in order.
        proxy_command: what connects instead of TCP, tokens expanded.
        identities: key files that exist, private or public.
        certificates: certificate files that exist, for any of the keys.
        agent: socket of the ssh-agent, None for none.
        identities_only: whether the agent's other keys are not offered.
        known_hosts: files of trusted host keys.
        accept_new: trust a host that was never seen.
        key_alias: name under which the host key is known.
        family: of addresses, as `socket` numbers them.
        bind: local address to connect from.
    """

    name: str
    host: str
    port: int
    user: str
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    identities: tuple[Path, ...] = ()
    certificates: tuple[Path, ...] = ()
    agent: str | None = None
    identities_only: bool = False
    known_hosts: tuple[Path, ...] = ()
    accept_new: bool = False
    key_alias: str | None = None
    family: int = socket.AF_UNSPEC
    bind: str | None = None

    @property
    def place(self) -> str:
        """Address and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Options = Mapping[str, list[str]]
"""What ssh's configuration says of one host: values by lower-case keyword, tokens not expanded."""


def settings_of(options: Options, target: Target, ssh: Ssh) -> Settings:
    """Return how to reach a host: the job file's words first, then those of the configuration.

    Raises:
        LinkError: a name that must not come into a command, or an option that is not followed.
    """

    def first(keyword: str) -> str | None:
        value = options.get(keyword, [""])[0]
        return None if value.lower() in NONE else value

    for option in NOT_FOLLOWED:
        if (first(option.lower()) or "no").lower() != "no":
            raise LinkError(
                f"ssh configuration: {option} is followed by ssh alone",
                "resolve",
                "set ssh.transport: openssh",
            )
    host = first("hostname") or target.host
    user = first("user") or target.user or getpass.getuser()
    port = int(first("port") or DEFAULT_PORT)
    Target(host, port, user).check()
    alias = first("hostkeyalias")
    jump = ssh.jump or first("proxyjump")
    if jump and jump.lower() in NONE:
        jump = None
    proxy = None if jump else first("proxycommand")
    tokens = _Tokens(target.host, host, port, user, alias, jump)
    return Settings(
        name=str(target),
        host=host,
        port=port,
        user=user,
        jumps=tuple(word.strip() for word in jump.split(",") if word.strip()) if jump else (),
        proxy_command=tokens.expanded(proxy) if proxy else None,
        identities=_existing(tokens.path(text) for text in options.get("identityfile", [])),
        certificates=_existing(tokens.path(text) for text in options.get("certificatefile", [])),
        agent=_agent(options.get("identityagent", []), tokens),
        identities_only=(first("identitiesonly") or "").lower() in YES,
        known_hosts=_known_hosts(ssh, first("userknownhostsfile"), first("globalknownhostsfile")),
        accept_new=_takes_new_keys(ssh, first("stricthostkeychecking") or ""),
        key_alias=alias,
        family=_FAMILIES.get(first("addressfamily") or "any", socket.AF_UNSPEC),
        bind=first("bindaddress"),
    )


def _takes_new_keys(ssh: Ssh, checking: str) -> bool:
    """Tell whether a key that was never seen is trusted: by the job file, else by the user's own ssh."""
    if ssh.host_keys is not None:
        return ssh.host_keys == "accept-new"
    return checking.lower() in ON_FIRST_USE


def home() -> Path:
    """Return the home that ssh takes: of the password file, whatever HOME says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("~").expanduser()


_FAMILIES: Mapping[str, int] = MappingProxyType(
    {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
)


class _Tokens:
    """Expands `%h` and its like, `${NAME}` and `~`, where ssh -G does not (ssh_config(5), TOKENS)."""

    def __init__(
        self, name: str, host: str, port: int, user: str, alias: str | None, jump: str | None
    ) -> None:
        long = socket.gethostname()
        digest = hashlib.sha1(f"{long}{host}{port}{user}{jump or ''}".encode())  # noqa: S324 - as ssh does
        self._values = {
            "%": "%", "d": str(home()), "h": host, "i": str(os.getuid()), "j": jump or "",
            "k": alias or name, "L": long.partition(".")[0], "l": long, "n": name, "p": str(port),
            "r": user, "u": getpass.getuser(), "C": digest.hexdigest(),
        }  # fmt: skip

    def expanded(self, text: str) -> str:
        """Return text with its tokens expanded; what is none stays."""
        return re.sub("%(.)", lambda found: self._values.get(found[1], found[0]), text)

    def path(self, text: str) -> Path:
        """Return the path that a text with tokens, variables and `~` names."""
        text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
        return _path(self.expanded(text))


def _agent(values: list[str], tokens: _Tokens) -> str | None:
    """Return the agent's socket: IdentityAgent, else what the environment says."""
    text = values[0] if values else "SSH_AUTH_SOCK"
    if text.lower() == "none":
        return None
    if text == "SSH_AUTH_SOCK" or re.fullmatch(r"\$\w+", text):
        return os.environ.get(text.removeprefix("$")) or None
    return str(tokens.path(text))


def _existing(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if path.is_file()))


def _known_hosts(ssh: Ssh, *texts: str | None) -> tuple[Path, ...]:
    if ssh.known_hosts:
        return (ssh.known_hosts.expanduser(),)
    return tuple(_path(word) for text in texts if text for word in text.split())


def _path(text: str) -> Path:
    if text.startswith("~/"):
        return home() / text[2:]
    return Path(os.path.expanduser(text))  # noqa: PTH111 - that of Path raises where there is no such user
