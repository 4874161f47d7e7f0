"""A guest that keeps the data set for the others: an NFS server and an object store over one disk."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from lab import objects
from lab.node import HOME, LOCAL, PYTHON, SHARED, SUBNET, Node, known_hosts
from lab.uml import Guest

STORE = "store"
"""The name of the guest that is the store; faults find it by that."""
PORT = 8080
EXPORT = f"""
set -e
mkdir -p /run/rpc_pipefs /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
/run/modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o ro,insecure,no_root_squash,no_subtree_check,fsid=0 {SUBNET}.0/24:{LOCAL}
rpc.mountd -N 2 -N 3
rpc.nfsd -N 3 -V 4.2 8
# No client from before can reclaim anything: without this, the first 90 s answer no open.
echo Y >/proc/fs/nfsd/v4_end_grace
"""
MOUNT = f"""
/run/modprobe nfsv4
mount -i -t nfs -o ro,vers=4.2,addr={{address}},clientaddr={{own}} {{address}}:/ {SHARED}
"""
MOUNT_FUSE = f"""
/run/modprobe fuse
sshfs root@{{address}}:{LOCAL} {SHARED} -o ro,allow_other,sftp_server={{sftp}}{{options}}
"""
SFTP = "/usr/lib/openssh/sftp-server"


def serve(store: Guest, data: Path) -> None:
    """Give the store's disk a copy of a folder `data`, and serve that by NFS and by HTTP."""
    shutil.copytree(data, store.home / "data", dirs_exist_ok=True)
    shutil.copy(objects.__file__, store.home)
    store.run(["sh", "-c", f"cp -r {HOME}/data {LOCAL}/data && sync && {{\n{EXPORT}}}"])
    store.start([PYTHON, f"{HOME}/objects.py", LOCAL, str(PORT)], {}, "objects.log")


def mount(store: Guest, nodes: Sequence[Node]) -> str:
    """Mount the store's export on nodes; the path of the data set there."""
    for node in nodes:
        node.run(["sh", "-c", MOUNT.format(address=store.address, own=node.address)])
    return f"{SHARED}/data"


def mount_fuse(store: Guest, nodes: Sequence[Node]) -> str:
    """Mount the store's disk on nodes through FUSE, over SFTP; the path of the data set there."""
    options = f",IdentityFile={HOME}/identity,UserKnownHostsFile={HOME}/known_hosts"
    for node in nodes:
        shutil.copy(node.home.parent / "identity", node.home)
        (node.home / "known_hosts").write_text(known_hosts([store]))
        script = MOUNT_FUSE.format(address=store.address, sftp=SFTP, options=options)
        node.run(["sh", "-c", script])
    return f"{SHARED}/data"


def address(store: Guest) -> str:
    """Return the http address of the data set."""
    return f"http://{store.address}:{PORT}/data"
