"""Reclaim, swap and the page cache, as kernels of several ages count them."""

from pathlib import Path
from typing import Any

import pytest

from agent.kit import FaultyHost, named, read, unpack

OLD = """allocstall 83165
pgscan_kswapd_dma 0
pgscan_kswapd_dma32 107656
pgscan_kswapd_normal 358784
pgscan_direct_dma32 67
pgscan_direct_normal 6796
pgscan_direct_throttle 5
pgsteal_direct_normal 6484
workingset_refault 157066
"""
"""As Linux 4.7 and before, by zone."""


def node(host: FaultyHost) -> dict[str, Any]:
    return named("memory", read("memory", host))["node"]


def test_reclaim_swap_and_kills(tmp_path: Path) -> None:
    found = node(unpack("ethernet", tmp_path))
    assert (found["reclaim_scan_pages"], found["reclaim_steal_pages"]) == (500, 400)
    assert (found["direct_reclaim_scan_pages"], found["direct_reclaim_steal_pages"]) == (51, 41)
    assert found["direct_reclaims"] == 30 + 70
    assert (found["swap_in_pages"], found["swap_out_pages"]) == (11, 12)
    assert (found["refault_file_pages"], found["node_major_faults"], found["oom_kills"]) == (157066, 2000, 1)  # fmt: skip


def test_kernels_that_count_by_zone_are_summed_without_what_is_no_page(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    (tmp_path / "proc/vmstat").write_text(OLD)
    reading = read("memory", host)
    found = named("memory", reading)["node"]
    assert found["reclaim_scan_pages"] == 107656 + 358784
    assert found["direct_reclaim_scan_pages"] == 67 + 6796
    assert (found["direct_reclaims"], found["refault_file_pages"]) == (83165, 157066)
    assert found["oom_kills"] is None
    assert reading.missing["memory.oom_kills"] == "this kernel does not tell it"


def test_without_vmstat_the_rest_stays(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    (tmp_path / "proc/vmstat").unlink()
    reading = read("memory", host)
    assert named("memory", reading)["node"]["memory_total_bytes"]
    assert reading.missing["memory.vmstat"] == "/proc/vmstat: No such file or directory"


@pytest.mark.parametrize(("name", "disk", "flushes"), [("virtio", "vda disk", 2303), ("ethernet", "sda disk", None)])  # fmt: skip
def test_flushes_are_missing_on_kernels_that_do_not_count_them(
    name: str, disk: str, flushes: int | None, tmp_path: Path
) -> None:
    reading = read("disk", unpack(name, tmp_path))
    assert named("disk", reading)[f"disk {disk}"]["flushes"] == flushes
    assert ("disk.flushes" in reading.missing) is (flushes is None)
