"""Which interfaces of a node are its physical ports, so that each byte is counted once.

An interface with a device behind it is a port. What stands on top of one (bond, bridge, VLAN,
tunnel) repeats its bytes and does not count. Inside a container no device may be visible: there
the uplink counts, be it a veth.
"""

import re
from fnmatch import fnmatchcase
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import after

NET = "/sys/class/net/"
MAX_INTERFACES = 2048
ETHERNET, INFINIBAND = b"1", b"32"
"""Of /sys/class/net/NAME/type (linux/if_arp.h): what an uplink can be; tunnels have others."""
ROUTE_UP, ROUTE_REJECT = 0x1, 0x200
REPRESENTOR = re.compile(rb"(c\d+)?pf\d+(vf|sf)\d+")
"""Of phys_port_name: a switch's end of a virtual function, whose bytes the uplink counts too."""
LINKED = (b"", b"macvlan", b"ipvlan")
"""DEVTYPE of an interface whose other half may be in another namespace; a veth has none."""


class Port(NamedTuple):
    """An interface that counts.

    Attributes:
        name: of the interface.
        device: whether a device stands behind it; without one its speed is made up.
    """

    name: str
    device: bool


def ports(host: Host, wanted: Sequence[str] = ()) -> List[Port]:
    """Return the physical ports, in the order of their names.

    Args:
        host: whose.
        wanted: names and globs to which they are restricted; a full name counts whatever it is.
    """
    names = interfaces(host)
    devices = {name for name in names if host.exists(NET + name + "/device")}
    chosen = {name for name in devices if not _repeats(host, name, names, devices)}
    chosen |= _uplinks(host, names, chosen)
    if wanted:
        named = {name for name in names if name in wanted}
        chosen = named | {n for n in chosen if any(fnmatchcase(n, glob) for glob in wanted)}
    return [Port(name, name in devices) for name in names if name in chosen]


def interfaces(host: Host) -> List[str]:
    """Return the interfaces of the agent's network namespace but the loopback, sorted.

    A /sys that was mounted in another namespace shows the interfaces of that one: what
    /proc/net/dev does not have is left out.
    """
    try:
        listed = host.listdir(NET)
    except FileNotFoundError:
        return []
    own = _named(host)
    names = [n for n in listed if n != "lo" and host.exists(NET + n + "/ifindex")]
    return sorted(n for n in names if own is None or n in own)[:MAX_INTERFACES]


def _named(host: Host) -> Optional[Set[str]]:
    try:
        text = host.read("/proc/net/dev")
    except OSError:
        return None
    rows = (line.partition(b":") for line in text.split(b"\n"))
    return {name.strip().decode("utf-8", "surrogateescape") for name, colon, _ in rows if colon}


def _text(host: Host, name: str, file: str) -> bytes:
    try:
        return host.read(NET + name + "/" + file, 4096).strip()
    except OSError:
        return b""


def _listed(host: Host, path: str) -> List[str]:
    try:
        return host.listdir(path)
    except OSError:
        return []


def _repeats(host: Host, name: str, names: List[str], devices: Set[str]) -> bool:
    """Tell whether another port with a device counts this one's bytes as well.

    That is so for a virtual function beside its physical one, for the representor of such a
    function, and for a function under a paravirtual port (netvsc, net_failover).
    """
    if set(_listed(host, NET + name + "/device/physfn/net")).intersection(names):
        return True
    if REPRESENTOR.match(_text(host, name, "phys_port_name")):
        return True
    try:
        return host.readlink(NET + name + "/master").rpartition("/")[2] in devices
    except OSError:
        return False


def _uplinks(host: Host, names: List[str], chosen: Set[str]) -> Set[str]:
    """Return the interfaces without a device whose bytes no port of this namespace counts."""
    others = set(names) - chosen
    routed = others.intersection(default_routes(host))
    if routed and not chosen:
        return routed
    candidates = routed if chosen else others
    if not candidates:
        return set()
    links = {name: _link(host, name) for name in names}
    ends = set(links.values())
    return {name for name in candidates if _leads_out(host, name, links[name], ends)}


def _leads_out(
    host: Host, name: str, ends: Tuple[bytes, bytes], all_ends: Set[Tuple[bytes, bytes]]
) -> bool:
    """Tell whether the interface's other half (veth peer, macvlan parent) is elsewhere.

    Args:
        host: whose.
        name: of the interface.
        ends: its own index, and that of what it is linked to.
        all_ends: of all interfaces here.
    """
    own, link = ends
    if link in (b"", b"0", own) or _text(host, name, "type") not in (ETHERNET, INFINIBAND):
        return False
    if (after(_text(host, name, "uevent"), b"DEVTYPE=") or b"") not in LINKED:
        return False
    if any(entry.startswith("lower_") for entry in _listed(host, NET + name)):
        return False
    return (link, own) not in all_ends


def _link(host: Host, name: str) -> Tuple[bytes, bytes]:
    return _text(host, name, "ifindex"), _text(host, name, "iflink")


def default_routes(host: Host) -> Set[str]:
    """Return the interfaces over which default routes of IPv4 and IPv6 lead."""
    found = set()
    for fields in _table(host, "/proc/net/route", 8):
        if fields[1] == fields[7] == b"00000000" and _usable(fields[3]):
            found.add(fields[0].decode("utf-8", "surrogateescape"))
    for fields in _table(host, "/proc/net/ipv6_route", 10):
        if fields[0] == b"0" * 32 and fields[1] == b"00" and _usable(fields[8]):
            found.add(fields[9].decode("utf-8", "surrogateescape"))
    return found


def _table(host: Host, path: str, width: int) -> List[List[bytes]]:
    try:
        lines = host.read(path).split(b"\n")
    except OSError:
        return []
    return [fields for fields in (line.split() for line in lines) if len(fields) >= width]


def _usable(flags: bytes) -> bool:
    try:
        bits = int(flags, 16)
    except ValueError:
        return False
    return bool(bits & ROUTE_UP) and not bits & ROUTE_REJECT
