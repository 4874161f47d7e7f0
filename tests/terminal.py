"""A command in a terminal of its own, of 80 x 24 characters."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

DEADLINE_S = 30.0


class Terminal:
    """Runs a command; `seen` is all that it wrote so far."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], term: str = "xterm-256color"
    ) -> None:
        self.seen = b""
        self._viewer, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command,
            env={**environment, "TERM": term},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._viewer)

    def wait_for(self, text: bytes) -> None:
        """Read until the command has written this text."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.words()
            assert self._read(), self.words()

    def words(self) -> str:
        """Return the last of what was written, without what steers the terminal."""
        plain = re.sub(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]", b"", self.seen[-20_000:])
        return " ".join(plain.decode(errors="replace").split())[-1000:]

    def cooked(self) -> bool:
        """Whether the terminal is as a shell wants it: lines that are echoed."""
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        flags: int = termios.tcgetattr(self._viewer)[3]
        return flags & wanted == wanted

    def press(self, keys: bytes) -> None:
        """Type some keys."""
        os.write(self._viewer, keys)

    def kill(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Read to the end, and return the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read():
            assert time.monotonic() < deadline, self.words()
        return self.process.wait(DEADLINE_S)

    def _read(self) -> bool:
        """Read what there is; return whether more may come. Linux ends a terminal with EIO."""
        if not select.select([self._viewer], [], [], 1.0)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._viewer, 65_536)
        except OSError:
            return False
        self.seen += data
        return bool(data)
