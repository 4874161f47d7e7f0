"""Addresses of the node itself, by which the far ends of its peers' connections are known as it."""

import binascii
import socket
from typing import List, Tuple

from gpuwatch.agent.host import Host

MOST = 64
"""Addresses told; a node that has more is a router."""
_LEADS_TO = b"|-- "
_OWN = b"/32 host LOCAL"
_HEX = 32
_LOOPBACK_SCOPE, _LINK_SCOPE = 0x10, 0x20
_NOWHERE = (b"127.", b"169.254.")
"""Loopback and link-local addresses: each node has them, or may."""


def addresses(host: Host) -> Tuple[str, ...]:
    """Return the IPv4 and IPv6 addresses of the agent's network namespace, as inet_ntop writes them.

    Loopback and link-local ones are left out. One that other nodes have as well, such as that of
    a container engine's bridge, is for the reader to leave out.

    Args:
        host: whose.
    """
    found = own_v4(_text(host, "/proc/net/fib_trie")) + own_v6(_text(host, "/proc/net/if_inet6"))
    return tuple(found[:MOST])


def own_v4(trie: bytes) -> List[str]:
    """Return what the routing tables of /proc/net/fib_trie deliver here; each once, in order.

    An address stands in a line of its own, and below it a line for each route to it.
    """
    found = {}
    address = b""
    for line in map(bytes.strip, trie.split(b"\n")):
        if line.startswith(_LEADS_TO):
            address = line[len(_LEADS_TO) :]
        elif line == _OWN and not address.startswith(_NOWHERE):
            try:
                packed = socket.inet_pton(socket.AF_INET, address.decode("ascii", "replace"))
            except (OSError, ValueError):
                continue
            found[socket.inet_ntop(socket.AF_INET, packed)] = True
    return list(found)


def own_v6(interfaces: bytes) -> List[str]:
    """Return the addresses of /proc/net/if_inet6; each once, in order.

    A line has 32 hexadecimal digits, then number of interface, prefix, scope, flags, name.
    """
    found = {}
    for line in interfaces.split(b"\n"):
        fields = line.split()
        if len(fields) < 4 or len(fields[0]) != _HEX:
            continue
        try:
            packed, scope = binascii.unhexlify(fields[0]), int(fields[3], 16)
        except ValueError:
            continue
        if scope not in (_LOOPBACK_SCOPE, _LINK_SCOPE):
            found[socket.inet_ntop(socket.AF_INET6, packed)] = True
    return list(found)


def _text(host: Host, path: str) -> bytes:
    try:
        return host.read_to_end(path)
    except OSError:
        return b""
