import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from gpuwatch.feed.live import Live
from gpuwatch.model.event import AnyEvent, Link, Sample, Tick
from gpuwatch.transport.bootstrap import new_marker
from gpuwatch.transport.link import Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.ssh import Dialer
from sshd import Sshd, write_secret

Dial = Callable[[Node], Awaitable[list[Step]]]

DEADLINE_S = 25.0


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what a viewer keeps, and the agent of whoever runs the tests, out of them."""
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return state / "gpuwatch"


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One sshd that many tests log in to and none changes."""
    with Sshd(tmp_path_factory.mktemp("usual") / "sshd") as server:
        yield server


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Log in to a node, start its interpreter, and end it; return the steps that were reached."""
    dialer = Dialer()

    async def opened(node: Node) -> list[Step]:
        steps: list[Step] = []
        pipe = await dialer.open(node, new_marker(), steps.append)
        await pipe.close()
        return steps

    yield opened
    await dialer.close()


@pytest.fixture
def lay(tmp_path: Path) -> Callable[..., Path]:
    """Lay a private key into a file of a test's own, locked if a passphrase is given."""

    def laid(
        name: str, key: asyncssh.SSHKey | None = None, how: str = "openssh", lock: str | None = None
    ) -> Path:
        path = tmp_path / name
        key = key or asyncssh.generate_private_key("ssh-ed25519")
        write_secret(path, key.export_private_key(how, lock, rounds=16, ignore_few_rounds=True))
        return path

    return laid


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start any number of sshd instances, which end with the test."""
    numbers = count()
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(Sshd(tmp_path / f"sshd{next(numbers)}", **how))


class Watch:
    """Takes the events of a live feed until something is seen."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.events: list[AnyEvent] = []

    async def until(self, wanted: Callable[[AnyEvent], bool]) -> AnyEvent:
        """Return the next event that is wanted; fail at a deadline, telling what came instead."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                async for event in self.live:
                    self.events.append(event)
                    if wanted(event):
                        return event
        except TimeoutError:
            pass
        told = [e for e in self.events if not isinstance(e, Sample | Tick)][-20:]
        pytest.fail("did not come; last events:\n" + "\n".join(map(str, told)))

    async def sample(self, node: str, sequence: int = 0) -> Sample:
        """Return the next sample of a node with this sequence number or a later one."""
        event = await self.until(
            lambda e: isinstance(e, Sample) and e.node == node and e.sequence >= sequence
        )
        assert isinstance(event, Sample)
        return event

    async def link(self, node: str, *states: str) -> Link:
        """Return the next change of a node's link to one of these states."""
        event = await self.until(
            lambda e: isinstance(e, Link) and e.node == node and e.state in states
        )
        assert isinstance(event, Link)
        return event


@pytest.fixture
def watching() -> Callable[..., Any]:
    """Open a live feed on some nodes for as long as a block lasts."""

    @asynccontextmanager
    async def opened(*nodes: Node, interval_s: float = 0.2) -> AsyncIterator[Watch]:
        live = Live(nodes, interval_s)
        try:
            yield Watch(live)
        finally:
            await live.close()

    return opened
