"""Names for names: the same everywhere in a recording, and in the same order when sorted.

In a text each name that is known is replaced, whatever its case. Of the rest only words are kept that
gpuwatch itself or the C library can say, and numbers: what somebody else said may name anything.
"""

import errno
import functools
import ipaddress
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

__all__ = ["GONE", "Pseudonyms", "address_and_port"]

GONE = "(redacted)"
"""What stands for what is not kept."""
FORMS = {
    "node": "node-{}", "user": "user-{}", "uuid": "GPU-{}", "path": "/path-{}",
    "source": "source-{}", "group": "job-{}", "address": "address-{}", "cgroup": "/cgroup-{}",
    "boot": "boot-{}", "device": "dev-{}",
}  # fmt: skip
"""Kinds of names; of one that is of two kinds, texts get the first."""
KEPT = frozenset({"", "/", "/tmp", "/home", "tmpfs", "none", "overlay", "shm"})  # noqa: S108 - compared with names of recordings; no file is meant
"""What every machine has, as it has the kernel's own files."""
KERNEL = re.compile(r"/(proc|sys|dev)(/[a-z_/]*)?\Z")
ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
NUMBER = re.compile(r"\d{1,6}")
WORD = re.compile(r"[A-Za-z0-9_]+")
SLASHED = frozenset({"n/a", "B/s", "kB/s", "MB/s", "GB/s", "Mb/s", "Gb/s", "tok/s", "I/O"})
EDGES = "()[]{},;:.!?'\"→"


class Pseudonyms:
    """Takes all names first, then gives each another one.

    Numbers are dealt out in the order of the names, so that what is sorted by name stays so.
    """

    def __init__(self) -> None:
        self._found: defaultdict[str, set[str]] = defaultdict(set)
        self._names: dict[tuple[str, str], str] = {}
        self._of_text: dict[str, str] = {}
        self._known = re.compile(r"(?!)")

    def note(self, kind: str, names: Iterable[str | None]) -> None:
        """Take names of a kind."""
        self._found[kind].update(name for name in names if name and not _is_common(name))

    def settle(self) -> None:
        """Deal out the other names; none is taken afterwards."""
        for kind, form in FORMS.items():
            names = sorted(self._found[kind])
            width = len(str(len(names)))
            for number, name in enumerate(names, 1):
                self._names[kind, name] = form.format(f"{number:0{width}}")
                self._of_text.setdefault(name.lower(), self._names[kind, name])
        longest_first = sorted(self._of_text, key=len, reverse=True)
        if longest_first:
            choice = "|".join(map(re.escape, longest_first))
            edges = r"(?<![A-Za-z0-9/])(?:{})(?![A-Za-z0-9])"
            self._known = re.compile(edges.format(choice), re.IGNORECASE)

    def of(self, kind: str, name: str | None) -> str | None:
        """Return the other name of one that was noted; None stays None."""
        if name is None or _is_common(name):
            return name
        return self._names.get((kind, name), GONE)

    def text(self, told: str) -> str:
        """Return a text with other names in it, and of the rest what nobody else can have said."""
        parts, end = [], 0
        for found in self._known.finditer(told):
            other = self._of_text.get(found.group().lower(), GONE)
            parts += [_own(told[end : found.start()]), other]
            end = found.end()
        return "".join([*parts, _own(told[end:])])


def _own(text: str) -> str:
    return re.sub(r"\S+?(?=[:;,.]?(\s|\Z))", lambda found: _kept(found.group()), text)


def _kept(word: str) -> str:
    return word if _is_own(word) else GONE


def _is_own(told: str) -> bool:
    """Tell whether a word is a number, or one that gpuwatch or the C library says."""
    bare = told.strip(EDGES)
    if bare in SLASHED or (bare.startswith("/") and _is_common(bare)):
        return True
    if "@" in bare or "::" in bare or ADDRESS.search(bare):
        return False
    if "/" in bare and not all(NUMBER.fullmatch(part) for part in bare.split("/")):
        return False
    return all(NUMBER.fullmatch(w) or w in vocabulary() for w in WORD.findall(bare))


def _is_common(name: str) -> bool:
    return name in KEPT or KERNEL.match(name) is not None


@functools.cache
def vocabulary() -> frozenset[str]:
    """Return the words that gpuwatch's own sources have, and the C library's errors."""
    words: set[str] = set()
    for file in Path(__file__).parents[1].rglob("*.py"):
        words.update(re.findall(r"[A-Za-z_]+", file.read_text("utf-8")))
    for number in errno.errorcode:
        words.update(re.findall(r"[A-Za-z]+", os.strerror(number)))
    return frozenset(words)


def address_and_port(peer: str) -> tuple[str, str]:
    """Divide `10.0.0.1:9000` or `[::1]:9000`; an address alone has no port."""
    try:
        ipaddress.ip_address(peer)
    except ValueError:
        head, colon, port = peer.rpartition(":")
        return (head.strip("[]"), colon + port) if colon and port.isdigit() else (peer, "")
    return peer, ""
