"""Questions of hosts are put before the screen takes the terminal."""

import signal
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from gpuwatch_process import COMMAND, environment
from sshd import NEEDS_SSHD, Sshd, write_secret
from terminal import Terminal

pytestmark = [*NEEDS_SSHD]
SCREEN_ON = b"\x1b[?1049h"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    """A job whose node is reached with a locked key."""
    with Sshd(tmp_path / "sshd") as server:
        key = asyncssh.read_private_key(str(server.identity))
        locked = tmp_path / "id_locked"
        write_secret(locked, key.export_private_key("openssh", "secret", rounds=16,
                                                    ignore_few_rounds=True))  # fmt: skip
        (tmp_path / "job.yaml").write_text(
            f"nodes: root@127.0.0.1:{server.port}\ninterval: 200ms\n"
            f"ssh: {{identity: {locked}, known_hosts: {server.known_hosts}, config: /dev/null}}\n"
        )
        yield tmp_path / "job.yaml"


def test_a_passphrase_is_asked_for_before_the_screen(job: Path, tmp_path: Path) -> None:
    words = (*COMMAND, str(job), "--no-record")
    with Terminal(words, environment(XDG_STATE_HOME=str(tmp_path / "state"))) as terminal:
        terminal.wait_for(b"Passphrase for ")
        terminal.press(b"wrong\n")
        terminal.wait_for(b"\nPassphrase for ")
        terminal.press(b"secret\n")
        terminal.wait_for(SCREEN_ON)
        assert terminal.seen.partition(SCREEN_ON)[0].count(b"Passphrase for ") == 2
        assert b"secret" not in terminal.seen
        terminal.wait_for(b"streaming")
        terminal.press(b"q")
        assert terminal.exit_code() == 0


def test_an_interrupt_at_a_question_ends_the_command(job: Path) -> None:
    with Terminal((*COMMAND, "snapshot", str(job)), environment()) as terminal:
        terminal.wait_for(b"Passphrase for ")
        terminal.kill(signal.SIGINT)
        assert terminal.exit_code() == 130
        assert "Traceback" not in terminal.words()
