"""Run in a mount namespace of its own: a FUSE mount, what is read of it, and what when it is dead.

usage: unshare --mount python fuse_mount.py FOLDER

Mounts FOLDER/data at FOLDER/mnt with sshfs, which talks to an SFTP server without any network.
Prints `mounted`, then for each word that it reads a line of JSON: `read`: the mounts as the agent
sees them; `stop`: stops the server and has a child ask it for something; `go`: lets it go on.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent.kit import named, reader
from gpuwatch.agent.host import Host
from lab.node import mortal

SERVER = "#!/bin/sh\necho $$ >{pid}\nexec /usr/lib/openssh/sftp-server\n"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def mount(folder: Path) -> subprocess.Popen[bytes]:
    """Mount it in the background; return when it is there."""
    (folder / "data").mkdir()
    (folder / "mnt").mkdir()
    (folder / "data/file").write_text("some data")
    server = folder / "server"
    server.write_text(SERVER.format(pid=folder / "pid"))
    server.chmod(0o755)
    run("mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections")
    words = ["sshfs", "-f", f"here:{folder}/data", f"{folder}/mnt", "-o", f"ssh_command={server}"]
    quiet = subprocess.DEVNULL
    sshfs = subprocess.Popen(mortal(*words), stdin=quiet, stdout=quiet, stderr=quiet)
    deadline = time.monotonic() + 10
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while b"fuse.sshfs" not in Path("/proc/self/mountinfo").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return sshfs


def main(folder: Path) -> None:
    sshfs = mount(folder)
    asked: list[subprocess.Popen[bytes]] = []
    mounts = reader("mounts", Host())
    print("mounted", flush=True)
    try:
        for word in sys.stdin:
            began = time.monotonic()
            if word.strip() == "stop":
                os.kill(int((folder / "pid").read_text()), signal.SIGSTOP)
                words = ["cat", str(folder / "mnt/file")]
                quiet = subprocess.DEVNULL
                asked.append(subprocess.Popen(words, stdout=quiet, stderr=quiet))
            if word.strip() == "go":
                os.kill(int((folder / "pid").read_text()), signal.SIGCONT)
            reading = mounts.read()
            found = {"mounts": named("mounts", reading), "missing": reading.missing}
            print(json.dumps({**found, "seconds": time.monotonic() - began}), flush=True)
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        for process in [*asked, sshfs]:
            process.wait(10)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
