"""The node's own addresses, by which its peers' connections are known to lead to it."""

import ipaddress
import socket
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.addresses import MOST, addresses, own_v4, own_v6
from gpuwatch.agent.host import Host

TRIE = b"""Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.77.0.0/24 2 0 2
        |-- 10.77.0.0
           /24 link UNICAST
        |-- 10.77.0.1
           /32 host LOCAL
        |-- 10.77.0.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 169.254.3.4
        /32 host LOCAL
Local:
     |-- 10.77.0.1
        /32 host LOCAL
     |-- 192.168.9.2
        /32 host LOCAL
"""
INTERFACES = b"""fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_what_routes_deliver_here_is_told_once_without_loopback_and_link_local() -> None:
    assert own_v4(TRIE) == ["10.77.0.1", "192.168.9.2"]
    assert own_v6(INTERFACES) == ["fd00::2"]


def test_this_machine_has_what_ip_lists() -> None:
    lines = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True).stdout
    listed = {ipaddress.ip_interface(line.split()[3]).ip for line in lines.splitlines()}
    told = {ipaddress.ip_address(a) for a in addresses(Host())}
    assert told == {a for a in listed if not a.is_loopback and not a.is_link_local}


def test_they_are_bounded_and_absent_files_are_none(tmp_path: Path) -> None:
    assert addresses(Host(str(tmp_path))) == ()
    (tmp_path / "proc/net").mkdir(parents=True)
    many = b"".join(b"|-- 10.0.%d.1\n/32 host LOCAL\n" % i for i in range(100))
    (tmp_path / "proc/net/fib_trie").write_bytes(many)
    assert len(addresses(Host(str(tmp_path)))) == MOST


@given(st.binary() | st.lists(st.sampled_from([*TRIE.split(b"\n"), *INTERFACES.split(b"\n")])).map(b"\n".join))  # fmt: skip
def test_any_bytes_are_read(text: bytes) -> None:
    for address in own_v4(text):
        socket.inet_pton(socket.AF_INET, address)
    for address in own_v6(text):
        socket.inet_pton(socket.AF_INET6, address)
