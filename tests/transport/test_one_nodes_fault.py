"""A fault of ours in any step of a login stays with its node: over one real sshd, node beside node."""

import re
from collections import Counter
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest

from debian import needs
from gpuwatch.model.event import Link, Sample
from gpuwatch.transport.node import Node
from gpuwatch.transport.ssh_pipe import SshPipe
from sshd import NEEDS_SSHD, Sshd

pytestmark = [*NEEDS_SSHD, needs("ssh", "openssh-client")]

STEPS = {
    "resolve": "resolution.resolve",
    "keys": "keys.KeyFiles._fill",
    "connect": "login.Logins._connected",
    "hostkey": "host_keys.HostKey.trusted",
    "auth": "ssh_client.Client.auth_completed",
    "session": "ssh.start_command",
    "start": "supervise.handshake",
    "stream": "ssh_pipe.SshPipe.data_received",
}
"""Step to what is called in it, below gpuwatch.transport."""
TIMES = 2


def names_in(words: Any) -> set[str]:
    """Return the names of nodes that the words of a call lead to."""
    found = set()
    for word in words:
        owner = word._connection.get_owner() if isinstance(word, SshPipe) else None
        for each in (
            word,
            getattr(word, "settings", None),
            getattr(word, "_settings", None),
            owner,
        ):
            settings = getattr(each, "settings", each)
            name = f"{getattr(settings, 'name', '')} {getattr(settings, 'host', '')}"
            found.update(re.split(r"[@: ]", name))
    return found


def planted(step: str, original: Callable[..., Any], raised: Counter[str]) -> Callable[..., Any]:
    """Return what raises a few times, for the node that is called after the step alone."""

    def call(*words: Any, **more: Any) -> Any:
        if step in names_in(words) and raised[step] < TIMES:
            raised[step] += 1
            raise ZeroDivisionError(step)
        return original(*words, **more)

    return call


async def test_an_error_in_any_step_of_a_login_never_touches_another_node(
    usual: Sshd, watching: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node beside them streams on, and those that failed stream once nothing is raised any more."""
    monkeypatch.setattr("gpuwatch.transport.supervise.FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr("gpuwatch.transport.resolution.KEPT_S", -1.0)
    config = tmp_path / "config"
    config.write_text(f"HostName 127.0.0.1\nPort {usual.port}\n")
    raised: Counter[str] = Counter()
    for step, place in STEPS.items():
        original = resolve_name(f"gpuwatch.transport.{place}")
        monkeypatch.setattr(f"gpuwatch.transport.{place}", planted(step, original, raised))

    def node(name: str) -> Node:
        return usual.node(name, host=name, port=None, config=config)

    missing = {*STEPS, "well"}
    async with watching(*map(node, missing)) as watch:
        while missing:
            event = await watch.until(lambda e: isinstance(e, Sample) and e.node in missing)
            if raised[event.node] == TIMES or event.node == "well":
                missing.discard(event.node)
        await watch.sample("well", sequence=3)
    lost = {(e.node, e.reason) for e in watch.events if isinstance(e, Link) and e.state == "lost"}
    assert {node for node, _ in lost} == STEPS.keys()
