"""What an agent says of its node at its start."""

from pathlib import Path

import pytest

from gpuwatch.agent.facts import facts
from gpuwatch.agent.host import Host

ROOT = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
TOOLS = "31 20 0:44 / /cluster/my\\040tools rw - nfs4 server:/tools rw\n"


@pytest.mark.parametrize(
    ("mounts", "program", "told"),
    [
        (ROOT + TOOLS, "/usr/bin/python3.11", None),
        (ROOT + TOOLS, "/cluster/my tools/bin/python3", "nfs4 /cluster/my tools"),
        (ROOT + TOOLS, "/cluster/my tools (deleted)", None),
        (ROOT.replace("ext4", "nfs"), "/usr/bin/python3", "nfs /"),
        ("", "/usr/bin/python3", None),
    ],
)
def test_an_interpreter_on_a_network_mount_says_so(
    mounts: str, program: str, told: str | None, tmp_path: Path
) -> None:
    """As the kernel's list of mounts has it: nothing on such a mount is looked at."""
    own = tmp_path / "proc/self"
    own.mkdir(parents=True)
    (own / "mountinfo").write_text(mounts)
    (own / "exe").symlink_to(program)
    assert facts(Host(str(tmp_path)), "1")["python_mount"] == told
