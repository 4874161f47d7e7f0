"""A process that reads the NVML source as the agent does, and prints each reading as a line.

    reader_loop.py INTERVAL_S FIRST_ANSWER_S DEADLINE_S

Lines are JSON: rows by scope, missing, the board, the child, and how long the call took.
"""

import json
import sys
import time

from gpuwatch.agent.host import Host, Options
from gpuwatch.agent.metric import Absent
from gpuwatch.agent.sources import nvml


def main() -> None:
    """Read until stdin closes (the test kills this process)."""
    reader = nvml.Reader(Host(options=Options(interval_s=float(sys.argv[1]))))
    reader.probe.first_answer_s = float(sys.argv[2])
    reader.probe.deadline_s = (float(sys.argv[3]), 60.0)
    board = reader.host.board
    while True:
        began = time.monotonic()
        try:
            rows, missing = reader.read()
            absent = None
        except Absent as error:
            rows, missing, absent = [], {}, str(error)
        took_s = time.monotonic() - began
        tables: dict[str, list[dict[str, object]]] = {}
        for scope, labels, values in rows:
            names = [r.name for r in nvml.ROWS if r.scope == scope]
            row: dict[str, object] = dict(zip(names, (*labels, *values), strict=True))
            tables.setdefault(scope, []).append(row)
        print(
            json.dumps(
                {
                    **tables,
                    "missing": missing,
                    "absent": absent,
                    "child": reader.probe.pid,
                    "dying": reader.probe.dying,
                    "util": board.gpu_util,
                    "pids": board.gpu_pids,
                    "own": sorted(board.own_pids),
                    "took_s": took_s,
                }
            ),
            flush=True,
        )
        time.sleep(reader.host.options.interval_s)


if __name__ == "__main__":
    main()
