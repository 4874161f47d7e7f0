"""How long the node has been up."""

from typing import Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.lines import field
from gpuwatch.agent.metric import GAUGE, Absent, Metric, Reading, declared, fill

ROWS = (
    Metric("uptime_s", "node", GAUGE, "float", "s", "uptime 0", "Seconds since the node's kernel started."),
)  # fmt: skip


class Reader(object):
    """Reads the fields that the rows name: `FILE INDEX`, a file of /proc with one line."""

    def __init__(self, host: Host) -> None:
        self._rows = declared(ROWS, "node")
        self._files = {name: host.keep("/proc/" + name) for name, _, _ in map(_split, self._rows)}

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when a file is not there.
        """
        texts = {}
        for name, kept in self._files.items():
            try:
                texts[name] = kept.read().split()
            except FileNotFoundError:
                raise Absent("no " + kept.path)
        found = {}
        for name, index, locator in map(_split, self._rows):
            found[locator] = field(texts[name], index)
        return Reading([("node", (), fill(self._rows, found))], {})


def _split(row: Metric) -> Tuple[str, int, str]:
    name, index = row.locator.split()
    return name, int(index), row.locator
