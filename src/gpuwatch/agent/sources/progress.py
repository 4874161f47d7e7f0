"""The log that the job file's `progress` names: the newest line that may tell of a step.

The job's expressions are not known here: one that backtracks for ever would do so on the node. What
is known is the plain text that each of them needs (`step` of `step (.*)`). Only a line that
holds it leaves the node, and only the newest, so that a frame stays complete in itself and small.
"""

import time
from typing import Dict, List, Tuple

from gpuwatch.agent import log
from gpuwatch.agent.child import Probe
from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, GAUGE, LABEL, Labels, Metric, Reading, Values

ROWS = (
    Metric("expression", "progress", LABEL, "str", "", "name", "`step` or `tokens`, as in the job file."),
    Metric("line", "progress", LABEL, "str", "", "line", "Newest line of the log that holds the expression's plain text: 200 bytes of it at most."),
    Metric("lines_with_text", "progress", GAUGE, "int", "1", "count", "Lines with that text, since the log is followed."),
    Metric("log_lines", "node", COUNTER, "int", "1", "lines", "Lines of the job's log that were read."),
    Metric("log_bytes", "node", COUNTER, "int", "B", "bytes", "Bytes of the job's log that were read."),
    Metric("log_skipped_bytes", "node", COUNTER, "int", "B", "skipped", "Bytes of the job's log that were skipped, as it grew by more than 16 KiB between two looks."),
)  # fmt: skip

PATIENCE_S = 5.0
"""Beside three intervals: silence after which the child counts as hung."""


class Reader(object):
    """Takes what a child tells that follows the log; without a log in the job file, nothing."""

    def __init__(self, host: Host) -> None:
        options = host.options
        self._path = options.log
        self._patience_s = PATIENCE_S + 3 * options.interval_s
        path = host.below(options.log or "")
        self._probe = Probe(
            host,
            log.NAME,
            lambda tell: log.follow(path, options.log_texts, options.interval_s, tell),
            self._patience_s,
        )

    def read(self) -> Reading:
        """Return what is known of the log; never waits for it."""
        if self._path is None:
            return Reading([], {})
        now = time.monotonic()
        self._probe.care(now)
        if self._probe.said is None:
            stuck = self._probe.stuck
            reason = "a look at it (pid %d) hangs" % stuck if stuck else "not looked at yet"
        elif now - self._probe.said_at > self._patience_s:
            reason = "its file system does not answer"
        else:
            return self._reading()
        return Reading([], self._missing(reason))

    def close(self) -> None:
        """End the child."""
        self._probe.close()

    def _reading(self) -> Reading:
        reason, lines, size, skipped, held = self._probe.said
        rows: List[Tuple[str, Labels, Values]] = [("node", (), (lines, size, skipped))]
        rows.extend(("progress", (name, line), (count,)) for name, count, line in held)
        return Reading(rows, self._missing(reason) if reason else {})

    def _missing(self, reason: str) -> Dict[str, str]:
        return {"progress": "%s: %s" % (self._path, reason)}
