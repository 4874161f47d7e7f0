"""A mount that is asked for names, not for data."""

from dataclasses import replace

import pytest

from verdict.scenario import GOOD, PEERS, VICTIM, Gpu, blamed, named, quickly, rank, said

NFS = ("/data", "nfs4", "nas1:/export")
NAMES = {"meta_ops": 1500.0, "meta_exe_ms": 8000.0}
"""Eight requests under way, 5 ms each; ten reads of 3 ms a second beside them."""
SMALL_FILES = replace(
    rank(
        gpu=Gpu(util=30, power=200, memory=8), main={"pipe": 1.0}, main_run=0.03,
        loader={"netfs": 0.85, "run": 0.15}, loader_run=0.15, read_mb=0.4,
    ),
    mounts={NFS: 3.0},
    names=NAMES,
)  # fmt: skip
SLOW_READS = {"read_ops": 100.0, "read_exe_ms": 15_600.0}


def test_one_node_that_opens_many_small_files_is_named() -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(SMALL_FILES, "x")))
    assert said(verdict.job) == ("STORAGE", "metadata")
    assert blamed(verdict.job) == {"x"}
    assert "1500 requests a second" in verdict.job.text


def test_a_server_that_is_slow_for_all_it_is_asked_is_named_by_what_it_is_asked_most() -> None:
    slow = replace(SMALL_FILES, mounts={NFS: 60.0}, names={**NAMES, "meta_ops": 400.0})
    assert said(quickly(named(slow, "x")).nodes[0]) == ("STORAGE", "metadata")


def test_a_server_that_all_nodes_ask_is_named() -> None:
    verdict = quickly(named(SMALL_FILES, *PEERS))
    assert said(verdict.job) == ("STORAGE", "metadata")
    assert blamed(verdict.job) == {"nas1:/export"}


@pytest.mark.parametrize(
    "names",
    [
        {**NAMES, **SLOW_READS},
        {"meta_ops": 5.0, "meta_exe_ms": 8000.0},
        {"meta_ops": 1500.0, "meta_exe_ms": 100.0},
        {},
    ],
    ids=["slow reads beside", "few requests", "quick requests", "not counted"],
)
def test_waits_for_data_are_reads(names: dict[str, float]) -> None:
    verdict = quickly((*named(VICTIM, *PEERS), *named(replace(SMALL_FILES, names=names), "x")))
    assert said(verdict.job) == ("STORAGE", "read")


def test_a_disk_of_the_node_is_asked_for_data() -> None:
    local = replace(SMALL_FILES.ranks[0], loader={"block-read": 0.85, "run": 0.15})
    verdict = quickly(named(replace(SMALL_FILES, ranks=(local,)), "x"))
    assert said(verdict.nodes[0]) == ("STORAGE", "read")


def test_names_are_nothing_while_gpus_compute() -> None:
    busy = replace(GOOD, mounts={NFS: 3.0}, names=NAMES)
    assert quickly(named(busy, *PEERS)).job.state == "COMPUTE"
