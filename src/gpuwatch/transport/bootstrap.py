"""Start the agent through whatever login shell a node has, past whatever its rc files print.

The start command is one line that sh, bash, dash, csh, tcsh, fish and zsh read alike: one string
in double quotes for /bin/sh, and in it nothing that any of them expands. The interpreter first
prints a marker that the viewer chose, reversed, so that a shell which echoes the command cannot
fake it; only then is the payload sent.
"""

import asyncio
import secrets
from collections.abc import Callable

from gpuwatch.model.text import sanitize
from gpuwatch.transport.link import LinkError, Pipe, Step
from gpuwatch.transport.node import Node
from gpuwatch.transport.words import GLIMPSE, interpreter, variable_name, variable_value

__all__ = [
    "BY_HAND",
    "FLAGS",
    "PROGRAM",
    "agent_error",
    "ended_with",
    "handshake",
    "last_line",
    "new_marker",
    "start_command",
]

PROGRAM = (
    "import sys;o=sys.stdout;o.write(sys.argv[1][::-1]);o.flush();"
    "i=sys.stdin.buffer;exec(i.read(int(i.readline())))"
)
"""What `-c` gets: free of quotes, and of all that a shell expands inside double quotes."""
FLAGS = ("-I", "-S", "-B")
"""Isolated, without site packages, writing no bytecode."""
INTERPRETERS = ("/usr/bin/python3", "/usr/libexec/platform-python")
"""Tried in this order, then python3 and python on PATH: a distribution's own is local and never a
wrapper."""
GREETING_S = 20.0
BY_HAND = "go the same way by hand, and see what happens there"
SET_PYTHON = "set python: for this node in the job file"
SEE_LOG = "the log of its sshd may say what ended it"
NO_LIBRARY = "loading shared librar"
"""How dynamic loaders complain, with status 127: as if there were no such program (glibc, musl)."""
NO_STDIN = (
    "'NoneType' object has no attribute 'buffer'",
    "invalid literal for int() with base 10: b''",
)
"""How `PROGRAM` ends where stdin is closed, or /dev/null."""
NOISE_LIMIT = 1 << 20
"""Bytes that a shell may print before the marker."""


def new_marker() -> str:
    """Return a marker that no banner contains."""
    return secrets.token_hex(16)


def start_command(node: Node, marker: str) -> str:
    """Return the line that a node's login shell runs.

    Raises:
        InputError: the node's interpreter or environment holds what a shell would change.
    """
    pairs = {"LC_ALL": "C", **node.env}.items()
    variables = " ".join(f"{variable_name(k)}={variable_value(v)}" for k, v in pairs)
    run = f"{' '.join(FLAGS)} -c '{PROGRAM}' {marker}"
    if node.python is not None:
        tries = f"exec {interpreter(node.python)} {run}"
    else:
        tried = "".join(f"test -x {path} && exec {path} {run}; " for path in INTERPRETERS)
        tries = f"{tried}command -v python3 >/dev/null && exec python3 {run}; exec python {run}"
    return f'exec /bin/sh -c "export {variables}; {tries}"'


async def handshake(
    pipe: Pipe, node: Node, marker: str, message: bytes, reached: Callable[[Step], None]
) -> bytes:
    """Wait for the marker, then send the payload.

    Args:
        pipe: to the shell that runs the start command.
        node: that it runs on.
        marker: as given to `start_command`.
        message: the payload.
        reached: told `python` when the interpreter has answered.

    Returns:
        What came after the marker.

    Raises:
        LinkError: the interpreter did not answer, with the reason why.
    """
    answer = marker[::-1].encode("ascii")
    heard = bytearray()
    try:
        async with asyncio.timeout(GREETING_S):
            while (at := heard.find(answer)) < 0:
                data = await pipe.read()
                if not data:
                    raise _ended(pipe, node, bytes(heard))
                heard += data
                if len(heard) > NOISE_LIMIT:
                    raise _unanswered("the login shell printed over 1 MB", bytes(heard))
    except TimeoutError:
        said = bytes(heard) or pipe.errors.encode()
        what = f"no python started within {GREETING_S:.0f} s"
        if not said and node.transport not in {"asyncssh", "local"}:
            raise LinkError(what, "resolve", BY_HAND, heals=True) from None
        raise _unanswered(what, said) from None
    reached("python")
    try:
        pipe.write(message)
    except OSError:
        while await pipe.read():
            pass
        raise agent_error(pipe) from None
    return bytes(heard[at + len(answer) :])


def _unanswered(what: str, heard: bytes) -> LinkError:
    return LinkError(
        what + _printed(heard),
        "shell",
        "its home may be on a mount that hangs; its rc files must not wait, redirect output or start"
        " another shell when there is no terminal",
        heals=True,
    )


def _ended(pipe: Pipe, node: Node, heard: bytes) -> LinkError:
    """Say why the start command ended before the interpreter answered."""
    if failure := pipe.failure():
        return failure
    complaint = last_line(pipe.errors)
    if pipe.status is None:
        return LinkError(
            "the link broke while the login shell started", "shell", SEE_LOG, heals=True
        )
    if NO_LIBRARY in pipe.errors:
        return _no_python(f"python cannot be run: {complaint}")
    if pipe.status == 127:
        tried = node.python or ", ".join(INTERPRETERS) + ", python3 and python on PATH"
        return _no_python(f"no python3: tried {tried}")
    if "Unknown option: -I" in pipe.errors:
        return _no_python(f"{node.python or 'python'} is Python 2; 3.6 or newer is needed")
    if pipe.status == 126:
        return _no_python(f"python cannot be run: {complaint}")
    said = f": {complaint}" if complaint else _printed(heard)
    return LinkError(
        f"the login shell ended with {ended_with(pipe.status)} before python started{said}",
        "shell",
        "a login without a terminal must be able to run a command",
    )


def _no_python(what: str) -> LinkError:
    return LinkError(what, "shell", SET_PYTHON)


def ended_with(status: int) -> str:
    """Return a status in words; a negative one is that of a signal."""
    return f"signal {-status}" if status < 0 else f"status {status}"


def _printed(heard: bytes) -> str:
    """Return a glimpse of what a shell printed."""
    text = " ".join(heard[: 4 * GLIMPSE].decode("utf-8", "replace").split())
    return f"; it printed: {sanitize(text, GLIMPSE)}" if text else ""


def last_line(errors: str) -> str:
    """Return the last line of a program's complaints, safe to show; empty if it made none."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return sanitize(lines[-1], 2 * GLIMPSE) if lines else ""


def agent_error(pipe: Pipe) -> LinkError:
    """Say why the interpreter ended after the payload was sent and before the agent greeted."""
    complaint = last_line(pipe.errors).removeprefix("gpuwatch: ")
    if any(words in complaint for words in NO_STDIN):
        return LinkError(
            "the agent cannot be sent: the interpreter's stdin is not that of the session",
            "python",
            "its rc files must not redirect stdin, nor the ssh configuration say StdinNull",
        )
    if failure := pipe.failure():
        return failure
    if pipe.status is None:
        return LinkError("the link broke while the agent started", "python", SEE_LOG, heals=True)
    said = complaint or ended_with(pipe.status)
    hint = SET_PYTHON if "older than 3.6" in said else "look at its limits there: ulimit -a"
    return LinkError(f"the agent did not start: {said}", "python", hint)
