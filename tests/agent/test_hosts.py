"""Whole fake hosts, and what the sources make of them: golden, and case by case."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.kit import HOSTS, all_of, named, read, reader, unpack
from gpuwatch.agent import ports
from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.sources.kworkers import LIST_EVERY, ROTATED, SELDOM

NAMES = sorted(file.stem for file in HOSTS.glob("*.host"))


def nics(name: str, root: Path, options: Options | None = None) -> dict[str, dict[str, Any]]:
    found = named("nic", read("nic", unpack(name, root, options)))
    return {entity.removeprefix("nic "): values for entity, values in found.items()}


def disks(name: str, root: Path) -> dict[str, dict[str, Any]]:
    found = named("disk", read("disk", unpack(name, root)))
    return {entity.removeprefix("disk "): values for entity, values in found.items()}


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, tmp_path: Path) -> None:
    """`GOLDEN=write` writes what is read now, to be looked at and committed."""
    told = all_of(unpack(name, tmp_path))
    golden = HOSTS / f"{name}.json"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(json.dumps(told, indent=1) + "\n")
    assert told == json.loads(golden.read_text())


def test_golden_hosts_are_all_there() -> None:
    assert [
        *("bonded", "cgroup1-rhel8", "container", "container-with-sshd", "cpu-only", "dgx-h100-ib"),
        *("ethernet", "jetson-like", "kubernetes", "lustre", "nfs", "psi-off", "roce", "shared"),
        *("slurm-cgroup2", "two-jobs", "virtio"),
    ] == NAMES


def test_k01_unknown_speed_is_missing_and_bytes_are_not(tmp_path: Path) -> None:
    host = unpack("virtio", tmp_path)
    reading = read("nic", host)
    assert named("nic", reading)["nic ens3"]["speed_mbps"] is None
    assert named("nic", reading)["nic ens3"]["rx_bytes"] == 99
    assert reading.missing["nic.speed_mbps"] == "ens3: the kernel does not know it"


@pytest.mark.parametrize("speed", ["-1", "0", "65535", "4294967295", "", "fast"])
def test_k01_every_way_of_not_knowing(speed: str, tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    (tmp_path / "sys/class/net/eno1/speed").write_text(speed + "\n")
    assert named("nic", read("nic", host))["nic eno1"]["speed_mbps"] is None


def test_k02_k03_an_unreadable_speed_takes_nothing_along(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    reading = read("nic", host)
    down = named("nic", reading)["nic eno2"]
    assert (down["speed_mbps"], down["carrier"], down["rx_bytes"], down["mtu_bytes"]) == (
        None,
        None,
        0,
        1500,
    )
    assert reading.missing["nic.carrier"] == "eno2: Invalid argument"


def test_k04_k06_k07_k09_each_byte_once(tmp_path: Path) -> None:
    found = nics("bonded", tmp_path)
    assert list(found) == ["ens1f0", "ens1f1"]
    assert sum(nic["rx_bytes"] for nic in found.values()) == 4000
    assert sum(nic["speed_mbps"] for nic in found.values()) == 200000


def test_k10_counters_go_out_as_they_came(tmp_path: Path) -> None:
    host = unpack("psi-off", tmp_path)
    source = reader("nic", host)
    seen = []
    for count in ("4287347239", "4288453273", "2345855", "4557891"):
        (tmp_path / "sys/class/net/eth0/statistics/rx_bytes").write_text(count + "\n")
        seen.append(named("nic", source.read())["nic eth0"]["rx_bytes"])
    assert seen == [4287347239, 4288453273, 2345855, 4557891]


def test_k13_iowait_that_goes_down_goes_out_as_it_came(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("cpu", host)
    before = named("cpu", source.read())["node"]["cpu_iowait_ms"]
    stat = tmp_path / "proc/stat"
    stat.write_text(stat.read_text().replace("cpu  400 8 200 16000 36", "cpu  401 8 200 16000 35"))
    assert (before, named("cpu", source.read())["node"]["cpu_iowait_ms"]) == (360, 350)


def test_k17_a_cpu_that_is_unplugged_is_no_longer_counted(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("cpu", host)
    assert named("cpu", source.read())["node"]["cpus"] == 4
    stat = tmp_path / "proc/stat"
    stat.write_text(stat.read_text().replace("cpu2", "gone"))
    assert named("cpu", source.read())["node"]["cpus"] == 3


def test_k18_k20_names_of_kernel_threads_may_hold_anything(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("kworkers", host)
    source.read()
    stat = (tmp_path / "proc/13/stat").read_bytes()
    hostile = stat.replace(b"(kswapd0)", b"(a\nb) R 1 [red]\x1b\xf0)").replace(b" 0 9 ", b" 5 9 ")
    (tmp_path / "proc/13/stat").write_bytes(hostile)
    (tmp_path / "proc/13/schedstat").write_text("777 1 1")
    found = named("kworkers", source.read())
    assert found["kworker a\nb) R 1 [red]\x1b\ufffd"]["kworker_cpu_ms"] == 50


def test_k21_allowed_cpus_are_not_the_host_s(tmp_path: Path) -> None:
    node = named("cpu", read("cpu", unpack("container", tmp_path)))["node"]
    assert (node["cpus"], node["cpus_allowed"]) == (12, 2)


def test_k24_k25_pressure_that_is_off_is_absent_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(Absent, match=r"switched off .*psi=1"):
        read("pressure", unpack("psi-off", tmp_path))


def test_a_kernel_without_pressure_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="no /proc/pressure"):
        read("pressure", unpack("psi-off", tmp_path).__class__(str(tmp_path / "none"), {}))


def test_pressure_with_one_file_off_keeps_the_others(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    (tmp_path / "proc/pressure/io").unlink()
    reading = read("pressure", host)
    node = named("pressure", reading)["node"]
    assert node["pressure_cpu_some_us"] == 1000001
    assert node["pressure_io_some_us"] is None
    assert "no /proc/pressure" in reading.missing["pressure.pressure_io_some_us"]


@pytest.mark.parametrize(
    ("name", "disk", "reads"),
    [
        ("ethernet", "sda disk", 104019),
        ("psi-off", "nvme1n1 disk", 5),
        ("virtio", "vda disk", 104019),
    ],
)
def test_k29_lines_of_14_18_and_20_fields(name: str, disk: str, reads: int, tmp_path: Path) -> None:
    assert disks(name, tmp_path)[disk]["reads"] == reads


def test_k30_a_mapped_device_stands_apart(tmp_path: Path) -> None:
    found = disks("bonded", tmp_path)
    assert list(found) == ["cciss/c0d1 disk", "cciss/c0d2 disk", "dm-0 mapped"]
    read_bytes = sum(d["read_bytes"] for name, d in found.items() if name.endswith(" disk"))
    assert read_bytes == (132640 + 142340) * 512


def test_k32_multipath_counts_where_the_kernel_counts(tmp_path: Path) -> None:
    assert list(disks("psi-off", tmp_path)) == ["nvme0c0n1 disk", "nvme1n1 disk"]


def test_unused_loop_devices_are_left_out_and_used_ones_stand_apart(tmp_path: Path) -> None:
    assert list(disks("virtio", tmp_path)) == ["loop1 mapped", "vda disk"]


def test_without_sys_a_partition_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    names = ("sda", "sda1", "nvme0n1", "nvme0n1p2", "md127", "mmcblk0", "mmcblk0p1")
    lines = [f"8 0 {name} 1 0 2 3 4 5 6 7 8 9 10" for name in names]
    (tmp_path / "proc/diskstats").write_text("\n".join(lines))
    found = read("disk", unpack("ethernet", tmp_path / "x").__class__(str(tmp_path), {}))
    assert [labels for _, labels, _ in found.rows] == [
        ("sda", "disk"),
        ("nvme0n1", "disk"),
        ("md127", "mapped"),
        ("mmcblk0", "disk"),
    ]


def test_k38_a_veth_counts_where_it_is_the_only_uplink(tmp_path: Path) -> None:
    host = unpack("container", tmp_path)
    reading = read("nic", host)
    eth0 = named("nic", reading)["nic eth0"]
    assert list(named("nic", reading)) == ["nic eth0"]
    assert (eth0["rx_bytes"], eth0["speed_mbps"]) == (700, None)
    assert reading.missing["nic.speed_mbps"].endswith("its speed is made up")


def test_k38_also_without_a_default_route(tmp_path: Path) -> None:
    host = unpack("container", tmp_path)
    (tmp_path / "proc/net/route").unlink()
    assert list(named("nic", read("nic", host))) == ["nic eth0"]


def test_a_pod_s_veth_counts_beside_its_virtual_function(tmp_path: Path) -> None:
    host = unpack("container", tmp_path)
    net = tmp_path / "sys/class/net/net1"
    net.mkdir()
    (net / "device").symlink_to("../../../0000:3b:00.2")
    (net / "ifindex").write_text("9\n")
    (tmp_path / "proc/net/dev").unlink()
    assert [labels for _, labels, _ in read("nic", host).rows] == [("eth0",), ("net1",)]


def test_interfaces_of_another_namespace_do_not_count(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    dev = tmp_path / "proc/net/dev"
    dev.write_text(dev.read_text().replace("eno1", "eth9"))
    assert list(named("nic", read("nic", host))) == ["nic eno2"]


def test_a_virtual_function_under_a_paravirtual_port_counts_once(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    (tmp_path / "sys/class/net/eno2/master").symlink_to("../eno1")
    assert list(named("nic", read("nic", host))) == ["nic eno1"]


def test_interfaces_restrict_and_a_full_name_counts_whatever_it_is(tmp_path: Path) -> None:
    options = Options(interfaces=("*f1", "bond0"))
    assert list(nics("bonded", tmp_path, options)) == ["bond0", "ens1f1"]


def test_interfaces_that_match_nothing_are_said(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path, Options(interfaces=("mlx5_*",)))
    with pytest.raises(Absent, match=r"no interface matches mlx5_\*"):
        read("nic", host)


def test_a_line_rate_from_the_job_file_fills_an_unknown_speed(tmp_path: Path) -> None:
    host = unpack("virtio", tmp_path, Options(line_rate=(("ens*", 25000.0),)))
    reading = read("nic", host)
    assert named("nic", reading)["nic ens3"]["speed_mbps"] == 25000
    assert reading.missing == {}


def test_ports_come_and_go(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("nic", host)
    assert len(source.read().rows) == 2
    (tmp_path / "sys/class/net/eno2").rename(tmp_path / "gone")
    names = {tuple(labels for _, labels, _ in source.read().rows) for _ in range(11)}
    assert (("eno1",),) in names


def test_threads_of_another_pid_namespace_are_absent(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="PID namespace"):
        read("kworkers", unpack("container", tmp_path))


def test_kernel_threads_are_found_without_a_children_file(tmp_path: Path) -> None:
    found = named("kworkers", read("kworkers", unpack("virtio", tmp_path)))
    assert list(found) == ["kworker kworker", "kworker kcompactd"]


def test_time_goes_to_what_a_worker_works_on(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("kworkers", host)
    assert set(named("kworkers", source.read())) >= {"kworker events", "kworker flush-8:0"}
    stat = tmp_path / "proc/11/stat"
    stat.write_text(
        stat.read_text().replace("+flush-8:0", "-xfs-conv").replace(" 0 400 ", " 1 450 ")
    )
    (tmp_path / "proc/11/schedstat").write_text("9 9 9\n")
    found = named("kworkers", source.read())
    assert found["kworker xfs-conv"]["kworker_cpu_ms"] == 510
    assert found["kworker flush-8:0"]["kworker_cpu_ms"] == 0


def test_a_thread_born_under_our_eyes_counts_from_its_start(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    source = reader("kworkers", host)
    source.read()
    stat = (tmp_path / "proc/10/stat").read_text().replace("10 (kworker/0:1-events)", "99 (nfsd)")
    (tmp_path / "proc/99").mkdir()
    (tmp_path / "proc/99/stat").write_text(stat)
    (tmp_path / "proc/99/schedstat").write_text("5 5 5\n")
    children = tmp_path / "proc/2/task/2/children"
    children.write_text(children.read_text().strip() + " 99 \n")
    for _ in range(LIST_EVERY):
        found = named("kworkers", source.read())
    assert found["kworker nfsd"]["kworker_cpu_ms"] == 500


def test_two_thousand_kernel_threads_are_all_looked_at_in_turn(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    line = (tmp_path / "proc/13/stat").read_text()
    pids = range(1000, 2000)
    for pid in pids:
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/stat").write_text(line)
        (tmp_path / f"proc/{pid}/schedstat").write_text("1 1 1\n")
    (tmp_path / "proc/2/task/2/children").write_text(" ".join(map(str, pids)))
    source = reader("kworkers", host)
    turns = len(pids) // ROTATED + 1
    for _ in range(turns):
        source.read()
    assert host.kept <= 140
    (tmp_path / "proc/1999/stat").write_text(line.replace(" 0 9 ", " 3 9 "))
    (tmp_path / "proc/1999/schedstat").write_text("2 2 2\n")
    totals = [
        named("kworkers", source.read())["kworker kswapd"]["kworker_cpu_ms"] for _ in range(turns)
    ]
    assert totals[-1] == 30
    for spent in range(4, 4 + SELDOM):  # as one that ran, it is looked at in each reading
        (tmp_path / "proc/1999/stat").write_text(line.replace(" 0 9 ", f" {spent} 9 "))
        (tmp_path / "proc/1999/schedstat").write_text(f"3 3 {spent}\n")
        found = named("kworkers", source.read())
        assert found["kworker kswapd"]["kworker_cpu_ms"] == 10 * spent


def test_fields_that_the_kernel_lacks_are_missing_not_zero(tmp_path: Path) -> None:
    reading = read("tcp", unpack("psi-off", tmp_path))
    node = named("tcp", reading)["node"]
    assert (node["tcp_host_queue_spurious"], node["tcp_timeouts"]) == (None, 0)
    assert reading.missing["tcp.tcp_host_queue_spurious"] == "this kernel does not count it"


class Counting(Host):
    """Counts what is opened."""

    opened = 0

    def open(self, path: str) -> int:
        self.opened += 1
        return super().open(path)


def test_a_node_with_many_containers_is_not_read_through_pair_by_pair(tmp_path: Path) -> None:
    host = unpack("ethernet", tmp_path)
    for number in range(100):
        folder = tmp_path / f"sys/class/net/veth{number}"
        folder.mkdir(parents=True)
        for file, text in (("ifindex", 1000 + number), ("iflink", 2), ("type", 1), ("uevent", "")):
            (folder / file).write_text(f"{text}\n")
    dev = tmp_path / "proc/net/dev"
    dev.write_text(dev.read_text() + "".join(f"veth{n}: 0\n" for n in range(100)))
    counting = Counting(host.root)
    assert len(ports.ports(counting)) < 100
    assert counting.opened < 6 * 100
