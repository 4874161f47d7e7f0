"""What an NFS client counts for each mount, from /proc/PID/mountstats (nfs(5), nfsiostat(8)).

Each operation has: requests, transmissions, major timeouts, bytes sent, bytes received, and the
milliseconds queued, on the way to the server and back, and in all; from iostats version 1.1 on also
errors. All count when a request has ended: one that a dead server never answers is in none of
them, but in `sends` of the transport.
"""

import re
from typing import Dict, Iterator, List, Optional, Tuple

from gpuwatch.agent.lines import after
from gpuwatch.agent.mountinfo import unescaped

HEADER = re.compile(rb"^device \S+ mounted on (\S+) with fstype nfs4? statvers=\S+$", re.MULTILINE)
OPERATION = re.compile(
    rb"^\s*([A-Z0-9_]{2,32}): (\d{1,20}) (\d{1,20}) (\d{1,20}) \d{1,20} \d{1,20}"
    rb" (\d{1,20}) (\d{1,20}) (\d{1,20})(?: \d{1,20})?$",
    re.MULTILINE,
)
TRANSPORT = re.compile(rb"^\s*xprt:\s+(\w+) (.+)$", re.MULTILINE)
SENDS_AT = {b"tcp": 5, b"rdma": 5, b"udp": 2, b"local": 4}
"""Where `sends` stands in a transport's numbers; then come receives, bad answers, requests in use
and the backlog, both summed up at each sending (net/sunrpc, print_stats of each transport)."""
KIND = {b"READ": "read", b"READ_PLUS": "read", b"WRITE": "write", b"COMMIT": "commit"}
"""All other operations are `meta`."""
IDLE = b"NULL"
LAYOUT = re.compile(rb",pnfs=([^,\n]{1,64})")
NO_LAYOUT = b"not configured"


def sections(text: bytes) -> Iterator[Tuple[str, bytes]]:
    """Give the path and the text of each NFS mount."""
    for header in HEADER.finditer(text):
        end = text.find(b"\ndevice ", header.end())
        yield unescaped(header.group(1)), text[header.end() : end if end >= 0 else len(text)]


def counts(section: bytes) -> Dict[str, int]:
    """Return what one mount counted: `KIND WORD`, and `sends`, `receives`, `backlog`, `waiting`.

    The words of a kind (read, write, commit, meta) are ops, retransmits, queue, rtt, exe (ms); those
    of read and write have bytes as well. What the text does not tell is not in it.
    """
    found: Dict[str, int] = {}
    again = 0
    for name, *texts in OPERATION.findall(section):
        ops, transmissions, timeouts, queue, rtt, exe = map(int, texts)
        kind = KIND.get(name, "meta")
        if name == IDLE:
            continue
        again += transmissions - ops
        words = {
            kind + " ops": ops,
            kind + " retransmits": transmissions - ops,
            kind + " queue": queue,
            kind + " rtt": rtt,
            kind + " exe": exe,
            "timeouts": timeouts,
        }
        for word, value in words.items():
            found[word] = found.get(word, 0) + value
    moved = (after(section, b"\tbytes:\t") or b"").split()
    if len(moved) >= 6 and all(text.isdigit() and len(text) <= 20 for text in moved[4:6]):
        found["read bytes"], found["write bytes"] = int(moved[4]), int(moved[5])
    found.update(_transport(section, again))
    return found


def layout(section: bytes) -> Optional[str]:
    """Name the pNFS layout of a mount, None where there is none."""
    found = LAYOUT.search(section)
    name = found.group(1) if found else NO_LAYOUT
    return None if name == NO_LAYOUT else name.decode("ascii", "replace")


def _transport(section: bytes, again: int) -> Dict[str, int]:
    """Sum the transports of a mount (several with nconnect), which other mounts may share."""
    sums = [0, 0, 0]
    seen = False
    for protocol, text in TRANSPORT.findall(section):
        numbers: List[bytes] = text.split()
        place = SENDS_AT.get(protocol, len(numbers))
        chosen = numbers[place : place + 2] + numbers[place + 4 : place + 5]
        if len(chosen) == 3 and all(n.isdigit() and len(n) <= 20 for n in chosen):
            sums = [total + int(number) for total, number in zip(sums, chosen)]  # noqa: B905 - no `strict` before Python 3.10
            seen = True
    if not seen:
        return {}
    sends, receives, backlog = sums
    found = {"sends": sends, "receives": receives, "backlog": backlog}
    if sends - receives - again >= 0:
        found["waiting"] = sends - receives - again
    return found
