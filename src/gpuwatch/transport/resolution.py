"""How a host is reached, asked of OpenSSH itself: `ssh -G` (ssh(1)) prints what it makes of it all.

asyncssh reads configuration files as well, but refuses lines that OpenSSH accepts and knows
nothing of the system-wide file: it is asked only where there is no ssh.
"""

import asyncio
import getpass
import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from asyncssh.config import ConfigParseError, SSHClientConfig

from gpuwatch.model.text import sanitize
from gpuwatch.transport.link import LinkError
from gpuwatch.transport.node import Ssh
from gpuwatch.transport.settings import Options, Settings, Target, home, settings_of

__all__ = ["Resolver", "Route"]

ANSWER_S = 20.0
AT_ONCE = 8
KEPT_S = 10.0
"""How long an answer stands: many nodes ask for one bastion; a `Match` may change its mind."""
MAX_JUMPS = 8
DEFAULT_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

Route = tuple[Settings, ...]
"""The bastions on the way, outermost first, then the host itself."""


class Resolver:
    """Finds the way to hosts, asking for a few at once and for each only once in a while."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._answers: dict[tuple[Target, Ssh], tuple[float, asyncio.Task[Settings]]] = {}

    async def route(self, target: Target, ssh: Ssh) -> Route:
        """Return the way to a host; a bastion's own bastions come before it.

        Raises:
            LinkError: what is wrong with the ssh configuration or with a name.
        """
        return tuple(await self._hops(target, ssh, (), 0))

    async def _hops(
        self, target: Target, ssh: Ssh, via: tuple[str, ...], depth: int
    ) -> list[Settings]:
        if depth > MAX_JUMPS:
            raise LinkError("the bastions go through each other", "resolve", "correct ProxyJump")
        settings = await self._resolved(target, ssh)
        jumps = via or settings.jumps
        if not jumps:
            return [settings]
        bastion = Target.parse(jumps[-1])
        way = await self._hops(bastion, replace(ssh, jump=None), jumps[:-1], depth + 1)
        return [*way, replace(settings, proxy_command=None)]

    async def _resolved(self, target: Target, ssh: Ssh) -> Settings:
        now = asyncio.get_running_loop().time()
        asked_s, task = self._answers.get((target, ssh), (0.0, None))
        if task is None or now - asked_s > KEPT_S or task.cancelled():
            task = asyncio.create_task(self._ask(target, ssh))
            task.add_done_callback(_heard)
            self._answers[target, ssh] = now, task
        return await asyncio.shield(task)

    async def _ask(self, target: Target, ssh: Ssh) -> Settings:
        async with self._turn:
            return await resolve(target, ssh)


def _heard(task: "asyncio.Task[Settings]") -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def resolve(target: Target, ssh: Ssh) -> Settings:
    """Return how to reach one host, its bastions by name.

    Raises:
        LinkError: what is wrong with the ssh configuration or with a name.
    """
    target.check()
    if ssh.config:
        _check_owner(ssh.config)
    if ssh.identity:
        _check_readable(ssh.identity)
    options = await _ask_ssh(target, ssh)
    if options is None:
        options = await asyncio.to_thread(_ask_asyncssh, target, ssh)
    return settings_of(options, target, ssh)


def _check_readable(identity: Path) -> None:
    try:
        identity.expanduser().open("rb").close()
    except OSError as error:
        raise LinkError(
            f"identity {identity}: {error.strerror}", "resolve", "correct ssh.identity"
        ) from None


def _check_owner(file: Path) -> None:
    """Refuse a configuration that others could have written: it may run commands.

    ssh checks the user's own file so, but not one that it is pointed to.
    """
    try:
        state = file.stat()
    except OSError as error:
        raise _wrong(f"{file}: {error.strerror}") from None
    if stat.S_ISCHR(state.st_mode):
        return
    if state.st_uid not in (0, os.getuid()) or state.st_mode & WRITABLE_BY_OTHERS:
        raise LinkError(
            f"ssh configuration: others can write to {file}",
            "resolve",
            f"chmod go-w {file}, and own it",
        )


async def _ask_ssh(target: Target, ssh: Ssh) -> Options | None:
    """Return what `ssh -G` says; None where there is no ssh."""
    words = ["ssh", "-G"]
    for flag, value in (
        ("-F", ssh.config),
        ("-i", ssh.identity),
        ("-p", target.port),
        ("-l", target.user),
    ):
        words += [flag, str(value)] if value is not None else []
    try:
        process = await asyncio.create_subprocess_exec(
            *(*words, "--", target.host),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        out, err = await asyncio.wait_for(process.communicate(), ANSWER_S)
    except TimeoutError:
        raise LinkError(
            f"`ssh -G {target.host}` did not answer in {ANSWER_S:.0f} s",
            "resolve",
            "a `Match exec` of the ssh configuration may hang",
            heals=True,
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what a `Match exec` runs
            await process.wait()
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        raise _wrong(lines[0] if lines else f"status {process.returncode}")
    options: dict[str, list[str]] = {}
    for line in out.decode("utf-8", "replace").splitlines():
        keyword, _, value = line.partition(" ")
        options.setdefault(keyword.lower(), []).append(value)
    return options


def _ask_asyncssh(target: Target, ssh: Ssh) -> Options:
    """Return what asyncssh makes of the user's configuration file."""
    folder = home() / ".ssh"
    file = ssh.config or folder / "config"
    options = {
        "identityfile": [str(ssh.identity or folder / name) for name in DEFAULT_IDENTITIES],
        "userknownhostsfile": [f"{folder / 'known_hosts'} {folder / 'known_hosts2'}"],
        "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"],
    }
    if not file.is_file():
        given = {"port": target.port, "user": target.user}
        return options | {name: [str(value)] for name, value in given.items() if value}
    _check_owner(file)
    try:
        # Its types do not say so, but () stands for "not given".
        unset: Any = ()
        found = SSHClientConfig.load(
            *(None, str(file), False, False, False),
            *(getpass.getuser(), target.user or unset, target.host, target.port or unset),
        )
    except (ConfigParseError, OSError, UnicodeDecodeError) as error:
        raise _wrong(str(error)) from None
    told = _each_told(found.get)
    if ssh.identity and "identityfile" in told:
        told["identityfile"].insert(0, str(ssh.identity))
    return options | told


def _each_told(get: Callable[[str], object]) -> dict[str, list[str]]:
    """Return what asyncssh tells, in the form in which ssh prints it."""
    told: dict[str, list[str]] = {}
    for name in ("Hostname", "Port", "User", "ProxyJump", "ProxyCommand", "HostKeyAlias",
                 "IdentitiesOnly", "IdentityAgent", "BindAddress", "IdentityFile",
                 "CertificateFile", "UserKnownHostsFile", "GlobalKnownHostsFile"):  # fmt: skip
        value = get(name)
        if isinstance(value, list):
            words = [str(word) for word in value]
            told[name.lower()] = [" ".join(words)] if name.endswith("HostsFile") else words
        elif value is not None:
            told[name.lower()] = [str(value)]
    return told


def _wrong(said: str) -> LinkError:
    return LinkError(
        f"ssh configuration: {sanitize(said)}", "resolve", "correct it, or set ssh.config"
    )
