"""The command line: a command is a row in `commands`; its body is imported when it runs."""

import os
import sys
from collections.abc import Sequence

from gpuwatch.cli.commands import parse
from gpuwatch.errors import GpuwatchError

__all__ = ["main"]

INTERRUPTED = 130
LONGEST = 1000
"""Characters of an error; what a file holds may be quoted in it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    What goes wrong is one line on stderr: what, where, what to do. Only `--debug` brings a
    traceback.

    Args:
        argv: words after the program's name; None: this process's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        body, given = parse(words)
        code = body(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who reads us has left (`| head`); the interpreter's last flush must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--debug" in words:
            raise
        return _tell(error)
    return code


def _tell(error: Exception) -> int:
    if isinstance(error, GpuwatchError):
        text, code = str(error), error.exit_code
    elif isinstance(error, OSError):
        # The system refused, mostly what stdout leads to; other places have words of their own.
        where = f"{error.filename}: " if error.filename else ""
        text, code = f"{where}{error.strerror or error}; --debug shows where", 1
    else:
        text = f"{type(error).__name__}: {error}; this is a fault of gpuwatch: --debug shows where"
        code = 1
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"
    print(f"gpuwatch: {line}", file=sys.stderr)
    return code
