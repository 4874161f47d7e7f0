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
TABLE = b"\tper-op statistics\n"
"""What follows lists every operation that the protocol has."""
OPERATION = re.compile(
    rb"^[\t ]*([A-Z0-9_]{2,32}): ([1-9]\d{0,19}) (\d{1,20}) (\d{1,20}) \d{1,20} \d{1,20}"
    rb" (\d{1,20}) (\d{1,20}) (\d{1,20})(?: \d{1,20})?$",
    re.MULTILINE,
)
"""One that was asked for at all: of seventy most never are."""
TRANSPORT = re.compile(rb"^\s*xprt:\s+(\w+) (.+)$", re.MULTILINE)
SENDS_AT = {b"tcp": 5, b"rdma": 5, b"udp": 2, b"local": 4}
"""Where `sends` stands in a transport's numbers; then come receives, bad answers, requests in use
and the backlog, both summed up at each sending (net/sunrpc, print_stats of each transport)."""
KIND = {b"READ": "read", b"READ_PLUS": "read", b"WRITE": "write", b"COMMIT": "commit"}
"""All other operations are `meta`."""
KINDS = ("read", "write", "commit", "meta")
WORDS = ("ops", "retransmits", "timeouts", "queue", "rtt", "exe")
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

    KINDS have WORDS (the last three in ms), read and write have bytes as well, and `timeouts` is for
    all kinds. What the text does not tell is not in it.
    """
    found: Dict[str, int] = {}
    again = 0
    head, table, operations = section.partition(TABLE)
    if table:
        sums = {kind: [0] * len(WORDS) for kind in KINDS}
        for name, *texts in OPERATION.findall(operations):
            if name == IDLE:
                continue
            ops, transmissions, timeouts, queue, rtt, exe = map(int, texts)
            again += transmissions - ops
            values = ops, transmissions - ops, timeouts, queue, rtt, exe
            into = sums[KIND.get(name, "meta")]
            for place, value in enumerate(values):
                into[place] += value
        found["timeouts"] = sum(into[WORDS.index("timeouts")] for into in sums.values())
        for kind, into in sums.items():
            found.update((kind + " " + word, value) for word, value in zip(WORDS, into))
    moved = (after(head, b"\tbytes:\t") or b"").split()
    if len(moved) >= 6 and all(text.isdigit() and len(text) <= 20 for text in moved[4:6]):
        found["read bytes"], found["write bytes"] = int(moved[4]), int(moved[5])
    found.update(_transport(head, again))
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
            sums = [total + int(number) for total, number in zip(sums, chosen)]
            seen = True
    if not seen:
        return {}
    sends, receives, backlog = sums
    found = {"sends": sends, "receives": receives, "backlog": backlog}
    if sends - receives - again >= 0:
        found["waiting"] = sends - receives - again
    return found
