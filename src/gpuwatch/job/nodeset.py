"""Node sets as text (`gpu[001-016]`, `ann@gpu001:2222`, `[2001:db8::28]:22`) to single addresses.

ClusterShell's NodeSet does the set arithmetic, without its group files. Ranges are counted before
anything is expanded, so that a slip of the finger cannot eat the viewer's memory.
"""

import ipaddress
import re
from math import prod

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from msgspec import Struct

from gpuwatch.errors import InputError

__all__ = [
    "MAX_NODES", "Address", "container_name", "expand", "pod_name", "port_number", "user_name",
]  # fmt: skip

MAX_NODES = 10_000
MAX_TEXT = 64_000

_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,18}))?)?", re.ASCII)
_HOST = re.compile(r"(?!-)[A-Za-z0-9_.-]{1,253}")
_USER = re.compile(r"(?![-@])[^\s\x00-\x1f\x7f-\x9f]{1,256}")
_ZONE = re.compile(r"%[A-Za-z0-9_.-]{1,64}|")
_LABEL = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_POD = re.compile(rf"(?:{_LABEL}/)?{_LABEL}")
_CONTAINER = re.compile(_LABEL)
_SEPARATOR = re.compile(r"[,\s]+(?![^\[]*\])")
_OPERATOR = re.compile(r"[!&^]")


class Address(Struct, frozen=True):
    """Where one node is: `host` without brackets; None is left to the ssh configuration."""

    host: str
    port: int | None = None
    user: str | None = None


def expand(text: str) -> tuple[Address, ...]:
    """Return the addresses of a node set, in its order.

    Args:
        text: entries parted by commas or blanks, each `[user@]SET[:port]`, where a user may hold
            a domain's backslash and SET may be a bracketed IPv6 literal; or one expression of
            NodeSet's operators (`gpu[1-8]!gpu3`).

    Raises:
        InputError: the set is empty, malformed, names a group, or is larger than 10,000.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"a node set of {len(text):,} characters; at most {MAX_TEXT:,} are read")
    text = " ".join(text.split())
    if not text.isprintable():
        raise InputError(f"{text!r} holds a control character")
    entries = [text] if _OPERATOR.search(text) else _SEPARATOR.split(text)
    found = tuple(address for entry in entries if entry for address in _entry(entry))
    if not found:
        raise InputError(f"the node set {text!r} is empty")
    if len(found) > MAX_NODES:
        raise InputError(f"{len(found):,} nodes; at most {MAX_NODES:,} are watched")
    return found


def port_number(text: str) -> int:
    """Return a TCP port.

    Raises:
        InputError: it is none.
    """
    if re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65536:
        return int(text)
    raise InputError(f"{text!r} is no port; 1 to 65535")


def user_name(text: str) -> str:
    r"""Return a login name as it was written, `CORP\alice` too.

    Raises:
        InputError: it could not be one, or would be read as an option.
    """
    if _USER.fullmatch(text):
        return text
    raise InputError(f"{text!r} is no user name")


def pod_name(text: str) -> str:
    """Return a Kubernetes pod, with its namespace before a slash if it names one.

    Raises:
        InputError: it could not be one, or would be read as an option.
    """
    if _POD.fullmatch(text):
        return text
    raise InputError(f"{text!r} is no pod; [namespace/]name of a-z 0-9 . -")


def container_name(text: str) -> str:
    """Return a container of a pod.

    Raises:
        InputError: it could not be one, or would be read as an option.
    """
    if _CONTAINER.fullmatch(text):
        return text
    raise InputError(f"{text!r} is no container; a-z 0-9 . -")


def _entry(text: str) -> tuple[Address, ...]:
    user, at, place = text.rpartition("@")
    if at and not user:
        raise InputError(f"{text!r} is a group; groups are not resolved here: list the nodes")
    if not place:
        raise InputError(f"{text!r} names no host")
    login = user_name(user) if at else None
    literal = re.fullmatch(r"\[([^\[\]]*:[^\[\]]*)\](?::(.*))?", place)
    if literal:
        port = None if literal[2] is None else port_number(literal[2])
        return (Address(_ipv6(literal[1]), port, login),)
    if place.count(":") > 1:
        return (Address(_ipv6(place), None, login),)
    names, colon, digits = place.partition(":")
    port = port_number(digits) if colon else None
    return tuple(Address(name, port, login) for name in _names(names))


def _ipv6(text: str) -> str:
    address, percent, zone = text.partition("%")
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        raise InputError(f"{text!r} is no IPv6 address") from None
    if not _ZONE.fullmatch(percent + zone):  # it comes into commands
        raise InputError(f"{text!r} has no interface's name behind %")
    return text


def _names(pattern: str) -> tuple[str, ...]:
    count = _count(pattern)
    if count > MAX_NODES:
        raise InputError(f"{pattern!r} is {count:,} nodes; at most {MAX_NODES:,} are watched")
    try:
        names = tuple(NodeSet(pattern, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise InputError(f"{pattern!r} is no node set: {error}") from None
    for name in names:
        # A resolver takes a number for an IPv4 address: 5 is 0.0.0.5.
        if not _HOST.fullmatch(name) or name.isdigit():
            raise InputError(f"{name!r} is no host name")
    return names


def _count(pattern: str) -> int:
    """Return an upper bound of how many names a pattern holds, without expanding it."""
    total = 0
    for part in _SEPARATOR.split(pattern):
        sizes = [_size(group) for group in _RANGES.findall(part)]
        total += prod(sizes)
    return total


def _size(group: str) -> int:
    size = 0
    for text in group.split(","):
        found = _RANGE.fullmatch(text.strip())
        if not found:
            raise InputError(f"[{group}] holds no range such as 001-016")
        first, last, step = (int(digits) if digits else None for digits in found.groups())
        size += 1 if last is None else max(0, last - (first or 0)) // max(1, step or 1) + 1
    return size
