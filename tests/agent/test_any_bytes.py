"""Every source on hosts of which no file tells what it should, and lists name what is not there.

A whole fake host gives the folders; what is in its files is its own text with pieces replaced, or
any bytes. A file tells something else each time that it is read.
"""

import contextlib
import functools
import os
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.kit import reader, unpack
from agent.test_sources import well_formed
from gpuwatch.agent import catalogue
from gpuwatch.agent.host import Host, Member, Options
from gpuwatch.agent.metric import Absent

SHAPES = ("dgx-h100-ib", "roce", "container-with-sshd", "nfs", "lustre", "psi-off", "two-jobs")
PIECES = (
    b"", b" ", b"\n", b"\0", b":", b")", b"-1", b"0", b"-", b",", b"nan", b"inf", b"1e400", b"0x7f", b"max",
    b"18446744073709551615", b"18446744073709551616", b"9" * 39, b"9" * 5000, b"\xff\xfe", b"\xf0)", b"\xc2",
    "\u0663\u0664".encode(), b"1_000", b"+5", b"\x1b[31m", b"[red]", b"../" * 90,
)  # fmt: skip
"""Numbers too large, no numbers, digits of other scripts, and what a terminal or a parser may obey."""
NAMES = ("", "9" * 30, "-1", "0", "\udcff", "a b", "x\n", "[red]", "..", "mlx5_0", "nvme0c0n1", "٣")


@functools.cache
def shape(name: str) -> Path:
    root = Path(tempfile.mkdtemp(prefix="gpuwatch-any-"))
    unpack(name, root)
    return root


class Rubbish(Host):
    """A host whose files say anything; `tame` of them, by share, say what they should."""

    def __init__(self, root: Path, seed: int, tame: float, options: Options) -> None:
        super().__init__(str(root), options)
        self.random = random.Random(seed)
        self.tame = tame
        self.kept_limit = 0

    def open(self, path: str) -> int:
        descriptor = super().open(path)
        if self.random.random() < self.tame:
            return descriptor
        text = self._mangled(os.pread(descriptor, 1 << 16, 0))
        os.close(descriptor)
        memory = os.memfd_create("rubbish", os.MFD_CLOEXEC)
        os.write(memory, text)
        os.lseek(memory, 0, os.SEEK_SET)
        return memory

    def listdir(self, path: str) -> list[str]:
        names = super().listdir(path)
        if self.random.random() < self.tame:
            return names
        return [*names, *self.random.sample(NAMES, 3)]

    def readlink(self, path: str) -> str:
        target = super().readlink(path)
        if self.random.random() < self.tame:
            return target
        return self.random.choice(
            (target + "9" * 30, "socket:[x]", "", "\udcff", "net:[]", "../" * 50)
        )

    def exists(self, path: str) -> bool:
        return self.random.random() < 0.2 or super().exists(path)

    def ethtool(self, interface: str, request: Any) -> None:
        noise = self.random.randbytes(min(4096, len(request) * request.itemsize))
        memoryview(request).cast("B")[: len(noise)] = noise

    def statvfs(self, where: int | str) -> os.statvfs_result:
        return os.statvfs_result([self.random.choice((0, 1, 2**64 - 1)) for _ in range(10)])

    def _mangled(self, text: bytes) -> bytes:
        how = self.random.randrange(4)
        if how == 0:
            return self.random.randbytes(self.random.choice((0, 1, 7, 300, 5000)))
        if how == 1:
            numbers = re.findall(rb"\d+", text) or [b""]
            for number in self.random.sample(numbers, min(3, len(numbers))):
                text = text.replace(number, self.random.choice(PIECES), 1)
            return text
        start, end = sorted(self.random.randrange(len(text) + 1) for _ in range(2))
        piece = self.random.choice(PIECES)
        return text[:start] + piece + (text[end:] if how == 2 else b"")


def rubbish(name: str, seed: int, tame: float) -> Rubbish:
    """Return a host on which the board is full, of numbers that need not be on the host."""
    host = Rubbish(
        shape(name), seed, tame, Options(match=random.Random(seed).choice((None, "py", "[")))
    )
    pids = [int(e.name) for e in (shape(name) / "proc").iterdir() if e.name.isdigit()]
    roles = ("main", "loader", "checkpoint")
    host.board.job = tuple(
        Member(pid, "slurm:1", str(pid % 3), roles[pid % 3], pid % 2)
        for pid in [*pids[:9], 2**31, -1]
    )
    host.board.gpu_pids = {5000: (0,), 2**40: (7, 900), -3: ()}
    host.board.gpu_util = {0: 50.0, 1: None}
    host.board.gpu_address = {0: "0000:3b:00.0", 1: "\udcff" * 40}
    host.board.ports = ("eno1", "", "\udcff" * 30)
    host.board.nccl = ({"NCCL_IB_HCA": "^=" + "," * 90}, {"NCCL_SOCKET_IFNAME": "\0"})
    return host


@pytest.mark.parametrize("source", [name for name in catalogue.SOURCES if name != "progress"])
@given(
    name=st.sampled_from(SHAPES), seed=st.integers(0, 2**32), tame=st.sampled_from([0.0, 0.5, 0.9])
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_source_raises_whatever_it_reads(source: str, name: str, seed: int, tame: float) -> None:
    """Nor does one tell what its own rows do not allow."""
    try:
        each = reader(source, rubbish(name, seed, tame))
    except Absent:
        return
    if source == "nvml":
        each.probe.care = lambda now: None  # its child reads no file
    for _ in range(3):
        if hasattr(each, "sample"):
            each.sample()
        with contextlib.suppress(Absent):
            reading = each.read()
            well_formed(source, reading)
            assert all(isinstance(reason, str) for reason in reading.missing.values())
    if hasattr(each, "close"):
        each.close()
