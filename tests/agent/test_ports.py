"""Ports on this machine's real kernel, in a network namespace made for it."""

import os
import subprocess
import sys

import pytest

from agent.kit import ROOT
from debian import needs

MAKE = """
set -e
mount -t sysfs sysfs /sys
ip link set lo up
ip link add bridge0 type bridge
ip link add inside0 type veth peer name inside1
ip link add dummy0 type dummy 2>/dev/null || true
ip link add link inside0 name vlan0 type vlan id 5 2>/dev/null || true
ip link add eth0 type veth peer name far0
unshare --net sleep 60 &
until ip link set far0 netns $! 2>/dev/null && test "$(ls -d /sys/class/net/far0 2>/dev/null)" = ""
do sleep 0.05; done
ip link set eth0 up
%s
%s -c 'from gpuwatch.agent import ports, host; print([p.name for p in ports.ports(host.Host())])'
kill $!
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a network namespace")
@needs("ip", "iproute2")
@pytest.mark.parametrize(
    ("more", "ports"),
    [
        ("", ["eth0"]),
        ("ip addr add 10.9.0.2/24 dev eth0; ip route add default via 10.9.0.1", ["eth0"]),
        ("ip link set eth0 master bridge0", ["eth0"]),
    ],
)
def test_a_veth_that_leads_out_is_the_port(more: str, ports: list[str]) -> None:
    script = MAKE % (more, sys.executable)
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(ports)
