"""Names for names: the same everywhere in a recording, and in the same order when sorted."""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable

__all__ = ["GONE", "Pseudonyms"]

GONE = "(redacted)"
"""What stands for a text of which nothing is kept."""
FORMS = {
    "node": "node-{}", "user": "user-{}", "uuid": "GPU-{}", "path": "/path-{}",
    "source": "source-{}", "group": "job-{}", "address": "address-{}", "cgroup": "/cgroup-{}",
    "boot": "boot-{}",
}  # fmt: skip
"""Kinds of names; of one that is of two kinds, texts get the first."""
KEPT = frozenset({"", "/", "/tmp", "/home", "tmpfs", "none", "overlay", "shm"})  # noqa: S108 - a name alone
"""What every machine has, as it has the kernel's own files."""
KERNEL = re.compile(r"/(proc|sys|dev)(/|\Z)")
LOOKS_LIKE_A_NAME = re.compile(
    r"(?<![\w/])/[^\s,;:'\")]+"  # a path
    r"|[^\s@]+@[^\s,;]+"  # a user at a host
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])"
    r"|\b[\w-]+(?:\.[\w-]*[a-z][\w-]*){2,}\b"  # a domain
    r"|\b[0-9a-f-]{12,}\b"  # a UUID, a number
    r"|(?-i:\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z\d]{8,}\b)",  # a serial number
    re.IGNORECASE,
)
SOMEONE_AT = re.compile(r"(?<![\w-])(?!user-\d+@)[^\s@]+@")
"""A user that was not noted, at a host that was."""


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
        self._found[kind].update(name for name in names if name and not _is_plain(name))

    def settle(self) -> None:
        """Deal out the other names; none is taken afterwards."""
        for kind, form in FORMS.items():
            names = sorted(self._found[kind])
            width = len(str(len(names)))
            for number, name in enumerate(names, 1):
                self._names[kind, name] = form.format(f"{number:0{width}}")
                self._of_text.setdefault(name, self._names[kind, name])
        longest_first = sorted(self._of_text, key=len, reverse=True)
        if longest_first:
            choice = "|".join(map(re.escape, longest_first))
            self._known = re.compile(rf"(?<![\w/])(?:{choice})(?!\w)")

    def of(self, kind: str, name: str | None) -> str | None:
        """Return the other name of one that was noted; None stays None."""
        if name is None or _is_plain(name):
            return name
        return self._names.get((kind, name), GONE)

    def text(self, told: str) -> str:
        """Return a text with other names in it; what looks like one and was not noted is gone."""
        parts, end = [], 0
        for found in self._known.finditer(told):
            parts += [_without_names(told[end : found.start()]), self._of_text[found.group()]]
            end = found.end()
        return SOMEONE_AT.sub(f"{GONE}@", "".join([*parts, _without_names(told[end:])]))


def _without_names(text: str) -> str:
    return LOOKS_LIKE_A_NAME.sub(lambda m: m.group() if _is_plain(m.group()) else GONE, text)


def _is_plain(found: str) -> bool:
    return found in KEPT or KERNEL.match(found) is not None


def address_and_port(peer: str) -> tuple[str, str]:
    """Divide `10.0.0.1:9000` or `[::1]:9000`; an address alone has no port."""
    try:
        ipaddress.ip_address(peer)
    except ValueError:
        head, colon, port = peer.rpartition(":")
        return (head.strip("[]"), colon + port) if colon and port.isdigit() else (peer, "")
    return peer, ""
