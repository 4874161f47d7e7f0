"""By which address the nodes reach each other: on the job's ports, else as we do."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gpuwatch.preflight.check import Site
from gpuwatch.preflight.errand import Errand, ErrandError

__all__ = ["addresses", "chosen", "line_rates"]

PATIENCE_S = 10.0
_LINE = re.compile(r"^\d+: (\S{1,32}) +inet6? ([0-9a-fA-F.:]{2,45})/\d{1,3} ", re.MULTILINE)


async def addresses(errands: Sequence[Errand], interfaces: Sequence[str]) -> dict[str, str]:
    """Return an address of each node, by name.

    Args:
        errands: the nodes.
        interfaces: that the job uses, with wildcards; empty: not said.
    """

    async def asked(errand: Errand) -> str:
        if not interfaces:
            return errand.node.host
        try:
            ran = await errand.run(
                ["ip", "-o", "addr", "show", "up", "scope", "global"], PATIENCE_S
            )
        except ErrandError:
            return errand.node.host
        return chosen(ran.out, interfaces) or errand.node.host

    found = await asyncio.gather(*map(asked, errands))
    return {errand.node.name: held for errand, held in zip(errands, found, strict=True)}


async def line_rates(
    able: Mapping[str, Errand], places: Mapping[str, str], site: Site
) -> dict[str, float]:
    """Return each node's line rate in bit/s on the way to the first other one, where it is known."""
    names = list(able)
    found = {}
    for name, errand in able.items():
        rate = await _rate(errand, places[names[0] if name != names[0] else names[1]], site)
        if rate:
            found[name] = rate
    return found


async def _rate(errand: Errand, to: str, site: Site) -> float | None:
    ran = await errand.run(["ip", "-o", "route", "get", to], PATIENCE_S)
    words = ran.out.split()
    if not ran.ended_well or "dev" not in words[:-1]:
        return None
    port = words[words.index("dev") + 1]
    for pattern, rate in site.job.network.line_rate.items():
        if fnmatchcase(port, pattern):
            return rate
    at = f"/sys/class/net/{port}/"
    says = await errand.texts(*(at + each for each in ("speed", "device/vendor", "bonding/slaves")))
    speed = says.get(at + "speed", "").strip()
    # The speed of a port with neither a card nor slaves is made up: a veth always tells 10 Gb/s.
    return float(speed) * 1e6 if len(says) > 1 and speed.isdigit() else None


def chosen(shown: str, interfaces: Sequence[str]) -> str | None:
    """Return the first address that `ip -o addr` shows on a port of the job, in its order."""
    held = [(line[1].partition("@")[0], line[2]) for line in _LINE.finditer(shown)]
    for pattern in interfaces:
        for name, address in held:
            if fnmatchcase(name, pattern):
                return address
    return None
