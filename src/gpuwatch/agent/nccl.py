"""Which network ports the job told NCCL to use: NCCL_IB_HCA and NCCL_SOCKET_IFNAME.

Both are lists: prefixes of names, or after `=` whole names; after `^` they say what is left out;
a port may follow an adapter's name (`mlx5_0:1`). See NCCL's manual, environment variables.
"""

from typing import Dict, Iterable, Optional, Sequence

from gpuwatch.agent.allow import MAX_VALUE

HCA = "NCCL_IB_HCA"
INTERFACE = "NCCL_SOCKET_IFNAME"
SOCKETS = ("Socket", "SOCKET", "socket")


def uses_adapter(environs: Sequence[Dict[str, str]], name: str, port: str) -> Optional[int]:
    """Tell whether a rank names an RDMA port: 1, or 0, or None where NCCL chooses by itself.

    Args:
        environs: of the ranks, as far as they can be read.
        name: of the adapter (`mlx5_0`).
        port: its number.
    """
    return _any(
        0 if _without_rdma(environ) else _named(environ.get(HCA, ""), name, port)
        for environ in environs
    )


def uses_interface(environs: Sequence[Dict[str, str]], name: str) -> Optional[int]:
    """Tell whether a rank names an interface for sockets: 1, or 0, or None as above."""
    return _any(_named(environ.get(INTERFACE, ""), name, "") for environ in environs)


def _any(answers: Iterable[Optional[int]]) -> Optional[int]:
    known = list(answers)
    if 1 in known:
        return 1
    return None if None in known or not known else 0


def _without_rdma(environ: Dict[str, str]) -> bool:
    return environ.get("NCCL_IB_DISABLE") == "1" or environ.get("NCCL_NET") in SOCKETS


def _named(value: str, name: str, port: str) -> Optional[int]:
    if not value or len(value) >= MAX_VALUE:  # cut where it left the environment
        return None
    excludes = value.startswith("^")
    value = value[1:] if excludes else value
    exact = value.startswith("=")
    listed = False
    for entry in (value[1:] if exact else value).split(","):
        word, colon, number = entry.partition(":")
        same = name == word if exact else bool(word) and name.startswith(word)
        listed = listed or (same and (not colon or not port or number == port))
    return int(listed != excludes)
