"""Link-local addresses: an interface is part of them, all the way from the job file to the login."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from debian import needs
from gpuwatch_process import ROOT, environment
from sshd import NEEDS_SSHD

pytestmark = [*NEEDS_SSHD, needs("ip", "iproute2"), needs("ssh", "openssh-client")]

NETWORK = """\
ip link set lo up
ip link add gw0 type veth peer name gw1
for each in gw0 gw1; do ip link set $each up; done
ip address add fe80::1:1/64 dev gw0 nodad
exec "$@"
"""
DOCTOR = """\
import sys
from pathlib import Path
from gpuwatch_process import run_gpuwatch
from sshd import Sshd
folder = Path(sys.argv[1])
with Sshd(folder / "sshd", options=["ListenAddress fe80::1:1%gw0"]) as server:
    key = server.known_hosts.read_text().partition(" ")[2]
    known = folder / "known_hosts"
    known.write_text(f"[fe80::1:1%gw0]:{server.port} {key}")
    login = f"ssh: {{known_hosts: {known}, config: /dev/null, identity: {server.identity}}}"
    job = folder / "job.yaml"
    job.write_text(f"nodes: ['root@[fe80::1:1%gw0]:{server.port}']\\n{login}\\ninterval: 200ms\\n")
    print(run_gpuwatch("doctor", job, "--json").stdout)
"""


def test_s43_a_link_local_address_is_reached_through_its_interface(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "sh",
            "-ec",
            NETWORK,
            "sh",
            sys.executable,
            "-c",
            DOCTOR,
            str(tmp_path),
        ],
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [node] = msgspec.json.decode(done.stdout)["nodes"]
    assert node["link"]["ok"], node["link"]
    assert node["address"].startswith("root@[fe80::1:1%gw0]:")
