"""What NCCL is told in a rank: by its environment, by its user's file, by the machine's."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.kit import FaultyHost
from gpuwatch.agent import nccl
from gpuwatch.agent.mountinfo import KERNELS

LOCAL = "22 1 8:2 / / rw - ext4 /dev/sda2 rw"
HOME_ON_NFS = LOCAL + "\n23 22 0:50 / /home rw - nfs4 filer:/home rw"
IN_A_CONTAINER = "22 1 0:60 / / rw - overlay overlay rw,lowerdir=/images/1,upperdir=/var/2"


def node(root: Path, files: dict[str, str], mounts: str = LOCAL) -> FaultyHost:
    """Lay out a node with one process, 77, of a user whose home is /home/ann."""
    for path, text in {
        "proc/77/environ": "RANK=0\0SECRET=hunter2\0HOME=/home/ann\0",
        "proc/77/mountinfo": mounts,
        "proc/self/mountinfo": LOCAL,
        **files,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "proc/77/root").symlink_to("../..")
    return FaultyHost(str(root), {})


def told(host: FaultyHost, **environ: str) -> dict[str, str]:
    return nccl.told(host, 77, environ)


def test_what_is_set_first_stays(tmp_path: Path) -> None:
    machines = "# set by hand\nNCCL_SOCKET_IFNAME==eth0\nNCCL_SOCKET_IFNAME=eth9\nNCCL_IB_HCA=mlx5_9\nNCCL_DEBUG=WARN\n"
    host = node(tmp_path, {"etc/nccl.conf": machines, "home/ann/.nccl.conf": "NCCL_IB_HCA=mlx5_1"})
    assert told(host) == {"NCCL_IB_HCA": "mlx5_1", "NCCL_SOCKET_IFNAME": "=eth0"}
    assert told(host, NCCL_IB_HCA="mlx5_0")["NCCL_IB_HCA"] == "mlx5_0"


def test_the_environment_names_the_users_file(tmp_path: Path) -> None:
    files = {"home/ann/.nccl.conf": "NCCL_IB_HCA=mlx5_1", "cfg/n": "NCCL_NET=Socket"}
    found = told(node(tmp_path, files), NCCL_CONF_FILE="/x/../cfg/n")
    assert found == {"NCCL_CONF_FILE": "/x/../cfg/n", "NCCL_NET": "Socket"}


@pytest.mark.parametrize(
    ("mounts", "names"),
    [
        (HOME_ON_NFS, {"NCCL_SOCKET_IFNAME"}),
        (LOCAL.replace("ext4", "nfs"), set()),
        (IN_A_CONTAINER, {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"}),
        (IN_A_CONTAINER.replace("/images", "lost"), set()),
        ("", set()),
        *((f"{LOCAL}\n23 22 0:5 / /etc rw - {kind} none rw", {"NCCL_IB_HCA"}) for kind in KERNELS),
    ],
)
def test_k26_a_file_on_a_server_or_of_the_kernel_is_not_looked_at(
    mounts: str, names: set[str], tmp_path: Path
) -> None:
    files = {"home/ann/.nccl.conf": "NCCL_IB_HCA=a", "etc/nccl.conf": "NCCL_SOCKET_IFNAME=b"}
    assert set(told(node(tmp_path, files, mounts))) == names


def test_k26_no_symbolic_link_is_followed_to_it(tmp_path: Path) -> None:
    host = node(tmp_path, {"elsewhere/.nccl.conf": "NCCL_IB_HCA=a"})
    (tmp_path / "home").mkdir()
    (tmp_path / "home/ann").symlink_to("../elsewhere")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").symlink_to("../elsewhere/.nccl.conf")
    assert told(host) == {}


def test_what_is_no_plain_file_holds_nothing_up(tmp_path: Path) -> None:
    host = node(tmp_path, {})
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/nccl.conf")
    assert told(host) == {}
    with pytest.raises(OSError, match="Invalid argument"):  # so it was not opened for reading
        host.read_plain("/proc/77/root", "/etc/nccl.conf", 99)


def test_of_a_process_whose_environment_is_hidden_nothing_is_known(tmp_path: Path) -> None:
    host = node(tmp_path, {"etc/nccl.conf": "NCCL_IB_HCA=a"})
    (tmp_path / "proc/77/environ").unlink()
    assert nccl.Told(host).of([(77, {})]) == ()


def test_it_is_looked_up_once_for_each_program(tmp_path: Path) -> None:
    host = node(tmp_path, {"etc/nccl.conf": "NCCL_IB_HCA=a"})
    source, environ = nccl.Told(host), {"RANK": "0"}
    assert source.of([(77, environ)]) == ({"RANK": "0", "NCCL_IB_HCA": "a"},)
    (tmp_path / "etc/nccl.conf").write_text("NCCL_IB_HCA=b")
    assert source.of([(77, environ)])[0]["NCCL_IB_HCA"] == "a"
    assert source.of([(77, dict(environ))])[0]["NCCL_IB_HCA"] == "b"


@given(text=st.binary(max_size=200), environ=st.binary(max_size=60), path=st.text(max_size=30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read(text: bytes, environ: bytes, path: str, tmp_path: Path) -> None:
    if not (tmp_path / "proc").exists():
        node(tmp_path, {"etc/nccl.conf": ""})
    (tmp_path / "etc/nccl.conf").write_bytes(b"NCCL_NET=" + text)
    (tmp_path / "proc/77/environ").write_bytes(b"HOME=/" + environ)
    found = told(FaultyHost(str(tmp_path), {}), NCCL_CONF_FILE=path.replace("\0", ""))
    assert len(found["NCCL_NET"]) <= 256
