"""What may leave a node: of environments and command lines only what is listed here.

Everything else that a process says about itself may hold a secret, so it stays where it is.
"""

import re
from typing import Dict, Iterator, List, Optional

NAMES = frozenset(
    (
        b"MASTER_ADDR", b"MASTER_PORT", b"WORLD_SIZE", b"RANK", b"LOCAL_RANK",
        b"SLURM_JOB_ID", b"SLURM_NODEID", b"CUDA_VISIBLE_DEVICES",
    )
)  # fmt: skip
NCCL = re.compile(rb"NCCL_[A-Z0-9_]{1,48}\Z")
MAX_VALUE = 256
MAX_NAMES = 64

WORD = re.compile(rb"[A-Za-z0-9_.+-]{1,64}")
INTERPRETERS = re.compile(rb"(python|pypy)[0-9.]*[a-z]*\Z")
SHELLS = frozenset((b"sh", b"bash", b"dash", b"zsh", b"ksh", b"fish", b"csh", b"tcsh"))
WITH_ARGUMENT = (b"W", b"X")


def environ(raw: bytes) -> Dict[str, str]:
    """Return the allowed names of a /proc/PID/environ, each value cut at 256 bytes.

    Args:
        raw: NUL-separated `NAME=value`; the first of two with the same name counts.
    """
    found: Dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if not equals or not (name in NAMES or NCCL.match(name)):
            continue
        found.setdefault(name.decode("ascii"), value[:MAX_VALUE].decode("utf-8", "replace"))
        if len(found) >= MAX_NAMES:
            break
    return found


def program(cmdline: bytes) -> str:
    """Return the base name of a program and of its script or `-m` module, never an argument.

    Args:
        cmdline: a /proc/PID/cmdline, NUL-separated.

    Returns:
        `python3 train.py`, `python3 -m torch.distributed.run`, `nccl_bench`, or "" for none.
    """
    argv = cmdline.split(b"\0")
    name = _base(argv[0])
    if INTERPRETERS.match(name):
        rest = _python(argv[1:])
    elif name in SHELLS and len(argv) > 1 and not argv[1].startswith((b"-", b"+")):
        rest = _base(argv[1])
    else:
        rest = b""
    return (name + b" " + rest if rest else name).decode("ascii")


def _base(path: bytes) -> bytes:
    """Cut a path to its last part, and that at the first byte that a name need not have.

    A program may write its own argv, then all arguments are one string: so the first word only.
    """
    words = path.split(None, 1)
    found = WORD.match(words[0].rpartition(b"/")[2]) if words else None
    return found.group() if found else b""


def _python(arguments: List[bytes]) -> bytes:
    """Return the script or `-m module` of a Python command line, as its own parser finds it."""
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith(b"-"):
            return _base(argument)
        if argument == b"--check-hash-based-pycs":
            next(rest, None)
        elif not argument.startswith(b"--"):
            module = _cluster(argument, rest)
            if module is not None:
                return module
    return b""


def _cluster(argument: bytes, rest: Iterator[bytes]) -> Optional[bytes]:
    """Walk through `-uBm`-like letters; None when more options may follow."""
    for place in range(1, len(argument)):
        letter = argument[place : place + 1]
        attached = argument[place + 1 :]
        if letter == b"c":
            return b""
        if letter == b"m":
            module = _base(attached or next(rest, b""))
            return b"-m " + module if module else b""
        if letter in WITH_ARGUMENT:
            if not attached:
                next(rest, None)
            return None
    return b"" if argument == b"-" else None
