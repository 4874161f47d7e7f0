"""The hottest CPUs, and what soft interrupts of the network left undone."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kit import named, read, reader, unpack
from gpuwatch.agent.cores import CHOOSE_EVERY, Cores, Use
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import Absent

WALL = 100
"""Ticks between two readings."""


def cores_of(host: Host) -> dict[int, dict[str, Any]]:
    found = named("cpu", read("cpu", host))
    return {int(k.split()[1]): v for k, v in found.items() if k.startswith("cpu_core ")}


def play(cores: Cores, seconds: int, shares: dict[int, tuple[float, float]], cpus: int = 8) -> None:
    """Let CPUs spend these shares of the time in soft interrupts, and busy; others idle."""
    uses: dict[int, Use] = getattr(cores, "_last", {}) or dict.fromkeys(range(cpus), (0, 0, 0))
    cores.take(uses)
    for _ in range(seconds):
        grown = {}
        for cpu, (soft, busy, idle) in uses.items():
            hot, full = shares.get(cpu, (0.0, 0.0))
            grown[cpu] = (
                soft + int(hot * WALL),
                busy + int(full * WALL),
                idle + int((1 - full) * WALL),
            )
        uses = grown
        cores.take(uses)


def test_the_hottest_and_the_busiest_cpu_are_shown(tmp_path: Path) -> None:
    found = cores_of(unpack("slurm-cgroup2", tmp_path))
    assert sorted(found) == [0, 1, 2, 3]
    assert found[1]["softirq_ms"] == 8800
    assert found[0]["user_ms"] == 9000


def test_a_cpu_that_becomes_hot_is_shown_and_stays_while_all_is_quiet() -> None:
    cores = Cores()
    play(cores, CHOOSE_EVERY, {})
    first = set(cores.shown)
    play(cores, CHOOSE_EVERY, {7: (0.6, 0.7)})
    assert 7 in cores.shown
    assert len(cores.shown - first) == 1
    shown = set(cores.shown)
    play(cores, 10 * CHOOSE_EVERY, {6: (0.02, 0.02), 5: (0.03, 0.03)})
    assert cores.shown == shown


def test_a_full_cpu_takes_the_place_of_one_that_is_free() -> None:
    cores = Cores()
    play(cores, 2 * CHOOSE_EVERY, {6: (0.0, 1.0)})
    assert 6 in cores.shown
    play(cores, 4 * CHOOSE_EVERY, {6: (0.0, 1.0), 7: (0.0, 1.0)})
    assert 6 in cores.shown
    assert 7 not in cores.shown


def test_one_full_cpu_among_idle_ones_is_counted_in_full() -> None:
    cores = Cores()
    play(cores, 4, {3: (0.5, 1.0)})
    play(cores, 4, {5: (0.25, 1.0)})
    assert (cores.hottest, cores.busiest) == (4 * 50 + 4 * 25, 8 * WALL)


def test_k17_a_cpu_that_leaves_and_comes_back_makes_no_jump() -> None:
    cores = Cores()
    play(cores, 3, {})
    cores.take({0: (10, 10, 300), 1: (0, 0, 300)})
    before = (cores.hottest, cores.busiest)
    cores.take({0: (10, 10, 400)})
    cores.take({0: (10, 10, 500), 1: (90000, 90000, 1)})
    assert (cores.hottest, cores.busiest) == before
    assert cores.shown <= {0, 1}


def test_k13_k14_idle_and_iowait_that_go_down_count_for_nothing(tmp_path: Path) -> None:
    host = unpack("slurm-cgroup2", tmp_path)
    source = reader("cpu", host)
    source.read()
    stat = tmp_path / "proc/stat"
    stat.write_text(stat.read_text().replace("9900 9 0 3", "9890 8 0 3"))
    node = named("cpu", source.read())["node"]
    assert (node["cpu_hottest_softirq_ms"], node["cpu_busiest_ms"]) == (0, 0)


@given(
    st.lists(
        st.dictionaries(st.integers(0, 12), st.tuples(*[st.integers(0, 2**40)] * 3), min_size=1),
        max_size=20,
    )
)
def test_whatever_cpus_come_and_go_counters_grow_and_few_are_shown(
    readings: list[dict[int, Use]],
) -> None:
    cores = Cores()
    last = (0, 0)
    for uses in readings:
        cores.take(uses)
        assert cores.shown <= set(uses)
        assert 1 <= len(cores.shown) <= 4
        assert cores.hottest >= last[0]
        assert cores.busiest >= last[1]
        last = cores.hottest, cores.busiest


def test_a_real_cpu_that_spins_is_the_busiest() -> None:
    host = Host()
    source = reader("cpu", host)
    start = named("cpu", source.read())["node"]["cpu_busiest_ms"]
    began = time.monotonic()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    passed_ms = (time.monotonic() - began) * 1000
    found = named("cpu", source.read())
    assert 100 <= found["node"]["cpu_busiest_ms"] - start <= passed_ms + 50
    assert len([e for e in found if e.startswith("cpu_core ")]) == min(4, os.cpu_count() or 0)


def softnet(host: Host) -> tuple[int, ...]:
    return tuple(named("softnet", read("softnet", host))["node"].values())


def test_what_was_dropped_and_squeezed_is_summed_over_cpus(tmp_path: Path) -> None:
    assert softnet(unpack("slurm-cgroup2", tmp_path / "a")) == (48, 1, 5)
    assert softnet(unpack("cgroup1-rhel8", tmp_path / "b")) == (21, 5, 2)


def lines(*counts: tuple[int, int, int]) -> str:
    rest = " 00000000" * 10
    return "".join(f"{a:08x} {b:08x} {c:08x}{rest}\n" for a, b, c in counts)


def test_k10_k17_softnet_counts_that_wrap_and_cpus_that_leave_make_no_jump(tmp_path: Path) -> None:
    file = tmp_path / "proc/net/softnet_stat"
    file.parent.mkdir(parents=True)
    file.write_text(lines((2**32 - 2, 5, 0), (100, 7, 0), (200, 900, 0)))
    source = reader("softnet", Host(str(tmp_path)))

    def told() -> tuple[int, ...]:
        return tuple(named("softnet", source.read())["node"].values())

    assert told() == (2**32 + 298, 912, 0)
    file.write_text(lines((3, 5, 0), (100, 8, 1), (200, 900, 0)))
    assert told() == (2**32 + 303, 913, 1)
    file.write_text(lines((3, 5, 0), (200, 900, 0)))
    assert told() == (2**32 + 303, 913, 1)
    file.write_text(lines((3, 5, 0), (100, 8, 1), (201, 901, 0)))
    assert told() == (2**32 + 303, 913, 1)
    file.write_text(lines((3, 6, 0), (100, 8, 1), (201, 901, 0)))
    assert told() == (2**32 + 303, 914, 1)


def test_no_softnet_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="no /proc/net/softnet_stat"):
        read("softnet", Host(str(tmp_path)))


@given(texts=st.lists(st.binary(max_size=120), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_bytes_raise_anything_but_absent(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("host")
    file = folder / "proc/net/softnet_stat"
    file.parent.mkdir(parents=True)
    source = reader("softnet", Host(str(folder)))
    last = (0, 0, 0)
    for text in texts:
        file.write_bytes(text)
        try:
            now = tuple(named("softnet", source.read())["node"].values())
        except Absent:
            continue
        assert all(new >= old for new, old in zip(now, last, strict=True))
        last = now
