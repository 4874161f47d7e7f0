"""A real NFS mount, on a kernel of its own, whose server falls silent."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agent.kit import lay_out_agent
from debian import needs
from lab import store, uml
from lab.node import HOME, PYTHON, SHARED, Node, run

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    needs("linux.uml", "user-mode-linux"),
    needs("exportfs", "nfs-kernel-server"),
    needs("mount.nfs", "nfs-common"),
    needs("ip", "iproute2"),
    needs("dmsetup", "dmsetup"),
]
LAB = f"m{os.getpid() % 100_000}"
READ = f"""
import json, sys, time
sys.path.insert(0, {HOME!r})
from gpuwatch.agent.host import Host
from gpuwatch.agent.sources import mounts
began = time.monotonic()
reading = mounts.Reader(Host()).read()
seconds = time.monotonic() - began
names = [row.name for row in mounts.ROWS if row.kind != "label"]
found = {{labels[0]: dict(zip(names, values)) for _, labels, values in reading.rows}}
print(json.dumps([found, seconds]))
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[uml.Guest]]:
    folder = tmp_path_factory.mktemp("lab")
    data = folder / "data"
    data.mkdir()
    for name in ("one", "two"):
        (data / name).write_bytes(os.urandom(1_000_000))
    with uml.cluster(LAB, ("store", "client"), folder, memory_mb=256, disk_mb=64) as (
        server,
        client,
    ):
        (client.home / "read.py").write_text(READ)
        lay_out_agent(client.home)
        store.serve(server, data)
        store.mount(server, [client])
        yield server, client


def shared(client: Node) -> dict[str, Any]:
    """Read the mounts of a node there; what is told of the NFS mount."""
    found, seconds = json.loads(client.run([PYTHON, f"{HOME}/read.py"]))
    assert seconds < 1
    return dict(found[SHARED])


def test_k26_a_silent_server_holds_nothing_up_and_its_requests_are_seen_waiting(
    nodes: Sequence[uml.Guest],
) -> None:
    server, client = nodes
    client.run(["cat", f"{SHARED}/data/one"])
    before = shared(client)
    assert before["read_bytes"] == 1_000_000
    assert before["read_ops"] > 0
    assert before["read_exe_ms"] >= before["read_rtt_ms"]
    assert before["meta_ops"] > 0
    assert before["waiting"] == 0
    run("ip", "-n", LAB, "link", "set", server.port, "down")
    client.start(["cat", f"{SHARED}/data/two"], {})
    after = shared(client)
    while not after["waiting"]:
        after = shared(client)
    assert after["read_bytes"] == before["read_bytes"]
    assert after["rpc_receives"] == before["rpc_receives"]
    run("ip", "-n", LAB, "link", "set", server.port, "up")
