"""What hosts ask a person at the terminal, before a screen or a line of progress takes it."""

import getpass
import signal
import sys
from collections.abc import Sequence

from gpuwatch.model.text import sanitize
from gpuwatch.transport.node import Node
from gpuwatch.transport.transports import Transports

__all__ = ["prepared"]

MOST_REMARKS = 3


async def prepared(nodes: Sequence[Node]) -> Transports:
    """Return what reaches these nodes, with all asked that their hosts ask, if anybody is there."""
    transports = Transports()
    if sys.stdin.isatty() and sys.stderr.isatty():
        for remark in (await transports.prepare(nodes, _ask))[:MOST_REMARKS]:
            print(f"gpuwatch: {sanitize(remark)}", file=sys.stderr)
    return transports


def _ask(prompt: str, *, shown: bool) -> str:
    """Ask at the terminal; Ctrl-C ends the command, Ctrl-D leaves this question unanswered."""
    # The event loop's own handler would wait for an answer first.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if not shown:
            return getpass.getpass(prompt)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return sys.stdin.readline().rstrip("\n")
    except EOFError:
        return ""
    finally:
        signal.signal(signal.SIGINT, usual)
